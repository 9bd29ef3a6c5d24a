//! Flags out of A1111's `parameters`: the prompt, `Negative prompt: …`, and a line of `Key: value`.

use super::flags::Flags;
use crate::generate::metadata::a1111;

/// Fields that are taken over or say nothing of the picture.
const PLAIN: [&str; 15] = [
    "Steps",
    "Clip skip",
    "Sampler",
    "Schedule type",
    "CFG scale",
    "Seed",
    "Size",
    "Model",
    "Model hash",
    "VAE",
    "VAE hash",
    "RNG",
    "Version",
    "Device",
    "Lora hashes",
];

pub(super) fn flags(text: &str) -> Result<Flags, String> {
    let (prompts, line) = match text.trim_end().rsplit_once('\n') {
        Some((prompts, line)) if line.trim_start().starts_with("Steps:") => (prompts, line),
        None if text.starts_with("Steps:") => ("", text),
        _ => return Err("no line begins with \"Steps:\"".to_owned()),
    };
    let (prompt, negative) = match prompts.split_once("Negative prompt:") {
        Some((prompt, negative)) => (prompt.trim(), negative.trim()),
        None => (prompts.trim(), ""),
    };
    let mut flags = Flags::default();
    let prompt = take_loras(prompt, &mut flags);
    flags.set("prompt", prompt);
    flags.set("negative", negative);
    let fields = fields(line);
    let field = |key: &str| {
        fields
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    };
    let (sampler, said) = a1111::sampler(field("Sampler").unwrap_or("Euler"));
    let scheduler = match field("Schedule type") {
        Some(label) => a1111::scheduler(label, &sampler),
        None => said.map_or_else(|| a1111::scheduler("Automatic", &sampler), str::to_owned),
    };
    flags.set("sampler", sampler);
    flags.set("scheduler", scheduler);
    for (key, flag) in [
        ("Steps", "steps"),
        ("CFG scale", "cfg"),
        ("Seed", "seed"),
        ("Size", "size"),
        ("Model", "model"),
        ("VAE", "vae"),
        ("Clip skip", "clip-skip"),
    ] {
        if let Some(value) = field(key) {
            flags.set(flag, value);
        }
    }
    // A1111 draws noise on the GPU unless it is told to.
    flags.set(
        "rng",
        if field("RNG") == Some("CPU") {
            "torch"
        } else {
            "philox"
        },
    );
    for (key, value) in &fields {
        if !PLAIN.contains(&key.as_str()) {
            flags
                .notes
                .push(format!("\"{key}: {value}\" is not repeated"));
        }
    }
    Ok(flags)
}

/// `Key: value, Key: "quoted, value"`.
fn fields(line: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut rest = line.trim();
    while let Some((key, after)) = rest.split_once(':') {
        let after = after.trim_start();
        let mut quoted = serde_json::Deserializer::from_str(after).into_iter::<String>();
        let (value, used) = match quoted.next() {
            Some(Ok(value)) if after.starts_with('"') => (value, quoted.byte_offset()),
            _ => {
                let end = after.find(',').unwrap_or(after.len());
                (after[..end].trim().to_owned(), end)
            }
        };
        fields.push((key.trim().to_owned(), value));
        rest = after[used..]
            .trim_start()
            .trim_start_matches(',')
            .trim_start();
    }
    fields
}

/// `<lora:name:0.8>` in a prompt becomes a flag.
fn take_loras(prompt: &str, flags: &mut Flags) -> String {
    let mut text = String::new();
    let mut rest = prompt;
    while let Some((before, after)) = rest.split_once("<lora:") {
        let Some((inside, after)) = after.split_once('>') else {
            break;
        };
        text.push_str(before);
        flags.push("lora", inside);
        rest = after;
    }
    text.push_str(rest);
    text.trim().to_owned()
}
