//! LoRAs at run time: which updates go where. `source.rs` reads weights with them applied. Factors
//! and mixtures of models change weights in the same way.
//!
//! Updates of weights that are held as plain numbers are added while loading, in f32, as ComfyUI
//! does, and cost nothing afterwards. A weight that is stored and held quantized stays as it is: a
//! low-rank update runs beside it as two small layers, `y = Wx + s·B(Ax)`, so that nothing is
//! quantized twice. Updates that are not low-rank have no such form; their layer is held as f16, as
//! is one that grows (Flux's control LoRAs).

mod delta;
mod source;
#[cfg(test)]
mod tests;
mod turned;

use super::diffusion::DiffusionModel;
use super::identity::{Change, FileId, NetId};
use super::text_encoders::TextEncoders;
use crate::EngineError;
use delta::Deltas;
use nino_dtype::DType;
use nino_models::Denoiser;
use nino_weights::lora::{ControlLora, Delta, Lora, LoraPart, Update};
use nino_weights::{Entry, Index, TensorReader};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use source::Source;

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
    /// What was done, in order.
    changes: Vec<Changed>,
    targets: HashMap<(LoraPart, String), Vec<Placed>>,
    deltas: Arc<Deltas>,
    /// Tensors that have another size than in the model's file.
    grown: HashMap<(LoraPart, String), [usize; 2]>,
}

/// A change of many tensors.
#[derive(Clone)]
enum Changed {
    /// By the updates of a file.
    File(usize),
    /// Tensors of a part, and the bits of what they are multiplied by.
    Factors(LoraPart, Arc<[(String, u32)]>),
    /// Tensors of a part, mixed with those of another network; see [`Change::Mixed`].
    Mixed(LoraPart, Arc<NetId>, Arc<[(String, [u32; 2])]>),
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

/// What is done to one tensor.
#[derive(Clone)]
enum Placed {
    Update(Box<PlacedUpdate>),
    /// All its values are multiplied.
    Factor(f32),
    /// It becomes `own·w + other·v`, with the tensor `v` of that name in another network.
    Mix {
        with: Arc<Source>,
        own: f32,
        other: f32,
    },
}

/// An update of one tensor.
#[derive(Clone)]
struct PlacedUpdate {
    file: usize,
    strength: f32,
    update: Update,
}

impl Placed {
    /// Whether it can run as two small layers.
    fn is_branch(&self) -> bool {
        matches!(self, Placed::Update(p) if is_branch(&p.update))
    }
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
                let placed = Placed::Update(Box::new(PlacedUpdate {
                    file,
                    strength,
                    update: update.clone(),
                }));
                loras.targets.entry(key).or_default().push(placed);
            }
        }
        loras.files.push(fitted.file.clone());
        loras.changes.push(Changed::File(file));
        loras
    }

    /// These, and then some tensors of `part` multiplied.
    pub(super) fn multiplied(&self, part: LoraPart, factors: Vec<(String, f32)>) -> Loras {
        let mut loras = self.clone();
        for (name, factor) in &factors {
            let key = (part, name.clone());
            let placed = loras.targets.entry(key).or_default();
            placed.push(Placed::Factor(*factor));
        }
        let bits = factors.into_iter().map(|(name, f)| (name, f.to_bits()));
        let factors = Changed::Factors(part, bits.collect());
        loras.changes.push(factors);
        loras
    }

    /// These, and then some tensors of `part` mixed with those of another network: each with what
    /// the tensor and the other network's are multiplied by.
    pub(super) fn mixed(
        &self,
        part: LoraPart,
        (id, with): (NetId, Source),
        tensors: Vec<(String, [f32; 2])>,
    ) -> Loras {
        let mut loras = self.clone();
        if tensors.is_empty() {
            return loras;
        }
        let with = Arc::new(with);
        for (name, [own, other]) in &tensors {
            let placed = loras.targets.entry((part, name.clone())).or_default();
            placed.push(Placed::Mix {
                with: Arc::clone(&with),
                own: *own,
                other: *other,
            });
        }
        let bits = |(name, factors): (String, [f32; 2])| (name, factors.map(f32::to_bits));
        let tensors = tensors.into_iter().map(bits).collect();
        let mixed = Changed::Mixed(part, Arc::new(id), tensors);
        loras.changes.push(mixed);
        loras
    }

    /// The weights of a model with these, `base`, beneath the updates of a Control-LoRA's file;
    /// what the file has `whole` is nobody else's. `None` where an update does not fit.
    pub(super) fn updated(
        &self,
        part: LoraPart,
        base: NetId,
        (name, reader): (&str, &Arc<TensorReader>),
        (lora, whole, index): (&ControlLora, &HashSet<&str>, &Index),
    ) -> Option<Loras> {
        let fits = |update: &Update| {
            let entry = index.get(&update.target);
            entry.is_some_and(|entry| delta::fits(update, &entry.shape))
        };
        if !lora.updates.iter().all(fits) {
            return None;
        }
        let mut loras = self.clone();
        loras
            .targets
            .retain(|(of, name), _| *of == part && !whole.contains(name.as_str()));
        // The model's own changes are said by its identity.
        loras.changes = vec![Changed::Mixed(part, Arc::new(base), Arc::default())];
        let file = reader.index().files.first();
        Some(loras.with(&Fitted {
            file: LoraFile {
                id: FileId::of(file.map_or(Path::new(""), PathBuf::as_path)),
                name: name.to_owned(),
                reader: Arc::clone(reader),
                unet: 1.0,
                clip: 0.0,
            },
            updates: lora.updates.clone(),
        }))
    }

    /// Whether a tensor has another size than in the model's file.
    pub(super) fn has_grown(&self) -> bool {
        !self.grown.is_empty()
    }

    /// The network with the sizes that its weights have grown to.
    fn grow(&self, net: Denoiser) -> Denoiser {
        let size = self.grown.get(&(LoraPart::Diffusion, GROWING.to_owned()));
        match (net, size) {
            (Denoiser::Flux(c), Some(&[_, columns])) => {
                Denoiser::Flux(c.with_in_channels(columns / 4))
            }
            (net, _) => net,
        }
    }

    /// Names of the files.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|f| f.name.as_str())
    }

    /// What changes a part's weights, in order.
    pub(super) fn ids(&self, part: LoraPart) -> Arc<[Change]> {
        let change = |changed: &Changed| match changed {
            Changed::File(i) => {
                let (file, strength) = (&self.files[*i], self.files[*i].strength(part));
                (strength != 0.0).then(|| Change::Lora(file.id.clone(), strength.to_bits()))
            }
            Changed::Factors(of, factors) => {
                (*of == part).then(|| Change::Factors(Arc::clone(factors)))
            }
            Changed::Mixed(of, other, tensors) => {
                (*of == part).then(|| Change::Mixed(Arc::clone(other), Arc::clone(tensors)))
            }
        };
        self.changes.iter().filter_map(change).collect()
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

/// `file.safetensors` of a path, for messages.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}
