//! Control-LoRAs: `ControlNet`s that become whole only with the weights of the model that they
//! steer. Their file has low-rank updates of the UNet's weights, and what the UNet does not have.

use super::{ControlNetFile, PART};
use crate::model::identity::Origin;
use crate::{DiffusionModel, EngineError};
use nino_models::{ControlNet, FileParams, Network};
use nino_weights::TensorReader;
use nino_weights::lora::ControlLora;
use nino_weights::names::{Component, Dialect, Net};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// The parts of a UNet that a `ControlNet` has, too.
const SHARED: [&str; 4] = [
    "time_embed.",
    "label_emb.",
    "input_blocks.",
    "middle_block.",
];

impl ControlNetFile {
    /// Reads a Control-LoRA; `None` for a file of another kind.
    pub(super) fn read_lora(
        path: &Path,
        reader: &Arc<TensorReader>,
    ) -> Result<Option<ControlNetFile>, EngineError> {
        let Some(lora) = ControlLora::of(reader.index())? else {
            return Ok(None);
        };
        let weights = FileParams::of(reader, lora.described(reader.index()));
        let net = ControlNet::detect(&|name| weights.find(name));
        let net = net.ok_or_else(|| EngineError::NoControlNet {
            path: path.to_owned(),
        })?;
        Ok(Some(ControlNetFile {
            name: crate::model::lora::file_name(path),
            net,
            origin: Origin::files(&reader.index().files),
            weights,
            loras: Arc::default(),
            lora: Some(Arc::new(lora)),
            mode: None,
        }))
    }

    /// Whether this is a Control-LoRA that has no model's weights yet.
    pub(crate) fn is_lora(&self) -> bool {
        self.lora.is_some()
    }

    /// The network as it steers `model`: a Control-LoRA over the model's weights as they are with
    /// its LoRAs, which is ComfyUI's `ControlLora`. Any other network stays as it is.
    pub(crate) fn for_model(&self, model: &DiffusionModel) -> Result<ControlNetFile, EngineError> {
        let Some(lora) = &self.lora else {
            return Ok(self.clone());
        };
        self.check(model)?;
        let own: HashSet<&str> = lora.whole.iter().map(|e| e.name.as_str()).collect();
        let from_model = model.weights.index().entries().iter().filter(|entry| {
            let name = entry.name.as_str();
            SHARED.iter().any(|part| name.starts_with(part)) && !own.contains(name)
        });
        let from_model = from_model.cloned().collect();
        let reader = Arc::new(TensorReader::joined([
            (self.weights.reader(), lora.whole.clone()),
            (model.weights.reader(), from_model),
        ]));
        let whole = Component {
            net: Net::ControlNet,
            dialect: Dialect::Original,
            prefix: String::new(),
            index: reader.index().clone(),
            unmapped: Vec::new(),
        };
        let misfit = || EngineError::ControlNetFamily {
            net: self.name.clone(),
            model: format!("{} ({})", model.name, model.family.name()),
        };
        let opened = nino_models::open(&reader, whole)?.ok_or_else(misfit)?;
        let Network::ControlNet(net) = opened.network else {
            return Err(misfit());
        };
        let loras = model.loras.updated(
            PART,
            model.id(),
            (&self.name, self.weights.reader()),
            (lora, &own, opened.params.index()),
        );
        Ok(ControlNetFile {
            net,
            weights: opened.params,
            loras: Arc::new(loras.ok_or_else(misfit)?),
            lora: None,
            ..self.clone()
        })
    }
}
