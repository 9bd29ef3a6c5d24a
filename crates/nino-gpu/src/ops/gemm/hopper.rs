//! Products on Hopper's own matrix instructions: whether one can, and with which tile.

use nino_dtype::DType;
use nino_graph::{Act, Epilogue, Graph, Linear};

use super::{ConvShape, Gemm};
use crate::Caps;
use crate::kernel::{Kernel, Launch, MOST_GROUPS};
use nino_ptx::gemm::{GemmKernel, Tile, Window};
use nino_ptx::{MULTIPROCESSORS, PtxKey};

/// How long a tile takes, as measured on an H200.
#[derive(Clone, Copy, Debug)]
enum Speed {
    /// TFLOP/s of a multiprocessor that holds one workgroup, two, and so on.
    Shared(&'static [f32]),
    /// Microseconds of a K step, where the multiprocessor holds one workgroup: the driver gives it
    /// no second one where a workgroup has more than 48 KiB of shared memory.
    Alone(f32),
}

use Speed::{Alone, Shared};

const TILES: [(Tile, Speed); 13] = [
    (tile(1, 1, 128, 64, 2, 4), Shared(&[2.1, 3.4, 4.3, 4.6])),
    (tile(1, 2, 160, 32, 2, 2), Shared(&[2.2, 4.3])),
    (tile(1, 1, 64, 64, 3, 4), Shared(&[1.4, 2.3, 2.9, 3.3])),
    (tile(1, 1, 32, 64, 4, 4), Shared(&[0.9, 1.5, 2.0, 2.2])),
    (tile(2, 1, 96, 32, 3, 2), Shared(&[2.4, 3.4])),
    (tile(1, 1, 128, 64, 8, 1), Alone(0.228)),
    (tile(2, 1, 96, 64, 6, 1), Alone(0.335)),
    (tile(1, 1, 192, 64, 6, 1), Alone(0.31)),
    (tile(2, 1, 128, 64, 6, 1), Alone(0.41)),
    (tile(2, 1, 160, 64, 5, 1), Alone(0.50)),
    (tile(2, 1, 192, 64, 4, 1), Alone(0.589)),
    // Alone and repeated it takes 0.686; between the other kernels of a step of Flux.1, 0.75 to
    // 0.85.
    (tile(2, 1, 224, 64, 4, 1), Alone(0.77)),
    (tile(2, 1, 256, 64, 4, 1), Alone(0.785)),
];

/// Microseconds that a workgroup which is alone needs before its first step, and after the last
/// step of each tile.
const BEGIN: f32 = 1.5;
const END: f32 = 1.2;

/// What of that is not hidden where others work at the same time.
const SHARED_END: f32 = 0.5;

const fn tile(groups: u32, blocks: u32, bn: u32, bk: u32, stages: u32, per_sm: u32) -> Tile {
    Tile {
        groups,
        blocks,
        bn,
        bk,
        stages,
        per_sm,
    }
}

/// Rows of the lowest tile.
const LOWEST: u32 = 64;

/// K is read in whole lines of at least so many values.
const LINE: u32 = 32;

/// Whether convolutions over so many channels run here, and so have their weights as stored.
pub(super) fn takes_channels(c: usize) -> bool {
    c.is_multiple_of(LINE as usize)
}

/// Columns of the weights of a gated product: a multiple of this.
const GATED_COLUMNS: u32 = 16;

/// Whether a linear layer with a gate runs here, whatever its rows: weights and activations are
/// f16, a bias is all that is around it, and K is a multiple of the steps of every tile that can be
/// gated.
pub(crate) fn takes_gate(g: &Graph, gated: &Linear) -> bool {
    let [n, k] = *g.shape(gated.w) else {
        return false;
    };
    matches!(gated.gate, Some(Act::Gelu | Act::Silu))
        && [gated.x, gated.w].iter().all(|&v| g.dtype(v) == DType::F16)
        && gated.epi.bias.is_none_or(|b| g.dtype(b) == DType::F32)
        && gated.epi == Epilogue::bias(gated.epi.bias)
        && gated.rows.is_none()
        && gated.pre.is_none()
        && n.is_multiple_of(GATED_COLUMNS as usize)
        && k.is_multiple_of(64)
}

impl<'a> Gemm<'a> {
    /// The launches on Hopper's matrix units, where this device and this product allow it: one, or
    /// whole rounds of large tiles and smaller ones for the rows that are left. The two do not wait
    /// for each other.
    pub(super) fn hopper(&self, caps: &Caps) -> Option<Vec<Launch<'a>>> {
        let channels = self.conv.as_ref().map_or(self.k, |c| c.c);
        let tiles = Choice {
            n: self.n,
            k: self.k,
            channels,
            gated: self.gate.is_some(),
        };
        let Some((tile, rows)) = tiles.whole_rounds(self.m) else {
            return Some(vec![self.hopper_with(caps, tiles.best(self.m)?.0)?]);
        };
        let rest = Gemm {
            m: self.m - rows,
            first: self.first + rows,
            ..self.clone()
        };
        let whole = Gemm {
            m: rows,
            ..self.clone()
        };
        let smaller = tiles.best(rest.m)?.0;
        Some(vec![
            whole.hopper_with(caps, tile)?,
            rest.hopper_with(caps, smaller)?,
        ])
    }

