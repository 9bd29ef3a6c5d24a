//! What flows between nodes. Cloning a value is cheap: what is large is shared.

pub use crate::nodes::latent_operation::LatentOperation;
use crate::types::Socket;
use nino_engine::media::{ClipFormat, MediaError, Stop, can_write_video, create_video};
use nino_engine::{
    Audio, AudioEncoder, AudioStates, CameraPath, Conditioning, ControlNetFile, DiffusionModel,
    Image, ImageEncoder, ImageStates, Latent, Mask, Rng, SamplerInfo, SamplerOptions, StyleModel,
    TextEncoders, ThreeWay, Tracks, UpscaleModel, UsoModel, VaeFile,
};
use std::path::Path;
use std::sync::Arc;

/// A result of a node, or a value that a graph gives itself.
#[derive(Clone)]
pub enum Value {
    Model(Arc<DiffusionModel>),
    Clip(Arc<TextEncoders>),
    Vae(Arc<VaeFile>),
    ControlNet(Arc<ControlNetFile>),
    /// What changes a model, whatever its prompts.
    ModelPatch(Arc<ModelPatch>),
    /// Prompts that share a picture by their regions.
    Conditioning(Arc<Vec<Conditioning>>),
    Latent(Arc<Latents>),
    /// A batch of pictures of one size.
    Image(Arc<Vec<Image>>),
    /// A batch of pictures of which parts are clear: an IMAGE of four channels.
    ClearImage(Arc<ClearImages>),
    /// A batch of masks of one size.
    Mask(Arc<Vec<Mask>>),
    /// Noise levels.
    Sigmas(Arc<Vec<f32>>),
    Sampler(Arc<Sampler>),
    Noise(Noise),
    Guider(Arc<Guider>),
    ClipVision(Arc<ImageEncoder>),
    ClipVisionOutput(Arc<ImageStates>),
    Camera(Arc<CameraPath>),
    Tracks(Arc<Tracks>),
    Audio(Arc<Audio>),
    AudioEncoder(Arc<AudioEncoder>),
    AudioStates(Arc<AudioStates>),
    StyleModel(Arc<StyleModel>),
    UpscaleModel(Arc<UpscaleModel>),
    Video(Arc<Clip>),
    LatentOperation(LatentOperation),
    /// Wide enough for every seed and for what is out of range.
    Int(i128),
    Float(f64),
    /// A text, or the choice of a COMBO.
    Text(Arc<str>),
    Boolean(bool),
    /// A file that a name was found to mean.
    File(Arc<Path>),
    /// Several values, of which each is run by itself further on; never of one alone.
    List(Arc<Vec<Value>>),
    /// What a file does not hold, and why that is: an error only where it is used.
    Missing(Arc<str>),
}

/// ComfyUI's `MODEL_PATCH`.
#[derive(Clone)]
pub enum ModelPatch {
    /// One that steers a model by a picture.
    ControlNet(Box<ControlNetFile>),
    /// One that gives it the style of a picture.
    Uso(UsoModel),
}

/// ComfyUI's LATENT.
#[derive(Clone, Debug, PartialEq)]
pub struct Latents {
    pub latent: Latent,
    /// 1 where to paint, in pixels or latent pixels; everywhere when `None`.
    pub noise_mask: Option<Arc<Vec<Mask>>>,
    /// Of a clip, how much each latent frame is to be made; all of them when it is empty.
    pub frame_mask: Vec<f32>,
    /// Where in a larger batch these latents were, which says what noise they get.
    pub batch_index: Option<Vec<usize>>,
    /// Pixels along a side of a latent pixel, as the node counted that made an empty latent of a
    /// size in pixels. A model with another scale resizes it.
    pub empty_scale: Option<usize>,
}

/// Pictures with how opaque they are.
#[derive(Clone, Debug, PartialEq)]
pub struct ClearImages {
    pub images: Arc<Vec<Image>>,
    /// 1 where a picture is opaque; one for each, of its size.
    pub opacity: Arc<Vec<Mask>>,
}

/// Frames with how fast they are shown. ComfyUI's VIDEO.
#[derive(Clone, Debug, PartialEq)]
pub struct Clip {
    pub images: Arc<Vec<Image>>,
    /// How opaque its frames are, one for each; all of them when `None`.
    pub opacity: Option<Arc<Vec<Mask>>>,
    /// Frames a second.
    pub fps: f64,
    /// Its sound, which files other than MP4 do not keep.
    pub audio: Option<Arc<Audio>>,
    /// How much an MP4 of it may lose; little when `None`.
    pub crf: Option<f64>,
}

