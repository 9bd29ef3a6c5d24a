//! What a PNG says of how it was made: A1111's `parameters` line and ComfyUI's `prompt` graph, so that
//! both programs can read it back.

use nino_engine::{Checkpoint, GenerateRequest};
use serde_json::json;

pub(super) fn text(
    request: &GenerateRequest,
    model: &Checkpoint,
    device: &str,
) -> Vec<(&'static str, String)> {
    vec![
        ("parameters", parameters(request, model, device)),
        ("prompt", graph(request, model).to_string()),
    ]
}

fn parameters(request: &GenerateRequest, model: &Checkpoint, device: &str) -> String {
    let negative = match request.negative.as_str() {
        "" => String::new(),
        text => format!("\nNegative prompt: {text}"),
    };
    format!(
        "{}{negative}\nSteps: {}, Sampler: {}, Schedule type: {}, CFG scale: {}, Seed: {}, Size: {}x{}, Model: {}, RNG: {}, Device: {device}, Version: nino {}",
        request.prompt,
        request.steps,
        request.sampler.name,
        request.scheduler.name(),
        request.cfg,
        request.seed.value,
        request.width,
        request.height,
        model.name,
        request.seed.rng.name(),
        env!("CARGO_PKG_VERSION"),
    )
}

/// The same as a graph of ComfyUI's own nodes, in its API format.
fn graph(request: &GenerateRequest, model: &Checkpoint) -> serde_json::Value {
    let encode = |text: &str| json!({ "class_type": "CLIPTextEncode", "inputs": { "text": text, "clip": ["1", 1] } });
    json!({
        "1": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": model.name } },
        "2": encode(&request.prompt),
        "3": encode(&request.negative),
        "4": { "class_type": "EmptyLatentImage", "inputs": {
            "width": request.width, "height": request.height, "batch_size": request.batch } },
        "5": { "class_type": "KSampler", "inputs": {
            "model": ["1", 0], "positive": ["2", 0], "negative": ["3", 0], "latent_image": ["4", 0],
            "seed": request.seed.value, "steps": request.steps, "cfg": request.cfg,
            "sampler_name": request.sampler.name, "scheduler": request.scheduler.name(), "denoise": 1.0 } },
        "6": { "class_type": "VAEDecode", "inputs": { "samples": ["5", 0], "vae": ["1", 2] } },
        "7": { "class_type": "SaveImage", "inputs": { "images": ["6", 0], "filename_prefix": "nino" } },
    })
}
