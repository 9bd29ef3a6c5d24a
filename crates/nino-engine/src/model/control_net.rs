//! A `ControlNet` out of a file, and how a prompt is steered by one. ComfyUI's `CONTROL_NET`, and
//! what its nodes `ControlNetApply` and `ControlNetApplyAdvanced` put into a conditioning.

mod lora;
mod pictures;

use super::identity::{NetId, Origin, Part};
use super::lora::{Loras, Source, file_name};
use super::merge::{self, Mix};
use crate::{DiffusionModel, EngineError, Image, Latent, Mask, Upscale, VaeFile};
use nino_media::resize;
use nino_models::{ControlNet, ControlSpec, FileParams, HINT_SCALE, HintKind, Network, z_image};
use nino_weights::TensorReader;
use nino_weights::lora::{ControlLora, LoraPart};
use nino_weights::names::{self, Net};
use pictures::HintPictures;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A `ControlNet`. Cheap to clone.
#[derive(Clone)]
pub struct ControlNetFile {
    /// Name for messages: the file's.
    pub name: String,
    pub(super) net: ControlNet,
    weights: FileParams,
    origin: Origin,
    /// The model's weights that are added to those of a file of differences.
    loras: Arc<Loras>,
    /// What a Control-LoRA's file has. It can be run once [`ControlNetFile::for_model`] has made it
    /// whole.
    lora: Option<Arc<ControlLora>>,
    /// The kind of picture that a union model is told.
    pub(super) mode: Option<usize>,
}

/// Kinds of pictures that union models are told, by number. ComfyUI's `SetUnionControlNetType`.
pub const UNION_MODES: [(&str, usize); 8] = [
    ("openpose", 0),
    ("depth", 1),
    ("hed/pidi/scribble/ted", 2),
    ("canny/lineart/anime_lineart/mlsd", 3),
    ("normal", 4),
    ("segment", 5),
    ("tile", 6),
    ("repaint", 7),
];

/// A picture that steers a prompt through a `ControlNet`.
#[derive(Clone)]
pub struct Hint {
    pub net: ControlNetFile,
    pub seen: HintImage,
    /// What the network's outputs are multiplied by.
    pub strength: f32,
    /// Shares of the sampling, from 0 to 1, between which it counts.
    pub percent: (f64, f64),
    /// Whether it steers negative prompts, too, that have no pictures of their own: ComfyUI's
    /// `ControlNetApply`.
    pub both_sides: bool,
}

/// The picture, as it was given or as the network sees it.
#[derive(Clone)]
pub enum HintImage {
    /// A picture of any size, or one for each image of a batch, in turn; the VAE is for networks
    /// that see it encoded.
    Pixels {
        images: Arc<Vec<Image>>,
        vae: Option<Arc<VaeFile>>,
        paint: Option<HintPaint>,
    },
    /// The encoded picture, of the size of the latent that is sampled.
    Encoded(Arc<Latent>),
}

/// What a network for inpainting is told; others do without it.
#[derive(Clone, Debug, PartialEq)]
pub struct HintPaint {
    /// The picture that is painted over, where it is another than the one that steers.
    pub image: Option<Arc<Image>>,
    /// 1 where to paint, of any size.
    pub mask: Option<Arc<Mask>>,
}

/// The part that changes of a `ControlNet`'s weights are placed in.
const PART: LoraPart = LoraPart::Diffusion;

/// The tensor that says that a file has differences to the weights of a diffusion model.
const DIFFERENCE: &str = "difference";

impl ControlNetFile {
    /// Reads the header and recognizes the network. An error where the file has differences to the
    /// weights of a model: those need [`ControlNetFile::open_for`].
    pub fn open(path: &Path) -> Result<ControlNetFile, EngineError> {
        let (net, is_difference) = ControlNetFile::read(path)?;
        if is_difference {
            return Err(EngineError::ControlNetDifference {
                path: path.to_owned(),
            });
        }
        Ok(net)
    }

