//! One dispatch: a kernel, what it is bound to, its parameters and its grid.

use std::sync::Arc;

use nino_dtype::DType;
use nino_graph::WeightRows;

use crate::pipeline::{Code, Pipeline};
use crate::shader::KernelKey;
use crate::vulkan::Bound;
use crate::{Gpu, GpuError};
use nino_ptx::PtxKey;

/// Part of a tensor in a buffer. Kernels index elements of the whole tensor; `first` is the
/// element the part starts with, so a part can be bound when the whole is too large to be.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Nothing where a plan is lowered for a device that is not there: it cannot be dispatched.
    pub buffer: Option<&'a wgpu::Buffer>,
    pub offset: u64,
    pub bytes: u64,
    pub dtype: DType,
    pub first: u64,
}

impl<'a> View<'a> {
    pub fn whole(buffer: &'a wgpu::Buffer, dtype: DType) -> View<'a> {
        View {
            buffer: Some(buffer),
            offset: 0,
            bytes: buffer.size(),
            dtype,
            first: 0,
        }
    }

    /// The buffer that it is in.
    pub(crate) fn bound(&self) -> Result<&'a wgpu::Buffer, GpuError> {
        self.buffer.ok_or_else(|| GpuError::Validation {
            what: "a binding".to_owned(),
            reason: "a launch that was only planned has no buffers".to_owned(),
        })
    }

    /// Some of the `count` equal rows that it consists of.
    pub(crate) fn rows(self, count: usize, rows: WeightRows) -> View<'a> {
        let row = self.bytes / count.max(1) as u64;
        View {
            offset: self.offset + rows.first as u64 * row,
            bytes: rows.count as u64 * row,
            ..self
        }
    }

    /// Whether a PTX kernel can read it as `dtype`, 16 bytes at a time.
    pub(crate) fn is_whole(&self, dtype: DType) -> bool {
        self.dtype == dtype && self.offset.is_multiple_of(16)
    }

    /// Elements from where it starts to a row of its tensor that is in it, as PTX kernels are told;
    /// nothing where that is no multiple of eight.
    pub(crate) fn start_of_row(&self, row: u32, width: u32) -> Option<u32> {
        let at = (u64::from(row) * u64::from(width)).wrapping_sub(self.first) as u32;
        at.is_multiple_of(8).then_some(at)
    }

    /// Elements from where it starts to one of its tensor that is in it; nothing where that is not
    /// even.
    pub(crate) fn start_of_pair(&self, element: u32) -> Option<u32> {
        let at = u64::from(element).wrapping_sub(self.first) as u32;
        at.is_multiple_of(2).then_some(at)
    }

    /// Eights of elements from where it starts back to its tensor's first, below zero.
    pub(crate) fn start_of_tensor(&self) -> Option<u32> {
        let eights = i32::try_from(self.first / 8).ok()?;
        self.first.is_multiple_of(8).then_some(-eights as u32)
    }
}

/// The code of a launch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kernel {
    Shader(KernelKey),
    Ptx(PtxKey),
}

impl From<KernelKey> for Kernel {
    fn from(key: KernelKey) -> Kernel {
        Kernel::Shader(key)
    }
}

/// What to run; `dispatch` turns it into something that can be replayed.
#[derive(Debug)]
pub struct Launch<'a> {
    pub(crate) kernel: Kernel,
    pub views: Vec<View<'a>>,
    /// How many of the views, counted from the first, the kernel writes; it only reads the others.
    pub writes: usize,
    pub params: Vec<u32>,
    pub groups: [u32; 3],
}

impl Launch<'_> {
    /// The shader it runs; nothing where it runs a kernel in PTX.
    pub fn shader(&self) -> Option<&KernelKey> {
        match &self.kernel {
            Kernel::Shader(key) => Some(key),
            Kernel::Ptx(_) => None,
        }
    }

    pub(crate) fn label(&self) -> String {
        match &self.kernel {
            Kernel::Shader(key) => key.label(),
            Kernel::Ptx(key) => format!("{key:?}"),
        }
    }
}

/// A launch with its kernel compiled and bound to its views.
#[derive(Debug)]
pub struct Dispatch {
    body: Body,
    pub(crate) params: Vec<u8>,
    pub(crate) groups: [u32; 3],
    /// Where its parameters are in the table of a device without immediates.
    pub(crate) slot: u32,
}

#[derive(Debug)]
enum Body {
    Pass(Arc<Pipeline>, wgpu::BindGroup),
    Recorded(Bound),
}

/// A view as a kernel is bound to it: from an aligned offset, whole 16-byte words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding<'a> {
    pub(crate) buffer: &'a wgpu::Buffer,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// The number of a storage type in shader constants (`DT` in access.wgsl, `WT` in weight.wgsl).
