//! The nodes of rocm-ninodes, a pack for ComfyUI, by their ids: graphs that were made with it run
//! here. Loaders, samplers and decoders are the core's; monitors measure, in `rocm/monitors.rs`.
//!
//! Inputs that chose between ways to do the same are taken and change nothing: a decode is exact
//! within the memory there is, and every kernel is the best that the device has.

mod monitors;

use super::loaders::{checkpoint, lora, unet};
use super::sampler::{
    CFG, COUNT, LATENT, MODEL, NEGATIVE, POSITIVE, SAMPLER, SCHEDULER, STEPS, advanced, ksampler,
};
use super::{custom, vae};
use crate::NodeError;
use crate::host::Folder;
use crate::node::table::{
    boolean, combo, file, float, int, link, named, optional, out, seed, text,
};
use crate::node::{InputDef, NodeDef, OutputDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::Precision;

const LOADERS: &str = "ROCm Ninodes/Loaders";
const VAE: &str = "ROCm Ninodes/VAE";
const SAMPLING: &str = "ROCm Ninodes/Sampling";
const STRENGTH: (f64, f64) = (-10.0, 10.0);
const TILE: InputDef = int("tile_size", 768, (256, 2048), 64);
const OVERLAP: InputDef = int("overlap", 96, (32, 512), 16);
const PRECISION: InputDef = combo("precision_mode", || vec!["auto", "fp32", "fp16", "bf16"]);
const COMPATIBLE: InputDef = optional(boolean("compatibility_mode", false));
const FOR_VIDEO: InputDef = optional(boolean("optimize_for_video", false));
const STORED: InputDef = optional(combo("precision_mode", || vec!["auto", "fp32", "bf16"]));
const TOLD: &[OutputDef] = &[
    named("DEVICE_INFO", Socket::String),
    named("PERFORMANCE_TIPS", Socket::String),
    named("OPTIMAL_SETTINGS", Socket::String),
];

/// A decode under a name of before, whose settings may all be left out.
macro_rules! old_decode {
    ($class:literal, $name:literal) => {
        NodeDef {
            class: $class,
            display_name: $name,
            category: VAE,
            inputs: &[
                link("samples", Socket::Latent),
                link("vae", Socket::Vae),
                optional(TILE),
                optional(OVERLAP),
                optional(combo("precision_mode", || {
                    vec!["auto", "fp32", "fp16", "bf16", "mixed"]
                })),
            ],
            outputs: &[out(Socket::Image)],
            is_output: false,
            run: decode,
        }
    };
}

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "ROCMOptimizedCheckpointLoader",
        display_name: "ROCm Checkpoint Loader",
        category: LOADERS,
        inputs: &[
            file("ckpt_name", Folder::Checkpoints),
            optional(boolean("use_cache", true)),
            optional(boolean("force_reload", false)),
            COMPATIBLE,
        ],
        outputs: &[out(Socket::Model), out(Socket::Clip), out(Socket::Vae)],
        is_output: false,
        run: checkpoint,
    },
    NodeDef {
        class: "ROCmDiffusionLoader",
        display_name: "ROCm Diffusion Loader",
        category: LOADERS,
        inputs: &[
            file("unet_name", Folder::DiffusionModels),
            optional(combo("weight_dtype", || {
                vec!["default", "fp8_e4m3fn", "fp8_e5m2"]
            })),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| unet(call, "unet_name"),
    },
    NodeDef {
        class: "ROCmGGUFLoader",
        display_name: "ROCm GGUF Loader",
        category: LOADERS,
        inputs: &[file("gguf_name", Folder::DiffusionModels)],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| unet(call, "gguf_name"),
    },
    NodeDef {
        class: "ROCMLoRALoader",
        display_name: "ROCm LoRA Loader",
        category: LOADERS,
        inputs: &[
            MODEL,
            file("lora_name", Folder::Loras),
            float("strength_model", 1.0, STRENGTH, 0.01),
            float("strength_clip", 1.0, STRENGTH, 0.01),
            optional(link("clip", Socket::Clip)),
        ],
        outputs: &[out(Socket::Model), out(Socket::Clip)],
        is_output: false,
        run: lora,
    },
    NodeDef {
        class: "ROCMOptimizedVAEDecode",
        display_name: "ROCm VAE Decode",
        category: VAE,
        inputs: &[
            link("samples", Socket::Latent),
            link("vae", Socket::Vae),
            TILE,
            OVERLAP,
            boolean("use_rocm_optimizations", true),
            PRECISION,
            boolean("batch_optimization", true),
            COMPATIBLE,
            optional(combo("enable_temporal_tiling", || {
                vec!["auto", "enable", "disable"]
            })),
            optional(int("temporal_chunk_size", 16, (4, 256), 2)),
            optional(int("temporal_overlap", 2, (1, 8), 1)),
            optional(boolean("last_frame_fix", false)),
        ],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: decode,
    },
    old_decode!("ROCMOptimizedVAEDecodeV2", "ROCm VAE Decode (V2)"),
    old_decode!("ROCMOptimizedVAEDecodeV2Phase2", "ROCm VAE Decode (V2, 2)"),
    old_decode!("ROCMOptimizedVAEDecodeV2Phase3", "ROCm VAE Decode (V2, 3)"),
    NodeDef {
        class: "ROCMOptimizedVAEDecodeTiled",
        display_name: "ROCm VAE Decode Tiled",
        category: VAE,
        inputs: &[
            link("samples", Socket::Latent),
            link("vae", Socket::Vae),
            TILE,
            OVERLAP,
            int("temporal_size", 64, (8, 4096), 4),
            int("temporal_overlap", 8, (4, 4096), 4),
            boolean("rocm_optimizations", true),
        ],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: decode,
    },
    NodeDef {
        class: "ROCMVAEPerformanceMonitor",
        display_name: "ROCm VAE Performance Monitor",
        category: VAE,
        inputs: &[
            link("vae", Socket::Vae),
            int("test_resolution", 1024, (256, 4096), 64),
        ],
        outputs: TOLD,
        is_output: true,
        run: monitors::vae,
    },
    NodeDef {
        class: "ROCMOptimizedKSampler",
        display_name: "ROCm KSampler",
        category: SAMPLING,
        inputs: &[
            MODEL,
            seed("seed"),
            COUNT,
            CFG,
            SAMPLER,
            SCHEDULER,
            POSITIVE,
            NEGATIVE,
            LATENT,
            float("denoise", 1.0, (0.0, 1.0), 0.01),
            FOR_VIDEO,
            STORED,
            COMPATIBLE,
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: ksampler,
    },
    NodeDef {
        class: "ROCMOptimizedKSamplerAdvanced",
        display_name: "ROCm KSampler Advanced",
        category: SAMPLING,
        inputs: &[
            MODEL,
            combo("add_noise", || vec!["enable", "disable"]),
            seed("noise_seed"),
            COUNT,
            CFG,
            SAMPLER,
            SCHEDULER,
            POSITIVE,
            NEGATIVE,
            LATENT,
            int("start_at_step", 0, STEPS, 1),
            int("end_at_step", 10_000, STEPS, 1),
            combo("return_with_leftover_noise", || vec!["disable", "enable"]),
            FOR_VIDEO,
            STORED,
            COMPATIBLE,
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: advanced,
    },
    NodeDef {
        class: "ROCMSamplerCustomAdvanced",
        display_name: "ROCm Sampler Custom Advanced",
        category: SAMPLING,
        inputs: &[
            link("noise", Socket::Noise),
            link("guider", Socket::Guider),
            link("sampler", Socket::Sampler),
            link("sigmas", Socket::Sigmas),
            LATENT,
            COMPATIBLE,
            optional(combo("flash_attention", || {
                vec!["auto", "disable_flash", "force_flash"]
            })),
        ],
        outputs: custom::SAMPLED,
        is_output: false,
        run: custom::advanced,
    },
    NodeDef {
        class: "ROCMSamplerPerformanceMonitor",
        display_name: "ROCm Sampler Performance Monitor",
        category: SAMPLING,
        inputs: &[MODEL, int("test_steps", 20, (1, 100), 1)],
        outputs: TOLD,
        is_output: true,
        run: monitors::sampler,
    },
    NodeDef {
        class: "ROCMFluxBenchmark",
        display_name: "ROCm Flux Benchmark",
        category: "ROCm Ninodes/Benchmark",
        inputs: &[
            MODEL,
            link("vae", Socket::Vae),
            link("clip", Socket::Clip),
            text("test_resolutions", "256x320,512x512,1024x1024"),
            int("test_steps", 20, (1, 100), 1),
            text("test_cfg_values", "1.0,3.5,8.0"),
            boolean("test_hipblas", true),
            boolean("generate_report", true),
        ],
        outputs: &[
            named("BENCHMARK_RESULTS", Socket::String),
            named("PERFORMANCE_CHART", Socket::String),
            named("OPTIMIZATION_RECOMMENDATIONS", Socket::String),
            named("MEMORY_ANALYSIS", Socket::String),
        ],
        is_output: true,
        run: monitors::benchmark,
    },
    NodeDef {
        class: "ROCMMemoryOptimizer",
        display_name: "ROCm Memory Optimizer",
        category: "ROCm Ninodes/Memory",
        inputs: &[
            combo("optimization_level", || {
                vec!["balanced", "conservative", "aggressive"]
            }),
            boolean("enable_gc", true),
            boolean("clear_cache", true),
            int("cleanup_frequency", 10, (1, 100), 1),
        ],
        outputs: &[
            named("MEMORY_STATUS", Socket::String),
            named("OPTIMIZATION_LOG", Socket::String),
            named("RECOMMENDATIONS", Socket::String),
        ],
        is_output: true,
        run: monitors::memory,
    },
];

/// Decodes with the precision that the node says, or the program's.
fn decode(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let precision = match call.text("precision_mode").as_deref() {
        Ok("fp32") => Precision::F32,
        // Sums and norms are f32 anyway.
        Ok("fp16" | "mixed") => Precision::F16,
        Ok("bf16") => Precision::Bf16,
        _ => call.settings.precision,
    };
    vae::decode_in(call, precision)
}
