//! Latents to pictures, in the memory there is.
//!
//! The plan is made before anything runs (`plan.rs`): whole if it fits; else large values are kept
//! on the host and pass through the device's memory by rows, which changes nothing in the result;
//! or, when asked for, overlapped tiles blended at their borders. A video is decoded chunk by
//! chunk: what a chunk needs of those before it is kept on the device, so memory does not grow with
//! the clip. `run.rs` makes pictures and goes on after a failure, `session.rs` is a plan on its
//! device, and `output.rs` takes the pictures out.

pub(crate) mod carry;
mod output;
pub(crate) mod part;
pub(crate) mod plan;
mod run;
mod session;
mod tiles;

use crate::{EngineError, Store, VaeFile};
use nino_dtype::DType;
use nino_graph::{Device, Load};
use nino_models::latent::LatentFormat;
pub use output::{Band, OnBand};
pub(crate) use part::Part;
pub use plan::Chunking;
use plan::Rest;
pub use run::{Decoded, OnPicture, decode, decode_images};
pub(crate) use run::{MAX_RECOVERIES, rehearse};
pub use session::Decoder;
pub use tiles::Tiling;

/// How activations are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// f32 on a CPU, f16 on a GPU that has it. On a CPU that multiplies bf16 faster, the networks
    /// of which it is known that nothing is lost are computed in it.
    #[default]
    Auto,
    F32,
    F16,
    Bf16,
}

impl Precision {
    /// Gives the type that activations are stored in on a device.
    pub fn dtype(self, device: &dyn Device) -> DType {
        match self {
            Precision::Auto => device.activation_dtype(),
            Precision::F32 => DType::F32,
            Precision::F16 => DType::F16,
            Precision::Bf16 => DType::BF16,
        }
    }
}

/// Which tiles are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tile {
    /// Whole if it fits, else exact.
    #[default]
    Auto,
    /// Overlapped and feathered: cheaper in memory and traffic, not exact.
    Fast(Tiling),
}

/// Which plan is taken where several fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Favor {
    /// The quickest.
    #[default]
    Time,
    /// The one with the least memory of those that take at most a quarter longer, by nominal rates:
    /// for a host that wants the memory for models of its own.
    Memory,
}

/// What the user asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecodeOptions {
    pub precision: Precision,
    pub tile: Tile,
    pub chunking: Chunking,
    /// The latent space of the file, where the VAE takes the model's units.
    pub format: Option<&'static LatentFormat>,
    /// The most bytes on the device, where the device's own budget is not less.
    pub budget: Option<usize>,
    pub favor: Favor,
    /// Bytes of host memory that the caller holds meanwhile, such as pictures that are done.
    pub beside: usize,
}

/// How the plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Every op in one piece.
    Untiled,
    /// Whole, with ops cut by rows to respect the device's binding or time limits.
    RowSplit,
    /// Large values outside the device's memory, passing through it by rows.
    ExactTiles,
    /// Overlapped, feathered tiles.
    FastTiles,
}

impl Strategy {
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Untiled => "untiled",
            Strategy::RowSplit => "row-split",
            Strategy::ExactTiles => "exact-tiles",
            Strategy::FastTiles => "fast-tiles",
        }
    }
}

/// A size in latent pixels and frames; one frame for images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatentSize {
    pub frames: usize,
    pub height: usize,
    pub width: usize,
}

impl LatentSize {
    /// The size of a picture's latent.
    pub fn picture(height: usize, width: usize) -> LatentSize {
        LatentSize {
            frames: 1,
            height,
            width,
        }
    }
}

/// A decode that is known to fit.
#[derive(Clone, Debug)]
pub struct DecodePlan {
    pub strategy: Strategy,
    /// Storage of activations.
    pub dtype: DType,
    /// Pixels of a picture.
    pub width: usize,
    pub height: usize,
    pub n_frames: usize,
    pub tiling: Option<Tiling>,
    pub n_tiles: usize,
    /// Latent frames of a chunk; `None` for images.
    pub chunk: Option<usize>,
    /// Bytes of host memory for pictures, while it runs.
    pub(crate) beside: usize,
    /// Pixels per latent pixel.
    scale: usize,
    /// Latent frames that are done before this begins.
    behind: usize,
    /// The graphs to run, in order.
    pub(crate) parts: Vec<Part>,
}

impl DecodePlan {
    /// Weights on the device, with the slots of those that stream.
    pub fn weight_bytes(&self) -> usize {
        part::weight_bytes(&self.parts)
    }

    /// Weights and activations on the device: what is then used.
    pub fn peak_bytes(&self) -> usize {
        part::peak_bytes(&self.parts)
    }

    pub fn largest_binding(&self) -> usize {
        self.parts
            .iter()
            .map(|p| p.plan.largest_binding())
            .max()
            .unwrap_or(0)
    }

    /// Bytes kept outside the device's memory.
    pub fn host_bytes(&self) -> usize {
        self.parts
            .iter()
            .map(|p| p.plan.host_bytes())
            .max()
            .unwrap_or(0)
    }

    /// What one picture or clip takes.
    pub fn load(&self) -> Load {
        part::load(&self.parts).times(self.n_tiles)
    }

    /// Host memory for what comes out: a picture, rows on their way, and with fast tiles every
    /// frame until the last tile is there.
    pub fn picture_bytes(&self) -> usize {
        let tiled = self.tiling.map(|_| self.n_frames);
        output::picture_bytes(self.width * self.height, tiled)
    }

    /// Latent x and y of every tile.
    fn tile_starts(&self) -> Vec<(usize, usize)> {
        let Some(t) = self.tiling else {
            return vec![(0, 0)];
        };
        let xs = t.starts(self.width / self.scale, self.scale);
        let ys = t.starts(self.height / self.scale, self.scale);
        let row = |y: usize| xs.iter().map(move |&x| (x, y));
        ys.into_iter().flat_map(row).collect()
    }

    /// What is decoded in one piece.
    pub(crate) fn stage(&self) -> &'static str {
        match (self.tiling, self.chunk) {
            (Some(_), _) => "tile",
            (None, Some(_)) => "video",
            (None, None) => "image",
        }
    }

    /// The op during which most memory is used.
    pub fn peak_op(&self) -> String {
        let most = self.parts.iter().max_by_key(|p| p.plan.arena_bytes());
        most.map_or_else(String::new, |p| p.plan.peak_op())
    }
}

/// Plans the decode of one latent, or finds the plan made before.
pub fn plan_decode(
    store: &Store,
    vae: &VaeFile,
    size: LatentSize,
    options: &DecodeOptions,
) -> Result<DecodePlan, EngineError> {
    let what = format!("decode {size:?} {options:?}");
    let plan = store.plan(&vae.id(), what, || {
        plan::plan(store.device(), vae, Rest { size, behind: 0 }, options)
    })?;
    Ok(DecodePlan::clone(&plan))
}
