//! Latents to pictures, in the memory there is.
//!
//! The plan is made before anything runs: whole if it fits; else large values stay outside the
//! device's memory and pass through it by rows, which changes nothing in the result; or, when asked
//! for, overlapped tiles blended at their borders. A video is decoded chunk by chunk: what a chunk
//! needs of those before it is kept on the device, so memory does not grow with the clip.

pub(crate) mod carry;
mod clip;
mod decoder;
mod frames;
mod mark;
pub(crate) mod part;
mod run;
mod tiles;

use crate::fit::Room;
use crate::{EngineError, Store, VaeFile};
pub use clip::Chunking;
use clip::Recorder;
pub use decoder::Decoder;
pub use frames::{Band, OnBand};
use nino_dtype::DType;
use nino_graph::{Device, Load};
use nino_models::latent::LatentFormat;
pub(crate) use part::Part;
pub(crate) use run::MAX_RECOVERIES;
pub use run::{Decoded, OnPicture, decode, decode_images};
pub use tiles::Tiling;

/// How activations are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// f32 on a CPU, f16 on a GPU that has it.
    #[default]
    Auto,
    F32,
    F16,
    Bf16,
}

impl Precision {
    pub(crate) fn dtype(self, device: &dyn Device) -> DType {
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

    /// Host memory for what comes out: a picture, rows on their way, and with fast tiles every frame
    /// until the last tile is there.
    pub fn picture_bytes(&self) -> usize {
        let tiled = self.tiling.map(|_| self.n_frames);
        frames::picture_bytes(self.width * self.height, tiled)
    }

    /// What is decoded in one piece.
    pub(crate) fn stage(&self) -> &'static str {
        match (self.tiling, self.chunk) {
            (Some(_), _) => "tile",
            (None, Some(_)) => "clip",
            (None, None) => "picture",
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
        plan_rest(store.device(), vae, (size, 0), options)
    })?;
    Ok(DecodePlan::clone(&plan))
}

/// Plans the decode of a latent of which so many frames are done.
fn plan_rest(
    device: &dyn Device,
    vae: &VaeFile,
    (size, behind): (LatentSize, usize),
    options: &DecodeOptions,
) -> Result<DecodePlan, EngineError> {
    let dtype = options.precision.dtype(device);
    let scale = vae.vae.scale();
    let (height, width) = (size.height, size.width);
    let tiling = match options.tile {
        Tile::Fast(t) if t.needed(height, width, scale) => Some(t),
        _ => None,
    };
    let tile = tiling.map_or((height, width), |t| t.latent_size(height, width, scale));
    let one = LatentSize {
        frames: size.frames - behind,
        height: tile.0,
        width: tile.1,
    };
    let n_frames = vae.vae.n_frames(size.frames);
    let pixels = width * height * scale * scale;
    let parts = Recorder {
        device,
        vae,
        size: one,
        begins: behind == 0,
        dtype,
        room: Room {
            cap: options.budget,
            beside: frames::picture_bytes(pixels, tiling.map(|_| n_frames)),
            allow_host: true,
        },
    }
    .parts(options.chunking)?;
    let n_tiles = tiling.map_or(1, |t| t.count(height, width, scale));
    let strategy = match tiling {
        Some(_) => Strategy::FastTiles,
        None => part::strategy(&parts),
    };
    Ok(DecodePlan {
        strategy,
        dtype,
        width: width * scale,
        height: height * scale,
        n_frames,
        tiling,
        n_tiles,
        chunk: vae.vae.time_scale().map(|_| parts[0].frames),
        behind,
        parts,
    })
}
