//! LoRAs at run time: which updates go where, and weights read with them applied.
//!
//! Updates of weights that are held as plain numbers are added while loading, in f32, as ComfyUI
//! does, and cost nothing afterwards. A weight that is stored and held quantized stays as it is: a
//! low-rank update runs beside it as two small layers, `y = Wx + s·B(Ax)`, so that nothing is
//! quantized twice. Updates that are not low-rank have no such form; their layer is held as f16, as
//! is one that grows (Flux's control LoRAs).

mod delta;
#[cfg(test)]
mod tests;
mod turned;

use super::diffusion::DiffusionModel;
use super::identity::FileId;
use super::text_encoders::TextEncoders;
use crate::EngineError;
use delta::Deltas;
use nino_dtype::DType;
use nino_graph::{ParamError, ParamSource, ParamSpec, Shape, StoredRows};
use nino_models::{Branch, CONTROL, Denoiser, FileParams, Params, Scaled};
use nino_weights::lora::{Delta, Lora, LoraPart, Update};
use nino_weights::{Entry, Index, TensorReader};
use std::collections::HashMap;
use std::ops::Range;
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

/// All LoRAs of a part of a model.
#[derive(Clone, Default)]
pub(super) struct Loras {
    files: Vec<LoraFile>,
    targets: HashMap<(LoraPart, String), Vec<Placed>>,
    deltas: Arc<Deltas>,
    /// Tensors that have another size than in the model's file.
    grown: HashMap<(LoraPart, String), [usize; 2]>,
}

/// One LoRA file.
#[derive(Clone)]
struct LoraFile {
    reader: Arc<TensorReader>,
    name: String,
    id: FileId,
    unet: f32,
    clip: f32,
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
    matches!(&update.delta, Delta::LowRank(low) if low.mid.is_none() && low.reshape.is_none())
        && update.magnitude.is_none()
}

/// A model's parts with a LoRA, and what became of it.
pub struct WithLora {
    pub diffusion: Option<DiffusionModel>,
    pub text: Option<TextEncoders>,
    pub applied: Applied,
}

/// Applies a LoRA to a diffusion model, to text encoders, or to both, after the LoRAs they have
/// already. The parts given stay as they are. An error where no update, or a misshaped one, has its
/// place there.
pub fn apply_lora(
    diffusion: Option<&DiffusionModel>,
    text: Option<&TextEncoders>,
    spec: &LoraSpec,
) -> Result<WithLora, EngineError> {
    let mut parts: Vec<(LoraPart, &Index)> = Vec::new();
    parts.extend(diffusion.map(|d| (LoraPart::Diffusion, d.weights.index())));
    if let Some(text) = text {
        let each = text.encoders.iter().enumerate();
        parts.extend(each.map(|(i, e)| (text.lora_part(i), e.weights.index())));
    }
    let model = match (diffusion, text) {
        // The built-in model is the only one of its family, and has its name.
        (Some(d), _) if d.name == d.family.name() => d.name.clone(),
        (Some(d), _) => format!("{} ({})", d.name, d.family.name()),
        (None, Some(t)) => format!("text encoders of {}", t.family.name()),
        (None, None) => "nothing: there is no model".to_owned(),
    };
    let grown = diffusion.map(|d| Arc::clone(&d.loras));
    let (fitted, applied) = Fitted::read(spec, &parts, grown.as_deref(), &model)?;
    Ok(WithLora {
        diffusion: diffusion.map(|d| {
            let loras = d.loras.with(&fitted);
            DiffusionModel {
                net: loras.grow(d.net.clone()),
                loras: Arc::new(loras),
                ..d.clone()
            }
        }),
        text: text.map(|t| TextEncoders {
            loras: Arc::new(t.loras.with(&fitted)),
            ..t.clone()
        }),
        applied,
    })
}

/// A LoRA file of which some updates have their place in a model.
struct Fitted {
    file: LoraFile,
    updates: Vec<Update>,
}

