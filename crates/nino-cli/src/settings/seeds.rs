//! Settings under the names that earlier programs for these cards used: a config file may have
//! them, and each says what it means here. What means nothing is accepted, since old files have it.

/// A key of an earlier program.
pub(crate) struct OldKey {
    pub(crate) name: &'static str,
    /// What it does here, or why it does nothing.
    pub(crate) about: &'static str,
    /// What it stands for; `None` where it does nothing.
    means: Option<Means>,
}

/// A setting, and how a value of the old key reads there; `None` where it says nothing.
type Means = (&'static str, fn(&str) -> Option<String>);

impl OldKey {
    pub(crate) fn find(name: &str) -> Option<&'static OldKey> {
        OLD_KEYS.iter().find(|key| key.name == name)
    }

    /// The setting that a value of it stands for; `None` where it says nothing.
    pub(super) fn setting(&self, value: &str) -> Option<(&'static str, String)> {
        let (key, read) = self.means?;
        Some((key, read(value)?))
    }
}

const fn as_is(name: &'static str, setting: &'static str, about: &'static str) -> OldKey {
    OldKey {
        name,
        about,
        means: Some((setting, |value| Some(value.to_owned()))),
    }
}

const fn nothing(name: &'static str, about: &'static str) -> OldKey {
    OldKey {
        name,
        about,
        means: None,
    }
}

pub(crate) const OLD_KEYS: &[OldKey] = &[
    OldKey {
        name: "gpu_backend",
        about: "device: auto and cpu are the same; opencl, rocm and vulkan are the best GPU",
        means: Some(("device", |value| {
            Some(
                if matches!(value, "auto" | "cpu") {
                    value
                } else {
                    "gpu"
                }
                .to_owned(),
            )
        })),
    },
    OldKey {
        name: "max_vram_usage_mb",
        about: "budget, in MiB",
        means: Some(("budget", |value| Some(format!("{value}MiB")))),
    },
    OldKey {
        name: "use_quantization",
        about: "quantize: true is q8_0, unless quantization_bits says otherwise",
        means: Some(("quantize", |value| {
            (value == "true").then(|| "q8_0".to_owned())
        })),
    },
    OldKey {
        name: "quantization_bits",
        about: "quantize, if use_quantization is true: 8 is q8_0, 4 is q4_k",
        means: Some(("quantize", |value| {
            Some(if value == "4" { "q4_k" } else { "q8_0" }.to_owned())
        })),
    },
    as_is("num_inference_steps", "steps", "steps"),
    as_is("default_model", "model", "model"),
    as_is(
        "model_cache_dir",
        "models",
        "models: a folder where files are looked up by name",
    ),
    as_is(
        "precision_mode",
        "precision",
        "precision: auto, fp32, fp16 or bf16; mixed is fp16, since sums are always f32",
    ),
    nothing(
        "enable_cpu_offload",
        "nothing: plans move what does not fit to host memory",
    ),
    nothing(
        "cpu_offload",
        "nothing: plans move what does not fit to host memory",
    ),
    nothing(
        "offload_threshold_mb",
        "nothing: plans move the least that makes them fit",
    ),
    nothing(
        "use_flash_attention",
        "nothing: attention never stores the full score matrix",
    ),
    nothing("use_xformers", "nothing: there is no PyTorch"),
    nothing(
        "default_batch_size",
        "nothing: --batch sets it, 1 by default",
    ),
    nothing(
        "max_batch_size",
        "nothing: the plan shows which batch fits; profiles warn",
    ),
    nothing(
        "guidance_scale",
        "nothing: --cfg sets it, and each model has its own default",
    ),
    nothing(
        "chunk_size",
        "nothing: --chunk of decode sets it; auto is as large as fits",
    ),
    nothing(
        "memory_threshold",
        "nothing: plans stay within the budget before they run",
    ),
    nothing(
        "memory_fraction",
        "nothing: plans use 0.9 of a device's memory; see budget",
    ),
    nothing(
        "cleanup_frequency",
        "nothing: memory is freed when a stage ends",
    ),
    nothing("rocm_preferred", "nothing: precision sets it"),
    nothing(
        "fallback",
        "nothing: values that are not finite are computed again in f32",
    ),
    nothing(
        "mixed_precision",
        "nothing: storage may be f16, sums are always f32",
    ),
    nothing(
        "enable_hip_memory",
        "nothing: there is no HIP; memory is one planned arena",
    ),
    nothing(
        "attention_optimization",
        "nothing: the kernel is chosen by device and size",
    ),
    nothing(
        "kernel_tuning",
        "nothing: kernels are chosen by the card's architecture",
    ),
    nothing(
        "synchronization",
        "nothing: a run ends when its results are complete",
    ),
    nothing("batch_optimization", "nothing: a batch is planned as one"),
    nothing(
        "memory_prefetching",
        "nothing: streamed weights are always read ahead",
    ),
    nothing(
        "advanced_caching",
        "nothing: models and encoded prompts are always cached",
    ),
    nothing(
        "adaptive_precision",
        "nothing: precision auto depends on the device, and is f32 where values are not finite",
    ),
    nothing("gpu_device_id", "nothing: device sets it, such as gpu:0"),
    nothing("log_level", "nothing: -v, -vv and NINO_LOG set it"),
    nothing("log_file", "nothing: messages go to standard error"),
    nothing("enable_profiling", "nothing: `nino profile` does it"),
    nothing("benchmark_mode", "nothing: `nino bench` does it"),
    nothing(
        "tensor_layout_optimization",
        "nothing: activations are channels-last",
    ),
];
