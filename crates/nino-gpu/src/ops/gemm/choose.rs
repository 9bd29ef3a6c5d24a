//! Which kernel and tile a product gets on a device.

use std::ops::Range;

use nino_dtype::DType;
use nino_graph::{Conv, Graph};

use super::hopper;
use super::{Conv3Tile, ConvShape, CoopTile, Gemm, PlainTile, WINOGRAD_BYTES, WinogradTile};
use crate::kernel::{Launch, MOST_GROUPS, View};
use crate::tuning::{Problem, TiledKernel};
use crate::{Arch, Caps, GpuError, Tier};

/// Rows of a launch, whatever its tile: what the most workgroups of the lowest one make.
const MOST_ROWS: u32 = MOST_GROUPS * 32;

/// The kernel for a few rows takes at most so many, of at least so many values.
const FEW_ROWS: u32 = 4;
const FEW_K: u32 = 256;

impl<'a> Gemm<'a> {
    /// The choice of [`Gemm::best`], in as many launches as its rows take.
    pub fn best_pieces(&self, caps: &Caps) -> Result<Vec<Launch<'a>>, GpuError> {
        if self.batch > 1 {
            return Ok(vec![self.best(caps)?]);
        }
        let launches = self.pieces().map(|piece| piece.several(caps));
        let launches = launches.collect::<Result<Vec<_>, _>>()?;
        Ok(launches.into_iter().flatten().collect())
    }

    /// The best kernel, in one launch or in two that share the rows.
    fn several(&self, caps: &Caps) -> Result<Vec<Launch<'a>>, GpuError> {
        match self.hopper(caps).filter(|_| !self.has_few_rows()) {
            Some(launches) => Ok(launches),
            None => Ok(vec![self.best(caps)?]),
        }
    }

    /// Cut by rows, so that each is one launch.
    fn pieces(&self) -> impl Iterator<Item = Gemm<'a>> {
        let starts = (0..self.m).step_by(MOST_ROWS as usize);
        starts.map(|start| Gemm {
            m: MOST_ROWS.min(self.m - start),
            first: self.first + start,
            ..self.clone()
        })
    }

    /// The best kernel for this product on this device.
    pub fn best(&self, caps: &Caps) -> Result<Launch<'a>, GpuError> {
        if self.out.dtype.block_bytes() == 2 && !self.n.is_multiple_of(2) {
            return self.words(caps);
        }
        if self.has_few_rows() {
            return self.few(caps);
        }
        if self.gate.is_some() {
            return Err(GpuError::Unsupported {
                op: "linear".to_owned(),
                why: "gated, and not for Hopper's kernel".to_owned(),
            });
        }
        if self.coop_fits(caps) {
            let problem = self.problem(TiledKernel::Coop);
            return self.coop(caps, caps.tile(problem, self.coop_tile(caps)));
        }
        let problem = self.problem(TiledKernel::Plain);
        self.plain(caps, caps.tile(problem, self.plain_tile(caps)))
    }

    /// What a product's tile is measured for.
    fn problem(&self, kernel: TiledKernel) -> Problem {
        let rows = self.m.saturating_mul(self.batch).next_power_of_two();
        Problem {
            kernel,
            size: [rows, self.n, self.k],
        }
    }

    /// The measured tile of a convolution of so many pixels, or the usual one: a narrow one has no
    /// other, and weights stay packed as they are.
    fn measured_conv3(
        &self,
        caps: &Caps,
        conv: &ConvShape,
        pixels: u32,
        usual: Conv3Tile,
    ) -> Conv3Tile {
        if self.n < 16 {
            return usual;
        }
        let problem = Problem {
            kernel: TiledKernel::Conv3,
            size: [pixels.next_power_of_two(), self.n, conv.c],
        };
        Conv3Tile {
            packed: usual.packed,
            ..caps.tile(problem, usual)
        }
    }

    /// Rows that are fewer than any tile has: reading the weights is all that takes time. Less of K
    /// would leave lanes without work.
    fn has_few_rows(&self) -> bool {
        self.m <= FEW_ROWS
            && self.k >= FEW_K
            && self.batch == 1
            && self.gate.is_none()
            && self.conv.is_none()
            && !self.w_kn
    }

    /// AMD's by the compiler's numbers (docs/amd-kernels.tsv): depths of 8 leave more of the time
    /// to multiply-adds. GCN has room for two workgroups of the large tile on a compute unit, so a
    /// few rounds of them leave many units idle at the end; of the middle one for five.
    pub(crate) fn plain_tile(&self, caps: &Caps) -> PlainTile {
        let tile = |bm, bn, bk, um, un| PlainTile { bm, bn, bk, um, un };
        let tiles = |side: u32| self.m.div_ceil(side) * self.n.div_ceil(side) * self.batch;
        match caps.arch {
            Arch::Gcn if tiles(128) >= 512 => tile(128, 128, 8, 2, 2),
            Arch::Gcn if tiles(64) >= 64 => tile(64, 64, 16, 1, 1),
            Arch::Other if tiles(128) >= 64 => tile(128, 128, 16, 2, 2),
            Arch::Rdna | Arch::RdnaMatrix | Arch::Rdna4 if tiles(128) >= 64 => {
                tile(128, 128, 8, 2, 2)
            }
            Arch::Rdna | Arch::RdnaMatrix | Arch::Rdna4 if tiles(64) >= 64 => {
                tile(64, 64, 16, 1, 1)
            }
            _ => tile(32, 32, 16, 1, 1),
        }
    }

    /// The best kernels for a convolution, given its rows `(b, t, h)` of output.
    pub fn best_conv(&self, caps: &Caps, rows: &Range<u32>) -> Result<Vec<Launch<'a>>, GpuError> {
        let hopper: Option<Vec<_>> = self.pieces().map(|piece| piece.hopper(caps)).collect();
        if let Some(launches) = hopper {
            return Ok(launches.into_iter().flatten().collect());
        }
        let conv = self.conv.as_ref().filter(|c| c.is_plain_3x3());
        if let Some((conv, tile)) = conv.and_then(|c| Some((c, self.winograd_tile(caps, c)?))) {
            return by_images(conv, rows, tile.patch(), |images, y| {
                self.winograd(caps, tile, images, y)
            });
        }
        // Packed weights were only made for convolutions that pass this test.
        match conv {
            Some(conv) if self.coop_fits(caps) || self.narrow_fits(caps, conv) => {
                let n_rows = rows.end - rows.start;
                let usual = self.conv3_tile(caps, conv, n_rows);
                let tile = self.measured_conv3(caps, conv, n_rows * conv.output[2], usual);
                by_images(conv, rows, [tile.tx, tile.ty], |images, y| {
                    self.conv3(caps, tile, images, y)
                })
            }
            _ => self.best_pieces(caps),
        }
    }

    /// How Winograd's kernel makes a convolution, where it can and is faster than others.
    fn winograd_tile(&self, caps: &Caps, conv: &ConvShape) -> Option<WinogradTile> {
        // As wide as the picture, so that few squares lie beside it.
        let across = |most: u32| {
            if conv.output[2] > most {
                most
            } else {
                most / 2
            }
        };
        if self.coop_fits(caps) {
            let side = caps.coop_size.unwrap_or(16);
            let tile = WinogradTile {
                squares: 2 * side,
                across: across(side / 2),
                matrices: true,
            };
            // By the compiler's numbers (docs/amd-kernels.tsv). Others were measured with the
            // direct kernel, and multiply matrices faster than they transform.
            let fits = caps.arch.has_matrices()
                && caps.max_workgroup_bytes >= tile.coop_bytes(side)
                && self.w_packed
                && self.prologue.is_none();
            return fits.then_some(tile);
        }
        let tile = WinogradTile {
            squares: 32,
            across: across(8),
            matrices: false,
        };
        self.winograd_fits(caps, conv).then_some(tile)
    }

    /// Whether Winograd's kernel without matrix units can make a convolution: channels in eights,
    /// stored values of both operands of one width, read two at a time.
    fn winograd_fits(&self, caps: &Caps, conv: &ConvShape) -> bool {
        let width = |view: &View<'_>| {
            let float = matches!(view.dtype, DType::F32 | DType::F16 | DType::BF16);
            float.then(|| view.dtype.block_bytes())
        };
        caps.max_workgroup_bytes >= WINOGRAD_BYTES
            && conv.c.is_multiple_of(8)
            && self.n >= 16
            && self.n.is_multiple_of(4)
            && width(&self.x).is_some()
            && width(&self.x) == width(&self.w)
            && [&self.x, &self.w]
                .iter()
                .all(|v| caps.base(v).is_multiple_of(2))
    }

    /// Large patches measured best; few of them would leave most of the device idle.
    pub(crate) fn conv3_tile(&self, caps: &Caps, conv: &ConvShape, rows: u32) -> Conv3Tile {
        let (taps, packed) = (3, self.w_packed);
        let tile = |ty, tx, bn, bk, wm, wn| Conv3Tile {
            ty,
            tx,
            bn,
            bk,
            wm,
            wn,
            taps,
            packed,
        };
        if caps.coop_size == Some(8) {
            // A narrow convolution's channels are the columns of one matrix.
            let columns = if self.n < 8 { 8 } else { 16 };
            return tile(4, 8, columns, 8, 16, columns);
        }
        if self.n < 16 {
            return tile(16, 16, 16, 16, 32, 16);
        }
        if caps.arch.has_matrices() {
            // By the compiler's numbers (docs/amd-kernels.tsv): three workgroups at once, or four.
            let patches = conv.output[2].div_ceil(16) * rows.div_ceil(8);
            return if self.n.is_multiple_of(128) && patches * (self.n / 128) >= 128 {
                tile(8, 16, 128, 16, 32, 64)
            } else if patches * self.n.div_ceil(64) >= 64 {
                tile(8, 16, 64, 16, 32, 32)
            } else {
                tile(8, 16, 32, 16, 32, 32)
            };
        }
        let across = conv.output[2].div_ceil(16);
        if self.n.is_multiple_of(128) && across * rows.div_ceil(16) * (self.n / 128) >= 120 {
            return tile(16, 16, 128, 16, 64, 64);
        }
        // A small picture's kernel waits for memory: all nine taps at once, so that it waits less.
        let groups = across * rows.div_ceil(8) * self.n.div_ceil(64);
        let nine = caps.max_workgroup_bytes >= 43_008;
        let few = |tile: Conv3Tile| Conv3Tile { taps: 9, ..tile };
        if groups >= 128 || !nine {
            tile(8, 16, 64, 16, 64, 32)
        } else if groups >= 64 {
            few(tile(8, 16, 64, 16, 64, 32))
        } else {
            few(tile(8, 16, 16, 16, 32, 16))
        }
    }

    /// Memory is read in whole lines of 64 values and each value as seldom as shared memory allows;
    /// smaller tiles where large ones would leave most of the device idle. (8-wide matrices are the
    /// software device's.)
    pub(crate) fn coop_tile(&self, caps: &Caps) -> CoopTile {
        let tile = |bm, bn, bk, wm, wn| CoopTile {
            bm,
            bn,
            bk,
            wm,
            wn,
            pad: 2,
            swap: false,
        };
        let tiles = |bm: u32, bn: u32| self.m.div_ceil(bm) * self.n.div_ceil(bn) * self.batch;
        if caps.coop_size == Some(8) {
            tile(32, 32, 16, 16, 16)
        } else if caps.arch.has_matrices() {
            // By the compiler's numbers (docs/amd-kernels.tsv): four workgroups at once.
            if tiles(128, 128) >= 64 {
                tile(128, 128, 32, 64, 32)
            } else if tiles(64, 64) >= 64 {
                tile(64, 64, 32, 32, 32)
            } else {
                tile(32, 32, 64, 16, 16)
            }
        } else if tiles(128, 128) >= 128 && caps.max_workgroup_bytes >= 47_104 {
            tile(128, 128, 64, 64, 32)
        } else if tiles(128, 64) >= 64 {
            tile(128, 64, 64, 64, 32)
        } else if self.m > 32 {
            tile(32, 64, 64, 16, 32)
        } else {
            tile(32, 32, 128, 16, 16)
        }
    }

    /// Whether the cooperative kernels' demands are met: f16 in, eight values at a time.
    pub fn coop_fits(&self, caps: &Caps) -> bool {
        self.n >= 16 && self.n.is_multiple_of(8) && self.halves_fit(caps)
    }

    /// A convolution to a few channels (a picture's), on the 3x3 kernel.
    fn narrow_fits(&self, caps: &Caps, conv: &ConvShape) -> bool {
        let whole_words = (self.n * conv.output[2]).is_multiple_of(2);
        let columns = caps.coop_size.unwrap_or(16);
        self.n < columns && whole_words && self.halves_fit(caps)
    }

    fn halves_fit(&self, caps: &Caps) -> bool {
        let c = self.conv.as_ref().map_or(self.k, |c| c.c);
        let eights = |v: &View<'_>| caps.base(v).is_multiple_of(8);
        let around = [
            self.scale,
            self.bias,
            self.factor,
            self.beside_view().copied(),
        ];
        caps.tier >= Tier::Coop
            && self.x.dtype == DType::F16
            && !self.w_kn
            && [c, self.k, self.w_first]
                .iter()
                .all(|v| v.is_multiple_of(8))
            && [&self.x, &self.w, &self.out].into_iter().all(eights)
            && around.iter().flatten().all(eights)
    }
}

