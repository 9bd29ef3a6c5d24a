//! A whole text-to-image model out of one file or folder, or of its parts: text encoders, UNet, VAE,
//! LoRAs, and how it is sampled.

use super::few_steps;
use super::levels;
use super::lora::{Applied, LoraSpec, Loras, Source, file_name};
use super::request::{EDIT_CHANNELS, INPAINT_CHANNELS};
use super::spec::{Description, MODEL_SPECS};
use crate::{BUILTIN, EngineError, VaeFile};
use nino_dtype::DType;
use nino_graph::Device;
use nino_models::latent::LatentFormat;
use nino_models::{FileParams, Network, Opened, clip, unet};
use nino_sample::{ModelSampling, Prediction};
use nino_text::Bpe;
use nino_weights::lora::LoraPart;
use nino_weights::names::{self, Net};
use nino_weights::{Index, TensorReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Families that differ in how text becomes conditioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Sd1,
    Sd2,
    Sdxl,
    SdxlRefiner,
    /// The model in the box.
    Emoji,
}

/// Settings a user who says nothing gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    pub steps: usize,
    pub cfg: f32,
    pub sampler: &'static str,
    pub scheduler: &'static str,
    /// Pixels of both sides.
    pub size: usize,
}

/// Where a model's parts are.
#[derive(Clone, Copy, Debug)]
pub struct ModelFiles<'a> {
    /// The UNet, and whatever the others do not give.
    pub model: &'a Path,
    /// Text encoders, in any order; none means the model's own.
    pub clip: &'a [PathBuf],
    pub vae: Option<&'a Path>,
}

pub struct Checkpoint {
    pub name: String,
    pub path: PathBuf,
    pub family: Family,
    pub sampling: ModelSampling,
    pub vae: VaeFile,
    unet: (FileParams, unet::Config),
    text: Vec<TextEncoder>,
    pub(super) bpe: Bpe,
    loras: Arc<Loras>,
    /// The latent space the UNet works in.
    latent: Option<&'static LatentFormat>,
}

pub(super) struct TextEncoder {
    params: FileParams,
    pub(super) config: clip::Config,
}

impl Checkpoint {
    /// Reads headers and recognizes the parts; `vae` replaces the file's own.
    pub fn open(path: &Path, vae: Option<&Path>) -> Result<Checkpoint, EngineError> {
        Checkpoint::open_files(ModelFiles {
            model: path,
            clip: &[],
            vae,
        })
    }

    /// The same for a model whose parts are files of their own.
    pub fn open_files(files: ModelFiles<'_>) -> Result<Checkpoint, EngineError> {
        let path = files.model;
        let reader = Arc::new(nino_weights::open(path)?);
        let (components, _) = names::canonical(reader.index())?;
        let found: Vec<Net> = components.iter().map(|c| c.net).collect();
        let mut unet = None;
        let mut text = Vec::new();
        let wanted = |net| net == Net::Unet || (net == Net::ClipText && files.clip.is_empty());
        for component in components.into_iter().filter(|c| wanted(c.net)) {
            let Some(Opened {
                network, params, ..
            }) = nino_models::open(&reader, component)?
            else {
                continue;
            };
            match network {
                Network::Unet(config) => unet = Some((params, config)),
                Network::ClipText(config) => text.push(TextEncoder { params, config }),
                Network::Vae(_) => {}
            }
        }
        let mut unet = unet.ok_or_else(|| EngineError::NoUnet {
            path: path.to_owned(),
            found: found.iter().map(|n| format!("{n:?}")).collect(),
        })?;
        let own = Own::read(&reader);
        let family = family(&unet.1, own.is_some()).ok_or_else(|| EngineError::UnknownFamily {
            path: path.to_owned(),
            context: unet.1.context_dim,
            label: unet.1.adm_in,
        })?;
        for path in files.clip {
            let reader = Arc::new(nino_weights::open(path)?);
            let (components, _) = names::canonical(reader.index())?;
            let before = text.len();
            for component in components.into_iter().filter(|c| c.net == Net::ClipText) {
                if let Some(Opened {
                    network: Network::ClipText(config),
                    params,
                    ..
                }) = nino_models::open(&reader, component)?
                {
                    text.push(TextEncoder { params, config });
                }
            }
            if text.len() == before {
                return Err(EngineError::NotAnEncoder { path: path.clone() });
            }
        }
        // SDXL's narrow encoder comes first in the context.
        text.sort_by_key(|t| t.config.width);
        check_encoders(path, family, &text)?;
        let bpe = match &own {
            Some(own) => {
                unet.1.heads = unet::Heads::Width(own.head_width);
                Bpe::from_files(own.vocab.as_bytes(), own.merges.as_bytes())?
            }
            None => Bpe::clip(),
        };
        let sampling = levels::detect(family, &reader, &unet)?;
        let latent = if levels::is_playground(family, &reader) {
            LatentFormat::by_name("playground")
        } else {
            family.latent_format()
        };
        let name = if family == Family::Emoji {
            BUILTIN.to_owned()
        } else {
            file_name(path)
        };
        let has_vae = |net: &Net| matches!(net, Net::KlVae | Net::Taesd);
        if files.vae.is_none() && !found.iter().any(has_vae) {
            return Err(EngineError::MissingVae {
                path: path.to_owned(),
                family: family.name(),
            });
        }
        let vae = VaeFile::open(files.vae.unwrap_or(path))?;
        let (wanted, given) = (unet.1.out_channels, vae.vae.latent_channels());
        if wanted != given || vae.vae.time_scale().is_some() {
            return Err(EngineError::VaeMismatch {
                vae: vae.name,
                channels: given,
                model: name,
                wanted,
            });
        }
        Ok(Checkpoint {
            name,
            path: path.to_owned(),
            family,
            sampling,
            vae,
            unet,
            text,
            bpe,
            loras: Arc::default(),
            latent,
        })
    }

