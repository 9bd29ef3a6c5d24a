//! LoRAs at run time: which updates go where, and weights read with them applied.
//!
//! Updates of weights that are held as plain numbers are added while loading, in f32, as ComfyUI
//! does, and cost nothing afterwards. A weight that is stored and held quantized stays as it is: a
//! low-rank update runs beside it as two small layers, `y = Wx + s·B(Ax)`, so that nothing is
//! quantized twice. Updates that are not low-rank have no such form; their layer is held as f16.

mod delta;
#[cfg(test)]
mod tests;

use crate::EngineError;
use delta::Deltas;
use nino_dtype::DType;
use nino_graph::{ParamError, ParamSource, ParamSpec};
use nino_models::{Branch, FileParams, Params};
use nino_weights::lora::{Delta, Lora, LoraPart, Update};
use nino_weights::{Index, TensorReader};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A LoRA and how strongly to apply it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraSpec {
    pub path: PathBuf,
    pub unet: f32,
    pub clip: f32,
}

/// What became of a LoRA's updates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    pub updates: usize,
    /// Names the model has no layer for, as far as they could be read.
    pub unmatched: Vec<String>,
    /// Layers held as f16 because their update cannot run beside quantized weights.
    pub widened: usize,
}

/// All LoRAs of a model.
#[derive(Clone, Default)]
pub(super) struct Loras {
    files: Vec<Arc<TensorReader>>,
    names: Vec<String>,
    targets: HashMap<(LoraPart, String), Vec<Placed>>,
    deltas: Arc<Deltas>,
}

/// An update of one tensor.
#[derive(Clone)]
struct Placed {
    file: usize,
    strength: f32,
    update: Update,
}

/// Weights are merged unless they are quantized both in the file and in memory.
fn merges(stored: DType, held: DType) -> bool {
    let plain = |d: DType| matches!(d, DType::F64 | DType::F32 | DType::F16 | DType::BF16);
    plain(stored) || plain(held)
}

/// Whether an update can run as two small layers.
fn is_branch(update: &Update) -> bool {
    matches!(&update.delta, Delta::LowRank(low) if low.mid.is_none()) && update.magnitude.is_none()
}

impl Loras {
    /// Places a file's updates in the model's parts. `model` names the model in errors.
    pub(super) fn add(
        &mut self,
        spec: &LoraSpec,
        parts: &[(LoraPart, &Index)],
        model: &str,
    ) -> Result<Applied, EngineError> {
        let reader = nino_weights::open(&spec.path)?;
        let lora = nino_weights::lora::parse(&reader)?;
        let mut applied = Applied {
            unmatched: lora.unknown.clone(),
            ..Applied::default()
        };
        let (made_for, all) = (made_for(&lora), lora.updates.len() + lora.unknown.len());
        let mut misfits = Vec::new();
        let mut fitting = Vec::new();
        for update in lora.updates {
            let index = parts.iter().find(|(p, _)| *p == update.part);
            match index.and_then(|(_, index)| index.get(&update.target)) {
                None => applied.unmatched.push(update.target),
                Some(entry) if !delta::fits(&update, &entry.shape) => {
                    misfits.push(format!("{} {:?}", update.target, entry.shape));
                }
                Some(entry) => {
                    let beside = merges(entry.dtype, entry.dtype) || is_branch(&update);
                    applied.widened += usize::from(!beside);
                    fitting.push(update);
                }
            }
        }
        applied.updates = fitting.len();
        if !misfits.is_empty() || fitting.is_empty() {
            let example = misfits.first().or(applied.unmatched.first()).cloned();
            return Err(EngineError::LoraFamily {
                path: spec.path.clone(),
                made_for,
                model: model.to_owned(),
                misfits: all - applied.updates,
                all,
                example: example.unwrap_or_default(),
            });
        }
        self.place(reader, fitting, spec);
        Ok(applied)
    }

    fn place(&mut self, reader: TensorReader, updates: Vec<Update>, spec: &LoraSpec) {
        let file = self.files.len();
        self.files.push(Arc::new(reader));
        self.names.push(file_name(&spec.path));
        for update in updates {
            let strength = match update.part {
                LoraPart::Diffusion => spec.unet,
                LoraPart::TextEncoder(_) => spec.clip,
            };
            if strength != 0.0 {
                let key = (update.part, update.target.clone());
                self.targets.entry(key).or_default().push(Placed {
                    file,
                    strength,
                    update,
                });
            }
        }
    }

    /// Names of the files.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    fn placed(&self, part: LoraPart, name: &str) -> &[Placed] {
        if self.targets.is_empty() {
            return &[];
        }
        self.targets
            .get(&(part, name.to_owned()))
            .map_or(&[], Vec::as_slice)
    }
}

