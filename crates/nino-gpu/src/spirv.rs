//! WGSL to SPIR-V without the checks that wgpu adds for code it does not trust.

use wgpu::naga::{self, back::spv};

use crate::shader::{KernelKey, assemble};
use crate::{Caps, GpuError};

/// A kernel as Vulkan takes it.
#[derive(Clone, Debug)]
pub struct Spirv {
    pub words: Vec<u32>,
    /// Storage bindings, all in set 0, numbered from 0.
    pub n_bindings: u32,
    /// Bindings up to the last one that the kernel writes.
    pub writes: usize,
    /// Shared memory that a workgroup takes at least: devices may round parts of it up.
    pub shared_bytes: u32,
}

/// Bytes of push constants that every kernel's pipeline layout has.
pub const PARAM_BYTES: u32 = crate::pipeline::PARAM_BYTES;

impl KernelKey {
    /// The kernel's code in a version of SPIR-V, for a device that takes immediates.
    pub fn spirv(&self, version: (u8, u8)) -> Result<Spirv, GpuError> {
        let assembled = assemble(self, true)?;
        let translated = translate(&assembled.text, version);
        let (words, writes, shared_bytes) = translated.map_err(|reason| GpuError::Kernel {
            kernel: self.label(),
            reason,
        })?;
        Ok(Spirv {
            words,
            n_bindings: assembled.n_bindings,
            writes,
            shared_bytes,
        })
    }

    /// Lanes that the kernel's subgroups must have, where a device has subgroups of several sizes:
    /// those it is specialized for.
    pub fn required_lanes(&self, caps: &Caps) -> Option<u32> {
        let lanes = u32::try_from(*self.consts.get("SG")?).ok()?;
        (caps.subgroup_choice && caps.subgroup_min < caps.subgroup_max).then_some(lanes)
    }
}

/// The newest version of SPIR-V that a device of this Vulkan version takes.
pub fn spirv_version(api_version: u32) -> (u8, u8) {
    use ash::vk;
    match api_version {
        ..vk::API_VERSION_1_1 => (1, 0),
        vk::API_VERSION_1_1..vk::API_VERSION_1_2 => (1, 3),
        vk::API_VERSION_1_2..vk::API_VERSION_1_3 => (1, 5),
        _ => (1, 6),
    }
}

/// The kernel's code, how many bindings there are up to the last one it writes, and the bytes of
/// its shared memory.
fn translate(text: &str, version: (u8, u8)) -> Result<(Vec<u32>, usize, u32), String> {
    let capabilities = naga::valid::Capabilities::all();
    let mut options = naga::front::wgsl::Options::new();
    options.capabilities = capabilities;
    let parsed = naga::front::wgsl::Frontend::new_with_options(options).parse(text);
    let module = parsed.map_err(|e| e.emit_to_string(text))?;
    let validated = naga::valid::Validator::new(naga::valid::ValidationFlags::all(), capabilities)
        .validate(&module);
    let info = validated.map_err(|e| e.emit_to_string(text))?;
    let main = info.get_entry_point(0);
    let written = module
        .global_variables
        .iter()
        .filter_map(|(handle, global)| {
            let binding = global.binding.as_ref()?.binding as usize + 1;
            main[handle]
                .contains(naga::valid::GlobalUse::WRITE)
                .then_some(binding)
        });
    let writes = written.max().unwrap_or(0);
    let is_shared = |g: &&naga::GlobalVariable| g.space == naga::AddressSpace::WorkGroup;
    let shared = module.global_variables.iter().map(|(_, global)| global);
    let size = |g: &naga::GlobalVariable| module.types[g.ty].inner.size(module.to_ctx());
    let shared_bytes = shared.filter(is_shared).map(size).sum();
    let unchecked = naga::proc::BoundsCheckPolicy::Unchecked;
    let options = spv::Options {
        lang_version: version,
        flags: spv::WriterFlags::empty(),
        bounds_check_policies: naga::proc::BoundsCheckPolicies {
            index: unchecked,
            buffer: unchecked,
            image_load: unchecked,
            binding_array: unchecked,
        },
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..spv::Options::default()
    };
    let entry = spv::PipelineOptions {
        shader_stage: naga::ShaderStage::Compute,
        entry_point: "main".to_owned(),
    };
    let words = spv::write_vec(&module, &info, &options, Some(&entry));
    Ok((words.map_err(|e| e.to_string())?, writes, shared_bytes))
}
