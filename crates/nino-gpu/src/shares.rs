//! How much of a card's peak nino's kernels should reach, as AMD's compiler lets predict it.

use crate::Arch;

/// Parts of the peak rate: of matrix units where kernels use them, else of f32 multiply-adds.
/// Convolutions by Winograd pass it, since they are credited with the arithmetic of plain ones.
/// All are *predicted* from compiled kernels (`cargo xtask amd`), never measured: a card that waits
/// for more than registers and instructions tell reaches less.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    pub conv3x3: f64,
    pub linear: f64,
    pub attention: f64,
    /// The same of bf16 activations.
    pub linear_bf16: f64,
    pub attention_bf16: f64,
}

/// Written by `cargo xtask amd --update`.
const TABLE: &str = include_str!("shares.tsv");

impl Arch {
    /// The name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::Other => "other",
            Arch::Gcn => "gcn",
            Arch::Rdna => "rdna",
            Arch::RdnaMatrix => "rdna-matrix",
            Arch::Rdna4 => "rdna4",
        }
    }

    /// What is predicted for its cards; nothing for cards that are not AMD's.
    pub fn shares(self) -> Option<Shares> {
        let mut lines = TABLE.lines().map(|line| line.split('\t'));
        let mut cells =
            lines.find_map(|mut cells| (cells.next()? == self.name()).then_some(cells))?;
        let mut next = || cells.next()?.parse().ok();
        Some(Shares {
            conv3x3: next()?,
            linear: next()?,
            attention: next()?,
            linear_bf16: next()?,
            attention_bf16: next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_architecture_of_amd_has_plausible_shares_of_a_peak() {
        for arch in [Arch::Gcn, Arch::Rdna, Arch::RdnaMatrix, Arch::Rdna4] {
            let s = arch.shares().unwrap();
            // F(2x2, 3x3) takes 16 products for 36.
            let within = (0.1..=36.0 / 16.0).contains(&s.conv3x3)
                && [s.linear, s.attention, s.linear_bf16]
                    .iter()
                    .all(|s| (0.1..=1.0).contains(s))
                && (0.01..=1.0).contains(&s.attention_bf16);
            assert!(within, "{arch:?} {s:?}");
        }
        assert_eq!(Arch::Other.shares(), None);
    }
}