/// The family a LoRA was made for, by what its cross attention looks at.
fn made_for(lora: &Lora) -> &'static str {
    let context = lora.updates.iter().find_map(|u| match &u.delta {
        Delta::LowRank(low) if u.target.contains("attn2.to_k") => low.down.shape.get(1).copied(),
        _ => None,
    });
    let has = |start: &str| lora.updates.iter().any(|u| u.target.starts_with(start));
    let second = || {
        lora.updates
            .iter()
            .any(|u| u.part == LoraPart::TextEncoder(1))
    };
    match context {
        Some(768) => "SD 1.x",
        Some(1024) => "SD 2.x",
        Some(1280) => "the SDXL refiner",
        Some(2048) => "SDXL",
        _ if has("double_blocks") || has("single_blocks") => "Flux",
        _ if has("blocks.") => "Wan",
        _ if second() => "SDXL",
        _ => "another model",
    }
}

/// One part's weights with the LoRAs applied.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) file: FileParams,
    pub(super) part: LoraPart,
    pub(super) loras: Arc<Loras>,
}

impl Source {
    /// Parameters of a graph; `held` says how a weight stored so is held in memory.
    pub(super) fn params<'a>(&'a self, held: impl Fn(DType) -> DType + 'a) -> Params<'a> {
        let dtype = move |name: &str| {
            let (stored, held) = (self.stored(name), held(self.file.dtype(name)));
            let placed = self.loras.placed(self.part, name);
            if merges(stored, held) || placed.iter().all(|p| is_branch(&p.update)) {
                held
            } else {
                DType::F16
            }
        };
        Params::new(dtype).with_branches(|name, held| self.branches(name, held))
    }

    /// Whether a parameter has to be made of what the files hold.
    pub(super) fn makes(&self, param: &ParamSpec) -> bool {
        !self.loras.placed(self.part, &param.name).is_empty() || !self.file.has_as_wanted(param)
    }

    /// How the file has a weight, whatever it becomes while it is loaded.
    fn stored(&self, name: &str) -> DType {
        self.file.find(name).map_or(DType::F32, |(_, dtype)| dtype)
    }

    fn branches(&self, name: &str, held: DType) -> Vec<Branch> {
        let placed = self.loras.placed(self.part, name);
        if placed.is_empty() || merges(self.stored(name), held) {
            return Vec::new();
        }
        let branch = |(i, p): (usize, &Placed)| match &p.update.delta {
            Delta::LowRank(low) => Some(Branch {
                name: format!("{name}.lora{i}"),
                rank: low.rank,
                dtype: match low.down.dtype {
                    d @ (DType::F16 | DType::BF16) => d,
                    _ => DType::F32,
                },
            }),
            _ => None,
        };
        placed.iter().enumerate().filter_map(branch).collect()
    }

    /// The branch that a parameter of the graph belongs to, and whether it is the upper half.
    fn branch_of(&self, name: &str) -> Option<(&Placed, bool)> {
        let (rest, is_up) = match name.strip_suffix(".up") {
            Some(rest) => (rest, true),
            None => (name.strip_suffix(".down")?, false),
        };
        let (target, i) = rest.rsplit_once(".lora")?;
        let placed = self.loras.placed(self.part, target);
        Some((placed.get(i.parse::<usize>().ok()?)?, is_up))
    }

    /// Values of a parameter of the graph with all updates added.
    fn merged(&self, param: &ParamSpec, placed: &[Placed]) -> Result<Vec<f32>, EngineError> {
        let plain = ParamSpec {
            dtype: DType::F32,
            ..param.clone()
        };
        // Read into place: the largest weights are hundreds of megabytes in f32.
        let mut values = vec![0.0f32; param.shape.numel()];
        self.file
            .read(&plain, bytemuck::cast_slice_mut(&mut values))
            .map_err(nino_graph::ExecError::Param)?;
        for p in placed {
            let reader = &self.loras.files[p.file];
            self.loras
                .deltas
                .merge(reader, &p.update, p.strength, param.shape, &mut values)?;
        }
        Ok(values)
    }
}

impl ParamSource for Source {
    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        let fail = |what: String| ParamError {
            name: param.name.clone(),
            what,
        };
        let values = if let Some((placed, is_up)) = self.branch_of(&param.name) {
            let reader = &self.loras.files[placed.file];
            let factor = if is_up { placed.strength } else { 1.0 };
            delta::half(reader, &placed.update, is_up, factor, param.shape)
        } else {
            let placed = self.loras.placed(self.part, &param.name);
            if placed.is_empty() || !merges(self.stored(&param.name), param.dtype) {
                return self.file.read(param, dst);
            }
            self.merged(param, placed)
        };
        let values = values.map_err(|e| fail(e.to_string()))?;
        nino_dtype::encode(param.dtype, &values, dst).map_err(|e| fail(e.to_string()))
    }
}

/// `file.safetensors` of a path, for messages.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}