    /// The launch with a given tile.
    fn hopper_with(&self, caps: &Caps, tile: Tile) -> Option<Launch<'a>> {
        let fits = caps.has_wgmma()
            && self.m <= MOST_GROUPS * LOWEST
            && self.batch == 1
            && self.n.is_multiple_of(match self.gate {
                Some(_) => GATED_COLUMNS,
                None => 8,
            })
            && self.k.is_multiple_of(LINE)
            && self.prologue.is_none()
            && self.alpha.to_bits() == 1.0f32.to_bits()
            && !self.w_kn
            && !self.w_packed;
        let (act, post) = (self.act.ptx()?, self.post.ptx()?);
        let window = match &self.conv {
            Some(conv) => Some(window(conv)?),
            None => None,
        };
        let halves = [
            Some(self.out),
            Some(self.x),
            Some(self.w),
            self.factor,
            self.beside_view().copied(),
        ];
        let stored = halves.iter().flatten().all(|v| v.is_whole(DType::F16))
            && [self.scale, self.bias]
                .iter()
                .flatten()
                .all(|v| v.is_whole(DType::F32));
        if !fits || !stored {
            return None;
        }
        let views = [
            Some(self.out),
            Some(self.x),
            Some(self.w),
            self.scale,
            self.bias,
            self.factor,
            self.beside_view().copied(),
        ];
        let views = views.into_iter().flatten().collect();
        let gate = match self.gate {
            Some(gate) => Some(gate.ptx()?),
            None => None,
        };
        let words = self.hopper_words(window.as_ref())?;
        let kernel = GemmKernel {
            tile,
            window,
            scale: self.scale.is_some(),
            bias: self.bias.is_some(),
            act,
            factor: self.factor.is_some(),
            beside: self.beside.map(|(_, join)| join),
            post,
            gate,
        };
        let width = self.n / if gate.is_some() { 2 } else { 1 };
        let [x, y] = tile.grid(self.m, kernel.columns(), width);
        Some(Launch {
            kernel: Kernel::Ptx(PtxKey::Gemm(kernel)),
            views,
            writes: 1,
            params: words,
            groups: [x, y, 1],
        })
    }

    /// In the order of `ptx::gemm::word`; nothing where a start is not a multiple of eight values.
    fn hopper_words(&self, window: Option<&Window>) -> Option<Vec<u32>> {
        let x = match &self.conv {
            Some(_) => self.x.start_of_tensor()?,
            None => self.x.start_of_row(self.first, self.k)?,
        };
        let width = self.n / if self.gate.is_some() { 2 } else { 1 };
        let mut words = vec![
            self.m,
            width,
            self.k,
            x,
            self.out.start_of_row(self.first, width)?,
            self.beside_view()
                .map_or(Some(0), |r| r.start_of_row(self.first, width))?,
        ];
        if let Some(c) = &self.conv {
            let ([_, h, w], [_, oh, ow]) = (c.input, c.output);
            words.extend([self.first, c.c, h, w, oh, ow]);
            words.extend([c.pad[1], c.pad[2]].map(|p| p as u32));
            if window.is_some_and(Window::is_over_frames) {
                words.extend([c.input[0], c.output[0]]);
            }
        }
        Some(words)
    }
}

