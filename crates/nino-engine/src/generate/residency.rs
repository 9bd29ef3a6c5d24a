//! Weights that stay on the device from one picture to the next.

use super::plan::{GeneratePlan, Residency};
use nino_dtype::DType;
use nino_graph::{Around, Device, ExecError, ParamSource, Plan, Weights};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// A device that keeps the weights a plan says to keep, for several pictures of one model.
pub struct Resident<'a> {
    device: &'a dyn Device,
    keep: BTreeSet<Key>,
    kept: Mutex<BTreeMap<Key, Weights>>,
}

/// What a load asks for: of one model, the same weights.
type Key = BTreeSet<(String, DType, Vec<usize>, bool)>;

impl<'a> Resident<'a> {
    pub fn new(device: &'a dyn Device, plan: &GeneratePlan) -> Resident<'a> {
        let stays = plan.stages.iter();
        let keep = stays
            .filter(|s| s.residency == Residency::Resident)
            .map(|s| key(&[&s.plan]))
            .collect();
        Resident {
            device,
            keep,
            kept: Mutex::default(),
        }
    }
}

fn key(plans: &[&Plan]) -> Key {
    let params = plans.iter().flat_map(|plan| {
        let fetched: BTreeSet<_> = plan
            .fetches()
            .iter()
            .flat_map(|f| f.params.iter().map(|(node, _)| *node))
            .collect();
        plan.graph().params().map(move |(node, p)| {
            let shape = p.shape.to_vec();
            (p.name.clone(), p.dtype, shape, fetched.contains(&node))
        })
    });
    params.collect()
}

impl Around for Resident<'_> {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        self.device
    }

    fn load(&self, plans: &[&Plan], source: Arc<dyn ParamSource>) -> Result<Weights, ExecError> {
        let key = key(plans);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(weights) = kept.get(&key) {
            return Ok(Arc::clone(weights));
        }
        let weights = self.device.load(plans, source)?;
        if self.keep.contains(&key) {
            kept.insert(key, Arc::clone(&weights));
        }
        Ok(weights)
    }

    fn reopen(&self) -> Result<(), ExecError> {
        let kept = self.kept.lock();
        kept.unwrap_or_else(PoisonError::into_inner).clear();
        self.device.reopen()
    }
}
