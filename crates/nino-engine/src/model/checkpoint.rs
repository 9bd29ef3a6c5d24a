//! A whole model out of one file or folder, or of its parts: diffusion model, text encoders, VAE.

use super::control_net::Steering;
use super::diffusion::DiffusionModel;
use super::identity::Origin;
use super::levels;
use super::lora::{Applied, LoraSpec, apply_lora, file_name};
use super::spec::{Description, MODEL_SPECS};
use super::text_encoders::{self, EncoderConfig, TextEncoder, TextEncoders};
use super::unet::Shrinks;
use crate::{BUILTIN, Defaults, EngineError, VaeFile};
use nino_dtype::DType;
use nino_models::latent::LatentFormat;
use nino_models::{Denoiser, Encoder, Family, Network, qwen_image, unet};
use nino_sample::{Blend, Prediction};
use nino_text::Bpe;
use nino_weights::names::{self, Net};
use nino_weights::{Entry, TensorReader, names::Component};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a model's parts are.
#[derive(Clone, Copy, Debug)]
pub struct ModelFiles<'a> {
    /// The diffusion model, and whatever the others do not give.
    pub model: &'a Path,
    /// Text encoders, in any order; none means the model's own.
    pub clip: &'a [PathBuf],
    pub vae: Option<&'a Path>,
}

/// A diffusion model with the text encoders and the VAE that belong to it.
#[derive(Clone)]
pub struct Checkpoint {
    pub path: PathBuf,
    pub diffusion: DiffusionModel,
    pub text: TextEncoders,
    pub vae: Arc<VaeFile>,
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

    /// Reads a model whose parts may be files of their own.
    pub fn open_files(files: ModelFiles<'_>) -> Result<Checkpoint, EngineError> {
        let path = files.model;
        Checkpoint::of(&Opened::read(path)?, files)
    }

    /// A whole checkpoint among tensors that are in memory ([`crate::from_memory`]); `name` is for
    /// messages, and says whether the model was distilled to few steps.
    pub fn from_reader(name: &str, reader: TensorReader) -> Result<Checkpoint, EngineError> {
        let files = ModelFiles {
            model: Path::new(name),
            clip: &[],
            vae: None,
        };
        Checkpoint::of(&Opened::of(reader, Origin::unique())?, files)
    }

    fn of(opened: &Opened, files: ModelFiles<'_>) -> Result<Checkpoint, EngineError> {
        let path = files.model;
        let diffusion = opened.diffusion(path)?;
        let encoders = if files.clip.is_empty() {
            opened.text_encoders()?
        } else {
            let read = files.clip.iter().map(|p| text_encoders::read(p));
            read.collect::<Result<Vec<_>, _>>()?.concat()
        };
        let text = opened.text(path, &diffusion, encoders)?;
        let has_vae =
            |c: &Component| matches!(c.net, Net::KlVae | Net::WanVae | Net::Taesd | Net::Taehv);
        let vae = match files.vae {
            Some(path) => VaeFile::open(path)?,
            None if opened.components.iter().any(has_vae) => {
                VaeFile::of(&opened.reader, path, opened.origin.clone())?
            }
            None => {
                return Err(EngineError::MissingVae {
                    path: path.to_owned(),
                    family: diffusion.family.name(),
                });
            }
        };
        diffusion.check_vae(&vae)?;
        Ok(Checkpoint {
            path: path.to_owned(),
            diffusion,
            text,
            vae: Arc::new(vae),
        })
    }

    /// A built-in description without weights: it can be planned with, not run.
    pub fn spec(name: &str) -> Result<Checkpoint, EngineError> {
        let unknown = || EngineError::UnknownSpec {
            name: name.to_owned(),
            known: MODEL_SPECS.map(str::to_owned).to_vec(),
        };
        let found = Description::find(name).ok_or_else(unknown)?;
        let origin = Origin::unique();
        let encoder = |config: &EncoderConfig| -> Result<TextEncoder, EngineError> {
            Ok(TextEncoder {
                weights: Description::text_params(config)?,
                origin: origin.clone(),
                config: config.clone(),
                vocabulary: None,
                sight: None,
            })
        };
        let encoders = found.text.iter().map(encoder).collect::<Result<_, _>>()?;
        Ok(Checkpoint {
            path: PathBuf::from(name),
            diffusion: DiffusionModel {
                name: name.to_owned(),
                family: found.family,
                weights: found.net_params()?,
                sampling: found.sampling,
                blend: Blend::default(),
                corrections: Vec::new(),
                skip: None,
                reuse: None,
                shrinks: Shrinks::default(),
                empty: None,
                gradual_mask: None,
                net: found.net,
                loras: Arc::default(),
                origin,
                quantize: None,
                latent: found.family.latent_format(),
                steering: Steering::default(),
                hints: Vec::new(),
                styles: Vec::new(),
                keep_references: false,
            },
            text: TextEncoders::new(found.family, encoders, None),
            vae: Arc::new(VaeFile::synthetic(found.vae, 0)?),
        })
    }