/// A convolution whose frames are not padded, with whole lines of channels.
fn window(conv: &ConvShape) -> Option<Window> {
    let frames = conv.pad[0] == 0 && conv.dilation[0] == 1;
    let fits = frames && takes_channels(conv.c as usize) && conv.upsample <= 2;
    fits.then_some(Window {
        size: conv.kernel,
        stride: conv.stride,
        dilation: [conv.dilation[1], conv.dilation[2]],
        upsample: conv.upsample,
    })
}

/// What tiles are chosen by, but for the rows.
struct Choice {
    n: u32,
    k: u32,
    /// The tile's steps have to divide these.
    channels: u32,
    gated: bool,
}

/// How much sooner two launches have to be done than one to be worth it.
const SOONER: f32 = 0.96;

impl Choice {
    /// The tile whose busiest multiprocessor is done first, and when that is.
    fn best(&self, m: u32) -> Option<(Tile, f32)> {
        let times = self
            .tiles()
            .map(|(tile, speed)| (*tile, self.time(m, tile, *speed)));
        times.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// Rows that whole rounds of some tile make, all multiprocessors busy to the end of each, where
    /// the rest is done sooner by other tiles.
    fn whole_rounds(&self, m: u32) -> Option<(Tile, u32)> {
        let (_, whole) = self.best(m)?;
        let split = |(tile, speed): &(Tile, Speed)| {
            let columns = self.n.div_ceil(tile.bn);
            let round = MULTIPROCESSORS * tile.per_sm;
            let tiles = m.div_ceil(tile.bm()).checked_mul(columns)?;
            let rows = tiles / round * round / columns * tile.bm();
            if rows == 0 || rows >= m {
                return None;
            }
            let time = self.time(rows, tile, *speed) + self.best(m - rows)?.1;
            Some((*tile, rows, time))
        };
        let splits = self.tiles().filter_map(split);
        let (tile, rows, time) = splits.min_by(|a, b| a.2.total_cmp(&b.2))?;
        (time < SOONER * whole).then_some((tile, rows))
    }

    /// Halves of a gated tile are of whole 32 columns.
    fn tiles(&self) -> impl Iterator<Item = &'static (Tile, Speed)> {
        TILES.iter().filter(move |(t, _)| {
            self.channels.is_multiple_of(t.bk) && (!self.gated || t.bn.is_multiple_of(64))
        })
    }

