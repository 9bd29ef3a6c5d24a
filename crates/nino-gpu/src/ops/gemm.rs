//! Linear layers, batched products and convolutions: O[m, n] = sum over k of A[m, k] W[n, k], with
//! what comes before and after fused. One description, several kernels: `gemm` (f32 tiles, any
//! device), `gemm_coop` (cooperative matrices), `gemm_int8` (packed dot products of bytes).

use crate::kernel::{Kernel, Launch, View, dtype_code, grid};
use crate::ops::act::{self, ActCode};
use crate::shader::KernelKey;
use crate::{Caps, GpuError};

mod choose;
mod halves;
mod hopper;
mod int8;

pub(crate) use choose::{packed_channels, packs_weights};
pub use halves::Factors;
pub(crate) use hopper::takes_gate;
pub use int8::Int8Tile;
pub use nino_ptx::gemm::Join;

/// Sizes of a convolution over `[b, t, h, w, c]`; `h` and `w` are after the upsampling.
#[derive(Clone, Copy, Debug)]
pub struct ConvShape {
    pub input: [u32; 3],
    pub c: u32,
    pub output: [u32; 3],
    pub kernel: [u32; 3],
    pub stride: [u32; 3],
    pub dilation: [u32; 3],
    pub pad: [i32; 3],
    pub upsample: u32,
}

/// Group or row statistics applied to A, then an activation.
#[derive(Clone, Copy, Debug)]
pub struct Prologue<'a> {
    pub stats: View<'a>,
    pub weight: Option<View<'a>>,
    pub bias: Option<View<'a>>,
    pub groups: u32,
    pub rows_per_stat: u32,
    pub act: ActCode,
}

/// One product; see the module text. `w_kn` says W is `[k, n]`.
#[derive(Clone, Debug)]
pub struct Gemm<'a> {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub batch: u32,
    /// Index of the first output row in the whole tensor.
    pub first: u32,
    /// Element of W where the first batch's matrix starts.
    pub w_first: u32,
    pub x: View<'a>,
    pub w: View<'a>,
    pub out: View<'a>,
    /// A factor for each column.
    pub scale: Option<View<'a>>,
    pub bias: Option<View<'a>>,
    /// A factor for each column after the activation.
    pub factor: Option<View<'a>>,
    /// A tensor of the result's shape, added or multiplied.
    pub beside: Option<(View<'a>, Join)>,
    pub prologue: Option<Prologue<'a>>,
    pub act: ActCode,
    pub post: ActCode,
    /// X and W are f16 in scratch, X from the first row of this launch on; these take them back.
    pub halves: Option<Factors<'a>>,
    /// The result is the first half of the columns times this of the second half.
    pub gate: Option<ActCode>,
    pub alpha: f32,
    pub w_kn: bool,
    /// W is packed for the 3x3 kernel (`Conv3Tile::packed`).
    pub w_packed: bool,
    pub conv: Option<ConvShape>,
}

/// Lanes that share the sum over K in the kernel for a few rows, and how many times four weights of
/// a column a lane reads before it waits for any.
const FEW_LANES: u32 = 128;
const FEW_AHEAD: u32 = 2;

/// Shared memory that a workgroup of `conv3_winograd.wgsl` takes.
pub(crate) const WINOGRAD_BYTES: u32 = 32 << 10;

/// Shape of a cooperative-matrix kernel; see `gemm_coop.wgsl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoopTile {
    pub bm: u32,
    pub bn: u32,
    pub bk: u32,
    pub wm: u32,
    pub wn: u32,
    pub pad: u32,
    pub swap: bool,
}

/// Shape of a 3x3 convolution kernel; see `conv3_coop.wgsl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv3Tile {
    pub ty: u32,
    pub tx: u32,
    pub bn: u32,
    pub bk: u32,
    pub wm: u32,
    pub wn: u32,
    pub taps: u32,
    /// Weights are `[cin / bk, tap, cout, bk]`.
    pub packed: bool,
}

/// Shape of a kernel of Winograd's: squares that a workgroup makes, for as many output channels,
/// and how many of them lie beside each other. On matrix units it is `conv3_winograd_coop.wgsl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WinogradTile {
    pub squares: u32,
    pub across: u32,
    pub matrices: bool,
}