impl Clip {
    /// The extension of the file that a node of this class keeps a clip in: its own format, or one
    /// that can be written here.
    pub fn extension(&self, class: &str) -> &'static str {
        match class {
            "SaveAnimatedWEBP" => "webp",
            "SaveAnimatedPNG" => "apng",
            _ if self.opacity.is_some() => "webp",
            _ if can_write_video(Path::new("clip.mp4")).is_ok() => "mp4",
            _ => "webp",
        }
    }

    /// Writes it in the format that the path's extension says, with texts of how it was made.
    /// `stop` ends an ffmpeg that writes.
    pub fn write(
        &self,
        path: &Path,
        text: Vec<(String, String)>,
        stop: Stop,
    ) -> Result<(), MediaError> {
        let Some(first) = self.images.first() else {
            return Ok(());
        };
        let is_mp4 = path.extension().is_some_and(|e| e == "mp4");
        let format = ClipFormat {
            width: first.width,
            height: first.height,
            n_frames: self.images.len(),
            fps: self.fps,
            text,
            has_opacity: self.opacity.is_some(),
            audio: self.audio.clone().filter(|_| is_mp4),
            crf: self.crf,
            stop,
        };
        let mut sink = create_video(path, &format)?;
        for (i, image) in self.images.iter().enumerate() {
            let opacity = self.opacity.as_ref().and_then(|all| all.get(i));
            match opacity {
                Some(opacity) => sink.frame_with(&image.to_picture(), &opacity.to_bytes())?,
                None => sink.frame(&image.to_picture())?,
            }
        }
        sink.finish()
    }
}

/// A sampler with what it is told.
#[derive(Clone, Debug)]
pub struct Sampler {
    pub info: &'static SamplerInfo,
    pub options: SamplerOptions,
}

/// The noise that sampling starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    /// Its seed; `None` is no noise at all.
    pub seed: Option<u64>,
    pub rng: Rng,
}

/// A model with its prompts.
#[derive(Clone)]
pub struct Guider {
    pub model: Arc<DiffusionModel>,
    pub positive: Arc<Vec<Conditioning>>,
    /// Empty where the guidance is 1.
    pub negative: Arc<Vec<Conditioning>>,
    /// More prompts, and how they take part in the guidance.
    pub third: Option<(Arc<Vec<Conditioning>>, ThreeWay)>,
    pub cfg: f32,
}

impl Value {
    /// The type of the value; `None` of one that is missing.
    pub fn socket(&self) -> Option<Socket> {
        Some(match self {
            Value::Model(_) => Socket::Model,
            Value::Clip(_) => Socket::Clip,
            Value::Vae(_) => Socket::Vae,
            Value::ControlNet(_) => Socket::ControlNet,
            Value::ModelPatch(_) => Socket::ModelPatch,
            Value::Conditioning(_) => Socket::Conditioning,
            Value::Latent(_) => Socket::Latent,
            Value::Image(_) | Value::ClearImage(_) => Socket::Image,
            Value::Mask(_) => Socket::Mask,
            Value::Sigmas(_) => Socket::Sigmas,
            Value::Sampler(_) => Socket::Sampler,
            Value::Noise(_) => Socket::Noise,
            Value::Guider(_) => Socket::Guider,
            Value::ClipVision(_) => Socket::ClipVision,
            Value::ClipVisionOutput(_) => Socket::ClipVisionOutput,
            Value::Camera(_) => Socket::Camera,
            Value::Tracks(_) => Socket::Tracks,
            Value::Audio(_) => Socket::Audio,
            Value::AudioEncoder(_) => Socket::AudioEncoder,
            Value::AudioStates(_) => Socket::AudioEncoderOutput,
            Value::StyleModel(_) => Socket::StyleModel,
            Value::UpscaleModel(_) => Socket::UpscaleModel,
            Value::Video(_) => Socket::Video,
            Value::LatentOperation(_) => Socket::LatentOperation,
            Value::Int(_) => Socket::Int,
            Value::Float(_) => Socket::Float,
            Value::Text(_) => Socket::String,
            Value::Boolean(_) => Socket::Boolean,
            Value::File(_) => Socket::Combo,
            Value::List(all) => return all.first().and_then(Value::socket),
            Value::Missing(_) => return None,
        })
    }

