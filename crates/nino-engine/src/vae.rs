//! A VAE out of a file, or a built-in description of one to plan with.

use crate::model::identity::{NetId, Origin, Part};
use crate::units::Packing;
use crate::{EngineError, SyntheticParams};
use nino_dtype::DType;
use nino_graph::{ExecError, ParamSource, ParamSpec, Shape};
use nino_models::latent::LatentFormat;
use nino_models::{Chunk, FileParams, OpenedVae, Recording, SPECS, Storage, Vae, VaeError, kl};
use nino_weights::names;
use nino_weights::{Entry, TensorReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Channels of Flux.2's latents before they are packed.
const PACKED: usize = 32;

/// The epsilon of Flux.2's batch norm, whose statistics normalize packed latents.
const BN_EPS: f32 = 1e-4;

/// A VAE: which one it is, and where its weights are.
pub struct VaeFile {
    /// Which autoencoder it is, with its sizes.
    pub kind: Vae,
    /// Name for messages: the file's, or the description's.
    pub name: String,
    weights: Weights,
    /// The file that encodes, for a TAESD whose halves are two files.
    encoder: Option<Box<VaeFile>>,
    quantized: bool,
    origin: Origin,
}

enum Weights {
    /// The autoencoder's tensors under canonical names, and which halves those are.
    File {
        params: FileParams,
        halves: Vec<&'static str>,
    },
    Synthetic(SyntheticParams),
    None,
}

impl std::fmt::Debug for VaeFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VaeFile")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl VaeFile {
    /// Reads the header and recognizes the autoencoder from names and shapes, in a file of its own
    /// or in a whole checkpoint.
    pub fn open(path: &Path) -> Result<VaeFile, EngineError> {
        let reader = nino_weights::open(path)?;
        let origin = Origin::files(&reader.index().files);
        VaeFile::of(&Arc::new(reader), path, origin)
    }

    /// Recognizes the autoencoder among tensors that are in memory ([`crate::from_memory`]); `name`
    /// is for messages, and says the latent space where channels do not.
    pub fn from_reader(name: &str, reader: TensorReader) -> Result<VaeFile, EngineError> {
        VaeFile::of(&Arc::new(reader), Path::new(name), Origin::unique())
    }

    pub(crate) fn of(
        reader: &Arc<TensorReader>,
        path: &Path,
        origin: Origin,
    ) -> Result<VaeFile, EngineError> {
        let (components, _) = names::canonical(reader.index())?;
        let Some(OpenedVae {
            vae,
            params,
            halves,
        }) = nino_models::open_vae(reader, components)?
        else {
            let found = reader
                .index()
                .entries()
                .iter()
                .map(|e| e.name.clone())
                .take(4)
                .collect();
            return Err(EngineError::NotAVae {
                path: path.to_owned(),
                found,
            });
        };
        let name = path
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let encoder = encoder_beside(&vae, path);
        let is_quantized = |e: &Entry| e.dtype.is_block() || e.scale.is_some();
        Ok(VaeFile {
            kind: vae,
            name,
            weights: Weights::File { params, halves },
            encoder: encoder.and_then(|p| VaeFile::open(&p).ok()).map(Box::new),
            quantized: reader.index().entries().iter().any(is_quantized),
            origin,
        })
    }

    /// What its weights are kept by.
    pub(crate) fn id(&self) -> NetId {
        NetId::plain(self.origin.clone(), Part::Vae)
    }

    /// The file it was opened from.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.origin.path()
    }

    /// What encodes: this, or the other half beside it.
    pub(crate) fn encoder(&self) -> &VaeFile {
        self.encoder.as_deref().unwrap_or(self)
    }

    /// A description without weights.
    pub fn spec(name: &str) -> Result<VaeFile, EngineError> {
        let vae = Vae::spec(name).ok_or_else(|| EngineError::UnknownSpec {
            name: name.to_owned(),
            known: SPECS.map(str::to_owned).to_vec(),
        })?;
        Ok(VaeFile {
            kind: vae,
            name: name.to_owned(),
            weights: Weights::None,
            encoder: None,
            quantized: false,
            origin: Origin::unique(),
        })
    }

    /// A description with made-up weights, to time without a file.
    pub fn synthetic(name: &str, seed: u64) -> Result<VaeFile, EngineError> {
        Ok(VaeFile {
            weights: Weights::Synthetic(SyntheticParams { seed }),
            ..VaeFile::spec(name)?
        })
    }

    /// Whether pictures can become latents with it: a file may have the decoder alone.
    pub fn can_encode(&self) -> bool {
        self.encoder().has("encoder").is_ok()
    }

    /// Whether the file holds quantized weights, in the VAE or in the model it came with.
    pub fn is_quantized(&self) -> bool {
        self.quantized
    }

    /// The weights, for a device to load.
    pub(crate) fn params(&self) -> Result<Arc<dyn ParamSource>, EngineError> {
        match &self.weights {
            Weights::File { params, .. } => Ok(Arc::new(params.clone())),
            Weights::Synthetic(params) => Ok(Arc::new(*params)),
            Weights::None => Err(EngineError::NoWeights {
                name: self.name.clone(),
            }),
        }
    }

    /// An error when the file lacks this half.
    fn has(&self, part: &'static str) -> Result<(), EngineError> {
        match &self.weights {
            Weights::File { halves, .. } if !halves.contains(&part) => Err(EngineError::NoPart {
                vae: self.name.clone(),
                part,
            }),
            _ => Ok(()),
        }
    }

    /// The latent space to assume: by channels, and by the file's name where those are shared.
    pub fn assumed_format(&self) -> Option<&'static LatentFormat> {
        let name = self.name.to_ascii_lowercase();
        let says = |part: &str| name.contains(part);
        let format = match (&self.kind, self.kind.latent_channels()) {
            (Vae::Wan(_) | Vae::Taehv(_), 16) => "wan21",
            (Vae::Wan(_) | Vae::Taehv(_), 48) => "wan22",
            (_, 4) if says("nino-emoji") => "nino",
            (_, 4) if says("xl") => "sdxl",
            (_, 4) => "sd15",
            (_, 16) if says("sd3") => "sd3",
            (_, 16) => "flux",
            (_, 32) => "flux2",
            _ => return None,
        };
        LatentFormat::by_name(format)
    }

    /// The latent space its file's name speaks of; `None` for a name that says nothing, or one of
    /// channels that no two spaces share.
    pub(crate) fn named_format(&self) -> Option<&'static LatentFormat> {
        let name = self.name.to_ascii_lowercase();
        let says = |part: &str| name.contains(part);
        if self.kind.latent_channels() != 4 {
            return None;
        }
        LatentFormat::by_name(match () {
            () if says(crate::BUILTIN) => "nino",
            () if says("xl") => "sdxl",
            () if says("taesd") || says("sd15") || says("sd1.5") || says("840000") => "sd15",
            () => return None,
        })
    }

    /// How files pack its latents; `None` for all but Flux.2's.
    pub(crate) fn packing(&self) -> Result<Option<Packing>, EngineError> {
        let stats = match (&self.kind, &self.weights) {
            (Vae::Kl(c), Weights::File { params, .. }) => {
                let n = c.z_channels * 4;
                let (Some(mean), Some(var)) = (
                    vector(params, "bn.running_mean", n)?,
                    vector(params, "bn.running_var", n)?,
                ) else {
                    return Ok(None);
                };
                let std = var.iter().map(|v| (v + BN_EPS).sqrt()).collect();
                Some((mean, std))
            }
            (Vae::Taesd(t), _) if t.config.latent_channels == PACKED => None,
            // A description has no statistics.
            (Vae::Kl(c), _) if c.z_channels == PACKED => None,
            _ => return Ok(None),
        };
        Ok(Some(Packing { side: 2, stats }))
    }

    /// Sides of pictures are multiples of this: latents are whole pixels, and whole squares where
    /// packed.
    pub fn pixel_multiple(&self) -> Result<usize, EngineError> {
        let side = self.packing()?.map_or(1, |p| p.side);
        Ok(self.kind.scale() * side)
    }

    /// Records the decoder of a chunk with activations in `dtype`.
    pub(crate) fn record_decoder(
        &self,
        chunk: Chunk,
        dtype: DType,
    ) -> Result<Recording, EngineError> {
        self.has("decoder")?;
        self.with_storage(dtype, |storage| self.kind.decode(chunk, storage))
    }

    /// Records the encoder of a chunk with activations in `dtype`.
    pub(crate) fn record_encoder(
        &self,
        chunk: Chunk,
        dtype: DType,
    ) -> Result<Recording, EngineError> {
        self.has("encoder")?;
        self.with_storage(dtype, |storage| self.kind.encode(chunk, storage))
    }

    fn with_storage(
        &self,
        activations: DType,
        record: impl FnOnce(&Storage<'_>) -> Result<Recording, VaeError>,
    ) -> Result<Recording, EngineError> {
        let weights = |name: &str| match &self.weights {
            Weights::File { params, .. } => params.dtype(name),
            // Without a file: what most files are.
            Weights::Synthetic(_) | Weights::None => DType::F16,
        };
        // SDXL's activations pass f16's largest number by a factor of a few.
        let shift = if activations == DType::F16 { 5 } else { 0 };
        let mut recording = record(&Storage {
            activations,
            weights: &weights,
            scale: kl::Scale { shift },
        })?;
        for cache in &recording.caches {
            if let Some(input) = cache.input {
                recording.graph.carry(input, cache.output);
            }
        }
        recording.graph = recording.graph.finish()?;
        Ok(recording)
    }
}

/// A vector of the file as f32; `None` where it is not there.
fn vector(params: &FileParams, name: &str, n: usize) -> Result<Option<Vec<f32>>, EngineError> {
    if params.find(name).is_none() {
        return Ok(None);
    }
    let spec = ParamSpec {
        name: name.to_owned(),
        shape: Shape::from([n]),
        dtype: DType::F32,
        inline: None,
    };
    let mut bytes = vec![0; spec.bytes()];
    params.read(&spec, &mut bytes).map_err(ExecError::from)?;
    let mut values = vec![0.0; n];
    nino_dtype::decode(DType::F32, &bytes, &mut values)?;
    Ok(Some(values))
}

/// `taesd_encoder.safetensors` beside a `taesd_decoder.safetensors` that is a decoder only.
fn encoder_beside(vae: &Vae, path: &Path) -> Option<PathBuf> {
    let Vae::Taesd(taesd) = vae else { return None };
    let name = path.file_name()?.to_str()?;
    if taesd.encoder.is_some() || !name.contains("decoder") {
        return None;
    }
    let beside = path.with_file_name(name.replace("decoder", "encoder"));
    beside.is_file().then_some(beside)
}