impl Fitted {
    /// Reads a file and looks for its updates' places in the model's parts, which has the LoRAs
    /// `before` already. `model` names it in errors.
    fn read(
        spec: &LoraSpec,
        parts: &[(LoraPart, &Index)],
        before: Option<&Loras>,
        model: &str,
    ) -> Result<(Fitted, Applied), EngineError> {
        let reader = nino_weights::open(&spec.path)?;
        let lora = nino_weights::lora::parse(&reader)?;
        let mut applied = Applied {
            unmatched: lora.unknown.clone(),
            ..Applied::default()
        };
        let made_for = lora_family(&lora).unwrap_or("another model");
        let all = lora.updates.len() + lora.unknown.len();
        let mut misfits = Vec::new();
        let mut updates = Vec::new();
        for update in lora.updates {
            let index = parts.iter().find(|(p, _)| *p == update.part);
            match index.and_then(|(_, index)| index.get(&update.target)) {
                None => applied.unmatched.push(update.target),
                Some(entry) if !grows(&update, entry, before) => {
                    misfits.push(format!("{} {:?}", update.target, entry.shape));
                }
                Some(entry) => {
                    let as_branch = merges(entry.dtype, entry.dtype) || is_branch(&update);
                    applied.widened += usize::from(!as_branch);
                    updates.push(update);
                }
            }
        }
        applied.updates = updates.len();
        if !misfits.is_empty() || updates.is_empty() {
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
        let file = LoraFile {
            id: FileId::of(&spec.path),
            name: file_name(&spec.path),
            reader: Arc::new(reader),
            unet: spec.unet,
            clip: spec.clip,
        };
        Ok((Fitted { file, updates }, applied))
    }
}

/// Whether an update has the size of its weight, or one that the weight can grow to.
fn grows(update: &Update, entry: &Entry, before: Option<&Loras>) -> bool {
    let key = (update.part, update.target.clone());
    let now = before.and_then(|loras| loras.grown.get(&key));
    let now = match now {
        Some(size) => &size[..],
        None => &entry.shape[..],
    };
    match delta::grown(update) {
        None => delta::fits(update, now),
        Some(to) => {
            let larger = now.len() == 2 && now.iter().zip(&to).all(|(now, to)| now <= to);
            larger && update.target == GROWING && delta::fits(update, &to)
        }
    }
}

/// The one weight that may grow: Flux then sees more than the latent.
const GROWING: &str = "img_in.weight";

impl LoraFile {
    fn strength(&self, part: LoraPart) -> f32 {
        match part {
            LoraPart::Diffusion => self.unet,
            LoraPart::TextEncoder(_) => self.clip,
        }
    }
}

impl Loras {
    /// These and one more.
    fn with(&self, fitted: &Fitted) -> Loras {
        let mut loras = self.clone();
        let file = loras.files.len();
        for update in &fitted.updates {
            let strength = fitted.file.strength(update.part);
            if strength != 0.0 {
                let key = (update.part, update.target.clone());
                if let Some(size) = delta::grown(update) {
                    loras.grown.insert(key.clone(), size);
                }
                loras.targets.entry(key).or_default().push(Placed {
                    file,
                    strength,
                    update: update.clone(),
                });
            }
        }
        loras.files.push(fitted.file.clone());
        loras
    }

    /// The network with the sizes that its weights have grown to.
    fn grow(&self, net: Denoiser) -> Denoiser {
        let size = self.grown.get(&(LoraPart::Diffusion, GROWING.to_owned()));
        match (net, size) {
            (Denoiser::Flux(c), Some(&[_, columns])) => Denoiser::Flux(c.with_inputs(columns / 4)),
            (net, _) => net,
        }
    }

    /// Names of the files.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|f| f.name.as_str())
    }

    /// The files that change a part's weights, with the bits of their strength there.
    pub(super) fn ids(&self, part: LoraPart) -> Arc<[(FileId, u32)]> {
        let files = self.files.iter().filter(|f| f.strength(part) != 0.0);
        files
            .map(|f| (f.id.clone(), f.strength(part).to_bits()))
            .collect()
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

/// The family of models that a LoRA was made for, by what its cross attention looks at; `None`
/// where that cannot be told.
pub fn lora_family(lora: &Lora) -> Option<&'static str> {
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
        Some(768) => Some("SD 1.x"),
        Some(1024) => Some("SD 2.x"),
        Some(1280) => Some("the SDXL refiner"),
        Some(2048) => Some("SDXL"),
        _ if has("double_blocks") || has("single_blocks") => Some("Flux"),
        _ if has("blocks.") => Some("Wan"),
        _ if second() => Some("SDXL"),
        _ => None,
    }
}

/// One part's weights with the LoRAs applied.
#[derive(Clone)]
pub(crate) struct Source {
    pub(super) file: FileParams,
    pub(super) part: LoraPart,
    pub(super) loras: Arc<Loras>,
    /// Weights of `ControlNet`s, whose names begin with [`CONTROL`] and their number.
    pub(super) controls: Vec<FileParams>,
}

