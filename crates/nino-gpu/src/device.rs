//! An open device: queue, buffers with typed failures, and what became of it.
//!
//! wgpu reports failures through error scopes and callbacks; everything here turns them into
//! `GpuError`. After a loss this `Gpu` only answers `DeviceLost`; open another one.

use std::sync::{Arc, Mutex, OnceLock};

use crate::adapter::{Adapters, WANTED};
use crate::pipeline::Pipelines;
use crate::tuning::Choices;
use crate::vulkan::Vulkan;
use crate::{AdapterInfo, Arch, Caps, GpuError, Tier};

/// How to open a device.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// `auto`, an index, or part of a name; empty means `auto`.
    pub adapter: String,
    /// A tier lower than the best one the adapter has.
    pub tier: Option<Tier>,
    /// Folder for compiled pipelines between runs.
    pub cache_dir: Option<std::path::PathBuf>,
    /// Record dispatches here rather than in wgpu's passes, where the device is a Vulkan one.
    pub record: bool,
    /// Use kernels in PTX where dispatches are recorded and the driver takes them.
    pub ptx: bool,
    /// Choose tiles as for this architecture rather than for the adapter's own.
    pub arch: Option<Arch>,
    /// Multiply packed bytes, where the device can at all, rather than where it is quick at it.
    pub dot_products: Option<bool>,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            adapter: String::new(),
            tier: None,
            cache_dir: None,
            record: true,
            ptx: true,
            arch: None,
            dot_products: None,
        }
    }
}

/// An open device.
#[derive(Debug)]
pub struct Gpu {
    pub info: AdapterInfo,
    /// What kernels are chosen by.
    pub caps: Caps,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) features: wgpu::Features,
    pub(crate) limits: wgpu::Limits,
    pub(crate) pipelines: Pipelines,
    /// Set where dispatches are recorded rather than encoded in wgpu's passes.
    pub(crate) vulkan: Option<Arc<Vulkan>>,
    adapter: wgpu::Adapter,
    lost: Arc<OnceLock<String>>,
    stray: Arc<Mutex<Option<String>>>,
    pub(crate) readback: Mutex<Option<wgpu::Buffer>>,
}

impl Gpu {
    pub fn open(options: &OpenOptions) -> Result<Gpu, GpuError> {
        Gpu::open_in(&Adapters::enumerate(), options)
    }

    /// Opens every adapter, at its best tier or at a lower one.
    pub fn open_all(adapters: &Adapters, tier: Option<Tier>) -> Result<Vec<Gpu>, GpuError> {
        let open = |info: &AdapterInfo| {
            let options = OpenOptions {
                adapter: info.index.to_string(),
                tier,
                ..OpenOptions::default()
            };
            Gpu::open_in(adapters, &options)
        };
        adapters.infos.iter().map(open).collect()
    }

