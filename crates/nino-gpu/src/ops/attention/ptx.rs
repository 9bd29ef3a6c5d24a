//! Attention on NVIDIA's matrix units through `ptx::attention`: whether it can, and with which
//! tiles.

use std::f32::consts::LOG2_E;

use nino_dtype::DType;

use super::Attention;
use crate::Caps;
use crate::kernel::{Kernel, Launch, View};
use nino_ptx::attention::AttentionKernel;
use nino_ptx::wide::WideKernel;
use nino_ptx::{MULTIPROCESSORS, PtxKey, Target};

/// Most keys of a tile; prompts of 77 tokens are one.
const SINGLE: u32 = 80;

/// Keys from which `ptx::wide` is faster, by columns of a head: with narrow heads, whose time is
/// exponentials for the most part, only where the work is long.
const MANY_KEYS: [(u32, u32); 2] = [(64, 2048), (128, 256)];

impl<'a> Attention<'a> {
    /// The launch in PTX, where this device and this attention allow it.
    pub(super) fn ptx(&self, caps: &Caps) -> Option<Launch<'a>> {
        let fits = caps.ptx >= Some(Target::Sm80)
            && self.log.is_none()
            && self.hd.is_multiple_of(8)
            && (8..=160).contains(&self.hd);
        if !fits {
            return None;
        }
        let wide = wide(self.rows, self.heads * self.batch);
        let kernel = AttentionKernel {
            mask: self.mask.is_some(),
            ..kernel(self.hd, self.m, wide)
        };
        let groups = [self.rows.div_ceil(kernel.rows()), self.heads, self.batch];
        self.ptx_launch(PtxKey::Attention(kernel), groups)
    }

    /// The same by `ptx::wide`: for heads that only it can take, and for those of 64 and 128
    /// columns where there are many keys.
    pub(super) fn ptx_wide(&self, caps: &Caps) -> Option<Launch<'a>> {
        let many_keys = MANY_KEYS
            .iter()
            .any(|&(hd, m)| self.hd == hd && self.m >= m);
        if !caps.has_wgmma() || self.mask.is_some() || (self.hd <= 160 && !many_keys) {
            return None;
        }
        let kernel = WideKernel {
            log: self.log.is_some(),
            ..wide_kernel(self.hd, self.rows, self.heads * self.batch)?
        };
        let parts = self.heads * kernel.parts();
        let groups = [self.rows.div_ceil(kernel.rows()), parts, self.batch];
        self.ptx_launch(PtxKey::Wide(kernel), groups)
    }

    fn ptx_launch(&self, key: PtxKey, groups: [u32; 3]) -> Option<Launch<'a>> {
        let halves = [self.out, self.q, self.k, self.v];
        let stored = halves.iter().all(|v| v.is_whole(DType::F16))
            && self.log.is_none_or(|v| v.is_whole(DType::F32));
        let fits = self.scale > 0.0 && stored;
        let mut views = halves.to_vec();
        views.splice(1..1, self.log);
        let writes = views.len() - 3;
        let mut params = self.ptx_words().filter(|_| fits)?;
        if self.mask.is_some() {
            let (mask, words) = self.ptx_mask()?;
            views.push(mask);
            params.extend(words);
        }
        Some(Launch {
            kernel: Kernel::Ptx(key),
            writes,
            views,
            params,
            groups,
        })
    }

    /// The mask with its words; nothing where values cannot be read in pairs.
    fn ptx_mask(&self) -> Option<(View<'a>, [u32; 5])> {
        let (mask, [batches, heads, rows, keys]) = self.mask?;
        let stride = |many: bool, stride: u32| if many { stride } else { 0 };
        let row = stride(rows > 1, keys);
        let batch = stride(batches > 1, heads * rows * keys);
        let first = self.batch_idx.wrapping_mul(batch) + self.first * row + self.first_key;
        let at = mask.start_of_pair(first)?;
        let words = [
            at,
            stride(heads > 1, rows * keys),
            row,
            batch,
            (1.0 / self.scale).to_bits(),
        ];
        (mask.is_whole(DType::F32) && self.m.is_multiple_of(2) && keys.is_multiple_of(2))
            .then_some((mask, words))
    }

    /// In the order of `ptx::attention::Word`; nothing where a start is not a multiple of eight
    /// values.
    fn ptx_words(&self) -> Option<Vec<u32>> {
        let width = self.heads * self.hd;
        let row = self.batch_idx * self.n + self.first;
        let key = self.batch_idx * self.all_keys + self.first_key;
        Some(vec![
            self.rows,
            self.m,
            width,
            self.out.start_of_row(row, width)?,
            self.q.start_of_row(row, width)?,
            self.k.start_of_row(key, width)?,
            self.v.start_of_row(key, width)?,
            self.n.wrapping_mul(width),
            self.all_keys.wrapping_mul(width),
            (self.scale * LOG2_E).to_bits(),
        ])
    }
}

/// Rows of the busiest multiprocessor, where a workgroup takes `block` of them.
fn busiest(rows: u32, heads: u32, block: u32) -> u32 {
    (rows.div_ceil(block) * heads).div_ceil(MULTIPROCESSORS) * block
}

/// Whether workgroups should take 128 rows rather than 64: a tenth less time a row, unless the
/// busiest multiprocessor gets more rows that way.
fn wide(rows: u32, heads: u32) -> bool {
    busiest(rows, heads, 128) * 10 <= busiest(rows, heads, 64) * 11
}