    /// As [`ControlNetFile::open`], for use with `model`: differences are added to its weights.
    /// ComfyUI's `DiffControlNetLoader`.
    pub fn open_for(path: &Path, model: &DiffusionModel) -> Result<ControlNetFile, EngineError> {
        let (net, is_difference) = ControlNetFile::read(path)?;
        if !is_difference {
            return Ok(net);
        }
        net.check(model)?;
        let both = Mix {
            own: 1.0,
            other: 1.0,
        };
        let (tensors, _) = merge::shared(net.weights.index(), model.weights.index(), |_| both);
        let loras = net.loras.mixed(PART, (model.id(), model.source()), tensors);
        Ok(ControlNetFile {
            loras: Arc::new(loras),
            ..net
        })
    }

    /// Reads a network, and whether it is one of differences.
    fn read(path: &Path) -> Result<(ControlNetFile, bool), EngineError> {
        let reader = Arc::new(nino_weights::open(path)?);
        if let Some(lora) = ControlNetFile::read_lora(path, &reader)? {
            return Ok((lora, false));
        }
        let origin = Origin::files(&reader.index().files);
        let (components, _) = names::canonical(reader.index())?;
        let found = components
            .into_iter()
            .find(|c| matches!(c.net, Net::ControlNet | Net::T2iAdapter));
        let opened = match found {
            Some(component) => nino_models::open(&reader, component)?,
            None => None,
        };
        let Some(nino_models::Opened {
            network: Network::ControlNet(net),
            params,
            ..
        }) = opened
        else {
            return Err(EngineError::NoControlNet {
                path: path.to_owned(),
            });
        };
        let net = ControlNetFile {
            name: file_name(path),
            net: trained(net, &reader, &params)?,
            weights: params,
            origin,
            loras: Arc::default(),
            lora: None,
            mode: None,
        };
        Ok((net, reader.index().get(DIFFERENCE).is_some()))
    }

    /// What its weights are kept by.
    pub(crate) fn id(&self) -> NetId {
        NetId {
            loras: self.loras.ids(PART),
            ..NetId::plain(self.origin.clone(), Part::ControlNet)
        }
    }

    /// Its weights.
    pub(crate) fn source(&self) -> Source {
        Source {
            file: self.weights.clone(),
            part: PART,
            loras: Arc::clone(&self.loras),
            controls: Vec::new(),
        }
    }

    /// The same network that is told what kind of picture it sees; others than union models are
    /// told nothing. `None` leaves that to the network.
    #[must_use]
    pub fn with_mode(&self, mode: Option<usize>) -> ControlNetFile {
        ControlNetFile {
            mode,
            ..self.clone()
        }
    }

    /// Kinds of pictures that it knows; 0 where it is made for one.
    pub fn modes(&self) -> usize {
        self.net.modes()
    }

    /// Whether it sees the picture encoded, and so needs a VAE.
    pub fn needs_vae(&self) -> bool {
        match self.net.hint() {
            HintKind::Latent { .. } | HintKind::EvenLatent { .. } => true,
            HintKind::Pixels { .. } | HintKind::Unshuffled { .. } | HintKind::Smooth { .. } => {
                false
            }
        }
    }

    /// Whether both are the same network, told the same.
    fn is(&self, other: &ControlNetFile) -> bool {
        self.id() == other.id() && self.mode == other.mode
    }

    /// An error where it was not made for a model, or knows no such kind of picture.
    pub(crate) fn check(&self, model: &DiffusionModel) -> Result<(), EngineError> {
        let net = self.name.clone();
        if !self.net.fits(model.net()) {
            let model = format!("{} ({})", model.name, model.family.name());
            return Err(EngineError::ControlNetFamily { net, model });
        }
        match self.mode {
            Some(mode) if self.modes() > 0 && mode >= self.modes() => {
                Err(EngineError::ControlNetMode {
                    net,
                    mode,
                    known: self.modes(),
                })
            }
            _ => Ok(()),
        }
    }
}