    /// The bytes of its pictures, masks or latents, each with the address that tells them from
    /// another value's; nothing of values that are small or that the store counts.
    pub(crate) fn held(&self) -> Vec<(usize, usize)> {
        let images = |images: &Arc<Vec<Image>>| {
            let bytes = images.iter().map(|image| size_of_val(&image.values[..]));
            (Arc::as_ptr(images).addr(), bytes.sum())
        };
        let masks = |masks: &Arc<Vec<Mask>>| {
            let bytes = masks.iter().map(|mask| size_of_val(&mask.values[..]));
            (Arc::as_ptr(masks).addr(), bytes.sum())
        };
        let audio = |audio: &Arc<Audio>| {
            let bytes = size_of_val(&audio.samples[..]);
            (Arc::as_ptr(audio).addr(), bytes)
        };
        match self {
            Value::Image(all) => vec![images(all)],
            Value::ClearImage(all) => vec![images(&all.images), masks(&all.opacity)],
            Value::Video(clip) => {
                let opacity = clip.opacity.iter().map(masks);
                let sound = clip.audio.iter().map(audio);
                opacity.chain(sound).chain([images(&clip.images)]).collect()
            }
            Value::Audio(sound) => vec![audio(sound)],
            Value::AudioStates(states) => {
                let bytes = size_of_val(&states.values[..]);
                vec![(Arc::as_ptr(states).addr(), bytes)]
            }
            Value::Mask(all) => vec![masks(all)],
            Value::Latent(latents) => {
                let masks = latents.noise_mask.as_ref().map_or(0, |m| masks(m).1);
                let bytes = size_of_val(&latents.latent.values[..]) + masks;
                vec![(Arc::as_ptr(latents).addr(), bytes)]
            }
            Value::List(all) => all.iter().flat_map(Value::held).collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn latent(latent: Latent) -> Value {
        Value::from(Latents {
            latent,
            noise_mask: None,
            frame_mask: Vec::new(),
            batch_index: None,
            empty_scale: None,
        })
    }

    /// An empty latent of a size in pixels, at eight of them along a side of a latent pixel.
    pub(crate) fn empty_latent(latent: Latent) -> Value {
        Value::from(Latents {
            latent,
            noise_mask: None,
            frame_mask: Vec::new(),
            batch_index: None,
            empty_scale: Some(8),
        })
    }
}

impl From<Latents> for Value {
    fn from(latents: Latents) -> Value {
        Value::Latent(Arc::new(latents))
    }
}

impl From<Vec<Conditioning>> for Value {
    fn from(prompts: Vec<Conditioning>) -> Value {
        Value::Conditioning(Arc::new(prompts))
    }
}

impl From<Vec<Image>> for Value {
    fn from(images: Vec<Image>) -> Value {
        Value::Image(Arc::new(images))
    }
}

impl From<ClearImages> for Value {
    fn from(images: ClearImages) -> Value {
        Value::ClearImage(Arc::new(images))
    }
}

impl From<Vec<Mask>> for Value {
    fn from(masks: Vec<Mask>) -> Value {
        Value::Mask(Arc::new(masks))
    }
}

impl From<DiffusionModel> for Value {
    fn from(model: DiffusionModel) -> Value {
        Value::Model(Arc::new(model))
    }
}

impl From<TextEncoders> for Value {
    fn from(clip: TextEncoders) -> Value {
        Value::Clip(Arc::new(clip))
    }
}

impl From<Vec<f32>> for Value {
    fn from(sigmas: Vec<f32>) -> Value {
        Value::Sigmas(Arc::new(sigmas))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_masks_and_latents_are_held() {
        let image = |side: usize| Image {
            width: side,
            height: side,
            values: vec![0.0; side * side * 3],
        };
        let images = Value::from(vec![image(2), image(2)]);
        let bytes = |value: &Value| value.held().iter().map(|(_, bytes)| bytes).sum::<usize>();
        assert_eq!(bytes(&images), 2 * 2 * 2 * 3 * 4);
        // What two nodes share has one address.
        assert_eq!(images.held(), images.clone().held());
        assert_ne!(images.held(), Value::from(vec![image(2), image(2)]).held());
        let mask = Mask {
            width: 4,
            height: 1,
            values: vec![1.0; 4],
        };
        assert_eq!(bytes(&Value::from(vec![mask.clone()])), 16);
        // Pictures that two values share are held once.
        let Value::Image(shared) = &images else {
            panic!("no picture")
        };
        let clear = Value::ClearImage(Arc::new(ClearImages {
            images: Arc::clone(shared),
            opacity: Arc::new(vec![mask.clone()]),
        }));
        assert_eq!(bytes(&clear), 2 * 2 * 2 * 3 * 4 + 16);
        assert!(clear.held().contains(&images.held()[0]));
        let size = nino_engine::LatentSize::picture(2, 3);
        let latents = Latents {
            latent: Latent::empty(1, 4, size),
            noise_mask: Some(Arc::new(vec![mask])),
            frame_mask: Vec::new(),
            batch_index: None,
            empty_scale: None,
        };
        assert_eq!(bytes(&Value::from(latents)), 2 * 3 * 4 * 4 + 16);
        assert!(Value::Int(3).held().is_empty());
    }
}
