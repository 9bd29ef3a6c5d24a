//! A device that can be opened again after its driver gave it up.

use nino_graph::{Around, Device, ExecError};
use std::ops::Deref;
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
}

impl Around for Reopening {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        let device = self.device.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&device)
    }

    fn reopen(&self) -> Result<(), ExecError> {
        let device = (self.open)()?;
        *self.device.write().unwrap_or_else(PoisonError::into_inner) = device;
        Ok(())
    }
}
