//! Devices that are another one with something changed.

use crate::{
    Backup, Budget, Device, ExecError, Limits, ParamSource, Plan, Rates, Rewrites, Session, Weights,
};
use nino_dtype::DType;
use std::ops::Deref;
use std::sync::Arc;

/// Gives the device inside and overrides what differs from it; see [`Device`] for the contracts.
pub trait Around: Send + Sync {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_>;

    fn limits(&self) -> Limits {
        self.inner().limits()
    }

    fn budget(&self) -> Budget {
        self.inner().budget()
    }

    fn favors_large_ops(&self) -> bool {
        self.inner().favors_large_ops()
    }

    fn load(&self, plans: &[&Plan], source: Arc<dyn ParamSource>) -> Result<Weights, ExecError> {
        self.inner().load(plans, source)
    }

    fn sessions(
        &self,
        plans: &[Arc<Plan>],
        weights: &Weights,
    ) -> Result<Vec<Box<dyn Session>>, ExecError> {
        self.inner().sessions(plans, weights)
    }

    fn backup(&self) -> Option<Backup> {
        self.inner().backup()
    }

    fn reopen(&self) -> Result<(), ExecError> {
        self.inner().reopen()
    }
}

impl<T: Around> Device for T {
    fn name(&self) -> String {
        self.inner().name()
    }

    fn limits(&self) -> Limits {
        Around::limits(self)
    }

    fn budget(&self) -> Budget {
        Around::budget(self)
    }

    fn rates(&self) -> Rates {
        self.inner().rates()
    }

    fn rewrites(&self) -> Rewrites {
        self.inner().rewrites()
    }

    fn activation_dtype(&self) -> DType {
        self.inner().activation_dtype()
    }

    fn favors_large_ops(&self) -> bool {
        Around::favors_large_ops(self)
    }

    fn load(&self, plans: &[&Plan], source: Arc<dyn ParamSource>) -> Result<Weights, ExecError> {
        Around::load(self, plans, source)
    }

    fn sessions(
        &self,
        plans: &[Arc<Plan>],
        weights: &Weights,
    ) -> Result<Vec<Box<dyn Session>>, ExecError> {
        Around::sessions(self, plans, weights)
    }

    fn backup(&self) -> Option<Backup> {
        Around::backup(self)
    }

    fn reopen(&self) -> Result<(), ExecError> {
        Around::reopen(self)
    }
}
