//! ComfyUI's example workflows that small checkpoints are made for.

/// Workflows with the checkpoint for each loader, in the order of the nodes.
pub(crate) const EXAMPLES: [(&str, &[&str]); 11] = [
    ("2_pass_txt2img__hiresfix_latent_workflow", &["tiny_sd2"]),
    ("area_composition__square_area_for_subject", &["tiny_sd1"]),
    ("img2img__img2img_workflow", &["tiny_sd1"]),
    ("inpaint__inpaint_example", &["inpaint"]),
    ("inpaint__yosemite_outpaint_example", &["inpaint"]),
    ("lcm__lcm_basic_example", &["tiny_sdxl"]),
    ("lora__lora", &["tiny_sd1"]),
    ("sdturbo__sdxlturbo_example", &["tiny_sdxl"]),
    (
        "sdxl__sdxl_refiner_prompt_example",
        &["tiny_sdxl", "tiny_refiner"],
    ),
    ("sdxl__sdxl_simple_example", &["tiny_sdxl", "tiny_refiner"]),
    (
        "textual_inversion_embeddings__embedding_example",
        &["tiny_sd2"],
    ),
];

/// Flux's and Wan's, with the model for each loader in the order of the nodes. Text encoders and
/// VAEs are those of `tiny_flux` and `tiny_wan`.
pub(crate) const FLUX: [(&str, &[&str]); 2] = [
    ("flux__flux_dev_example", &["tiny_flux"]),
    ("flux__flux_schnell_checkpoint_example", &["tiny_flux"]),
];
pub(crate) const WAN: [(&str, &[&str]); 3] = [
    (
        "wan22__image_to_video_wan22_14B",
        &["tiny_wan22_i2v", "tiny_wan22_i2v"],
    ),
    (
        "wan22__text_to_video_wan22_14B",
        &["tiny_wan", "tiny_wan_low"],
    ),
    ("wan__text_to_video_wan", &["tiny_wan"]),
];
