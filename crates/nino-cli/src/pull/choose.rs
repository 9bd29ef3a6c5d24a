//! Which files of a repository make up a model, when none was named.

use crate::failure::Usage;
use anyhow::Result;

const WEIGHTS: [&str; 6] = [".safetensors", ".gguf", ".ckpt", ".pth", ".pt", ".bin"];
const BESIDE: [&str; 4] = [".json", ".txt", ".model", ".safetensors"];
/// Other precisions and trainings of the same weights.
const VARIANTS: [&str; 6] = [".fp16.", ".bf16.", ".non_ema.", "openvino", "flax", "onnx"];

/// The only weights, or everything a diffusers folder needs; else a question.
pub(super) fn files(repo: &str, all: &[String]) -> Result<Vec<String>> {
    let ends = |name: &str, list: &[&str]| list.iter().any(|e| name.ends_with(e));
    if all
        .iter()
        .any(|f| f == "model_index.json" || f == "config.json")
    {
        let wanted = all.iter().filter(|f| {
            let top_weights = !f.contains('/')
                && ends(f, &WEIGHTS)
                && all.contains(&"model_index.json".to_owned());
            ends(f, &BESIDE) && !VARIANTS.iter().any(|v| f.contains(v)) && !top_weights
        });
        let wanted: Vec<String> = wanted.filter(|f| is_safe(f)).cloned().collect();
        if wanted.iter().any(|f| ends(f, &WEIGHTS)) {
            return Ok(wanted);
        }
    }
    let weights: Vec<&String> = all
        .iter()
        .filter(|f| ends(f, &WEIGHTS) && is_safe(f))
        .collect();
    match weights[..] {
        [] => Err(Usage(format!("{repo} has no model files")).into()),
        [only] => Ok(vec![only.clone()]),
        _ => {
            let names: Vec<String> = weights.iter().map(|f| format!("{repo}:{f}")).collect();
            Err(Usage(format!(
                "{repo} has several models, name one: {}",
                names.join(", ")
            ))
            .into())
        }
    }
}

/// Names come from the server: none may leave its folder.
fn is_safe(name: &str) -> bool {
    name.split('/')
        .all(|s| !s.is_empty() && s != "." && s != "..")
        && !name.contains(['\\', ':', '\0'])
}