    pub fn open_in(adapters: &Adapters, options: &OpenOptions) -> Result<Gpu, GpuError> {
        let wanted = if options.adapter.is_empty() {
            "auto"
        } else {
            &options.adapter
        };
        let info = adapters.pick(wanted)?.clone();
        let tier = pick_tier(&info, options.tier)?;
        let adapter = adapters.raw[info.index].clone();
        let mut features = adapter.features() & WANTED;
        if tier < Tier::Coop {
            features = features - wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        }
        let limits = adapter.limits();
        let desc = wgpu::DeviceDescriptor {
            label: Some("nino"),
            required_features: features,
            required_limits: limits.clone(),
            // SAFETY: cooperative matrices are checked by the op suite on every device.
            experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            trace: wgpu::Trace::Off,
        };
        let (device, queue, vulkan) = open_device(&adapter, &desc, options).map_err(|reason| {
            let adapter = info.name.clone();
            GpuError::DeviceCreation { adapter, reason }
        })?;
        let lost = Arc::new(OnceLock::new());
        let flag = Arc::clone(&lost);
        device.set_device_lost_callback(move |reason, message| {
            let _ = flag.set(format!("{reason:?}: {message}"));
        });
        let stray = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&stray);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            if let Ok(mut slot) = slot.lock() {
                slot.get_or_insert_with(|| error.to_string());
            }
        }));
        let raw_info = adapter.get_info();
        let pipelines = Pipelines::new(&device, features, &raw_info, options.cache_dir.as_deref());
        let mut caps = Caps::new(&info, &limits, tier);
        caps.arch = options.arch.unwrap_or(caps.arch);
        let wanted = options.dot_products.unwrap_or(caps.dot_products);
        caps.dot_products = wanted && info.dot_products.is_some();
        let folder = options.cache_dir.as_deref();
        caps.tiles.choices = folder.and_then(|f| Choices::read(f, &info)).map(Arc::new);
        caps.immediates = pipelines.immediates;
        caps.subgroup_choice = vulkan.as_ref().is_some_and(|v| v.chooses_subgroups());
        tracing::debug!(adapter = %info.name, %tier, arch = ?caps.arch, "gpu opened");
        let mut gpu = Gpu {
            info,
            caps,
            device,
            queue,
            features,
            limits,
            pipelines,
            vulkan,
            adapter,
            lost,
            stray,
            readback: Mutex::default(),
        };
        gpu.caps.ptx = gpu.probe_ptx();
        if gpu.caps.ptx.is_none() && gpu.lost().is_some() {
            let ptx = false;
            return Gpu::open_in(
                adapters,
                &OpenOptions {
                    ptx,
                    ..options.clone()
                },
            );
        }
        Ok(gpu)
    }

    /// Why the device is gone, if it is.
    pub fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Whether dispatches are recorded once and replayed, rather than encoded in wgpu's passes.
    pub fn records(&self) -> bool {
        self.vulkan.is_some()
    }

    /// Gives the device up: from here on every call answers that it is lost.
    pub fn destroy(&self) {
        self.device.destroy();
        // The callback runs when the device is next looked at.
        let _ = self.device.poll(wgpu::PollType::Poll);
    }

    /// Bytes free now by the most careful source, if any source knows.
    pub fn free_memory(&self) -> Option<u64> {
        let readings = crate::memory::read_memory(&self.adapter, &self.adapter.get_info());
        readings.iter().filter_map(|r| r.free).min()
    }

    pub(crate) fn check_lost(&self) -> Result<(), GpuError> {
        if let Some(reason) = self.lost() {
            return Err(GpuError::DeviceLost {
                reason: reason.to_owned(),
            });
        }
        let stray = self.stray.lock().ok().and_then(|mut s| s.take());
        stray.map_or(Ok(()), |reason| {
            Err(GpuError::Validation {
                what: "an earlier call".to_owned(),
                reason,
            })
        })
    }

    /// Runs `f` with wgpu's errors caught and typed. `bytes` is what an allocation asked for.
    pub(crate) fn scoped<T>(
        &self,
        what: &str,
        bytes: u64,
        f: impl FnOnce() -> T,
    ) -> Result<T, GpuError> {
        self.check_lost()?;
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let value = f();
        let memory = pollster::block_on(memory.pop());
        let validation = pollster::block_on(validation.pop());
        let internal = pollster::block_on(internal.pop());
        if memory.is_some() {
            let free = self.free_memory();
            return Err(GpuError::OutOfMemory {
                what: what.to_owned(),
                wanted: bytes,
                free,
            });
        }
        self.check_lost()?;
        match validation.or(internal) {
            Some(e) => Err(GpuError::Validation {
                what: what.to_owned(),
                reason: e.to_string(),
            }),
            None => Ok(value),
        }
    }

    /// A storage buffer of `bytes`, rounded up to whole 16-byte words plus one that unaligned
    /// block reads may touch.
    pub fn buffer(&self, what: &str, bytes: u64) -> Result<wgpu::Buffer, GpuError> {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::COPY_SRC;
        self.raw_buffer(what, bytes.next_multiple_of(16) + 16, usage)
    }

    pub(crate) fn raw_buffer(
        &self,
        what: &str,
        size: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<wgpu::Buffer, GpuError> {
        let limit = self.limits.max_buffer_size;
        if size > limit {
            return Err(GpuError::BindingTooLarge {
                what: what.to_owned(),
                bytes: size,
                limit,
            });
        }
        let desc = wgpu::BufferDescriptor {
            label: Some(what),
            size,
            usage,
            mapped_at_creation: false,
        };
        match &self.vulkan {
            Some(vulkan) if usage.contains(wgpu::BufferUsages::STORAGE) => {
                vulkan.buffer(self, &desc)
            }
            _ => self.scoped(what, size, || self.device.create_buffer(&desc)),
        }
    }

    /// Whether buffers can lie in host memory and be copied from and to.
    pub(crate) fn has_host_buffers(&self) -> bool {
        self.features
            .contains(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS)
    }

    /// Blocks until everything submitted has run.
    pub fn wait(&self) -> Result<(), GpuError> {
        self.poll(wgpu::PollType::wait_indefinitely())
    }

    pub(crate) fn poll(&self, how: wgpu::PollType) -> Result<(), GpuError> {
        // wgpu 30.0.1 panics when the device is lost while it is polled.
        let poll = std::panic::AssertUnwindSafe(|| self.device.poll(how));
        let polled = std::panic::catch_unwind(poll).map_err(|_| "polling failed".to_owned());
        let polled = polled.and_then(|r| r.map_err(|e| e.to_string()));
        if let Err(reason) = &polled {
            let _ = self.lost.set(reason.clone());
        }
        self.check_lost()
    }
}

type Opened = (wgpu::Device, wgpu::Queue, Option<Arc<Vulkan>>);

fn open_device(
    adapter: &wgpu::Adapter,
    desc: &wgpu::DeviceDescriptor<'_>,
    options: &OpenOptions,
) -> Result<Opened, String> {
    let needed = wgpu::Features::IMMEDIATES | wgpu::Features::TIMESTAMP_QUERY;
    let record = options.record && desc.required_features.contains(needed);
    let ways = [(record && options.ptx, true), (record, false)];
    for (_, ptx) in ways.into_iter().filter(|(wanted, _)| *wanted) {
        match Vulkan::open(adapter, desc, options.cache_dir.as_deref(), ptx) {
            Ok(Some((device, queue, vulkan))) => return Ok((device, queue, Some(vulkan))),
            Ok(None) => break,
            Err(reason) => tracing::debug!(%reason, ptx, "not opened for recording"),
        }
    }
    let opened = pollster::block_on(adapter.request_device(desc));
    let (device, queue) = opened.map_err(|e| e.to_string())?;
    Ok((device, queue, None))
}

fn pick_tier(info: &AdapterInfo, wanted: Option<Tier>) -> Result<Tier, GpuError> {
    let best = *info.tiers.last().unwrap_or(&Tier::F32);
    match wanted {
        None => Ok(best),
        Some(tier) if info.tiers.contains(&tier) => Ok(tier),
        Some(tier) => Err(GpuError::NoSuchTier {
            adapter: info.name.clone(),
            wanted: tier.name(),
            available: info.tiers.iter().map(|t| t.name()).collect(),
        }),
    }
}
