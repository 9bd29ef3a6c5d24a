//! A device that can be opened again after its driver gave it up.

use nino_dtype::DType;
use nino_graph::{Device, ExecError, ParamSource, Plan, PlanOptions, Rewrites, Session, Weights};
use std::sync::{Arc, PoisonError, RwLock};

/// Opens the device anew.
pub type Open = dyn Fn() -> Result<Arc<dyn Device>, ExecError> + Send + Sync;

/// Stands for whatever device `open` gave last. Weights and sessions belong to the device they were
/// made on: after [`Device::reopen`] they are loaded and made anew.
pub struct Reopening {
    open: Box<Open>,
    device: RwLock<Arc<dyn Device>>,
}

impl Reopening {
    pub fn new(
        device: Arc<dyn Device>,
        open: impl Fn() -> Result<Arc<dyn Device>, ExecError> + Send + Sync + 'static,
    ) -> Reopening {
        Reopening {
            open: Box::new(open),
            device: RwLock::new(device),
        }
    }

    fn device(&self) -> Arc<dyn Device> {
        let device = self.device.read().unwrap_or_else(PoisonError::into_inner);
        device.clone()
    }
}

impl Device for Reopening {
    fn name(&self) -> String {
        self.device().name()
    }

    fn plan_options(&self) -> PlanOptions {
        self.device().plan_options()
    }

    fn rewrites(&self) -> Rewrites {
        self.device().rewrites()
    }

    fn activation_dtype(&self) -> DType {
        self.device().activation_dtype()
    }

    fn load(&self, plans: &[&Plan], source: Arc<dyn ParamSource>) -> Result<Weights, ExecError> {
        self.device().load(plans, source)
    }

    fn session(&self, plan: Arc<Plan>, weights: &Weights) -> Result<Box<dyn Session>, ExecError> {
        self.device().session(plan, weights)
    }

    fn reopen(&self) -> Result<(), ExecError> {
        let device = (self.open)()?;
        *self.device.write().unwrap_or_else(PoisonError::into_inner) = device;
        Ok(())
    }
}