impl Source {
    /// The `ControlNet` that a parameter belongs to, and its name there.
    fn control<'n>(&self, name: &'n str) -> Option<(&FileParams, &'n str)> {
        let (i, rest) = name
            .strip_prefix(CONTROL)?
            .strip_prefix('.')?
            .split_once('.')?;
        Some((self.controls.get(i.parse::<usize>().ok()?)?, rest))
    }

    /// The same parameter under its `ControlNet`'s own name.
    fn control_param(&self, param: &ParamSpec) -> Option<(&FileParams, ParamSpec)> {
        let (file, name) = self.control(&param.name)?;
        let name = name.to_owned();
        let param = ParamSpec {
            name,
            ..param.clone()
        };
        Some((file, param))
    }

    /// Parameters of a graph; `held` says how a weight stored so is held in memory.
    pub(crate) fn params<'a>(&'a self, held: impl Fn(DType) -> DType + 'a) -> Params<'a> {
        let dtype = move |name: &str| {
            if let Some((file, name)) = self.control(name) {
                return file.dtype(name);
            }
            let (stored, held) = (self.stored(name), held(self.file.dtype(name)));
            let placed = self.loras.placed(self.part, name);
            if merges(stored, held) || placed.iter().all(|p| is_branch(&p.update)) {
                held
            } else {
                DType::F16
            }
        };
        Params::new(dtype)
            .with_branches(|name, held| self.branches(name, held))
            .with_scaled(|name| self.scaled(name))
    }

    /// How a weight is held whose factors are apart in the file. A LoRA that cannot run beside the
    /// weight is merged into its values, which then have no factors.
    fn scaled(&self, name: &str) -> Option<Scaled> {
        if let Some((file, name)) = self.control(name) {
            return file.scaled(name);
        }
        let placed = self.loras.placed(self.part, name);
        let beside = placed.iter().all(|p| is_branch(&p.update));
        self.file.scaled(name).filter(|_| beside)
    }

    /// Whether a parameter has to be made of what the files hold.
    pub(super) fn makes(&self, param: &ParamSpec) -> bool {
        if let Some((file, param)) = self.control_param(param) {
            return !file.has_as_wanted(&param);
        }
        !self.loras.placed(self.part, &param.name).is_empty() || !self.file.has_as_wanted(param)
    }

    /// How the file has a weight, whatever it becomes while it is loaded.
    fn stored(&self, name: &str) -> DType {
        self.file.find(name).map_or(DType::F32, |(_, dtype)| dtype)
    }

    fn branches(&self, name: &str, held: DType) -> Vec<Branch> {
        let placed = self.loras.placed(self.part, name);
        if placed.is_empty() || (self.scaled(name).is_none() && merges(self.stored(name), held)) {
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
        let key = (self.part, param.name.clone());
        let mut shape = param.shape;
        if self.loras.grown.contains_key(&key)
            && let Some((stored, _)) = self.file.find(&param.name)
        {
            shape = stored;
        }
        let plain = ParamSpec {
            dtype: DType::F32,
            shape,
            ..param.clone()
        };
        // Read into place: the largest weights are hundreds of megabytes in f32.
        let mut values = vec![0.0f32; shape.numel()];
        self.file
            .read(&plain, bytemuck::cast_slice_mut(&mut values))
            .map_err(nino_graph::ExecError::Param)?;
        for p in placed {
            let reader = &self.loras.files[p.file].reader;
            if let Some(size) = delta::grown(&p.update) {
                values = delta::grow(&values, [shape[0], shape[1]], size);
                shape = Shape::from(size);
            }
            self.loras
                .deltas
                .merge(reader, &p.update, p.strength, shape, &mut values)?;
        }
        Ok(values)
    }
}

impl ParamSource for Source {
    fn stored_rows(&self, param: &ParamSpec) -> Option<StoredRows> {
        if let Some((file, param)) = self.control_param(param) {
            return file.stored_rows(&param);
        }
        let is_made = self.branch_of(&param.name).is_some() || self.makes(param);
        (!is_made).then(|| self.file.stored_rows(param)).flatten()
    }

    fn read_rows(
        &self,
        param: &ParamSpec,
        rows: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ParamError> {
        match self.control_param(param) {
            Some((file, param)) => file.read_rows(&param, rows, dst),
            None => self.file.read_rows(param, rows, dst),
        }
    }

    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        if let Some((file, param)) = self.control_param(param) {
            return file.read(&param, dst);
        }
        let fail = |what: String| ParamError {
            name: param.name.clone(),
            what,
        };
        let values = if let Some((placed, is_up)) = self.branch_of(&param.name) {
            let reader = &self.loras.files[placed.file].reader;
            let factor = if is_up { placed.strength } else { 1.0 };
            delta::half(reader, &placed.update, is_up, factor, param.shape)
        } else {
            let placed = self.loras.placed(self.part, &param.name);
            let is_beside = self.scaled(&param.name).is_some();
            if placed.is_empty() || is_beside || !merges(self.stored(&param.name), param.dtype) {
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
