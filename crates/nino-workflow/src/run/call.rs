//! What a node is given when it runs.

use super::Settings;
use crate::NodeError;
use crate::host::{Host, Made, Output, SampledLatent};
use crate::node::NodeDef;
use crate::types::Socket;
use crate::value::{Clip, Guider, LatentOperation, Latents, ModelPatch, Noise, Sampler, Value};
use nino_engine::{
    Audio, AudioEncoder, AudioStates, CameraPath, Conditioning, Control, ControlNetFile,
    DiffusionModel, Image, ImageEncoder, ImageStates, Latent, Mask, Reached, Store, StyleModel,
    TextEncoders, Tracks, UpscaleModel, VaeFile,
};
use std::path::Path;
use std::sync::Arc;

/// Most steps that ComfyUI's nodes offer.
const MAX_STEPS: usize = 10_000;

/// A run of a node: its inputs, and all that the work needs.
pub(crate) struct Call<'c, 'h> {
    pub(crate) node: &'c str,
    pub(crate) def: &'static NodeDef,
    pub(super) inputs: Vec<(&'static str, Value)>,
    pub(crate) store: &'c Store,
    pub(crate) settings: &'c Settings,
    pub(crate) host: &'h mut dyn Host,
    pub(crate) control: Control<'c>,
    /// Bytes of host memory that the results of nodes take: beside what this node computes.
    pub(crate) held_bytes: usize,
    /// What the host called the node's results.
    pub(super) told: Option<serde_json::Value>,
}

impl Call<'_, '_> {
    /// Tells the host of a latent that the node sampled.
    pub(crate) fn tell_sampled(&mut self, latent: &Latent, stopped: Option<&Reached>) {
        self.host.sampled(&SampledLatent {
            node: self.node,
            latent,
            stopped,
        });
    }

    /// An input; `None` where it is not given.
    pub(crate) fn get(&self, input: &'static str) -> Option<Value> {
        let found = self.inputs.iter().find(|(name, _)| *name == input);
        found.map(|(_, value)| value.clone())
    }

    pub(crate) fn any(&self, input: &'static str) -> Result<Value, NodeError> {
        self.get(input).ok_or(NodeError::NotGiven { input })
    }

    fn typed<T>(
        &self,
        input: &'static str,
        expected: Socket,
        take: impl FnOnce(Value) -> Option<T>,
    ) -> Result<T, NodeError> {
        let value = self.any(input)?;
        let found = match &value {
            Value::Missing(why) => {
                let why = why.to_string();
                return Err(NodeError::Missing { input, why });
            }
            value => value.socket().unwrap_or(Socket::Any),
        };
        take(value).ok_or(NodeError::Type {
            input,
            expected,
            found,
        })
    }

    /// All entries of a list, or the one value that is none.
    pub(crate) fn list(&self, input: &'static str) -> Result<Vec<Value>, NodeError> {
        Ok(match self.any(input)? {
            Value::List(all) => all.to_vec(),
            value => vec![value],
        })
    }

    pub(crate) fn model(&self, input: &'static str) -> Result<Arc<DiffusionModel>, NodeError> {
        self.typed(input, Socket::Model, |v| match v {
            Value::Model(model) => Some(model),
            _ => None,
        })
    }

    pub(crate) fn clip(&self, input: &'static str) -> Result<Arc<TextEncoders>, NodeError> {
        self.typed(input, Socket::Clip, |v| match v {
            Value::Clip(clip) => Some(clip),
            _ => None,
        })
    }

    pub(crate) fn vae(&self, input: &'static str) -> Result<Arc<VaeFile>, NodeError> {
        self.typed(input, Socket::Vae, |v| match v {
            Value::Vae(vae) => Some(vae),
            _ => None,
        })
    }

    pub(crate) fn control_net(
        &self,
        input: &'static str,
    ) -> Result<Arc<ControlNetFile>, NodeError> {
        self.typed(input, Socket::ControlNet, |v| match v {
            Value::ControlNet(net) => Some(net),
            _ => None,
        })
    }

    pub(crate) fn model_patch(&self, input: &'static str) -> Result<Arc<ModelPatch>, NodeError> {
        self.typed(input, Socket::ModelPatch, |v| match v {
            Value::ModelPatch(net) => Some(net),
            _ => None,
        })
    }

    pub(crate) fn prompts(&self, input: &'static str) -> Result<Arc<Vec<Conditioning>>, NodeError> {
        self.typed(input, Socket::Conditioning, |v| match v {
            Value::Conditioning(prompts) => Some(prompts),
            _ => None,
        })
    }

    pub(crate) fn latents(&self, input: &'static str) -> Result<Arc<Latents>, NodeError> {
        self.typed(input, Socket::Latent, |v| match v {
            Value::Latent(latents) => Some(latents),
            _ => None,
        })
    }

