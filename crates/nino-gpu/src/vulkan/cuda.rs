//! Launching PTX kernels from Vulkan command buffers: `VK_NVX_binary_import`, which NVIDIA's
//! drivers have. Kernels take addresses of buffers rather than bindings.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{Mutex, PoisonError};

use ash::{khr, nvx, vk};

use crate::GpuError;
use nino_ptx::PtxKey;

/// The extensions this needs; the second for the addresses.
pub(super) const EXTENSIONS: [&std::ffi::CStr; 2] =
    [nvx::binary_import::NAME, khr::buffer_device_address::NAME];

pub(super) struct Cuda {
    import: nvx::binary_import::Device,
    addresses: khr::buffer_device_address::Device,
    /// Compiled once, kept as long as the device.
    functions: Mutex<HashMap<PtxKey, Function>>,
}

/// A compiled kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    module: vk::CuModuleNVX,
    raw: vk::CuFunctionNVX,
    threads: u32,
    shared: u32,
}

impl Cuda {
    pub(super) fn new(instance: &ash::Instance, device: &ash::Device) -> Cuda {
        Cuda {
            import: nvx::binary_import::Device::new(instance, device),
            addresses: khr::buffer_device_address::Device::new(instance, device),
            functions: Mutex::default(),
        }
    }

    /// The compiled kernel. Threads may compile different kernels at once.
    pub(super) fn function(&self, key: PtxKey) -> Result<Function, GpuError> {
        let functions = || {
            self.functions
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(found) = functions().get(&key) {
            return Ok(*found);
        }
        let made = self.compile(key)?;
        // A kernel that another thread made meanwhile stays; this one goes.
        let kept = *functions().entry(key).or_insert(made);
        if kept.raw != made.raw {
            self.destroy(made);
        }
        Ok(kept)
    }

    fn compile(&self, key: PtxKey) -> Result<Function, GpuError> {
        let kernel = key.kernel();
        let refused = |reason: String| GpuError::Kernel {
            kernel: kernel.name.clone(),
            reason,
        };
        let name = CString::new(kernel.name.as_str()).map_err(|e| refused(e.to_string()))?;
        let text = CString::new(kernel.text.as_str()).map_err(|e| refused(e.to_string()))?;
        let (fns, device) = (self.import.fp(), self.import.device());
        let mut made = Function {
            module: vk::CuModuleNVX::null(),
            raw: vk::CuFunctionNVX::null(),
            threads: kernel.threads,
            shared: kernel.shared,
        };
        let info = vk::CuModuleCreateInfoNVX::default().data(text.as_bytes_with_nul());
        // SAFETY: the text is whole PTX and ends with a zero, as the driver wants it.
        let result = unsafe {
            (fns.create_cu_module_nvx)(
                device,
                &raw const info,
                std::ptr::null(),
                &raw mut made.module,
            )
        };
        result
            .result()
            .map_err(|e| refused(format!("its PTX: {e}")))?;
        let info = vk::CuFunctionCreateInfoNVX::default()
            .module(made.module)
            .name(&name);
        // SAFETY: the module was just made, and has an entry of this name.
        let result = unsafe {
            (fns.create_cu_function_nvx)(
                device,
                &raw const info,
                std::ptr::null(),
                &raw mut made.raw,
            )
        };
        result.result().map_err(|e| {
            self.destroy(made);
            refused(format!("its entry: {e}"))
        })?;
        Ok(made)
    }

    pub(super) fn address(&self, buffer: vk::Buffer) -> u64 {
        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
        // SAFETY: `Vulkan::buffer` makes all buffers with an address where there is `Cuda`.
        unsafe { self.addresses.get_buffer_device_address(&info) }
    }

    /// Records a launch; addresses come before words in the kernel's parameters.
    pub(super) fn launch(
        &self,
        commands: vk::CommandBuffer,
        function: Function,
        (addresses, words): (&[u64], &[u32]),
        [x, y, z]: [u32; 3],
    ) {
        let addresses = addresses.iter().map(|a| std::ptr::from_ref(a).cast());
        let words = words.iter().map(|w| std::ptr::from_ref(w).cast());
        let params: Vec<*const c_void> = addresses.chain(words).collect();
        let info = vk::CuLaunchInfoNVX::default()
            .function(function.raw)
            .grid_dim_x(x)
            .grid_dim_y(y)
            .grid_dim_z(z)
            .block_dim_x(function.threads)
            .block_dim_y(1)
            .block_dim_z(1)
            .shared_mem_bytes(function.shared)
            .params(&params);
        // SAFETY: `commands` is being recorded, and the values pointed to outlive the call, which
        // copies them. What a kernel reads and writes is kept by the dispatch.
        unsafe { (self.import.fp().cmd_cu_launch_kernel_nvx)(commands, &raw const info) };
    }

    fn destroy(&self, function: Function) {
        let (fns, device) = (self.import.fp(), self.import.device());
        // SAFETY: made by this device; null handles are ignored.
        unsafe {
            (fns.destroy_cu_function_nvx)(device, function.raw, std::ptr::null());
            (fns.destroy_cu_module_nvx)(device, function.module, std::ptr::null());
        }
    }

    /// Destroys all kernels; the device is idle and still there.
    pub(super) fn clear(&self) {
        let mut functions = self
            .functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (_, function) in functions.drain() {
            self.destroy(function);
        }
    }
}
