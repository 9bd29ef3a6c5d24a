//! Weights read with the LoRAs applied, and those of `ControlNet`s beside them.

use super::{Loras, Placed, PlacedUpdate, delta, merges};
use crate::EngineError;
use nino_dtype::DType;
use nino_graph::{ParamError, ParamSource, ParamSpec, Shape, StoredRows};
use nino_models::{Branch, CONTROL, FileParams, Params, Scaled};
use nino_weights::lora::{Delta, LoraPart};
use std::ops::Range;
use std::sync::Arc;

/// One part's weights with the LoRAs applied.
#[derive(Clone)]
pub(crate) struct Source {
    pub(in crate::model) file: FileParams,
    pub(in crate::model) part: LoraPart,
    pub(in crate::model) loras: Arc<Loras>,
    /// Weights of `ControlNet`s, whose names begin with [`CONTROL`] and their number.
    pub(in crate::model) controls: Vec<Source>,
}

impl Source {
    /// The `ControlNet` that a parameter belongs to, and its name there.
    fn control<'n>(&self, name: &'n str) -> Option<(&Source, &'n str)> {
        let (i, rest) = name
            .strip_prefix(CONTROL)?
            .strip_prefix('.')?
            .split_once('.')?;
        Some((self.controls.get(i.parse::<usize>().ok()?)?, rest))
    }

    /// The same parameter under its `ControlNet`'s own name.
    fn control_param(&self, param: &ParamSpec) -> Option<(&Source, ParamSpec)> {
        let (source, name) = self.control(&param.name)?;
        let name = name.to_owned();
        let param = ParamSpec {
            name,
            ..param.clone()
        };
        Some((source, param))
    }

    /// How a weight is held in memory, where the one of the file is held as `held` says.
    fn dtype(&self, name: &str, held: impl Fn(DType) -> DType) -> DType {
        let (stored, held) = (self.stored(name), held(self.file.dtype(name)));
        let placed = self.loras.placed(self.part, name);
        if merges(stored, held) || placed.iter().all(Placed::is_branch) {
            held
        } else {
            DType::F16
        }
    }

    /// Parameters of a graph; `held` says how a weight stored so is held in memory.
    pub(crate) fn params<'a>(&'a self, held: impl Fn(DType) -> DType + 'a) -> Params<'a> {
        let dtype = move |name: &str| match self.control(name) {
            Some((control, name)) => control.dtype(name, |stored| stored),
            None => self.dtype(name, &held),
        };
        Params::new(dtype)
            .with_branches(|name, held| self.branches(name, held))
            .with_scaled(|name| self.scaled(name))
    }

    /// How a weight is held whose factors are apart in the file. A LoRA that cannot run beside the
    /// weight is merged into its values, which then have no factors.
    fn scaled(&self, name: &str) -> Option<Scaled> {
        if let Some((control, name)) = self.control(name) {
            return control.scaled(name);
        }
        let placed = self.loras.placed(self.part, name);
        let beside = placed.iter().all(Placed::is_branch);
        self.file.scaled(name).filter(|_| beside)
    }

    /// Whether a parameter has to be made of what the files hold.
    pub(in crate::model) fn makes(&self, param: &ParamSpec) -> bool {
        if let Some((control, param)) = self.control_param(param) {
            return control.makes(&param);
        }
        !self.loras.placed(self.part, &param.name).is_empty() || !self.file.has_same_dtype(param)
    }

    /// How the file has a weight, whatever it becomes while it is loaded.
    fn stored(&self, name: &str) -> DType {
        self.file.find(name).map_or(DType::F32, |(_, dtype)| dtype)
    }

    fn branches(&self, name: &str, held: DType) -> Vec<Branch> {
        if let Some((control, own)) = self.control(name) {
            let mut branches = control.branches(own, held);
            let prefix = &name[..name.len() - own.len()];
            branches
                .iter_mut()
                .for_each(|branch| branch.name.insert_str(0, prefix));
            return branches;
        }
        let placed = self.loras.placed(self.part, name);
        if placed.is_empty() || (self.scaled(name).is_none() && merges(self.stored(name), held)) {
            return Vec::new();
        }
        let branch = |(i, p): (usize, &Placed)| {
            let Placed::Update(placed) = p else {
                return None;
            };
            let Delta::LowRank(low) = &placed.update.delta else {
                return None;
            };
            Some(Branch {
                name: format!("{name}.lora{i}"),
                rank: low.rank,
                dtype: match low.down.dtype {
                    d @ (DType::F16 | DType::BF16) => d,
                    _ => DType::F32,
                },
            })
        };
        placed.iter().enumerate().filter_map(branch).collect()
    }

    /// The branch that a parameter of the graph belongs to, and whether it is the upper half.
    fn branch_of(&self, name: &str) -> Option<(&PlacedUpdate, bool)> {
        let (rest, is_up) = match name.strip_suffix(".up") {
            Some(rest) => (rest, true),
            None => (name.strip_suffix(".down")?, false),
        };
        let (target, i) = rest.rsplit_once(".lora")?;
        let placed = self.loras.placed(self.part, target);
        match placed.get(i.parse::<usize>().ok()?)? {
            Placed::Update(update) => Some((update, is_up)),
            Placed::Factor(_) | Placed::Mix { .. } => None,
        }
    }

    /// Values of a parameter of the graph with everything in `placed` done to it.
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
            let p = match p {
                Placed::Update(p) => p,
                Placed::Factor(factor) => {
                    values.iter_mut().for_each(|v| *v *= factor);
                    continue;
                }
                Placed::Mix { with, own, other } => {
                    let theirs = with.merged(param, with.loras.placed(with.part, &param.name))?;
                    let both = values.iter_mut().zip(theirs);
                    both.for_each(|(v, t)| *v = *v * own + t * other);
                    continue;
                }
            };
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
        if let Some((control, param)) = self.control_param(param) {
            return control.stored_rows(&param);
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
            Some((control, param)) => control.read_rows(&param, rows, dst),
            None => self.file.read_rows(param, rows, dst),
        }
    }

    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        if let Some((control, param)) = self.control_param(param) {
            return control.read(&param, dst);
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