    /// Name for messages.
    pub fn name(&self) -> &str {
        &self.diffusion.name
    }

    pub fn family(&self) -> Family {
        self.diffusion.family
    }

    /// The settings it was made for.
    pub fn defaults(&self) -> Defaults {
        self.diffusion.defaults()
    }

    /// The same model with a LoRA, applied after those it has already.
    pub fn with_lora(&self, spec: &LoraSpec) -> Result<(Checkpoint, Applied), EngineError> {
        let parts = apply_lora(Some(&self.diffusion), Some(&self.text), spec)?;
        let model = Checkpoint {
            diffusion: parts.diffusion.unwrap_or_else(|| self.diffusion.clone()),
            text: parts.text.unwrap_or_else(|| self.text.clone()),
            ..self.clone()
        };
        Ok((model, parts.applied))
    }

    /// The same model with the plain weights of diffusion model and text encoders held as `dtype`.
    /// The VAE's stay as they are, since what they lose would show in every pixel.
    #[must_use]
    pub fn quantized(&self, dtype: DType) -> Checkpoint {
        Checkpoint {
            diffusion: self.diffusion.quantized(dtype),
            text: self.text.quantized(dtype),
            ..self.clone()
        }
    }

    /// The same model sampled as one that predicts this; `zsnr` ends the levels in pure noise.
    #[must_use]
    pub fn with_prediction(&self, prediction: Prediction, zsnr: bool) -> Checkpoint {
        Checkpoint {
            diffusion: self.diffusion.with_prediction(prediction, zsnr),
            ..self.clone()
        }
    }

    /// Pixels of the picture along one side of a pixel of the latent.
    pub fn scale(&self) -> usize {
        self.vae.kind.scale() * self.latent_format().map_or(1, |format| format.pack)
    }

    /// The latent space it works in.
    pub fn latent_format(&self) -> Option<&'static LatentFormat> {
        self.diffusion.latent_format()
    }
}

impl DiffusionModel {
    /// Reads the diffusion model of a file, be it alone there or in a whole checkpoint.
    pub fn open(path: &Path) -> Result<DiffusionModel, EngineError> {
        Opened::read(path)?.diffusion(path)
    }

    /// The diffusion model among tensors that are in memory ([`crate::from_memory`]); `name` is for
    /// messages.
    pub fn from_reader(name: &str, reader: TensorReader) -> Result<DiffusionModel, EngineError> {
        Opened::of(reader, Origin::unique())?.diffusion(Path::new(name))
    }

    /// An error when its latents are not what the VAE decodes.
    pub(crate) fn check_vae(&self, vae: &VaeFile) -> Result<(), EngineError> {
        let pack = self.latent.map_or(1, |format| format.pack);
        let given = vae.kind.latent_channels() * pack * pack;
        let wanted = self.net.wants().channels;
        let is_for_clips = vae.kind.time_scale().is_some();
        // A picture is a clip of one frame to the VAE that Wan shares with others.
        let of_wan = matches!(
            self.family,
            Family::QwenImage | Family::Krea2 | Family::Anima
        );
        let takes_clips = self.net.wants().frames || of_wan;
        if wanted != given || is_for_clips != takes_clips {
            return Err(EngineError::VaeMismatch {
                vae: vae.name.clone(),
                channels: given,
                model: self.name.clone(),
                wanted,
            });
        }
        // Playground's latents are SDXL's, with statistics of their own.
        let own = self.family.latent_format();
        let other = vae.named_format().filter(|named| Some(*named) != own);
        match (own, other) {
            (Some(own), Some(other)) => Err(EngineError::VaeFormat {
                vae: vae.name.clone(),
                format: other.name,
                model: self.name.clone(),
                wanted: own.name,
            }),
            _ => Ok(()),
        }
    }
}

/// The networks of a file or folder.
struct Opened {
    reader: Arc<TensorReader>,
    origin: Origin,
    components: Vec<Component>,
    own: Option<Own>,
}

impl Opened {
    fn read(path: &Path) -> Result<Opened, EngineError> {
        let reader = nino_weights::open(path)?;
        let origin = Origin::files(&reader.index().files);
        Opened::of(reader, origin)
    }

