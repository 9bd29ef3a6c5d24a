//! LoRA files: low-rank updates of a model's tensors, kept apart from the weights so that they
//! apply at run time to quantized models too. kohya, diffusers (attention processors) and PEFT
//! spellings are read, as are LyCORIS' LoCon, LoHa and LoKr, each with or without DoRA's
//! magnitudes; OFT, GLoRA and IA3 are recognized and refused by name.

mod control;
mod keys;
mod parse;
mod target;

use std::fmt;

use crate::{Entry, Index};

pub use control::ControlLora;
pub use parse::parse;

/// Whose spelling a file uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoraFormat {
    Kohya,
    AttnProcs,
    Peft,
    LoHa,
    LoKr,
    Oft,
    Glora,
    Ia3,
}

/// The network an update belongs to; text encoders by their number in the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoraPart {
    Diffusion,
    TextEncoder(usize),
}

/// The update is for piece `part` of `of` of a tensor that the canonical layout fuses: the last
/// piece ends where the rows end, the others are as tall as the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    pub part: usize,
    pub of: usize,
}

/// `scale * up · down`, with `mid` between them for Tucker-decomposed convolutions.
#[derive(Clone, Debug)]
pub struct LowRank {
    pub up: Entry,
    pub down: Entry,
    pub mid: Option<Entry>,
    pub rank: usize,
    pub alpha: Option<f32>,
    /// `alpha / rank`, or 1 without alpha.
    pub scale: f32,
    /// The size, `[out, in]`, that the weight grows to before, filled up with zeros.
    pub reshape: Option<[usize; 2]>,
}

/// A matrix or kernel that may itself be a product. With a `core` `[i, j, k..]` the product is
/// `Σ core[i, j, k..] · a[i, p] · b[j, q]`, else `a · b`.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // a few hundred of them, read once
pub enum Factor {
    Whole(Entry),
    Product {
        a: Entry,
        b: Entry,
        core: Option<Entry>,
    },
}

/// `scale` times two factors, joined element by element (LoHa) or as a Kronecker product (LoKr).
#[derive(Clone, Debug)]
pub struct Pair {
    pub factors: [Factor; 2],
    pub scale: f32,
}

/// OFT, with blocks `[n, b, b]`: each turns `b` rows of the weight. BOFT, with `[m, n, b, b]`: `m`
/// times so, each time of other rows.
#[derive(Clone, Debug)]
pub struct Turn {
    pub blocks: Entry,
    /// Factors of the rows once they are turned.
    pub rescale: Option<Entry>,
    /// The most that the blocks' norm may be; 0 for any.
    pub most: f32,
}

/// GLoRA: `scale · (W · a1 · a2 + b1 · b2)`, or with the factors of each product in the other
/// order.
#[derive(Clone, Debug)]
pub struct General {
    /// `a1`, `a2`, `b1`, `b2`.
    pub factors: [Entry; 4],
    pub alpha: Option<f32>,
}

#[derive(Clone, Debug)]
pub enum Delta {
    LowRank(Box<LowRank>),
    /// LoHa.
    Hadamard(Box<Pair>),
    /// LoKr.
    Kronecker(Box<Pair>),
    Turned(Box<Turn>),
    General(Box<General>),
    /// The whole difference.
    Full(Entry),
    /// The whole weight, whatever the strength.
    Set(Entry),
}

#[derive(Clone, Debug)]
pub struct Update {
    pub part: LoraPart,
    /// Canonical name of the tensor it changes.
    pub target: String,
    pub rows: Option<Rows>,
    pub delta: Delta,
    /// DoRA: the updated weight's rows (or columns) are brought to these lengths.
    pub magnitude: Option<Entry>,
}

#[derive(Clone, Debug)]
pub struct Lora {
    pub format: LoraFormat,
    /// The updates, in the order of their targets.
    pub updates: Vec<Update>,
    /// Names that belong to no layer any known model has.
    pub unknown: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("not a LoRA: no tensor has a LoRA name")]
    NotLora,
    #[error("{format} cannot be applied yet (tensor {tensor:?})")]
    Unsupported { format: LoraFormat, tensor: String },
    #[error("names without a known target: {}", crate::error::some(names))]
    Names { names: Vec<String> },
    #[error("{module:?} lacks its {missing}")]
    Half {
        module: String,
        missing: &'static str,
    },
    #[error("{module:?}: up {up:?} and down {down:?} do not multiply")]
    Rank {
        module: String,
        up: Vec<usize>,
        down: Vec<usize>,
    },
}

/// Whether an index is a LoRA, and in which spelling.
pub fn recognize(index: &Index) -> Option<LoraFormat> {
    let mut found = None;
    for entry in index.entries() {
        match keys::split(&entry.name) {
            Some((_, keys::Role::Refused(format))) => return Some(format),
            Some((
                _,
                keys::Role::Down
                | keys::Role::Up
                | keys::Role::Hada(_)
                | keys::Role::Kron(_)
                | keys::Role::Blocks
                | keys::Role::General(_),
            )) if found.is_none() => {
                found = Some(keys::spelling(&entry.name));
            }
            _ => {}
        }
    }
    found
}

impl Lora {
    /// Targets that a model's parts do not have, of the part given.
    pub fn unmatched(&self, part: LoraPart, index: &Index) -> Vec<String> {
        let mine = self.updates.iter().filter(|u| u.part == part);
        mine.filter(|u| !index.contains(&u.target))
            .map(|u| u.target.clone())
            .collect()
    }
}

impl fmt::Display for LoraFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            LoraFormat::Kohya => "LoRA (kohya)",
            LoraFormat::AttnProcs => "LoRA (diffusers attention processors)",
            LoraFormat::Peft => "LoRA (PEFT)",
            LoraFormat::LoHa => "LoHa",
            LoraFormat::LoKr => "LoKr",
            LoraFormat::Oft => "OFT",
            LoraFormat::Glora => "GLoRA",
            LoraFormat::Ia3 => "IA3",
        })
    }
}

#[cfg(test)]
mod tests;