    /// Pictures of which no part is clear: an error where some is, since it would be lost.
    pub(crate) fn images(&self, input: &'static str) -> Result<Arc<Vec<Image>>, NodeError> {
        if let Some(Value::ClearImage(_)) = self.get(input) {
            return Err(is_clear(input));
        }
        self.typed(input, Socket::Image, |v| match v {
            Value::Image(images) => Some(images),
            _ => None,
        })
    }

    /// Pictures of an input that may not be linked.
    pub(crate) fn images_if_linked(
        &self,
        input: &'static str,
    ) -> Result<Arc<Vec<Image>>, NodeError> {
        match self.get(input) {
            Some(_) => self.images(input),
            None => Ok(Arc::default()),
        }
    }

    /// Pictures, and how opaque they are; `None` where all of them is.
    #[allow(clippy::type_complexity)]
    pub(crate) fn clear_images(
        &self,
        input: &'static str,
    ) -> Result<(Arc<Vec<Image>>, Option<Arc<Vec<Mask>>>), NodeError> {
        self.typed(input, Socket::Image, |v| match v {
            Value::Image(images) => Some((images, None)),
            Value::ClearImage(clear) => Some((clear.images.clone(), Some(clear.opacity.clone()))),
            _ => None,
        })
    }

    pub(crate) fn masks(&self, input: &'static str) -> Result<Arc<Vec<Mask>>, NodeError> {
        self.typed(input, Socket::Mask, |v| match v {
            Value::Mask(masks) => Some(masks),
            _ => None,
        })
    }

    pub(crate) fn sigmas(&self, input: &'static str) -> Result<Arc<Vec<f32>>, NodeError> {
        self.typed(input, Socket::Sigmas, |v| match v {
            Value::Sigmas(sigmas) => Some(sigmas),
            _ => None,
        })
    }

    pub(crate) fn sampler(&self, input: &'static str) -> Result<Arc<Sampler>, NodeError> {
        self.typed(input, Socket::Sampler, |v| match v {
            Value::Sampler(sampler) => Some(sampler),
            _ => None,
        })
    }

    pub(crate) fn noise(&self, input: &'static str) -> Result<Noise, NodeError> {
        self.typed(input, Socket::Noise, |v| match v {
            Value::Noise(noise) => Some(noise),
            _ => None,
        })
    }

    pub(crate) fn guider(&self, input: &'static str) -> Result<Arc<Guider>, NodeError> {
        self.typed(input, Socket::Guider, |v| match v {
            Value::Guider(guider) => Some(guider),
            _ => None,
        })
    }

    pub(crate) fn clip_vision(&self, input: &'static str) -> Result<Arc<ImageEncoder>, NodeError> {
        self.typed(input, Socket::ClipVision, |v| match v {
            Value::ClipVision(encoder) => Some(encoder),
            _ => None,
        })
    }

    pub(crate) fn clip_states(&self, input: &'static str) -> Result<Arc<ImageStates>, NodeError> {
        self.typed(input, Socket::ClipVisionOutput, |v| match v {
            Value::ClipVisionOutput(states) => Some(states),
            _ => None,
        })
    }

    pub(crate) fn tracks(&self, input: &'static str) -> Result<Arc<Tracks>, NodeError> {
        self.typed(input, Socket::Tracks, |v| match v {
            Value::Tracks(tracks) => Some(tracks),
            _ => None,
        })
    }

    pub(crate) fn audio(&self, input: &'static str) -> Result<Arc<Audio>, NodeError> {
        self.typed(input, Socket::Audio, |v| match v {
            Value::Audio(audio) => Some(audio),
            _ => None,
        })
    }

    pub(crate) fn audio_encoder(
        &self,
        input: &'static str,
    ) -> Result<Arc<AudioEncoder>, NodeError> {
        self.typed(input, Socket::AudioEncoder, |v| match v {
            Value::AudioEncoder(encoder) => Some(encoder),
            _ => None,
        })
    }

    pub(crate) fn audio_states(&self, input: &'static str) -> Result<Arc<AudioStates>, NodeError> {
        self.typed(input, Socket::AudioEncoderOutput, |v| match v {
            Value::AudioStates(states) => Some(states),
            _ => None,
        })
    }

    pub(crate) fn camera(&self, input: &'static str) -> Result<Arc<CameraPath>, NodeError> {
        self.typed(input, Socket::Camera, |v| match v {
            Value::Camera(path) => Some(path),
            _ => None,
        })
    }

    pub(crate) fn style_model(&self, input: &'static str) -> Result<Arc<StyleModel>, NodeError> {
        self.typed(input, Socket::StyleModel, |v| match v {
            Value::StyleModel(model) => Some(model),
            _ => None,
        })
    }

    pub(crate) fn upscale_model(
        &self,
        input: &'static str,
    ) -> Result<Arc<UpscaleModel>, NodeError> {
        self.typed(input, Socket::UpscaleModel, |v| match v {
            Value::UpscaleModel(model) => Some(model),
            _ => None,
        })
    }

