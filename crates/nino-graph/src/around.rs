//! Devices and sessions that are another one with something changed.

use crate::{
    Backup, Budget, Device, ExecError, Limits, Node, OpTime, ParamSource, Plan, Rates, Rewrites,
    RunOptions, Session, Weights,
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

    fn keeps_every_size(&self) -> bool {
        self.inner().keeps_every_size()
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

    fn faster_dtype(&self) -> Option<DType> {
        self.inner().faster_dtype()
    }

    fn multiplies_integers(&self) -> bool {
        self.inner().multiplies_integers()
    }

    fn keeps_every_size(&self) -> bool {
        Around::keeps_every_size(self)
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

/// Gives the session inside and says what a run of it is; see [`Session`] for the contracts.
pub trait AroundSession: Send {
    fn session(&self) -> &dyn Session;

    fn session_mut(&mut self) -> &mut dyn Session;

    fn run(&mut self, options: RunOptions<'_>) -> Result<(), ExecError>;
}

impl<T: AroundSession> Session for T {
    fn write(&mut self, input: Node, bytes: &[u8]) -> Result<(), ExecError> {
        self.session_mut().write(input, bytes)
    }

    fn run(&mut self, options: RunOptions<'_>) -> Result<(), ExecError> {
        AroundSession::run(self, options)
    }

    fn read(&mut self, output: Node, dst: &mut [u8]) -> Result<(), ExecError> {
        self.session_mut().read(output, dst)
    }

    fn write_part(&mut self, input: Node, at: usize, bytes: &[u8]) -> Result<(), ExecError> {
        self.session_mut().write_part(input, at, bytes)
    }

    fn read_part(&mut self, output: Node, at: usize, dst: &mut [u8]) -> Result<(), ExecError> {
        self.session_mut().read_part(output, at, dst)
    }

    fn clear(&mut self, input: Node) -> Result<(), ExecError> {
        self.session_mut().clear(input)
    }

    fn poison(&mut self) -> Result<(), ExecError> {
        self.session_mut().poison()
    }

    fn arena_bytes(&self) -> usize {
        self.session().arena_bytes()
    }

    fn profile(&self) -> Vec<OpTime> {
        self.session().profile()
    }
}
