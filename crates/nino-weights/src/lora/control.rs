//! Control-LoRAs: `ControlNet`s that are stored as low-rank updates of a UNet's own weights, as
//! Stability AI published them for SDXL. `<layer>.up` times `<layer>.down` is added to the UNet's
//! `<layer>.weight`; all other tensors replace the UNet's or are new.

use std::collections::BTreeMap;

use super::{Delta, LoraPart, LowRank, Problem, Update};
use crate::{Entry, Error, Index, Result, Span};

/// The tensor, empty or not, that marks such a file.
const MARK: &str = "lora_controlnet";

/// The tensors of a Control-LoRA.
#[derive(Clone, Debug)]
pub struct ControlLora {
    /// Updates of the UNet's weights, in the order of their targets.
    pub updates: Vec<Update>,
    /// Whole tensors.
    pub whole: Vec<Entry>,
}

impl ControlLora {
    /// `None` for a file of another kind; an error where matrices lack their other half or do not
    /// multiply.
    pub fn of(index: &Index) -> Result<Option<ControlLora>> {
        if !index.contains(MARK) {
            return Ok(None);
        }
        let fail = |reason| Error::Lora {
            path: index.files.first().cloned().unwrap_or_default(),
            reason,
        };
        let is_whole = |name: &str| [".weight", ".bias"].iter().any(|end| name.ends_with(end));
        let mut halves: BTreeMap<&str, [Option<&Entry>; 2]> = BTreeMap::new();
        let mut whole = Vec::new();
        for entry in index.entries() {
            if let Some(layer) = entry.name.strip_suffix(".up") {
                halves.entry(layer).or_default()[0] = Some(entry);
            } else if let Some(layer) = entry.name.strip_suffix(".down") {
                halves.entry(layer).or_default()[1] = Some(entry);
            } else if is_whole(&entry.name) {
                whole.push(entry.clone());
            }
        }
        let mut updates = Vec::new();
        for (layer, halves) in halves {
            let half = |missing| Problem::Half {
                module: layer.to_owned(),
                missing,
            };
            let up = halves[0].ok_or_else(|| fail(half("up matrix")))?;
            let down = halves[1].ok_or_else(|| fail(half("down matrix")))?;
            let rank = down.shape.first().copied().unwrap_or(0);
            if down.shape.len() < 2 || rank == 0 || up.shape.get(1) != Some(&rank) {
                return Err(fail(Problem::Rank {
                    module: layer.to_owned(),
                    up: up.shape.clone(),
                    down: down.shape.clone(),
                }));
            }
            updates.push(Update {
                part: LoraPart::Diffusion,
                target: format!("{layer}.weight"),
                rows: None,
                delta: Delta::LowRank(Box::new(LowRank {
                    up: up.clone(),
                    down: down.clone(),
                    mid: None,
                    rank,
                    alpha: None,
                    scale: 1.0,
                    reshape: None,
                })),
                magnitude: None,
            });
        }
        Ok(Some(ControlLora { updates, whole }))
    }

    /// Names and shapes of the `ControlNet`, without the values that only a UNet has.
    pub fn described(&self, index: &Index) -> Index {
        let updated = self.updates.iter().filter_map(|update| {
            let Delta::LowRank(low) = &update.delta else {
                return None;
            };
            let out = low.up.shape.first().copied().unwrap_or(0);
            let shape = [&[out], &low.down.shape[1..]].concat();
            let nowhere = Span {
                file: 0,
                offset: 0,
                len: 0,
            };
            let (name, dtype) = (update.target.clone(), low.down.dtype);
            Some(Entry::plain(name, dtype, shape, nowhere))
        });
        index.with_entries(self.whole.iter().cloned().chain(updated).collect())
    }
}
