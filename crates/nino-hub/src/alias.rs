//! Short names of models that people ask for. A row is one line: where the model is, which file of
//! it is taken, and what it is good for.
//!
//! Sizes are what the repositories had when the row was written, for the list alone; what is
//! downloaded has the size and the hash that the server says.

/// A short name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    pub name: &'static str,
    pub repo: &'static str,
    pub files: &'static [&'static str],
    /// Files of other repositories that belong to it.
    pub beside: &'static [(&'static str, &'static [&'static str])],
    pub about: &'static str,
    pub use_as: UseAs,
    /// Bytes of all files, about.
    pub size: u64,
    /// Whether `nino` runs it. One that it does not run yet is neither listed nor pulled.
    pub runs: bool,
}

/// The flag that takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseAs {
    Model,
    Vae,
}

/// The table. A model's `runs` becomes true with the change that makes it run.
const TABLE: &[Alias] = &[
    Alias {
        name: "sd15",
        repo: "Comfy-Org/stable-diffusion-v1-5-archive",
        files: &["v1-5-pruned-emaonly-fp16.safetensors"],
        beside: &[],
        about: "Stable Diffusion 1.5, 512x512; many LoRAs",
        use_as: UseAs::Model,
        size: 2_130_000_000,
        runs: true,
    },
    Alias {
        name: "sd15-inpaint",
        repo: "webui/stable-diffusion-inpainting",
        files: &["sd-v1-5-inpainting.safetensors"],
        beside: &[],
        about: "Stable Diffusion 1.5 for inpainting",
        use_as: UseAs::Model,
        size: 4_270_000_000,
        runs: true,
    },
    Alias {
        name: "sd21",
        repo: "webui/stable-diffusion-2-1",
        files: &["v2-1_768-ema-pruned-fp16.safetensors"],
        beside: &[],
        about: "Stable Diffusion 2.1, 768x768",
        use_as: UseAs::Model,
        size: 2_580_000_000,
        runs: true,
    },
    Alias {
        name: "sd2-inpaint",
        repo: "Comfy-Org/stable_diffusion_2.1_repackaged",
        files: &["512-inpainting-ema.safetensors"],
        beside: &[],
        about: "Stable Diffusion 2 for inpainting",
        use_as: UseAs::Model,
        size: 5_210_000_000,
        runs: true,
    },
    Alias {
        name: "sdxl",
        repo: "stabilityai/stable-diffusion-xl-base-1.0",
        files: &["sd_xl_base_1.0.safetensors"],
        beside: &[],
        about: "Stable Diffusion XL, 1024x1024",
        use_as: UseAs::Model,
        size: 6_940_000_000,
        runs: true,
    },
    Alias {
        name: "sdxl-refiner",
        repo: "stabilityai/stable-diffusion-xl-refiner-1.0",
        files: &["sd_xl_refiner_1.0.safetensors"],
        beside: &[],
        about: "SDXL's refiner, for its last steps",
        use_as: UseAs::Model,
        size: 6_080_000_000,
        runs: true,
    },
    Alias {
        name: "sdxl-turbo",
        repo: "stabilityai/sdxl-turbo",
        files: &["sd_xl_turbo_1.0_fp16.safetensors"],
        beside: &[],
        about: "SDXL in 1 to 4 steps, 512x512",
        use_as: UseAs::Model,
        size: 6_940_000_000,
        runs: true,
    },
    Alias {
        name: "sdxl-vae",
        repo: "madebyollin/sdxl-vae-fp16-fix",
        files: &["sdxl_vae.safetensors"],
        beside: &[],
        about: "SDXL's VAE, fixed for f16",
        use_as: UseAs::Vae,
        size: 335_000_000,
        runs: true,
    },
    Alias {
        name: "taesd",
        repo: "madebyollin/taesd",
        files: &["diffusion_pytorch_model.safetensors"],
        beside: &[],
        about: "a tiny VAE for SD 1.x and 2.x, for previews",
        use_as: UseAs::Vae,
        size: 9_800_000,
        runs: true,
    },
    Alias {
        name: "taesdxl",
        repo: "madebyollin/taesdxl",
        files: &["diffusion_pytorch_model.safetensors"],
        beside: &[],
        about: "a tiny VAE for SDXL: fast, for previews",
        use_as: UseAs::Vae,
        size: 9_800_000,
        runs: true,
    },
    Alias {
        name: "flux-schnell",
        repo: "Comfy-Org/flux1-schnell",
        files: &["flux1-schnell-fp8.safetensors"],
        beside: &[],
        about: "Flux.1 schnell, all parts, in 4 steps",
        use_as: UseAs::Model,
        size: 17_200_000_000,
        runs: true,
    },
    Alias {
        name: "flux-dev",
        repo: "Comfy-Org/flux1-dev",
        files: &["flux1-dev-fp8.safetensors"],
        beside: &[],
        about: "Flux.1 dev, all parts, in 20 steps",
        use_as: UseAs::Model,
        size: 17_200_000_000,
        runs: true,
    },
    Alias {
        name: "z-image-turbo",
        repo: "Comfy-Org/z_image_turbo",
        files: &[
            "split_files/diffusion_models/z_image_turbo_bf16.safetensors",
            "split_files/text_encoders/qwen_3_4b.safetensors",
            "split_files/vae/ae.safetensors",
        ],
        beside: &[],
        about: "Z-Image Turbo, all parts, in 8 steps",
        use_as: UseAs::Model,
        size: 20_800_000_000,
        runs: true,
    },
    Alias {
        name: "flux2-klein-4b",
        repo: "Comfy-Org/flux2-klein",
        files: &[
            "split_files/diffusion_models/flux-2-klein-4b.safetensors",
            "split_files/text_encoders/qwen_3_4b.safetensors",
        ],
        beside: &[(
            "Comfy-Org/flux2-dev",
            &["split_files/vae/flux2-vae.safetensors"],
        )],
        about: "Flux.2 klein 4B, all parts, in 4 steps; edits",
        use_as: UseAs::Model,
        size: 16_200_000_000,
        runs: true,
    },
    Alias {
        name: "flux2-dev",
        repo: "Comfy-Org/flux2-dev",
        files: &[
            "split_files/diffusion_models/flux2_dev_fp8mixed.safetensors",
            "split_files/text_encoders/mistral_3_small_flux2_fp8.safetensors",
            "split_files/vae/flux2-vae.safetensors",
        ],
        beside: &[],
        about: "Flux.2 dev, all parts, in 20 steps; edits too",
        use_as: UseAs::Model,
        size: 53_900_000_000,
        runs: true,
    },
    Alias {
        name: "qwen-image",
        repo: "Comfy-Org/Qwen-Image_ComfyUI",
        files: &[
            "split_files/diffusion_models/qwen_image_fp8_e4m3fn.safetensors",
            "split_files/text_encoders/qwen_2.5_vl_7b_fp8_scaled.safetensors",
            "split_files/vae/qwen_image_vae.safetensors",
        ],
        beside: &[],
        about: "Qwen-Image, all parts: renders text in images",
        use_as: UseAs::Model,
        size: 30_100_000_000,
        runs: true,
    },
    Alias {
        name: "krea2-turbo",
        repo: "Comfy-Org/Krea-2",
        files: &[
            "diffusion_models/krea2_turbo_int8_convrot.safetensors",
            "text_encoders/qwen3vl_4b_fp8_scaled.safetensors",
            "vae/qwen_image_vae.safetensors",
        ],
        beside: &[],
        about: "Krea 2 Turbo in int8, all parts, in 8 steps",
        use_as: UseAs::Model,
        size: 18_990_000_000,
        runs: true,
    },
    Alias {
        name: "anima",
        repo: "circlestone-labs/Anima",
        files: &[
            "split_files/diffusion_models/anima-base-v1.0.safetensors",
            "split_files/text_encoders/qwen_3_06b_base.safetensors",
            "split_files/vae/qwen_image_vae.safetensors",
        ],
        beside: &[],
        about: "Anima, all parts: drawings, for small cards",
        use_as: UseAs::Model,
        size: 5_800_000_000,
        runs: true,
    },
    Alias {
        name: "wan2.2-ti2v-5b",
        repo: "Comfy-Org/Wan_2.2_ComfyUI_Repackaged",
        files: &[
            "split_files/diffusion_models/wan2.2_ti2v_5B_fp16.safetensors",
            "split_files/vae/wan2.2_vae.safetensors",
        ],
        beside: &[(
            "Comfy-Org/Wan_2.1_ComfyUI_repackaged",
            &["split_files/text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors"],
        )],
        about: "Wan 2.2 5B, all parts: text or image to video",
        use_as: UseAs::Model,
        size: 18_100_000_000,
        runs: true,
    },
    Alias {
        name: "z-image",
        repo: "Comfy-Org/z_image",
        files: &["split_files/diffusion_models/z_image_bf16.safetensors"],
        beside: &[
            (
                "Comfy-Org/z_image_turbo",
                &["split_files/text_encoders/qwen_3_4b.safetensors"],
            ),
            (
                "Comfy-Org/z_image_turbo",
                &["split_files/vae/ae.safetensors"],
            ),
        ],
        about: "Z-Image, all parts, not distilled",
        use_as: UseAs::Model,
        size: 20_800_000_000,
        runs: true,
    },
    Alias {
        name: "flux2-klein-base-4b",
        repo: "Comfy-Org/flux2-klein",
        files: &[
            "split_files/diffusion_models/flux-2-klein-base-4b.safetensors",
            "split_files/text_encoders/qwen_3_4b.safetensors",
        ],
        beside: &[(
            "Comfy-Org/flux2-dev",
            &["split_files/vae/flux2-vae.safetensors"],
        )],
        about: "Flux.2 klein base 4B, all parts, not distilled",
        use_as: UseAs::Model,
        size: 16_200_000_000,
        runs: true,
    },
    Alias {
        name: "flux2-klein-9b",
        repo: "black-forest-labs/FLUX.2-klein-9b-fp8",
        files: &["flux-2-klein-9b-fp8.safetensors"],
        beside: &[
            (
                "Comfy-Org/flux2-klein-9B",
                &["split_files/text_encoders/qwen_3_8b_fp8mixed.safetensors"],
            ),
            (
                "Comfy-Org/flux2-dev",
                &["split_files/vae/flux2-vae.safetensors"],
            ),
        ],
        about: "Flux.2 klein 9B in fp8, all parts, in 4 steps",
        use_as: UseAs::Model,
        size: 18_500_000_000,
        runs: true,
    },
    Alias {
        name: "flux2-klein-base-9b",
        repo: "black-forest-labs/FLUX.2-klein-base-9b-fp8",
        files: &["flux-2-klein-base-9b-fp8.safetensors"],
        beside: &[
            (
                "Comfy-Org/flux2-klein-9B",
                &["split_files/text_encoders/qwen_3_8b_fp8mixed.safetensors"],
            ),
            (
                "Comfy-Org/flux2-dev",
                &["split_files/vae/flux2-vae.safetensors"],
            ),
        ],
        about: "Flux.2 klein base 9B in fp8, not distilled",
        use_as: UseAs::Model,
        size: 18_500_000_000,
        runs: true,
    },
    Alias {
        name: "qwen-image-edit-2509",
        repo: "Comfy-Org/Qwen-Image-Edit_ComfyUI",
        files: &["split_files/diffusion_models/qwen_image_edit_2509_fp8_e4m3fn.safetensors"],
        beside: &[
            (
                "Comfy-Org/Qwen-Image_ComfyUI",
                &["split_files/text_encoders/qwen_2.5_vl_7b_fp8_scaled.safetensors"],
            ),
            (
                "Comfy-Org/Qwen-Image_ComfyUI",
                &["split_files/vae/qwen_image_vae.safetensors"],
            ),
        ],
        about: "Qwen-Image-Edit 2509: edits up to 3 images",
        use_as: UseAs::Model,
        size: 30_100_000_000,
        runs: true,
    },
    Alias {
        name: "qwen-image-edit-2511",
        repo: "Comfy-Org/Qwen-Image-Edit_ComfyUI",
        files: &["split_files/diffusion_models/qwen_image_edit_2511_int8_convrot.safetensors"],
        beside: &[
            (
                "Comfy-Org/Qwen-Image_ComfyUI",
                &["split_files/text_encoders/qwen_2.5_vl_7b_fp8_scaled.safetensors"],
            ),
            (
                "Comfy-Org/Qwen-Image_ComfyUI",
                &["split_files/vae/qwen_image_vae.safetensors"],
            ),
        ],
        about: "Qwen-Image-Edit 2511 in int8",
        use_as: UseAs::Model,
        size: 30_100_000_000,
        runs: true,
    },
    Alias {
        name: "wan2.1-t2v-1.3b",
        repo: "Comfy-Org/Wan_2.1_ComfyUI_repackaged",
        files: &[
            "split_files/diffusion_models/wan2.1_t2v_1.3B_fp16.safetensors",
            "split_files/text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors",
            "split_files/vae/wan_2.1_vae.safetensors",
        ],
        beside: &[],
        about: "Wan 2.1 1.3B: text to video on small cards",
        use_as: UseAs::Model,
        size: 9_800_000_000,
        runs: true,
    },
    Alias {
        name: "wan2.1-vace-1.3b",
        repo: "Comfy-Org/Wan_2.1_ComfyUI_repackaged",
        files: &[
            "split_files/diffusion_models/wan2.1_vace_1.3B_fp16.safetensors",
            "split_files/text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors",
            "split_files/vae/wan_2.1_vae.safetensors",
        ],
        beside: &[],
        about: "Wan 2.1 VACE 1.3B: control videos, inpainting",
        use_as: UseAs::Model,
        size: 11_300_000_000,
        runs: true,
    },
    Alias {
        name: "wan2.1-i2v-14b",
        repo: "Comfy-Org/Wan_2.1_ComfyUI_repackaged",
        files: &[
            "split_files/diffusion_models/wan2.1_i2v_480p_14B_fp16.safetensors",
            "split_files/text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors",
            "split_files/vae/wan_2.1_vae.safetensors",
            "split_files/clip_vision/clip_vision_h.safetensors",
        ],
        beside: &[],
        about: "Wan 2.1 14B: image to video",
        use_as: UseAs::Model,
        size: 41_100_000_000,
        runs: true,
    },
    Alias {
        name: "wan2.2-t2v-14b",
        repo: "Comfy-Org/Wan_2.2_ComfyUI_Repackaged",
        files: &[
            "split_files/diffusion_models/wan2.2_t2v_high_noise_14B_fp8_scaled.safetensors",
            "split_files/diffusion_models/wan2.2_t2v_low_noise_14B_fp8_scaled.safetensors",
            "split_files/vae/wan_2.1_vae.safetensors",
        ],
        beside: &[(
            "Comfy-Org/Wan_2.1_ComfyUI_repackaged",
            &["split_files/text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors"],
        )],
        about: "Wan 2.2 14B, both experts: text to video",
        use_as: UseAs::Model,
        size: 35_600_000_000,
        runs: true,
    },
    Alias {
        name: "wan2.2-i2v-14b",
        repo: "Comfy-Org/Wan_2.2_ComfyUI_Repackaged",
        files: &[
            "split_files/diffusion_models/wan2.2_i2v_high_noise_14B_fp8_scaled.safetensors",
            "split_files/diffusion_models/wan2.2_i2v_low_noise_14B_fp8_scaled.safetensors",
            "split_files/vae/wan_2.1_vae.safetensors",
        ],
        beside: &[(
            "Comfy-Org/Wan_2.1_ComfyUI_repackaged",
            &["split_files/text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors"],
        )],
        about: "Wan 2.2 14B, both experts: image to video",
        use_as: UseAs::Model,
        size: 35_600_000_000,
        runs: true,
    },
    Alias {
        name: "wan2.2-s2v-14b",
        repo: "Comfy-Org/Wan_2.2_ComfyUI_Repackaged",
        files: &[
            "split_files/diffusion_models/wan2.2_s2v_14B_fp8_scaled.safetensors",
            "split_files/audio_encoders/wav2vec2_large_english_fp16.safetensors",
            "split_files/vae/wan_2.1_vae.safetensors",
        ],
        beside: &[(
            "Comfy-Org/Wan_2.1_ComfyUI_repackaged",
            &["split_files/text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors"],
        )],
        about: "Wan 2.2 14B: sound to video",
        use_as: UseAs::Model,
        // By the parameters: no listing of the repository was at hand.
        size: 24_000_000_000,
        runs: true,
    },
];

impl Alias {
    /// Every file with its repository, the model itself first.
    pub fn all_files(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let own = self.files.iter().map(|&file| (self.repo, file));
        let others = self.beside.iter();
        own.chain(others.flat_map(|&(repo, files)| files.iter().map(move |&file| (repo, file))))
    }

    /// Models that `nino` runs today.
    pub fn all() -> impl Iterator<Item = &'static Alias> {
        TABLE.iter().filter(|alias| alias.runs)
    }

    /// Also one that does not run yet, so that a person can be told so.
    pub fn find(name: &str) -> Option<&'static Alias> {
        TABLE.iter().find(|a| a.name.eq_ignore_ascii_case(name))
    }
}