/// Shape of a plain kernel; see `gemm.wgsl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainTile {
    pub bm: u32,
    pub bn: u32,
    pub bk: u32,
    pub um: u32,
    pub un: u32,
}

impl<'a> Gemm<'a> {
    fn beside_view(&self) -> Option<&View<'a>> {
        self.beside.as_ref().map(|(view, _)| view)
    }

    /// The cooperative kernel with a given tile.
    pub fn coop(&self, caps: &Caps, tile: CoopTile) -> Result<Launch<'a>, GpuError> {
        let side = caps.coop_size.unwrap_or(16);
        let key = KernelKey::new("gemm_coop")
            .with("COOP", 1)
            .with("TS", side)
            .with("SG", caps.subgroup_size())
            .with("BM", tile.bm)
            .with("BN", tile.bn)
            .with("BK", tile.bk)
            .with("WM", tile.wm)
            .with("WN", tile.wn)
            .with("PAD", tile.pad)
            .with("SWAP", tile.swap)
            .with("NE", !self.n.is_multiple_of(tile.bn))
            .with("KE", !self.k.is_multiple_of(tile.bk))
            .with("VO", 1);
        let (mt, nt) = (self.m.div_ceil(tile.bm), self.n.div_ceil(tile.bn));
        let groups = if tile.swap {
            [mt, nt, self.batch]
        } else {
            [nt, mt, self.batch]
        };
        self.launch(caps, &key, groups)
    }

    /// The cooperative kernel for 3x3 convolutions, of pictures or over frames: rows `y.0 .. y.1`
    /// of `images` images from image `first_image` on.
    pub fn conv3(
        &self,
        caps: &Caps,
        tile: Conv3Tile,
        [first_image, images]: [u32; 2],
        y: (u32, u32),
    ) -> Result<Launch<'a>, GpuError> {
        let shape = self.conv.as_ref().expect("conv3 is given convolutions");
        let side = caps.coop_size.unwrap_or(16);
        let key = KernelKey::new("conv3_coop")
            .with("COOP", 1)
            .with("TS", side)
            .with("SG", caps.subgroup_size())
            .with("TY", tile.ty)
            .with("TX", tile.tx)
            .with("BN", tile.bn)
            .with("BK", tile.bk)
            .with("WM", tile.wm)
            .with("WN", tile.wn)
            .with("TPS", tile.taps)
            .with("WPACK", tile.packed)
            .with("NE", !self.n.is_multiple_of(tile.bn))
            .with("CE", !shape.c.is_multiple_of(tile.bk))
            .with("NARROW", self.n < 16)
            .with("VO", self.n >= 16);
        let patches = shape.output[2].div_ceil(tile.tx) * (y.1 - y.0).div_ceil(tile.ty);
        let groups = [self.n.div_ceil(tile.bn), patches, images];
        let launch = self.launch(caps, &key, groups)?;
        Ok(self.by_image(caps, shape, launch, first_image, y))
    }

    /// Winograd's kernel for 3x3 convolutions, with squares of 2 x 2 pixels; rows and images as for
    /// [`Gemm::conv3`].
    pub fn winograd(
        &self,
        caps: &Caps,
        tile: WinogradTile,
        [first_image, images]: [u32; 2],
        y: (u32, u32),
    ) -> Result<Launch<'a>, GpuError> {
        let shape = self.conv.as_ref().expect("winograd is given convolutions");
        let key = if tile.matrices {
            KernelKey::new("conv3_winograd_coop")
                .with("COOP", 1)
                .with("TS", caps.coop_size.unwrap_or(16))
                .with("SG", caps.subgroup_size())
                .with("XW", WinogradTile::matrices_of_subgroup(caps))
        } else {
            KernelKey::new("conv3_winograd")
        };
        let key = self.vectors(caps, key.with("PX", tile.across));
        let [width, height] = tile.patch();
        // Squares begin at even rows.
        let rows = y.1 - y.0 / 2 * 2;
        let patches = shape.output[2].div_ceil(width) * rows.div_ceil(height);
        let groups = [self.n.div_ceil(tile.squares), patches, images];
        let launch = self.launch(caps, &key, groups)?;
        Ok(self.by_image(caps, shape, launch, first_image, y))
    }

    /// Kernels that go by images count the rows of an image, and read the first image where `ot`
    /// is.
    fn by_image(
        &self,
        caps: &Caps,
        shape: &ConvShape,
        mut launch: Launch<'a>,
        first_image: u32,
        y: (u32, u32),
    ) -> Launch<'a> {
        if let Kernel::Shader(key) = &mut launch.kernel {
            key.consts.insert("CONV", 2);
        }
        launch.params[0] = y.1;
        launch.params[3] = y.0;
        launch.params[6] = caps.base(&self.out);
        launch.params[7] = self.beside_view().map_or(0, |r| caps.base(r));
        launch.params[17] = first_image;
        launch.params[27] = shape.output[0];
        launch
    }

    /// The plain kernel with a given tile.
    pub fn plain(&self, caps: &Caps, tile: PlainTile) -> Result<Launch<'a>, GpuError> {
        let key = KernelKey::new("gemm")
            .with("BM", tile.bm)
            .with("BN", tile.bn)
            .with("BK", tile.bk)
            .with("UM", tile.um)
            .with("UN", tile.un);
        let key = self.vectors(caps, key);
        let groups = [
            self.n.div_ceil(tile.bn),
            self.m.div_ceil(tile.bm),
            self.batch,
        ];
        self.launch(caps, &key, groups)
    }

    /// The kernel for a few rows.
    pub(super) fn few(&self, caps: &Caps) -> Result<Launch<'a>, GpuError> {
        let key = KernelKey::new("gemm_few")
            .with("ROWS", self.m)
            .with("LANES", FEW_LANES)
            .with("AHEAD", FEW_AHEAD);
        let key = self.vectors(caps, key);
        self.launch(caps, &key, grid(u64::from(self.n.div_ceil(4))))
    }

    /// A lane per output word: 16-bit outputs of odd width.
    pub(super) fn words(&self, caps: &Caps) -> Result<Launch<'a>, GpuError> {
        let key = self.vectors(caps, KernelKey::new("gemm_word").with("BATCH", self.batch));
        let words = (u64::from(self.m) * u64::from(self.n) * u64::from(self.batch)) / 2 + 1;
        self.launch(caps, &key.with("VO", 0), grid(words.div_ceil(64)))
    }

    /// Which operands can be read and written four values at a time.
    fn vectors(&self, caps: &Caps, key: KernelKey) -> KernelKey {
        let four = |v: u32| v.is_multiple_of(4);
        let quads = |v: &View<'_>| four(caps.base(v));
        let c = self.conv.as_ref().map_or(self.k, |c| c.c);
        let around = [
            self.scale,
            self.bias,
            self.factor,
            self.beside_view().copied(),
        ];
        let whole_rows = four(self.n) && quads(&self.out);
        key.with("VA", four(c) && four(self.k) && quads(&self.x))
            .with("VW", four(self.k) && four(self.w_first) && quads(&self.w))
            .with("VO", whole_rows && around.iter().flatten().all(quads))
    }

    fn launch(
        &self,
        caps: &Caps,
        key: &KernelKey,
        groups: [u32; 3],
    ) -> Result<Launch<'a>, GpuError> {
        let code = |view: &View<'_>| {
            dtype_code(view.dtype).ok_or_else(|| GpuError::Unsupported {
                op: key.file.to_owned(),
                why: format!("storage type {}", view.dtype),
            })
        };
        let mut key = key
            .clone()
            .with("OT", code(&self.out)?)
            .with("XT", code(&self.x)?)
            .with("WT", code(&self.w)?)
            .with("ALPHA", self.alpha.to_bits() != 1.0f32.to_bits())
            .with("WKN", self.w_kn);
        key = self
            .post
            .constants(self.act.constants(key, act::ACT), act::POST);
        let mut views = vec![self.out, self.x, self.w];
        if let Some(scale) = &self.scale {
            key = key.with("SCALE", 1).with("SCT", code(scale)?);
            views.push(*scale);
        }
        if let Some(bias) = &self.bias {
            key = key.with("BIAS", 1).with("BT", code(bias)?);
            views.push(*bias);
        }
        if let Some(factor) = &self.factor {
            key = key.with("FACTOR", 1).with("FAT", code(factor)?);
            views.push(*factor);
        }
        if let Some((beside, join)) = &self.beside {
            key = key
                .with("RES", 1)
                .with("RT", code(beside)?)
                .with("PRODUCT", *join == Join::Multiply);
            views.push(*beside);
        }
        if let Some(factors) = &self.halves {
            let both = factors.columns.is_some();
            key = key.with("HALVES", 1 + i64::from(both));
            views.push(factors.view);
        }
        if let Some(pro) = &self.prologue {
            let c = self.conv.as_ref().map_or(self.k, |c| c.c);
            let quads = |v: &View<'_>| caps.base(v).is_multiple_of(4);
            let weights = [&pro.weight, &pro.bias].into_iter().flatten().all(quads);
            let p4 = (c / pro.groups).is_multiple_of(4) && weights;
            key = pro
                .act
                .constants(key.with("PRO", 1).with("P4", p4), act::PRO_ACT);
            views.push(pro.stats);
            if let Some(weight) = &pro.weight {
                key = key.with("PRO_W", 1).with("NWT", code(weight)?);
                views.push(*weight);
            }
            if let Some(bias) = &pro.bias {
                key = key.with("PRO_B", 1).with("NBT", code(bias)?);
                views.push(*bias);
            }
        }
        if let Some(conv) = &self.conv {
            key = conv.constants(key);
        }
        Ok(Launch {
            kernel: key.into(),
            views,
            writes: 1,
            params: self.params(caps),
            groups,
        })
    }

    /// The numbers in the order of `gemm_params.wgsl`.
    fn params(&self, caps: &Caps) -> Vec<u32> {
        let base = |v: Option<&View<'_>>| v.map_or(0, |v| caps.base(v));
        let (m, n, k) = (self.m, self.n, self.k);
        let mut p = vec![m, n, k, self.first];
        let x = base(Some(&self.x));
        // Row kernels count rows from the first one of this dispatch, convolutions from the whole.
        // In scratch the first one is there alone.
        let row = |base: u32, width: u32| base.wrapping_add(self.first.wrapping_mul(width));
        let as_is = self.conv.is_some() || self.halves.is_some();
        p.push(if as_is { x } else { row(x, k) });
        p.push(base(Some(&self.w)).wrapping_add(self.w_first));
        p.push(row(base(Some(&self.out)), n));
        p.push(row(base(self.beside_view()), n));
        p.push(base(self.bias.as_ref()));
        let batched = |v: u32| if self.batch > 1 { v } else { 0 };
        // Offsets: they wrap.
        let sizes = [(m, k), (n, k), (m, n), (m, n)];
        p.extend(sizes.map(|(rows, width)| batched(rows.wrapping_mul(width))));
        match &self.conv {
            Some(c) => {
                p.extend(c.input);
                p.push(c.c);
                p.extend(c.output);
                p.extend(c.pad.map(|v| v as u32));
            }
            None => p.extend([0, 0, 0, k, 0, 0, 0, 0, 0, 0]),
        }
        let pro = self.prologue.as_ref();
        // A product has statistics or factors of rows, and weights of a norm or factors of columns.
        let factors = self.halves.as_ref();
        let of_rows = base(factors.map(|f| &f.view));
        p.push(pro.map_or(of_rows, |p| caps.base(&p.stats)));
        p.push(match pro {
            Some(pro) => base(pro.weight.as_ref()),
            None => of_rows + factors.and_then(|f| f.columns).unwrap_or(0),
        });
        p.push(base(pro.and_then(|p| p.bias.as_ref())));
        p.push(pro.map_or(1, |p| p.groups));
        p.push(pro.map_or(1, |p| p.rows_per_stat));
        p.push(self.alpha.to_bits());
        p.push(base(self.scale.as_ref()));
        p.push(base(self.factor.as_ref()));
        p
    }
}

impl ConvShape {
    fn constants(&self, key: KernelKey) -> KernelKey {
        key.with("CONV", 1)
            .with("KT", self.kernel[0])
            .with("KH", self.kernel[1])
            .with("KW", self.kernel[2])
            .with("ST", self.stride[0])
            .with("SH", self.stride[1])
            .with("SW", self.stride[2])
            .with("DT", self.dilation[0])
            .with("DH", self.dilation[1])
            .with("DW", self.dilation[2])
            .with("UP", self.upsample)
    }
}
