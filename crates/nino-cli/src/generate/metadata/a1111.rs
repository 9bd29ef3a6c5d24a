//! A1111's line of parameters, written as its own.

use super::Origin;
use nino_engine::GenerateRequest;
use std::fmt::Write;

pub(super) fn parameters(request: &GenerateRequest, origin: &Origin<'_>) -> String {
    let mut text = request.prompt.clone();
    for (name, lora) in origin.loras() {
        let stem = name
            .rsplit_once('.')
            .map_or(name.as_str(), |(stem, _)| stem);
        let _ = write!(text, "<lora:{stem}:{}", lora.unet);
        if lora.clip.to_bits() != lora.unet.to_bits() {
            let _ = write!(text, ":{}", lora.clip);
        }
        text.push('>');
    }
    if !request.negative.is_empty() {
        let _ = write!(text, "\nNegative prompt: {}", request.negative);
    }
    let mut fields = vec![
        ("Steps", request.steps.to_string()),
        ("Sampler", request.sampler.a1111_name().to_owned()),
        ("Schedule type", request.scheduler.a1111_name().to_owned()),
        ("CFG scale", request.cfg.to_string()),
        ("Seed", request.seed.value.to_string()),
        ("Size", format!("{}x{}", request.width, request.height)),
    ];
    fields.extend(
        origin
            .model_hash
            .map(|hash| ("Model hash", hash.to_owned())),
    );
    let model = origin.model.name();
    let stem = model.rsplit_once('.').map_or(model, |(stem, _)| stem);
    fields.push(("Model", stem.to_owned()));
    fields.extend(origin.vae().map(|vae| ("VAE", vae)));
    let clip_skip = request.clip_skip.map(|n| ("Clip skip", n.to_string()));
    fields.extend(clip_skip);
    // A1111 names its own streams of noise: the CPU's is torch's, the GPU's is Philox.
    let rng = match request.seed.rng.name() {
        "torch" => "CPU",
        other => other,
    };
    fields.push(("RNG", rng.to_owned()));
    fields.push(("Device", origin.device.to_owned()));
    fields.push(("Version", format!("nino {}", env!("CARGO_PKG_VERSION"))));
    let line: Vec<String> = fields
        .iter()
        .map(|(key, value)| format!("{key}: {}", quoted(value)))
        .collect();
    let _ = write!(text, "\n{}", line.join(", "));
    text
}

/// A1111 quotes what would end a field.
fn quoted(value: &str) -> String {
    if value.contains([',', '\n', ':']) {
        serde_json::Value::from(value).to_string()
    } else {
        value.to_owned()
    }
}