    fn of(reader: TensorReader, origin: Origin) -> Result<Opened, EngineError> {
        let (components, _) = names::canonical(reader.index())?;
        Ok(Opened {
            origin,
            own: Own::read(&reader),
            components,
            reader: Arc::new(reader),
        })
    }

    fn diffusion(&self, path: &Path) -> Result<DiffusionModel, EngineError> {
        let mut found = None;
        let denoises = |c: &&Component| {
            matches!(
                c.net,
                Net::Unet
                    | Net::Flux
                    | Net::Wan
                    | Net::ZImage
                    | Net::QwenImage
                    | Net::Krea2
                    | Net::Anima
            )
        };
        for component in self.components.iter().filter(denoises) {
            let opened = nino_models::open(&self.reader, component.clone())?;
            if let Some(nino_models::Opened {
                network: Network::Denoiser(net),
                params,
                ..
            }) = opened
            {
                found = Some((params, net));
            }
        }
        let (weights, mut net) = found.ok_or_else(|| EngineError::NoUnet {
            path: path.to_owned(),
            found: self
                .components
                .iter()
                .map(|c| format!("{:?}", c.net))
                .collect(),
        })?;
        let family = Family::of(&net, self.own.is_some()).ok_or_else(|| {
            let wants = net.wants();
            EngineError::UnknownFamily {
                path: path.to_owned(),
                context: wants.context,
                label: wants.y,
            }
        })?;
        if let Denoiser::QwenImage(config) = &mut net {
            // Some packagers drop the empty tensor that says so.
            let says = |e: &Entry| e.name.ends_with(qwen_image::INDEX_TIMESTEP_ZERO);
            let named = file_name(path).contains("2511");
            config.index_timestep_zero = named || self.reader.index().entries().iter().any(says);
        }
        if let (Some(own), Denoiser::Unet(config)) = (&self.own, &mut net) {
            config.heads = unet::Heads::Width(own.head_width);
        }
        let latent = if levels::is_playground(family, &self.reader) {
            LatentFormat::by_name("playground")
        } else {
            family.latent_format()
        };
        let name = if family == Family::Emoji {
            BUILTIN.to_owned()
        } else {
            file_name(path)
        };
        Ok(DiffusionModel {
            name,
            family,
            sampling: levels::detect(family, &self.reader, &weights, &net)?,
            blend: Blend::default(),
            corrections: Vec::new(),
            skip: None,
            reuse: None,
            shrinks: Shrinks::default(),
            empty: None,
            gradual_mask: None,
            net,
            weights,
            loras: Arc::default(),
            origin: self.origin.clone(),
            quantize: None,
            latent,
            steering: Steering::default(),
            hints: Vec::new(),
            styles: Vec::new(),
            keep_references: false,
        })
    }

    /// The text encoders in the same file.
    fn text_encoders(&self) -> Result<Vec<TextEncoder>, EngineError> {
        text_encoders::among(&self.reader, &self.components, &self.origin)
    }

    /// The encoders as the family's text side. Each family was trained with certain encoders;
    /// others would give noise.
    fn text(
        &self,
        path: &Path,
        diffusion: &DiffusionModel,
        mut encoders: Vec<TextEncoder>,
    ) -> Result<TextEncoders, EngineError> {
        let family = diffusion.family;
        // SDXL's narrow encoder comes first in the context.
        encoders.sort_by_key(|t| t.config.kind());
        if family == Family::Chroma {
            // Files made for Flux have a CLIP too, which Chroma does without.
            encoders.retain(|t| t.config.kind() == Encoder::T5);
        }
        let found: Vec<Encoder> = encoders.iter().map(|t| t.config.kind()).collect();
        let wanted = family.encoders();
        if found != wanted && (!wanted.is_empty() || found.is_empty()) {
            return Err(EngineError::Encoders {
                path: path.to_owned(),
                family: family.name(),
                wanted: wanted.to_vec(),
                found,
            });
        }
        let bpe = match &self.own {
            Some(own) => Some(Bpe::from_files(
                own.vocab.as_bytes(),
                own.merges.as_bytes(),
            )?),
            None => None,
        };
        let text = TextEncoders::new(family, encoders, bpe);
        let wanted = diffusion.net.wants().context;
        if text.context_width() != wanted {
            return Err(EngineError::EncoderWidth {
                model: diffusion.name.clone(),
                wanted,
                found: text.context_width(),
            });
        }
        Ok(text)
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