/// The same choice for wide heads: an eighth less time a row, and a quarter where a warp group of
/// its own copies for one or two others.
fn wide_kernel(hd: u32, rows: u32, heads: u32) -> Option<WideKernel> {
    let large = WideKernel::new(hd, 2)?;
    let parts = heads * large.parts();
    let eighths = if hd <= 128 { 6 } else { 7 };
    if busiest(rows, parts, 128) * eighths <= busiest(rows, parts, 64) * 8 {
        return Some(large);
    }
    WideKernel::new(hd, 1)
}

fn kernel(hd: u32, m: u32, wide: bool) -> AttentionKernel {
    let make = |warps, warp_rows, keys, stages, per_sm| AttentionKernel {
        hd,
        warps,
        warp_rows,
        keys,
        stages,
        per_sm,
        mask: false,
    };
    if m <= SINGLE && hd <= 128 {
        let keys = m.next_multiple_of(16).max(32);
        return make(4, 16, keys, 1, if hd <= 64 { 5 } else { 3 });
    }
    match (hd, wide) {
        (..=64, true) => make(4, 32, 64, 2, 2),
        (..=64, false) => make(4, 16, 64, 2, 4),
        (65..=128, true) => make(4, 32, 32, 2, 2),
        (65..=96, false) => make(4, 16, 64, 2, 3),
        (97..=128, false) => make(4, 16, 32, 2, 3),
        (129.., _) => make(2, 16, 32, 2, 4),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use nino_ptx::attention::{MASKED_WORDS, WORDS};

    fn kernels() -> impl Iterator<Item = AttentionKernel> {
        let sizes = (8..=160).step_by(8);
        sizes.flat_map(|hd| {
            let few = [1, 33, 77, 81, 4096].map(|m| kernel(hd, m, false));
            let plain: Vec<_> = few.into_iter().chain([kernel(hd, 4096, true)]).collect();
            let masked = plain
                .clone()
                .into_iter()
                .map(|k| AttentionKernel { mask: true, ..k });
            plain.into_iter().chain(masked).collect::<Vec<_>>()
        })
    }

    #[test]
    fn every_head_size_has_kernels_that_fit() {
        let mut texts = BTreeMap::new();
        for kernel in kernels() {
            let made = kernel.kernel();
            assert!(made.shared <= 48 << 10, "{}: {}", made.name, made.shared);
            let rows = kernel.rows() * kernel.hd * 2;
            assert!(rows <= made.shared, "{}: the output has no room", made.name);
            assert!(made.text.contains(&format!(".entry {}(", made.name)));
            let words = if kernel.mask { MASKED_WORDS } else { WORDS };
            assert!(made.text.contains(&format!("word{}", words - 1)));
            assert!(!made.text.contains(&format!("word{words}")));
            let before = texts.insert(made.name.clone(), (kernel, made.text.clone()));
            assert!(
                before.is_none_or(|b| b == (kernel, made.text)),
                "{}",
                made.name
            );
        }
        assert!(texts.len() > 80);
    }

    /// The faster one of each pair measured on an H200.
    #[test]
    fn rows_are_chosen_as_measured() {
        let slower = [(1024, 40), (4096, 10), (576, 40), (2304, 16), (1536, 24)];
        assert!(slower.iter().all(|&(rows, heads)| !wide(rows, heads)));
        let faster = [
            (4096, 20),
            (2304, 20),
            (6144, 20),
            (4096, 8),
            (4096, 32),
            (4608, 24),
        ];
        assert!(faster.iter().all(|&(rows, heads)| wide(rows, heads)));
    }

    #[test]
    fn rows_of_wide_heads_are_chosen_as_measured() {
        let groups = |hd, rows, heads| wide_kernel(hd, rows, heads).map(|k| k.groups);
        let smaller = [(512, 1024, 1), (512, 4096, 1), (512, 9216, 1)];
        let larger = [(512, 16384, 1), (512, 4096, 2), (256, 4096, 8)];
        for (hd, rows, heads) in smaller {
            assert_eq!(groups(hd, rows, heads), Some(1), "{hd} {rows} {heads}");
        }
        for (hd, rows, heads) in larger {
            assert_eq!(groups(hd, rows, heads), Some(2), "{hd} {rows} {heads}");
        }
        assert_eq!(groups(200, 4096, 1), None);
    }

    /// Each row's products: both of 16 keys at a time, of 16 columns or the last 8.
    #[test]
    fn a_tile_multiplies_every_key_and_value_once() {
        for kernel in kernels() {
            let made = kernel.kernel();
            let tiles = kernel.stages;
            let blocks = kernel.warp_rows / 16;
            let whole = made.text.matches("mma.sync.aligned.m16n8k16").count() as u32;
            let half = made.text.matches("mma.sync.aligned.m16n8k8").count() as u32;
            let keys = kernel.keys / 8 * (kernel.hd / 16);
            let values = kernel.keys / 16 * (kernel.hd / 8);
            assert_eq!(whole, tiles * blocks * (keys + values), "{}", made.name);
            let odd = kernel.hd / 8 % 2;
            assert_eq!(
                half,
                tiles * blocks * kernel.keys / 8 * odd,
                "{}",
                made.name
            );
        }
    }
}
