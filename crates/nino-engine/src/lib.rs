//! Load, plan, run: requests in, events and pictures out.
//!
//! The API boundary: no HTTP, no printing. Progress goes to one callback, which is also where a
//! caller says stop; see [`Control`].

mod builtin;
mod control;
mod decode;
mod encode;
mod error;
mod fit;
mod generate;
mod latent;
mod profile;
mod reopen;
mod synthetic;
#[cfg(test)]
mod tests;
mod units;
mod vae;
mod values;

pub use builtin::{BUILTIN, builtin_model};
pub use control::{Control, Event};
pub use decode::{
    Band, Chunking, DecodeOptions, DecodePlan, Decoded, Decoder, LatentSize, OnBand, OnPicture,
    Precision, Strategy, Tile, Tiling, decode, plan_decode,
};
pub use encode::{EncodeOptions, Encoded, OpenFrames, encode, encode_video};
pub use error::EngineError;
pub use generate::{
    Applied, Checkpoint, Defaults, Family, Fill, GeneratePlan, GenerateRequest, Generated, GoOn,
    Hires, Inpaint, Kept, LoraSpec, MODEL_SPECS, ModelFiles, OnLatent, Preview, Residency,
    Resident, StagePlan, Start, Stopped, Told, embedding_size, generate, plan_generate,
};
pub use latent::{FORMAT_KEY, Latent};
pub use nino_media as media;
pub use nino_media::{Mask, Picture, Sides, Upscale, outpaint};
pub use nino_models::latent::{FORMATS as LATENT_FORMATS, LatentFormat};
pub use nino_sample::ksampler::Window;
pub use nino_sample::{
    Error as SampleError, Prediction, Rng, Sampler as SamplerInfo, Scheduler, Seed, nearest,
};
pub use profile::{OpTotal, Profile};
pub use reopen::{Open, Reopening};
pub use synthetic::SyntheticParams;
pub use vae::VaeFile;
