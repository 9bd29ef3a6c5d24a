//! Opens the devices a choice names. The only file that knows the executors' constructors.

use super::{Choice, DeviceName};
use crate::args::GpuTier;
use anyhow::{Result, bail};
use nino_dtype::DType;
use nino_graph::{Device, ExecError, ParamSource, Plan, PlanOptions, Rewrites, Session, Weights};
use std::sync::Arc;

/// A device ready to run plans, and how to speak of it.
pub(crate) struct Opened {
    pub(crate) device: Arc<dyn Device>,
    /// `cpu`, `gpu:0`
    pub(crate) name: String,
    /// What the maker calls it.
    pub(crate) model: String,
    pub(crate) tier: Option<GpuTier>,
}

/// What a device can do at best, a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceiling {
    /// Reads plus writes.
    pub(crate) copy_bytes: f64,
    pub(crate) flops: f64,
}

impl Opened {
    /// The type activations have on this device unless told otherwise.
    pub(crate) fn dtype(&self) -> DType {
        match self.tier {
            None | Some(GpuTier::F32) => DType::F32,
            Some(_) => DType::F16,
        }
    }

    /// Measures for about a second.
    pub(crate) fn ceiling(&self) -> Result<Ceiling> {
        bail!("{}: not measured yet", self.name)
    }
}

/// Opens the one device that was chosen; `auto` when nothing was said.
pub(crate) fn open(choice: &Choice) -> Result<Opened> {
    match choice.device.unwrap_or(DeviceName::Auto) {
        DeviceName::Auto | DeviceName::Cpu => cpu(choice),
        name => bail!("no {name} can be opened yet"),
    }
}

fn cpu(choice: &Choice) -> Result<Opened> {
    let _ = budgeted;
    bail!("no CPU executor yet; threads {:?}", choice.threads)
}

/// Puts the user's cap into every plan made for the device.
fn budgeted(device: Arc<dyn Device>, choice: &Choice) -> Arc<dyn Device> {
    match choice.budget {
        Some(budget) => Arc::new(Budgeted {
            device,
            budget: budget.0 as usize,
        }),
        None => device,
    }
}

struct Budgeted {
    device: Arc<dyn Device>,
    budget: usize,
}

impl Device for Budgeted {
    fn name(&self) -> String {
        self.device.name()
    }

    fn plan_options(&self) -> PlanOptions {
        let options = self.device.plan_options();
        let least = options.budget.map_or(self.budget, |b| b.min(self.budget));
        PlanOptions {
            budget: Some(least),
            ..options
        }
    }

    fn rewrites(&self) -> Rewrites {
        self.device.rewrites()
    }

    fn load(&self, plans: &[&Plan], source: &dyn ParamSource) -> Result<Weights, ExecError> {
        self.device.load(plans, source)
    }

    fn session(&self, plan: Arc<Plan>, weights: &Weights) -> Result<Box<dyn Session>, ExecError> {
        self.device.session(plan, weights)
    }
}