/// A network as it was trained: one of Z-Image was published with refiners that do nothing, and
/// those of Anima say in texts what no tensor says.
fn trained(
    mut net: ControlNet,
    reader: &TensorReader,
    weights: &FileParams,
) -> Result<ControlNet, EngineError> {
    if let ControlNet::ZImage(config) = &mut net
        && let Some(entry) = weights.index().get(z_image::ControlConfig::UNTRAINED)
    {
        let mut values = vec![0.0; entry.n_values()];
        reader.read_f32(entry, &mut values)?;
        config.untrained_refiners = values.iter().all(|&v| v == 0.0);
    }
    if let ControlNet::Anima(config) = &mut net {
        let metadata = &reader.index().metadata;
        let text = |key: &str| metadata.get(key).and_then(|value| value.as_str());
        let (dilations, covers) = ("lllite.aspp_dilations", "lllite.inpaint_masked_input");
        *config = config.told(text(dilations), text(covers));
    }
    Ok(net)
}

impl Hint {
    /// What the network sees for the latents of a batch, `[b, h, w, c]`; `None` where the picture
    /// has yet to be encoded.
    pub(crate) fn batch_values(
        &self,
        batch: usize,
        height: usize,
        width: usize,
    ) -> Option<Vec<f32>> {
        let different = match &self.seen {
            HintImage::Pixels { images, .. } => images.len().clamp(1, batch.max(1)),
            HintImage::Encoded(_) => 1,
        };
        let each = (0..different).map(|i| self.values(i, height, width));
        let each: Vec<Vec<f32>> = each.collect::<Option<_>>()?;
        Some(each.iter().cycle().take(batch).flatten().copied().collect())
    }

    /// What the network sees for latent `item` of a batch, `[h, w, c]`.
    fn values(&self, item: usize, height: usize, width: usize) -> Option<Vec<f32>> {
        let (image, paint) = match &self.seen {
            HintImage::Pixels { images, paint, .. } => {
                (images.get(item % images.len().max(1))?, paint.as_ref())
            }
            HintImage::Encoded(latent) => return Some(latent.values.clone()),
        };
        match self.net.net.hint() {
            HintKind::Pixels { channels, signed } => {
                let size = [height * HINT_SCALE, width * HINT_SCALE];
                let image = fitted(image, size, Upscale::NearestExact);
                let mut values = with_channels(&image, channels);
                if signed {
                    values.iter_mut().for_each(|v| *v = 2.0 * *v - 1.0);
                }
                Some(values)
            }
            kind @ HintKind::Unshuffled { channels, .. } => {
                let [height, width, _] = kind.size([height, width]);
                let image = fitted(image, [height, width], Upscale::NearestExact);
                let mean = |p: &[f32]| p.iter().sum::<f32>() / p.len() as f32;
                Some(match channels {
                    1 => image.values.chunks_exact(3).map(mean).collect(),
                    _ => with_channels(&image, channels),
                })
            }
            kind @ HintKind::Smooth { .. } => {
                let [height, width, _] = kind.size([height, width]);
                Some(pictures::smooth(image, paint, kind, [height, width]))
            }
            HintKind::Latent { .. } | HintKind::EvenLatent { .. } => None,
        }
    }

    /// The pictures to encode for a latent of this size, and the VAE to do it with; `None` where
    /// the network sees pixels, or all is encoded already.
    pub(crate) fn to_encode(
        &self,
        height: usize,
        width: usize,
    ) -> Result<Option<(HintPictures, &VaeFile)>, EngineError> {
        let HintImage::Pixels { images, vae, .. } = &self.seen else {
            return Ok(None);
        };
        if !self.net.needs_vae() {
            return Ok(None);
        }
        if images.windows(2).any(|two| two[0] != two[1]) {
            return Err(EngineError::ControlNetBatch {
                net: self.net.name.clone(),
                images: images.len(),
            });
        }
        let vae = vae.as_deref().ok_or_else(|| EngineError::ControlNetVae {
            net: self.net.name.clone(),
        })?;
        let pictures = self.pictures(height, width, vae.kind.scale());
        Ok(pictures.map(|pictures| (pictures, vae)))
    }
}

/// What a picture has of so many channels: gray is repeated, what is over is left out.
fn with_channels(image: &Image, channels: usize) -> Vec<f32> {
    if channels == 3 {
        return image.values.clone();
    }
    let pixels = image.values.chunks_exact(3);
    pixels
        .flat_map(|pixel| pixel.iter().copied().cycle().take(channels))
        .collect()
}