    /// Applies a LoRA to whatever is loaded from now on, after those added before.
    pub fn add_lora(&mut self, spec: &LoraSpec) -> Result<Applied, EngineError> {
        let mut parts: Vec<(LoraPart, &Index)> = vec![(LoraPart::Diffusion, self.unet.0.index())];
        for (i, encoder) in self.text.iter().enumerate() {
            parts.push((self.text_part(i), encoder.params.index()));
        }
        let model = format!("{} is {}", self.name, self.family.name());
        Arc::make_mut(&mut self.loras).add(spec, &parts, &model)
    }

    /// The number LoRAs give a text encoder: the refiner's only one is SDXL's second.
    fn text_part(&self, i: usize) -> LoraPart {
        LoraPart::TextEncoder(i + usize::from(self.family == Family::SdxlRefiner))
    }

    /// A built-in description without weights: it can be planned with, not run.
    pub fn spec(name: &str) -> Result<Checkpoint, EngineError> {
        let unknown = || EngineError::UnknownSpec {
            name: name.to_owned(),
            known: MODEL_SPECS.map(str::to_owned).to_vec(),
        };
        let found = Description::find(name).ok_or_else(unknown)?;
        let encoder = |config: &clip::Config| {
            Ok(TextEncoder {
                params: Description::text_params(config)?,
                config: config.clone(),
            })
        };
        Ok(Checkpoint {
            name: name.to_owned(),
            path: PathBuf::from(name),
            family: found.family,
            sampling: ModelSampling::stable_diffusion(found.prediction),
            vae: VaeFile::synthetic(found.vae, 0)?,
            unet: (found.unet_params()?, found.unet.clone()),
            text: found
                .text
                .iter()
                .map(encoder)
                .collect::<Result<_, EngineError>>()?,
            bpe: Bpe::clip(),
            loras: Arc::default(),
            latent: found.family.latent_format(),
        })
    }

    /// Weights of the UNet and the text encoders that are stored as plain numbers become `dtype` while
    /// they are loaded; the VAE's stay, since what they lose would show in every pixel.
    pub fn quantize(&mut self, dtype: DType) {
        self.unet.0.quantize(dtype);
        self.text.iter_mut().for_each(|t| t.params.quantize(dtype));
    }

    pub fn defaults(&self) -> Defaults {
        let base = Defaults {
            steps: 20,
            cfg: 7.0,
            sampler: "euler",
            scheduler: "normal",
            size: 512,
        };
        let base = match self.names().find_map(few_steps::defaults) {
            _ if self.tells_guidance() => few_steps::TOLD,
            _ if self.sampling.prediction == Prediction::Edm => Defaults {
                steps: 25,
                cfg: 3.0,
                sampler: "dpmpp_2m",
                scheduler: "karras",
                ..base
            },
            few => few.unwrap_or(base),
        };
        match self.family {
            Family::Sd1 => base,
            Family::Sd2 if self.sampling.prediction == Prediction::V => {
                Defaults { size: 768, ..base }
            }
            Family::Sd2 => base,
            // SDXL Turbo was distilled at 512.
            Family::Sdxl if base.sampler == few_steps::TURBO.sampler => base,
            Family::Sdxl | Family::SdxlRefiner => Defaults { size: 1024, ..base },
            Family::Emoji => Defaults {
                cfg: 4.0,
                scheduler: "simple",
                size: 256,
                ..base
            },
        }
    }

    /// Whether it was distilled to a few steps.
    pub fn wants_few_steps(&self) -> bool {
        self.tells_guidance() || self.names().any(|name| few_steps::defaults(name).is_some())
    }