    pub(crate) fn video(&self, input: &'static str) -> Result<Arc<Clip>, NodeError> {
        self.typed(input, Socket::Video, |v| match v {
            Value::Video(clip) => Some(clip),
            _ => None,
        })
    }

    pub(crate) fn latent_operation(
        &self,
        input: &'static str,
    ) -> Result<LatentOperation, NodeError> {
        self.typed(input, Socket::LatentOperation, |v| match v {
            Value::LatentOperation(operation) => Some(operation),
            _ => None,
        })
    }

    pub(crate) fn int(&self, input: &'static str) -> Result<i128, NodeError> {
        self.typed(input, Socket::Int, |v| match v {
            Value::Int(number) => Some(number),
            _ => None,
        })
    }

    /// A whole number that is not below 0.
    pub(crate) fn size(&self, input: &'static str) -> Result<usize, NodeError> {
        let number = self.int(input)?;
        usize::try_from(number)
            .map_err(|_| NodeError::Input(format!("its {input} is {number}, where 0 is the least")))
    }

    /// A number of sampling steps. A widget has this limit, a linked number has none.
    pub(crate) fn steps(&self) -> Result<usize, NodeError> {
        match self.size("steps")? {
            steps @ 0..=MAX_STEPS => Ok(steps),
            steps => Err(NodeError::Input(format!(
                "its steps are {steps}, where {MAX_STEPS} are the most"
            ))),
        }
    }

    pub(crate) fn seed(&self, input: &'static str) -> Result<u64, NodeError> {
        // Wider numbers do not pass the check, but a linked one is not checked.
        Ok(self.int(input)? as u64)
    }

    pub(crate) fn float(&self, input: &'static str) -> Result<f64, NodeError> {
        self.typed(input, Socket::Float, |v| match v {
            Value::Float(number) => Some(number),
            Value::Int(number) => Some(number as f64),
            _ => None,
        })
    }

    pub(crate) fn text(&self, input: &'static str) -> Result<Arc<str>, NodeError> {
        self.typed(input, Socket::String, |v| match v {
            Value::Text(text) => Some(text),
            _ => None,
        })
    }

    pub(crate) fn boolean(&self, input: &'static str) -> Result<bool, NodeError> {
        self.typed(input, Socket::Boolean, |v| match v {
            Value::Boolean(b) => Some(b),
            _ => None,
        })
    }

    pub(crate) fn file(&self, input: &'static str) -> Result<Arc<Path>, NodeError> {
        self.typed(input, Socket::Combo, |v| match v {
            Value::File(path) => Some(path),
            _ => None,
        })
    }

    /// An error where what a node makes from numbers alone would be empty, as linked numbers may
    /// ask for, or too large.
    pub(crate) fn room_for_new(
        &self,
        what: &'static str,
        sizes: &[usize],
    ) -> Result<(), NodeError> {
        if sizes.contains(&0) {
            let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
            let text = format!("{what} of {} is empty", sizes.join("x"));
            return Err(NodeError::Input(text));
        }
        self.room_for(what, sizes)
    }

    /// An error where a result would have more numbers than a node may make.
    pub(crate) fn room_for(&self, what: &'static str, sizes: &[usize]) -> Result<(), NodeError> {
        let values = sizes
            .iter()
            .fold(1u128, |n, &size| n.saturating_mul(size as u128));
        let most = self.settings.limits.values;
        if values > most as u128 {
            return Err(NodeError::TooLarge { what, values, most });
        }
        Ok(())
    }

    /// Hands the node's result to the host.
    pub(crate) fn output(&mut self, made: Made, prefix: Arc<str>) -> Result<(), NodeError> {
        self.output_with(made, None, prefix)
    }

    /// Hands pictures to the host, with how opaque they are.
    pub(crate) fn output_with(
        &mut self,
        made: Made,
        opacity: Option<Arc<Vec<Mask>>>,
        prefix: Arc<str>,
    ) -> Result<(), NodeError> {
        let output = Output {
            node: self.node,
            class: self.def.class,
            made,
            opacity,
            prefix,
        };
        let told = self.host.output(&output)?;
        self.told = Some(told).filter(|told| !told.is_null());
        Ok(())
    }

    /// What the host called the last output, which then counts as not told.
    pub(crate) fn take_told(&mut self) -> serde_json::Value {
        self.told.take().unwrap_or_default()
    }

    /// Tells of the node's results in the node's own words.
    pub(crate) fn tell(&mut self, told: serde_json::Value) {
        self.told = Some(told);
    }
}

/// Why a node does not take pictures with transparency.
pub(crate) fn is_clear(input: &'static str) -> NodeError {
    NodeError::Input(format!(
        "its {input} has transparency, which this node does not keep: part it from the picture \
         with SplitImageWithAlpha, and put it back with JoinImageWithAlpha"
    ))
}
