//! Parameters on the device: each in a buffer of its own, filled through mapped staging.

use std::collections::HashMap;
use std::sync::Arc;

use nino_graph::{ExecError, ParamSource, ParamSpec, Plan};

use crate::exec::exec_error;
use crate::{Gpu, GpuError};

/// Buffers by parameter name.
#[derive(Debug, Default)]
pub(crate) struct GpuWeights {
    pub(crate) buffers: HashMap<String, Arc<wgpu::Buffer>>,
}

/// Staging memory in flight before it is handed back.
const STAGING_BYTES: u64 = 256 << 20;

impl Gpu {
    pub(crate) fn load_weights(
        &self,
        plans: &[&Plan],
        source: &dyn ParamSource,
    ) -> Result<GpuWeights, ExecError> {
        let mut weights = GpuWeights::default();
        let mut staged = 0;
        for (_, spec) in plans.iter().flat_map(|p| p.graph().params()) {
            if weights.buffers.contains_key(&spec.name) {
                continue;
            }
            let buffer = self.load_one(spec, source)?;
            staged += buffer.size();
            if staged > STAGING_BYTES {
                self.queue.submit([]);
                self.wait().map_err(|e| exec_error(e, self))?;
                staged = 0;
            }
            weights.buffers.insert(spec.name.clone(), Arc::new(buffer));
        }
        self.queue.submit([]);
        self.wait().map_err(|e| exec_error(e, self))?;
        Ok(weights)
    }

    fn load_one(
        &self,
        spec: &ParamSpec,
        source: &dyn ParamSource,
    ) -> Result<wgpu::Buffer, ExecError> {
        let bytes = spec.bytes();
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
        // 16 bytes more than whole words: unaligned block reads look one word ahead.
        let size = (bytes as u64).next_multiple_of(16) + 16;
        let buffer = self
            .raw_buffer(&spec.name, size, usage, true)
            .map_err(|e| exec_error(e, self))?;
        let mapped = buffer.slice(..).get_mapped_range_mut();
        let mut view = mapped.map_err(|e| {
            let what = spec.name.clone();
            exec_error(
                GpuError::Validation {
                    what,
                    reason: e.to_string(),
                },
                self,
            )
        })?;
        let pointer = view.slice(..).as_raw_element_ptr();
        // SAFETY: the mapping is `size` initialized bytes (wgpu zeroes them), lives as long as
        // `view`, and nothing else refers to it meanwhile.
        let dst = unsafe { std::slice::from_raw_parts_mut(pointer.as_ptr(), bytes) };
        match &spec.inline {
            Some(inline) => dst.copy_from_slice(inline),
            None => source.read(spec, dst)?,
        }
        drop(view);
        buffer.unmap();
        Ok(buffer)
    }
}
