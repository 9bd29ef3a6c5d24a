//! A1111's line of parameters, written and named as its own.

use super::Origin;
use nino_engine::GenerateRequest;
use std::fmt::Write;

/// ComfyUI's sampler names and A1111's.
const SAMPLERS: [(&str, &str); 17] = [
    ("euler", "Euler"),
    ("euler_ancestral", "Euler a"),
    ("lms", "LMS"),
    ("heun", "Heun"),
    ("dpm_2", "DPM2"),
    ("dpm_2_ancestral", "DPM2 a"),
    ("dpmpp_2s_ancestral", "DPM++ 2S a"),
    ("dpmpp_2m", "DPM++ 2M"),
    ("dpmpp_sde", "DPM++ SDE"),
    ("dpmpp_2m_sde", "DPM++ 2M SDE"),
    ("dpmpp_2m_sde_heun", "DPM++ 2M SDE Heun"),
    ("dpmpp_3m_sde", "DPM++ 3M SDE"),
    ("dpm_fast", "DPM fast"),
    ("dpm_adaptive", "DPM adaptive"),
    ("ddim", "DDIM"),
    ("uni_pc", "UniPC"),
    ("lcm", "LCM"),
];

const SCHEDULERS: [(&str, &str); 9] = [
    ("normal", "Normal"),
    ("normal", "Uniform"),
    ("karras", "Karras"),
    ("exponential", "Exponential"),
    ("sgm_uniform", "SGM Uniform"),
    ("kl_optimal", "KL Optimal"),
    ("simple", "Simple"),
    ("ddim_uniform", "DDIM"),
    ("beta", "Beta"),
];

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
    let label = |table: &[(&str, &str)], name: &str| {
        let known = table.iter().find(|(ours, _)| *ours == name);
        known.map_or(name, |(_, theirs)| theirs).to_owned()
    };
    let mut fields = vec![
        ("Steps", request.steps.to_string()),
        ("Sampler", label(&SAMPLERS, request.sampler.name)),
        (
            "Schedule type",
            label(&SCHEDULERS, request.scheduler.name()),
        ),
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

/// Sampler and, where the name says so, scheduler, by ComfyUI's names.
pub(in super::super) fn sampler(label: &str) -> (String, Option<&'static str>) {
    // Before 1.9 the schedule was part of the sampler's name.
    for (ours, theirs) in SCHEDULERS {
        if let Some(rest) = label.strip_suffix(theirs).and_then(|r| r.strip_suffix(' ')) {
            return (sampler(rest).0, Some(ours));
        }
    }
    let known = SAMPLERS.iter().find(|(_, theirs)| *theirs == label);
    (known.map_or(label, |(ours, _)| ours).to_owned(), None)
}

/// A scheduler by ComfyUI's name; A1111's own choice depends on the sampler.
pub(in super::super) fn scheduler(label: &str, sampler: &str) -> String {
    let automatic = match sampler {
        "dpmpp_2m" | "dpmpp_sde" | "dpmpp_2s_ancestral" | "dpm_2" | "dpm_2_ancestral" => "karras",
        "dpmpp_2m_sde" | "dpmpp_2m_sde_heun" | "dpmpp_3m_sde" => "exponential",
        _ => "normal",
    };
    let known = SCHEDULERS.iter().find(|(_, theirs)| *theirs == label);
    match label {
        "Automatic" | "automatic" => automatic.to_owned(),
        _ => known.map_or(label, |(ours, _)| ours).to_owned(),
    }
}
