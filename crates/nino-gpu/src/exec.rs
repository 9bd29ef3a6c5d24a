//! The GPU as a `Device` that plans run on.

use std::sync::Arc;
use std::time::Duration;

use nino_dtype::DType;
use nino_graph::{
    Backup, Device, ExecError, Limits, ParamSource, Plan, Rates, Rewrites, Session, TakesGate,
    Weights, taking_turns,
};

use crate::ops::gemm::takes_gate;
use crate::session::GpuSession;
use crate::weights::GpuWeights;
use crate::{AdapterKind, Gpu, GpuError, Tier, memory};

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

/// Rows from which block weights are expanded before a product.
const EXPAND_ROWS: usize = 256;

impl Device for GpuDevice {
    fn name(&self) -> String {
        format!("gpu:{}", self.gpu.info.index)
    }

    fn limits(&self) -> Limits {
        let limits = &self.gpu.limits;
        let align = self.gpu.offset_alignment().max(256) as usize;
        // A binding reaches from an aligned offset to a whole 16-byte word.
        let max_binding = limits.max_storage_buffer_binding_size as usize - 16;
        let page = (limits.max_buffer_size as usize).min(1 << 40) / align * align;
        Limits {
            align,
            max_binding: max_binding / align * align,
            page,
            // What lies over pages passes through windows in pieces that keep a device busy.
            window: page / 4,
            max_step_flops: match self.gpu.info.kind {
                AdapterKind::Software => None,
                AdapterKind::Discrete if self.gpu.tier >= Tier::Coop => Some(4e12),
                AdapterKind::Discrete => Some(4e11),
                _ => Some(1e11),
            },
            // A product decodes a weight once for every tile of rows: above two tiles it is quicker
            // to do it once for all.
            expand_rows: (self.gpu.tier >= Tier::F16).then_some(EXPAND_ROWS),
            ..Limits::default()
        }
    }

    fn rates(&self) -> Rates {
        match self.gpu.info.kind {
            // It computes as a CPU does; what waits on the host is in memory, not in a file.
            AdapterKind::Software => Rates {
                host_bytes: 5e9,
                read_bytes: 5e9,
                ..Rates::cpu()
            },
            _ => Rates::gpu(),
        }
    }

    fn rewrites(&self) -> Rewrites {
        // A row norm inside a product would be redone for every tile of columns. Where matrices are
        // fast, so would a group norm: the product waits for it more than a pass over memory costs.
        Rewrites {
            norm_into_linear: false,
            norm_into_conv: self.gpu.tier < Tier::Coop,
            gate_into_linear: self.gpu.has_wgmma().then_some(takes_gate as TakesGate),
            ..Rewrites::ALL
        }
    }

    fn activation_dtype(&self) -> DType {
        if self.gpu.tier >= Tier::F16 {
            DType::F16
        } else {
            DType::F32
        }
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
