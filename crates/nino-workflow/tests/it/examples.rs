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