/// Channels of a block of packed 3x3 weights.
pub(crate) fn packed_channels(caps: &Caps) -> usize {
    if caps.coop_size == Some(8) { 8 } else { 16 }
}

/// Whether a convolution's weights are worth packing, `[cin / block, tap, cout, block]`: it will
/// run on the 3x3 kernel whatever rows it is cut into.
pub(crate) fn packs_weights(caps: &Caps, graph: &Graph, conv: &Conv) -> bool {
    let (x, w) = (graph.shape(conv.x), graph.shape(conv.w));
    let Some([cout, _, kh, kw, cin]) = w.as_video() else {
        return false;
    };
    caps.tier >= Tier::Coop
        && !(caps.has_wgmma() && hopper::takes_channels(cin))
        && [conv.x, conv.w]
            .iter()
            .all(|&n| graph.dtype(n) == DType::F16)
        && x.as_video().is_some()
        && [kh, kw] == [3, 3]
        && conv.stride == [1; 3]
        && conv.dilation == [1; 2]
        && cin.is_multiple_of(packed_channels(caps))
        && cout.is_multiple_of(8)
        && cout >= 16
}

/// The launches of a kernel that makes patches `[width, height]` of images, for the rows
/// `(b, t, h)` of a convolution's output.
fn by_images<'a>(
    conv: &ConvShape,
    rows: &Range<u32>,
    [across, down]: [u32; 2],
    launch: impl Fn([u32; 2], (u32, u32)) -> Result<Launch<'a>, GpuError>,
) -> Result<Vec<Launch<'a>>, GpuError> {
    let [_, height, width] = conv.output;
    let most = (MOST_GROUPS / width.div_ceil(across)).max(1) * down;
    let n_images = (rows.end - rows.start) / height;
    let whole = rows.start.is_multiple_of(height) && rows.end.is_multiple_of(height);
    if whole && height <= most && n_images <= MOST_GROUPS {
        return Ok(vec![launch([rows.start / height, n_images], (0, height))?]);
    }
    let parts = |image: u32| {
        let from = rows.start.max(image * height) - image * height;
        let to = rows.end.min((image + 1) * height) - image * height;
        let starts = (from..to).step_by(most as usize);
        starts.map(move |y| ([image, 1], (y, to.min(y + most))))
    };
    (rows.start / height..rows.end.div_ceil(height))
        .flat_map(parts)
        .map(|(images, y)| launch(images, y))
        .collect()
}

impl WinogradTile {
    /// Width and height of the pixels that a workgroup makes.
    pub(super) fn patch(&self) -> [u32; 2] {
        [2 * self.across, 2 * (self.squares / self.across)]
    }

    /// Of the 16 matrices of a workgroup, so that it has 256 lanes at the most.
    pub(super) fn matrices_of_subgroup(caps: &Caps) -> u32 {
        (caps.subgroup_size() / 16).max(1)
    }

    /// Shared memory of the kernel on matrix units of so many rows: squares, filters and sums.
    fn coop_bytes(&self, side: u32) -> u32 {
        let row = (side / 4 + 2) * 8;
        16 * (2 * self.squares * row + side * side * 4)
    }
}

impl ConvShape {
    /// Over any number of frames, which are not padded.
    fn is_plain_3x3(&self) -> bool {
        self.kernel[1..] == [3, 3]
            && self.stride == [1; 3]
            && self.dilation == [1; 3]
            && self.pad[0] == 0
    }
}