pub(crate) fn dtype_code(dtype: DType) -> Option<i64> {
    Some(match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::BF16 => 2,
        DType::F8E4M3 => 3,
        DType::F8E5M2 => 4,
        DType::I32 | DType::U32 => 5,
        DType::I8 => 6,
        DType::Q8_0 => 10,
        DType::Q4_0 => 11,
        DType::Q4_1 => 12,
        DType::Q5_0 => 13,
        DType::Q5_1 => 14,
        DType::Q2_K => 20,
        DType::Q3_K => 21,
        DType::Q4_K => 22,
        DType::Q5_K => 23,
        DType::Q6_K => 24,
        DType::IQ4_NL => 25,
        DType::IQ4_XS => 26,
        DType::NVFP4 => 27,
        DType::MXFP8 => 28,
        DType::NF4 => 29,
        _ => return None,
    })
}

impl Gpu {
    pub fn dispatch(&self, launch: &Launch<'_>) -> Result<Dispatch, GpuError> {
        let max = self.limits.max_compute_workgroups_per_dimension;
        if launch.groups.iter().any(|&g| g > max) {
            return Err(GpuError::Unsupported {
                op: launch.label(),
                why: format!("grid {:?} exceeds {max} workgroups", launch.groups),
            });
        }
        let body = match &launch.kernel {
            Kernel::Shader(key) => self.bound(key, launch)?,
            Kernel::Ptx(key) => Body::Recorded(self.for_ptx(*key)?.bind_ptx(*key, launch)?),
        };
        Ok(Dispatch {
            body,
            params: launch.params.iter().flat_map(|w| w.to_le_bytes()).collect(),
            groups: launch.groups,
            slot: 0,
        })
    }

    fn bound(&self, key: &KernelKey, launch: &Launch<'_>) -> Result<Body, GpuError> {
        let pipeline = self.pipeline(key)?;
        assert_eq!(
            pipeline.n_bindings as usize,
            launch.views.len(),
            "{}: bindings of kernel and launch differ",
            pipeline.label
        );
        let bindings = self.bindings(&pipeline.label, &launch.views)?;
        Ok(match (&pipeline.code, &self.vulkan) {
            (Code::Vulkan(raw), Some(vulkan)) => {
                self.check_lost()?;
                Body::Recorded(vulkan.bind(raw, launch, &bindings)?)
            }
            (Code::Wgpu { layout, .. }, _) => {
                let group = self.bind_group(&pipeline.label, layout, &bindings)?;
                Body::Pass(pipeline, group)
            }
            (Code::Vulkan(_), None) => unreachable!("compiled without a Vulkan device"),
        })
    }

    fn bindings<'a>(&self, what: &str, views: &[View<'a>]) -> Result<Vec<Binding<'a>>, GpuError> {
        let align = self.caps.offset_alignment;
        let limit = self.caps.max_binding_bytes;
        let bind = |view: &View<'a>| {
            let buffer = view.bound()?;
            let offset = view.offset / align * align;
            let end = (view.offset + view.bytes)
                .next_multiple_of(16)
                .min(buffer.size());
            let bytes = (end - offset).max(16);
            if bytes > limit {
                let what = what.to_owned();
                return Err(GpuError::BindingTooLarge { what, bytes, limit });
            }
            Ok(Binding {
                buffer,
                offset,
                bytes,
            })
        };
        views.iter().map(bind).collect()
    }

    fn bind_group(
        &self,
        what: &str,
        layout: &wgpu::BindGroupLayout,
        bindings: &[Binding<'_>],
    ) -> Result<wgpu::BindGroup, GpuError> {
        let mut entries = Vec::with_capacity(bindings.len());
        for (i, b) in bindings.iter().enumerate() {
            entries.push(wgpu::BindGroupEntry {
                binding: i as u32,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: b.buffer,
                    offset: b.offset,
                    size: wgpu::BufferSize::new(b.bytes),
                }),
            });
        }
        self.scoped(what, 0, || {
            self.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout,
                entries: &entries,
            })
        })
    }
}

impl Dispatch {
    /// What it is where dispatches are recorded for Vulkan.
    pub(crate) fn recorded(&self) -> Option<&Bound> {
        match &self.body {
            Body::Recorded(bound) => Some(bound),
            Body::Pass(..) => None,
        }
    }

    /// Records the dispatch in a pass of wgpu. Without immediates, `uniforms` is the table its
    /// parameters are in and where.
    pub(crate) fn encode(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        uniforms: Option<(&wgpu::BindGroup, u32)>,
    ) {
        let Body::Pass(pipeline, bind_group) = &self.body else {
            return;
        };
        let Code::Wgpu { raw, .. } = &pipeline.code else {
            return;
        };
        if self.groups.contains(&0) {
            return;
        }
        pass.set_pipeline(raw);
        pass.set_bind_group(0, bind_group, &[]);
        match uniforms {
            Some((group, offset)) => pass.set_bind_group(1, group, &[offset]),
            None => pass.set_immediates(0, &self.params),
        }
        let [x, y, z] = self.groups;
        pass.dispatch_workgroups(x, y, z);
    }
}

/// Workgroups in one dimension that every device takes.
pub(crate) const MOST_GROUPS: u32 = 65_535;

/// Splits a count of workgroups over x and y, since a dimension holds `MOST_GROUPS`.
pub(crate) fn grid(groups: u64) -> [u32; 3] {
    const WIDTH: u64 = 32768;
    if groups <= WIDTH {
        return [groups as u32, 1, 1];
    }
    [WIDTH as u32, groups.div_ceil(WIDTH) as u32, 1]
}
