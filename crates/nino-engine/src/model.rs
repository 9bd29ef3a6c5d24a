//! Models out of files: a diffusion model, text encoders, a VAE, each a part of its own that hosts
//! can hold, share and combine, and the checkpoint that has all three.
//!
//! Parts are cheap to clone and never change: a LoRA, a quantization or another prediction gives a
//! new part beside the old one, and the store keeps their weights apart.

mod checkpoint;
mod control_net;
mod defaults;
mod diffusion;
mod factors;
mod few_steps;
pub(crate) mod identity;
mod levels;
mod lora;
mod merge;
mod perpendicular;
pub(crate) mod remade;
pub(crate) mod single;
pub(crate) mod skip;
mod spec;
mod step_cache;
mod text_encoders;
pub(crate) mod unet;
mod vocabulary;

pub use checkpoint::{Checkpoint, ModelFiles};
pub(crate) use control_net::Steering;
pub use control_net::{ControlNetFile, Hint, HintImage, HintPaint, UNION_MODES};
pub use defaults::Defaults;
pub use diffusion::{DiffusionModel, Follows};
pub use lora::{Applied, LoraSpec, apply_lora, lora_family};
pub use merge::Mix;
pub use skip::{SkipLayers, SkipWay};
pub use spec::MODEL_SPECS;
pub use step_cache::StepReuse;
pub(crate) use text_encoders::{Sight, SightConfig, States};
pub use text_encoders::{T5Padding, TextEncoders};
