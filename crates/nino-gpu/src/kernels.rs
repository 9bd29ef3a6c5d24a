//! The kernels that a plan would run on a device, without the device: what it can do is enough.

use nino_graph::Plan;

use crate::kernel::Kernel;
use crate::session::build::{LowerError, Memory, launches};
use crate::weights::packable;
use crate::{Caps, GpuError, KernelKey};

/// One dispatch of a plan.
#[derive(Clone, Debug)]
pub struct PlannedLaunch {
    /// Which of the plan's steps it belongs to.
    pub step: usize,
    pub kernel: KernelKey,
    pub groups: [u32; 3],
    pub params: Vec<u32>,
}

/// Every dispatch of a run of the plan, in order. Kernels in PTX are an error: they are NVIDIA's,
/// and a value of `Caps` without them gives the shaders.
pub fn kernels(caps: &Caps, plan: &Plan) -> Result<Vec<PlannedLaunch>, GpuError> {
    let packed = packable(caps, &[plan]);
    let memory = Memory {
        packed: &packed,
        buffers: None,
    };
    let mut found = Vec::new();
    for (step, launches) in launches(caps, plan, memory).enumerate() {
        let launches = launches.map_err(|e| match e {
            LowerError::Plan(e) => GpuError::Validation {
                what: format!("step {step}"),
                reason: e.to_string(),
            },
            LowerError::Gpu(e) => e,
        })?;
        for launch in launches {
            let kernel = match launch.kernel {
                Kernel::Shader(key) => key,
                Kernel::Ptx(key) => {
                    return Err(GpuError::Unsupported {
                        op: format!("{key:?}"),
                        why: "kernels in PTX are not listed".to_owned(),
                    });
                }
            };
            found.push(PlannedLaunch {
                step,
                kernel,
                groups: launch.groups,
                params: launch.params,
            });
        }
    }
    Ok(found)
}
