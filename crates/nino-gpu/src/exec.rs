//! The GPU as a `Device` that plans run on.

use std::sync::Arc;
use std::time::Duration;

use nino_dtype::DType;
use nino_graph::{
    Backup, Device, ExecError, Limits, ParamSource, Plan, Rates, Rewrites, Session, Weights,
    taking_turns,
};

use crate::session::GpuSession;
use crate::weights::GpuWeights;
use crate::{Gpu, GpuError, memory};

/// A GPU that runs plans. Clones share the device.
#[derive(Clone, Debug)]
pub struct GpuDevice {
    gpu: Arc<Gpu>,
}

impl GpuDevice {
    pub fn new(gpu: Gpu) -> GpuDevice {
        GpuDevice { gpu: Arc::new(gpu) }
    }

    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }
}

/// Work that a lost device costs, about.
const BACKUP_EVERY: Duration = Duration::from_secs(5);

impl Device for GpuDevice {
    fn name(&self) -> String {
        format!("gpu:{}", self.gpu.info.index)
    }

    fn limits(&self) -> Limits {
        self.gpu.caps.limits()
    }

    fn rates(&self) -> Rates {
        self.gpu.caps.rates()
    }

    fn rewrites(&self) -> Rewrites {
        self.gpu.caps.rewrites()
    }

    fn activation_dtype(&self) -> DType {
        self.gpu.caps.activation_dtype()
    }

    fn favors_large_ops(&self) -> bool {
        true
    }

    fn backup(&self) -> Option<Backup> {
        Some(Backup {
            most_bytes: memory::spare_host_bytes(),
            every: BACKUP_EVERY,
            bytes_per_second: 1e9,
        })
    }

    fn load(&self, plans: &[&Plan], source: Arc<dyn ParamSource>) -> Result<Weights, ExecError> {
        Ok(Arc::new(self.gpu.load_weights(plans, &*source)?))
    }

    fn sessions(
        &self,
        plans: &[Arc<Plan>],
        weights: &Weights,
    ) -> Result<Vec<Box<dyn Session>>, ExecError> {
        let Ok(weights) = Arc::clone(weights).downcast::<GpuWeights>() else {
            return Err(ExecError::NotInPlan {
                what: "weights of another device".to_owned(),
            });
        };
        let sessions = GpuSession::new_all(&self.gpu, plans, &weights)?;
        let boxed = |s| -> Box<dyn Session> { Box::new(s) };
        Ok(taking_turns(sessions.into_iter().map(boxed).collect()))
    }
}

/// The executor's words for a GPU error.
pub(crate) fn exec_error(e: GpuError, gpu: &Gpu) -> ExecError {
    match e {
        GpuError::OutOfMemory { what, wanted, free } => {
            ExecError::OutOfMemory { what, wanted, free }
        }
        GpuError::HostMemory { wanted, free } => ExecError::HostMemory { wanted, free },
        GpuError::DeviceLost { reason } => ExecError::DeviceLost { reason },
        GpuError::Unsupported { op, why } => ExecError::Unsupported {
            op,
            device: gpu.info.name.clone(),
            why,
        },
        other => ExecError::Device {
            message: other.to_string(),
        },
    }
}
