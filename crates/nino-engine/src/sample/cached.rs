//! A denoiser that looks at other latents in its first run only: their keys and values stay for the
//! runs after it. ComfyUI's `FluxKVCache`.
//!
//! Two graphs of one network take turns in one arena: one gives the keys and values, the other is
//! given them.

use super::denoise::Prompted;
use super::planned::{self, DenoiserPlan, PlanSpec};
use super::{SampleRequest, open, spec};
use crate::store::Lease;
use crate::{Control, DiffusionModel, EngineError, Store};
use nino_models::KvCache;
use nino_sample::{Beside, Network, Stop};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The plans of the first run and of the others, made now or before; `None` where nothing is kept.
pub(super) fn plan(
    store: &Store,
    model: &DiffusionModel,
    request: &SampleRequest<'_>,
) -> Result<Option<Arc<Vec<Arc<DenoiserPlan>>>>, EngineError> {
    let looks = |p: &crate::Conditioning| !p.looked_at(model).is_empty();
    if !model.keeps_references() || !request.positive.iter().any(looks) {
        return Ok(None);
    }
    if !request.is_plain(model) {
        return Err(EngineError::KeptReferences {
            model: model.name.clone(),
        });
    }
    let all = spec(store, model, request);
    let bytes = kept_bytes(model, &all);
    let specs = [KvCache::Write, KvCache::Read].map(|kept| PlanSpec {
        kept,
        host_bytes: all.host_bytes + bytes,
        ..all.clone()
    });
    let plans = store.plan(&model.id(), model.plan_key(&specs), || {
        planned::plan_cached(store.device(), model, &specs)
    })?;
    Ok(Some(plans))
}

/// Bytes of all keys and values, on their way through the host.
fn kept_bytes(model: &DiffusionModel, spec: &PlanSpec) -> usize {
    let tokens: usize = spec.references.iter().map(|[h, w]| h * w).sum();
    let width = model.net().kv_cache_width();
    let prompts = if spec.guided { 2 } else { 1 };
    let values = 2 * model.net().kv_cache_blocks() * prompts * spec.shape.batch * tokens * width;
    values * spec.dtype.bits_per_value() as usize / 8
}

/// The first run's network and that of the others.
pub(super) struct Cached<'a> {
    lease: Lease,
    first: Prompted<'a>,
    later: Prompted<'a>,
    /// Keys and values of the first run, and where they go.
    plans: Arc<Vec<Arc<DenoiserPlan>>>,
    is_made: bool,
    error: Option<EngineError>,
}

impl<'a> Cached<'a> {
    pub(super) fn open(
        store: &Store,
        model: &DiffusionModel,
        request: &SampleRequest<'_>,
        plans: Arc<Vec<Arc<DenoiserPlan>>>,
        control: &Control<'a>,
    ) -> Result<Cached<'a>, EngineError> {
        let lease = open(store, model, &plans)?;
        let both = request.prompts(model);
        let network = |plan: &Arc<DenoiserPlan>| {
            let plan = Arc::clone(plan);
            Prompted::new(plan, model, &[&both], request, control.cancel)
        };
        let (first, mut later) = (network(&plans[0])?, network(&plans[1])?);
        later.hear(&first.sigma());
        Ok(Cached {
            lease,
            first,
            later,
            plans,
            is_made: false,
            error: None,
        })
    }

    /// Where the noise level of a call is put before it.
    pub(super) fn sigma(&self) -> Rc<Cell<f32>> {
        self.first.sigma()
    }

    /// Why the last call stopped, if it did.
    pub(super) fn error(&mut self) -> Option<EngineError> {
        self.error.take()
    }

    /// Gives the sessions back for the next run.
    pub(super) fn finish(self) {
        self.lease.finish();
    }

    fn run(
        &mut self,
        input: &[f32],
        timestep: f32,
        outs: &mut [&mut [f32]],
    ) -> Result<(), EngineError> {
        let sessions = self.lease.sessions();
        if self.is_made {
            return self.later.run(&mut *sessions[1], 0, input, timestep, outs);
        }
        self.first
            .run(&mut *sessions[0], 0, input, timestep, outs)?;
        let [made, given] = [0, 1].map(|i| self.plans[i].nodes.reference_kv.iter().flatten());
        for (&from, &to) in made.zip(given) {
            let mut bytes = vec![0; self.plans[0].plan.graph().bytes(from)];
            sessions[0].read(from, &mut bytes)?;
            self.later.tell(to, bytes);
        }
        self.is_made = true;
        Ok(())
    }
}

impl Network for &mut Cached<'_> {
    fn forward(
        &mut self,
        input: &[f32],
        timestep: f32,
        positive: &mut [f32],
        negative: Option<&mut [f32]>,
    ) -> Result<(), Stop> {
        let ran = match negative {
            Some(negative) => self.run(input, timestep, &mut [positive, negative]),
            None => self.run(input, timestep, &mut [positive]),
        };
        ran.map_err(|error| {
            self.error = Some(error);
            Stop
        })
    }

    fn beside(
        &mut self,
        _what: Beside,
        _input: &[f32],
        _timestep: f32,
        _out: &mut [f32],
    ) -> Result<(), Stop> {
        unreachable!("a request with more predictions than two is not plain")
    }
}