    /// Whether the UNet is told the guidance, instead of being run for a negative prompt too.
    pub fn tells_guidance(&self) -> bool {
        self.unet.1.guidance.is_some()
    }

    /// The checkpoint's name and its LoRAs'.
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.loras.names())
    }

    /// Bits a weight of the UNet has on average, as it is held.
    pub fn unet_bits(&self) -> f64 {
        let params = &self.unet.0;
        let entries = params.index().entries().iter();
        let bits = entries.map(|e| params.dtype(&e.name).bits_per_value() * e.n_values() as f64);
        bits.sum::<f64>() / params.index().n_params().max(1) as f64
    }

    /// Whether the UNet sees a mask and the picture under it.
    pub fn paints_over(&self) -> bool {
        self.channels_beside() == INPAINT_CHANNELS
    }

    /// Whether the UNet sees a whole picture, which the prompt says how to change (instruct-pix2pix).
    pub fn edits(&self) -> bool {
        self.channels_beside() == EDIT_CHANNELS
    }

    /// Channels the UNet takes beside the latent.
    pub(super) fn channels_beside(&self) -> usize {
        let config = &self.unet.1;
        config.in_channels.saturating_sub(config.out_channels)
    }

    pub(super) fn latent_format(&self) -> Option<&'static LatentFormat> {
        self.latent
    }

    /// How weights are held on a device: as stored, but a model too small for memory to matter is
    /// held in the type that is fastest and loses nothing there.
    pub(super) fn held(&self, stored: DType, device: &dyn Device) -> DType {
        match self.family {
            Family::Emoji => device.activation_dtype(),
            _ => stored,
        }
    }

    pub(super) fn unet(&self) -> &unet::Config {
        &self.unet.1
    }

    pub(super) fn unet_params(&self) -> Source {
        Source {
            file: self.unet.0.clone(),
            part: LoraPart::Diffusion,
            loras: Arc::clone(&self.loras),
        }
    }

    pub(super) fn text(&self) -> &[TextEncoder] {
        &self.text
    }

    pub(super) fn text_params(&self, encoder: &TextEncoder) -> Source {
        let i = self.text.iter().position(|t| std::ptr::eq(t, encoder));
        Source {
            file: encoder.params.clone(),
            part: self.text_part(i.unwrap_or(0)),
            loras: Arc::clone(&self.loras),
        }
    }
}

impl Family {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Family::Sd1 => "SD 1.x",
            Family::Sd2 => "SD 2.x",
            Family::Sdxl => "SDXL",
            Family::SdxlRefiner => "the SDXL refiner",
            Family::Emoji => "nino-emoji",
        }
    }

    fn latent_format(self) -> Option<&'static LatentFormat> {
        LatentFormat::by_name(match self {
            Family::Sd1 | Family::Sd2 => "sd15",
            Family::Sdxl | Family::SdxlRefiner => "sdxl",
            Family::Emoji => "nino",
        })
    }

    /// Widths of its text encoders; empty where the model says itself.
    fn encoders(self) -> &'static [usize] {
        match self {
            Family::Sd1 => &[768],
            Family::Sd2 => &[1024],
            Family::Sdxl => &[768, 1280],
            Family::SdxlRefiner => &[1280],
            Family::Emoji => &[],
        }
    }
}

/// Each family's UNet was trained with certain encoders; others give noise.
fn check_encoders(path: &Path, family: Family, text: &[TextEncoder]) -> Result<(), EngineError> {
    let found: Vec<usize> = text.iter().map(|t| t.config.width).collect();
    let wanted = family.encoders();
    if (wanted.is_empty() && !found.is_empty()) || found == wanted {
        return Ok(());
    }
    Err(EngineError::Encoders {
        path: path.to_owned(),
        family: family.name(),
        wanted: wanted.to_vec(),
        found,
    })
}

fn family(config: &unet::Config, own: bool) -> Option<Family> {
    match (config.context_dim, config.adm_in) {
        _ if own => Some(Family::Emoji),
        (768, None) => Some(Family::Sd1),
        (1024, None) => Some(Family::Sd2),
        (2048, Some(2816)) => Some(Family::Sdxl),
        (1280, Some(2560)) => Some(Family::SdxlRefiner),
        _ => None,
    }
}

/// What a model of our own carries in its header.
struct Own {
    vocab: String,
    merges: String,
    head_width: usize,
}

impl Own {
    fn read(reader: &TensorReader) -> Option<Own> {
        let text = |key: &str| Some(reader.index().metadata.get(key)?.as_str()?.to_owned());
        let config = text("config")?;
        let config: serde_json::Value = serde_json::from_str(&config).ok()?;
        let head_width = config["unet"]["num_head_channels"].as_u64()? as usize;
        Some(Own {
            vocab: text("vocab.json")?,
            merges: text("merges.txt")?,
            head_width,
        })
    }
}
