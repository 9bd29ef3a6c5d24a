//! The model that a request names, with what a graph needs to load it: a whole checkpoint, or a
//! diffusion model with the text encoders and the VAE that fit it.

use crate::error::Refused;
use crate::models::Models;
use crate::parts::{Parts, clip_type};
use nino_engine::{BUILTIN, Checkpoint, DiffusionModel, EngineError, VaeFile};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const CHECKPOINTS: &str = "checkpoints";
const DIFFUSION_MODELS: &str = "diffusion_models";

/// A model, opened as far as its list of tensors.
pub(crate) struct ChosenModel {
    pub(crate) name: String,
    pub(crate) diffusion: DiffusionModel,
    /// Its own VAE, or the one that fits it.
    pub(crate) vae: Option<Arc<VaeFile>>,
    /// The files beside it; `None` of a checkpoint, which has them inside.
    pub(crate) parts: Option<Parts>,
}

/// Outputs of the nodes that load a model.
pub(crate) struct Loaded {
    pub(crate) model: Value,
    pub(crate) clip: Value,
    pub(crate) vae: Value,
}

impl ChosenModel {
    pub(crate) fn open(models: &Models, folder: &str, name: &str) -> Result<ChosenModel, Refused> {
        let path = models.find(folder, name);
        let path = path.map_err(|e| Refused::not_found(e.to_string()))?;
        let unreadable = |e: EngineError| Refused::bad(e.to_string());
        // A file may have the diffusion model alone.
        let whole = (folder == CHECKPOINTS).then(|| Checkpoint::open(&path, None));
        let (diffusion, vae) = match whole {
            Some(Ok(model)) => (model.diffusion, Some(model.vae)),
            None | Some(Err(EngineError::MissingVae { .. } | EngineError::Encoders { .. })) => {
                (DiffusionModel::open(&path).map_err(unreadable)?, None)
            }
            Some(Err(error)) => return Err(unreadable(error)),
        };
        let parts = match &vae {
            Some(_) => None,
            None => Some(Parts::find(models, &path, diffusion.family)),
        };
        let beside = parts.as_ref().and_then(|parts| parts.vae.as_deref());
        let beside = beside.and_then(|name| models.find("vae", name).ok());
        let beside = beside.and_then(|path| VaeFile::open(&path).ok());
        Ok(ChosenModel {
            name: name.to_owned(),
            vae: vae.or_else(|| beside.map(Arc::new)),
            diffusion,
            parts,
        })
    }

    /// The model that a client means: by its name with or without the extension, and in any case.
    /// Where there is none of that name, it is the default.
    pub(crate) fn named(models: &Models, wanted: Option<&str>) -> Result<ChosenModel, Refused> {
        for folder in [CHECKPOINTS, DIFFUSION_MODELS] {
            let names = models.names(folder).unwrap_or_default();
            let found = wanted.and_then(|wanted| find_name(&names, wanted));
            if let Some(name) = found {
                let chosen = ChosenModel::open(models, folder, &name)?;
                chosen.whole_or_refused()?;
                return Ok(chosen);
            }
        }
        ChosenModel::default_of(models)
    }

    /// The first model that can be used, and the built-in one where there is no other.
    pub(crate) fn default_of(models: &Models) -> Result<ChosenModel, Refused> {
        for folder in [CHECKPOINTS, DIFFUSION_MODELS] {
            let names = models.names(folder).unwrap_or_default();
            let opened = names.iter().filter(|name| *name != BUILTIN);
            let mut opened = opened.flat_map(|name| ChosenModel::open(models, folder, name));
            if let Some(chosen) = opened.find(|chosen| chosen.whole_or_refused().is_ok()) {
                return Ok(chosen);
            }
        }
        ChosenModel::open(models, CHECKPOINTS, BUILTIN)
    }

    /// Pixels of the picture along one side of a pixel of the latent.
    pub(crate) fn side(&self) -> usize {
        let format = self.diffusion.latent_format();
        format.map_or(8, |format| format.scale_down)
    }

    /// Adds the nodes that load it.
    pub(crate) fn load(&self, nodes: &mut Map<String, Value>) -> Loaded {
        let mut node = |id: &str, class: String, inputs: Value| {
            let node = json!({ "class_type": class, "inputs": inputs });
            nodes.insert(id.to_owned(), node);
        };
        let Some(parts) = &self.parts else {
            let inputs = json!({ "ckpt_name": self.name });
            node("4", "CheckpointLoaderSimple".to_owned(), inputs);
            let [model, clip, vae] = [0, 1, 2].map(|output| json!(["4", output]));
            return Loaded { model, clip, vae };
        };
        if is_gguf(&self.name) {
            let inputs = json!({ "unet_name": self.name });
            node("4", "UnetLoaderGGUF".to_owned(), inputs);
        } else {
            let inputs = json!({ "unet_name": self.name, "weight_dtype": "default" });
            node("4", "UNETLoader".to_owned(), inputs);
        }
        let has_gguf = parts.clip.iter().any(|name| is_gguf(name));
        let end = if has_gguf { "GGUF" } else { "" };
        let kind = clip_type(self.diffusion.family);
        match &*parts.clip {
            [first, second, ..] => node(
                "50",
                format!("DualCLIPLoader{end}"),
                json!({ "clip_name1": first, "clip_name2": second, "type": kind }),
            ),
            one => node(
                "50",
                format!("CLIPLoader{end}"),
                json!({ "clip_name": one.first(), "type": kind }),
            ),
        }
        let inputs = json!({ "vae_name": parts.vae });
        node("51", "VAELoader".to_owned(), inputs);
        let [model, clip, vae] = ["4", "50", "51"].map(|id| json!([id, 0]));
        Loaded { model, clip, vae }
    }

    /// An error where files that belong to it are not here.
    fn whole_or_refused(&self) -> Result<(), Refused> {
        match &self.parts {
            Some(parts) if parts.vae.is_none() => Err(Refused::bad(format!(
                "{} is a diffusion model without text encoders and VAE, and files that fit it were \
                 not found in text_encoders and vae",
                self.name
            ))),
            _ => Ok(()),
        }
    }
}

/// The names of all models, as clients list them.
pub(crate) fn names(models: &Models) -> Vec<String> {
    let mut names = models.names(CHECKPOINTS).unwrap_or_default();
    for name in models.names(DIFFUSION_MODELS).unwrap_or_default() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The name in a list that is meant by what a client wrote.
pub(crate) fn find_name(names: &[String], wanted: &str) -> Option<String> {
    let stem = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        stem.to_lowercase()
    };
    // A1111 writes a hash behind the name.
    let wanted = wanted.split(" [").next().unwrap_or(wanted);
    let exact = names.iter().find(|name| *name == wanted);
    let found = exact.or_else(|| names.iter().find(|name| stem(name) == stem(wanted)));
    found.cloned()
}

fn is_gguf(name: &str) -> bool {
    name.to_lowercase().ends_with(".gguf")
}