    /// In microseconds.
    fn time(&self, m: u32, tile: &Tile, speed: Speed) -> f32 {
        let workgroups = u64::from(m.div_ceil(tile.bm())) * u64::from(self.n.div_ceil(tile.bn));
        let each = workgroups.div_ceil(u64::from(MULTIPROCESSORS)) as usize;
        match speed {
            Alone(step) => {
                let steps = (self.k / tile.bk) as f32;
                BEGIN + each as f32 * (steps * step + END)
            }
            Shared(rates) => {
                let at_once = rates.len();
                let full = (each / at_once * at_once) as f32 / rates[at_once - 1];
                let rest = match each % at_once {
                    0 => 0.0,
                    rest => rest as f32 / rates[rest - 1],
                };
                // 1 TFLOP/s is a million a microsecond.
                let flop = 2.0 * (tile.bm() * tile.bn) as f32 * self.k as f32;
                (full + rest) * flop * 1e-6 + each as f32 * SHARED_END
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nino_ptx::Target;

    fn rows(n: u32, k: u32) -> Choice {
        Choice {
            n,
            k,
            channels: k,
            gated: false,
        }
    }

    /// The last round of 1600 tiles of 192 columns would keep 16 of 132 multiprocessors busy.
    #[test]
    fn the_rest_of_whole_rounds_is_for_smaller_tiles() {
        let (tile, first) = rows(192, 27 * 192).whole_rounds(204_800).unwrap();
        assert_eq!(((tile.bm(), tile.bn), first), ((128, 192), 202_752));
        // Rounds that are nearly whole, and products of less than one, stay one launch.
        assert!(rows(3072, 12288).whole_rounds(4096).is_none());
        assert!(rows(1280, 1280).whole_rounds(2048).is_none());
    }

    /// As measured on an H200: the fastest of the tiles, or within a tenth of it.
    #[test]
    fn tiles_are_chosen_as_measured() {
        let chosen = |m, n, k| {
            let tile = rows(n, k).best(m).unwrap().0;
            (tile.bm(), tile.bn)
        };
        // SDXL.
        assert_eq!(chosen(2048, 10240, 1280), (128, 256));
        assert_eq!(chosen(2048, 1280, 1280), (128, 160));
        assert_eq!(chosen(2048, 1280, 5120), (128, 160));
        assert_eq!(chosen(8192, 640, 640), (128, 160));
        assert_eq!(chosen(8192, 5120, 640), (128, 256));
        assert_eq!(chosen(8192, 640, 2560), (128, 160));
        // Flux: what is wide, what is deep, and what has few rows.
        assert_eq!(chosen(4608, 12288, 3072), (128, 160));
        assert_eq!(chosen(4608, 3072, 15360), (64, 192));
        assert_eq!(chosen(4096, 3072, 12288), (128, 256));
        assert_eq!(chosen(512, 12288, 3072), (128, 192));
        assert_eq!(chosen(512, 3072, 12288), (64, 192));
        assert_eq!(chosen(512, 3072, 3072), (64, 192));
        // Wan, T5 and a VAE.
        assert_eq!(chosen(32760, 1536, 1536), (128, 256));
        assert_eq!(chosen(32760, 8960, 1536), (128, 256));
        assert_eq!(chosen(2000, 1536, 1536), (128, 192));
        assert_eq!(chosen(512, 4096, 10240), (128, 128));
        assert_eq!(chosen(4096, 512, 4608), (128, 128));
        assert_eq!(chosen(16384, 256, 2304), (128, 256));
    }

    #[test]
    fn a_gate_is_taken_where_every_tile_can_have_it() {
        let takes = |dtype: DType, k: usize, n: usize, change: fn(&mut Linear)| {
            let mut g = Graph::new();
            let mut gated = Linear {
                x: g.input("x", [3, k], dtype),
                w: g.param("w", [n, k], dtype),
                rows: None,
                pre: None,
                epi: Epilogue::bias(Some(g.param("b", [n], DType::F32))),
                gate: Some(Act::Gelu),
            };
            change(&mut gated);
            takes_gate(&g, &gated)
        };
        assert!(takes(DType::F16, 128, 48, |_| {}));
        assert!(takes(DType::F16, 128, 48, |l| l.gate = Some(Act::Silu)));
        assert!(!takes(DType::F32, 128, 48, |_| {}));
        assert!(!takes(DType::F16, 96, 48, |_| {}), "half a step of K");
        assert!(!takes(DType::F16, 128, 40, |_| {}), "columns");
        assert!(!takes(DType::F16, 128, 48, |l| l.gate = Some(Act::Relu)));
        assert!(!takes(DType::F16, 128, 48, |l| l.epi.act = Some(Act::Silu)));
        let gated = TILES.iter().filter(|(t, _)| t.bn.is_multiple_of(64));
        assert!(gated.into_iter().all(|(t, _)| 64_u32.is_multiple_of(t.bk)));
    }

    #[test]
    fn tiles_fit_a_multiprocessor() {
        for (tile, speed) in TILES {
            let at_once = match speed {
                Alone(_) => 1,
                Shared(rates) => rates.len(),
            };
            assert_eq!(at_once, tile.per_sm as usize);
            assert!(tile.shared() <= Target::Sm90a.shared(), "{tile:?}");
            assert!(tile.bm() >= LOWEST, "{tile:?}");
            assert!(tile.per_sm == 1 || tile.shared() <= 48 << 10, "{tile:?}");
        }
    }
}
