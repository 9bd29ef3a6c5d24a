//! Compiled kernels, kept by key in memory and, where the backend can, on disk between runs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::kernel::{Kernel, Launch};
use crate::shader::{Assembled, KernelKey, assemble};
use crate::vulkan::Vulkan;
use crate::{Gpu, GpuError};
use nino_ptx::PtxKey;

/// A kernel ready to dispatch.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) code: Code,
    pub(crate) label: String,
    pub(crate) n_bindings: u32,
}

/// A kernel compiled by wgpu for its passes, or for recording.
#[derive(Debug)]
pub(crate) enum Code {
    Wgpu {
        raw: wgpu::ComputePipeline,
        layout: wgpu::BindGroupLayout,
    },
    Vulkan(Arc<crate::vulkan::Pipeline>),
}

/// Bytes of parameters a dispatch may carry: the immediates every desktop driver offers.
pub(crate) const PARAM_BYTES: u32 = 128;

#[derive(Debug)]
pub(crate) struct Pipelines {
    ready: Mutex<HashMap<KernelKey, Arc<Pipeline>>>,
    disk: Option<(wgpu::PipelineCache, PathBuf)>,
    pub(crate) immediates: bool,
}

impl Pipelines {
    pub(crate) fn new(
        device: &wgpu::Device,
        features: wgpu::Features,
        info: &wgpu::AdapterInfo,
        dir: Option<&Path>,
    ) -> Pipelines {
        let immediates = features.contains(wgpu::Features::IMMEDIATES)
            && device.limits().max_immediate_size >= PARAM_BYTES;
        let cached = features.contains(wgpu::Features::PIPELINE_CACHE);
        let disk = dir.filter(|_| cached).and_then(|dir| {
            let path = dir.join(wgpu::util::pipeline_cache_key(info)?);
            let data = read_cache(&path);
            // SAFETY: wgpu checks the header (adapter, driver, format) and falls back to an empty
            // cache; the file was written by `save`, a damaged one is refused by that check.
            let cache = unsafe {
                device.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                    label: Some("nino"),
                    data: data.as_deref(),
                    fallback: true,
                })
            };
            Some((cache, path))
        });
        Pipelines {
            ready: Mutex::default(),
            disk,
            immediates,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<KernelKey, Arc<Pipeline>>> {
        // A panic elsewhere leaves the map whole: it is only ever inserted into.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the disk cache, atomically; a failure only costs the next run some compile time.
    pub(crate) fn save(&self) {
        let Some((cache, path)) = &self.disk else {
            return;
        };
        if let Some(data) = cache.get_data() {
            replace(path, &data);
        }
    }
}

pub(crate) fn no_ptx(key: PtxKey) -> GpuError {
    GpuError::Unsupported {
        op: format!("{key:?}"),
        why: "the device takes no PTX".to_owned(),
    }
}

/// Bytes of a cache of kernels, at most.
const MAX_CACHE: u64 = 256 << 20;

/// The cache of kernels at `path`, where there is one that nobody else can have written: drivers
/// run what it holds.
pub(crate) fn read_cache(path: &Path) -> Option<Vec<u8>> {
    nino_files::read_own(path, MAX_CACHE)
}

pub(crate) fn replace(path: &Path, data: &[u8]) {
    if let Err(e) = path.parent().map_or(Ok(()), std::fs::create_dir_all) {
        tracing::debug!(path = %path.display(), error = %e, "pipeline cache not saved");
        return;
    }
    if let Err(e) = nino_files::AtomicFile::replace(path, data) {
        tracing::debug!(path = %path.display(), error = %e, "pipeline cache not saved");
    }
}

impl Gpu {
    /// The kernel for `key`, compiled at first use. Threads may compile different kernels at once.
    pub(crate) fn pipeline(&self, key: &KernelKey) -> Result<Arc<Pipeline>, GpuError> {
        if let Some(found) = self.pipelines.lock().get(key) {
            return Ok(Arc::clone(found));
        }
        let compiled = if let Some(vulkan) = &self.vulkan {
            self.check_lost().and_then(|()| {
                let (code, n_bindings) = vulkan.compile(key, &self.caps)?;
                Ok(Pipeline {
                    code: Code::Vulkan(Arc::new(code)),
                    label: key.label(),
                    n_bindings,
                })
            })
        } else {
            let assembled = assemble(key, self.pipelines.immediates)?;
            self.scoped("kernel", 0, || self.compile(key, &assembled))
        };
        let compiled = compiled.map_err(|e| match e {
            GpuError::Validation { reason, .. } => GpuError::Kernel {
                kernel: key.label(),
                reason,
            },
            other => other,
        })?;
        let compiled = Arc::new(compiled);
        self.pipelines
            .lock()
            .insert(key.clone(), Arc::clone(&compiled));
        Ok(compiled)
    }

    /// Compiles a launch's kernel, so that its dispatch need not.
    pub fn prepare_launch(&self, launch: &Launch<'_>) -> Result<(), GpuError> {
        self.prepare_kernel(&launch.kernel)
    }

    fn prepare_kernel(&self, kernel: &Kernel) -> Result<(), GpuError> {
        match kernel {
            Kernel::Shader(key) => self.pipeline(key).map(|_| ()),
            Kernel::Ptx(key) => self.for_ptx(*key)?.compile_ptx(*key),
        }
    }

    /// The device, for a PTX kernel.
    pub(crate) fn for_ptx(&self, key: PtxKey) -> Result<&Arc<Vulkan>, GpuError> {
        self.vulkan.as_ref().ok_or_else(|| no_ptx(key))
    }

    /// Compiles kernels on all cores, so that a first run need not wait for one after another.
    pub(crate) fn prepare(&self, kernels: &[Kernel]) -> Result<(), GpuError> {
        let next = std::sync::atomic::AtomicUsize::new(0);
        let n_threads = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(kernels.len());
        let work = || {
            let relaxed = std::sync::atomic::Ordering::Relaxed;
            while let Some(kernel) = kernels.get(next.fetch_add(1, relaxed)) {
                self.prepare_kernel(kernel)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|t| {
                t.join().unwrap_or_else(|_| {
                    Err(GpuError::Kernel {
                        kernel: "one of several".to_owned(),
                        reason: "the shader compiler panicked".to_owned(),
                    })
                })
            })
        })
    }

    /// Keeps compiled kernels for the next process.
    pub fn save_pipelines(&self) {
        match &self.vulkan {
            Some(vulkan) => vulkan.save(),
            None => self.pipelines.save(),
        }
    }

    /// Group 1 of every kernel where parameters are not immediates: a uniform at a dynamic offset.
    fn uniform_layout(&self) -> wgpu::BindGroupLayout {
        let desc = wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &[wgpu::BindGroupLayoutEntry {
                binding: 0,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Uniform,
                    has_dynamic_offset: true,
                    min_binding_size: None,
                },
                count: None,
            }],
        };
        self.device.create_bind_group_layout(&desc)
    }

    pub(crate) fn uniform_group(&self, table: &wgpu::Buffer) -> Result<wgpu::BindGroup, GpuError> {
        self.scoped("parameters", 0, || {
            self.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &self.uniform_layout(),
                entries: &[wgpu::BindGroupEntry {
                    binding: 0,
                    resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                        buffer: table,
                        offset: 0,
                        size: wgpu::BufferSize::new(u64::from(PARAM_BYTES)),
                    }),
                }],
            })
        })
    }

    fn compile(&self, key: &KernelKey, assembled: &Assembled) -> Pipeline {
        let label = key.label();
        // SAFETY: the kernels are ours, end, and stay inside their bindings by the host's
        // arithmetic, which the op suite checks on every device.
        let module = unsafe {
            self.device.create_shader_module_trusted(
                wgpu::ShaderModuleDescriptor {
                    label: Some(&label),
                    source: wgpu::ShaderSource::Wgsl(assembled.text.as_str().into()),
                },
                wgpu::ShaderRuntimeChecks::unchecked(),
            )
        };
        let entry = |binding| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: false },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = (0..assembled.n_bindings).map(entry).collect();
        let device = &self.device;
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &entries,
        });
        let uniform = self.uniform_layout();
        let immediates = self.pipelines.immediates;
        let groups = [Some(&layout), Some(&uniform)];
        let pipeline_layout = self
            .device
            .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: if immediates { &groups[..1] } else { &groups },
                immediate_size: if immediates { PARAM_BYTES } else { 0 },
            });
        let raw = self
            .device
            .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(&label),
                layout: Some(&pipeline_layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    constants: &[],
                    zero_initialize_workgroup_memory: false,
                },
                cache: self.pipelines.disk.as_ref().map(|(cache, _)| cache),
            });
        Pipeline {
            code: Code::Wgpu { raw, layout },
            label,
            n_bindings: assembled.n_bindings,
        }
    }
}
