//! Load, plan, run: requests in, events and pictures out.
//!
//! Four stages take and give plain values: [`encode_text`], [`sample()`], [`decode`] and
//! [`encode`]; [`generate`] is all of them in a row. They run on a [`Store`], which holds one
//! device's models from request to request. Models are parts that can be shared and combined:
//! [`DiffusionModel`], [`TextEncoders`], [`VaeFile`], or all three as a [`Checkpoint`].
//!
//! The API boundary: no HTTP, no printing. Progress goes to one callback, which is also where a
//! caller says stop; see [`Control`].

mod ahead;
mod builtin;
pub mod capture;
mod conditioning;
mod control;
mod decode;
pub mod device;
mod encode;
mod error;
mod fit;
mod generate;
mod hearing;
mod image;
mod latent;
pub mod library;
mod model;
mod profile;
mod sample;
mod settings;
mod store;
mod style;
mod synthetic;
#[cfg(test)]
mod tests;
mod text;
pub mod timeline;
mod transpose;
mod units;
mod upscale;
mod uso;
mod vae;
mod values;
mod video;
mod vision;

pub use builtin::{BUILTIN, builtin_model, is_builtin};
pub use conditioning::{
    Area, AudioStates, CameraMove, CameraPath, ClipHints, Conditioning, Followed, ImageStates,
    Lens, Region, Seen, SeenFrames, SizeHint, SoundHints, Unclip,
};
pub use control::{Control, Event, Stage};
pub use decode::{
    Band, Chunking, DecodeOptions, DecodePlan, Decoded, Decoder, Favor, LatentSize, OnBand,
    OnPicture, Precision, Strategy, Tile, Tiling, decode, decode_images, plan_decode,
};
pub use device::{DeviceChoice, DeviceError, DeviceName, Open, Reopening, Tier};
pub use encode::{
    EncodeOptions, Encoded, FloatFrames, OpenFrames, encode, encode_clip, encode_image,
    encode_video,
};
pub use error::{EngineError, ErrorKind, encoder_names};
pub use generate::{
    Fill, GeneratePlan, GenerateRequest, Generated, GoOn, Hires, Inpaint, Kept, OnLatent,
    Residency, StagePlan, Start, Stopped, generate, largest_batch, plan_generate, plan_work,
};
pub use hearing::{AudioEncoder, encode_audio};
pub use image::Image;
pub use latent::{FORMAT_KEY, Latent};
pub use library::{Found, Library, LibraryError, LibraryPaths, ModelKind};
pub use model::{
    Applied, Checkpoint, ControlNetFile, Defaults, DiffusionModel, Follows, Hint, HintImage,
    HintPaint, LoraSpec, MODEL_SPECS, Mix, ModelFiles, SkipLayers, SkipWay, StepReuse, T5Padding,
    TextEncoders, UNION_MODES, apply_lora, lora_family,
};
pub use nino_dtype::DType;
pub use nino_graph::{Device, ExecError, PlanError};
pub use nino_media as media;
pub use nino_media::{Audio, Mask, Picture, Sides, Upscale, outpaint};
pub use nino_models::flux::ReferenceMethod;
pub use nino_models::latent::{FORMATS as LATENT_FORMATS, LatentFormat};
pub use nino_models::unet::{FreeU, HyperTile, Resize, Shrink};
pub use nino_models::{Encoder, Family};
pub use nino_sample::ksampler::Window;
pub use nino_sample::model::{flux_mu, flux2_mu};
pub use nino_sample::schedule;
pub use nino_sample::{
    Adams as AdamsOptions, Adaptive as AdaptiveOptions, Blend, CacheWay, Correction,
    Error as SampleError, Labelled, ModelSampling, Name, Options as SamplerOptions, Perpendicular,
    Prediction, Reuses, Rng, SAMPLER_NAMES, SAMPLERS, SCHEDULER_NAMES, Sampler as SamplerInfo,
    Scheduler, Seed, SelfAttention, Solver, ThreeWay, nearest,
};
/// What stands for a picture in a prompt for [`encode_seen`].
pub use nino_text::IMAGE as PICTURE;
pub use nino_weights::{MemoryTensor, TensorReader, from_memory};
pub use profile::{OpTotal, Profile};
pub use sample::{
    Noise, Preview, Reached, Remember, SampleRequest, Sampled, Third, Unfinished, sample, sigmas,
};
pub use settings::{SettingsError, SettingsKeys, read_settings};
pub use store::{Store, StoreUse};
pub use style::{Style, StyleModel, StyleStrength, StyleTokens, style_tokens};
pub use synthetic::SyntheticParams;
pub use text::{
    MAX_PROMPT_BYTES, embedding_size, encode_seen, encode_text, encode_texts, pictures_before,
};
pub use upscale::{UpscaleModel, UpscaleOptions, Upscaled, upscale};
pub use uso::UsoModel;
pub use vae::VaeFile;
pub use video::{
    Before, Between, ClipSize, Follow, Given, Journal, MadeVideo, Pace, Sounded, Sounding, Spread,
    TrackWay, Tracks, VideoModel, VideoRequest, blank_frame, make_between, make_video,
    plan_between, plan_video,
};
pub use vision::{ImageEncoder, Square, encode_for_clip};