/// The middle of a picture in the proportions of another size, brought to that size. ComfyUI's
/// `common_upscale` with `center`.
fn fitted(image: &Image, [height, width]: [usize; 2], method: Upscale) -> Image {
    let (values, [h, w]) = middle(
        &image.values,
        [image.height, image.width, 3],
        [height, width],
    );
    Image {
        width,
        height,
        values: resize(&values, (h, w, 3), (height, width), method),
    }
}

/// The middle of values `[h, w, c]` in the proportions of another size, with its own size.
fn middle(
    values: &[f32],
    [h, w, c]: [usize; 3],
    [height, width]: [usize; 2],
) -> (Vec<f32>, [usize; 2]) {
    let (old_w, old_h) = (w as f64, h as f64);
    let (old, new) = (old_w / old_h, width as f64 / height as f64);
    let half = |side: f64, share: f64| ((side - side * share) / 2.0).round_ties_even() as usize;
    let (x, y) = if old > new {
        (half(old_w, new / old), 0)
    } else {
        (0, half(old_h, old / new))
    };
    // A sliver of a picture still has a pixel.
    let (x, y) = (x.min((w - 1) / 2), y.min((h - 1) / 2));
    let middle = (y..h - y).flat_map(|row| {
        let start = (row * w + x) * c;
        &values[start..start + (w - 2 * x) * c]
    });
    (middle.copied().collect(), [h - 2 * y, w - 2 * x])
}

impl fmt::Debug for ControlNetFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlNetFile")
            .field("name", &self.name)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hint")
            .field("net", &self.net)
            .field("strength", &self.strength)
            .field("percent", &self.percent)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Hint {
    fn eq(&self, other: &Hint) -> bool {
        let same_picture = match (&self.seen, &other.seen) {
            (
                HintImage::Pixels { images, paint, .. },
                HintImage::Pixels {
                    images: other_images,
                    paint: other_paint,
                    ..
                },
            ) => images == other_images && paint == other_paint,
            (HintImage::Encoded(a), HintImage::Encoded(b)) => a == b,
            _ => false,
        };
        same_picture
            && self.net.is(&other.net)
            && self.strength.to_bits() == other.strength.to_bits()
            && self.percent == other.percent
            && self.both_sides == other.both_sides
    }
}

/// The networks that a run's prompts are steered by, each once, or as often as one prompt has it.
#[derive(Clone, Default)]
pub(crate) struct Steering {
    nets: Vec<ControlNetFile>,
}

impl Steering {
    pub(crate) fn of<'a>(prompts: impl IntoIterator<Item = &'a [Arc<Hint>]>) -> Steering {
        let mut steering = Steering::default();
        for hints in prompts {
            let mut free: Vec<bool> = vec![true; steering.nets.len()];
            for hint in hints {
                let at = (0..free.len()).find(|&i| free[i] && steering.nets[i].is(&hint.net));
                if let Some(at) = at {
                    free[at] = false;
                } else {
                    steering.nets.push(hint.net.clone());
                    free.push(false);
                }
            }
        }
        steering
    }

    pub(crate) fn nets(&self) -> &[ControlNetFile] {
        &self.nets
    }

    /// What a graph has of the networks.
    pub(crate) fn controlled(&self) -> Vec<ControlSpec> {
        let one = |file: &ControlNetFile| ControlSpec {
            net: file.net.clone(),
            mode: file.mode,
        };
        self.nets.iter().map(one).collect()
    }

    /// The hint of a prompt for each of the networks.
    pub(crate) fn placed<'a>(&self, hints: &'a [Arc<Hint>]) -> Vec<Option<&'a Hint>> {
        let mut placed: Vec<Option<&Hint>> = vec![None; self.nets.len()];
        for hint in hints {
            let free = |&i: &usize| placed[i].is_none() && self.nets[i].is(&hint.net);
            if let Some(at) = (0..placed.len()).find(free) {
                placed[at] = Some(hint);
            }
        }
        placed
    }
}

#[cfg(test)]
mod tests;
