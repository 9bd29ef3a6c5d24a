//! Groups a LoRA's tensors by module and resolves their targets.

use std::collections::BTreeMap;

use super::keys::{Role, spelling, split};
use super::target::Resolver;
use super::{Delta, Lora, LoraFormat, LowRank, Problem, Update};
use crate::{Entry, Error, Result, TensorReader};

#[derive(Default)]
struct Module<'a> {
    down: Option<&'a Entry>,
    up: Option<&'a Entry>,
    mid: Option<&'a Entry>,
    alpha: Option<&'a Entry>,
    diff: Option<&'a Entry>,
    diff_bias: Option<&'a Entry>,
}

/// Reads a LoRA's structure; of its values only the alphas.
pub fn parse(reader: &TensorReader) -> Result<Lora> {
    let path = reader.index().files.first().cloned().unwrap_or_default();
    let fail = |reason| Error::Lora {
        path: path.clone(),
        reason,
    };
    let mut modules: BTreeMap<&str, Module<'_>> = BTreeMap::new();
    let mut format = None;
    let mut names = Vec::new();
    for entry in reader.index().entries() {
        let Some((module, role)) = split(&entry.name) else {
            names.push(entry.name.clone());
            continue;
        };
        let module = modules.entry(module).or_default();
        let slot = match role {
            Role::Down => &mut module.down,
            Role::Up => &mut module.up,
            Role::Mid => &mut module.mid,
            Role::Alpha => &mut module.alpha,
            Role::Diff => &mut module.diff,
            Role::DiffBias => &mut module.diff_bias,
            Role::Refused(format) => {
                return Err(fail(Problem::Unsupported {
                    format,
                    tensor: entry.name.clone(),
                }));
            }
        };
        *slot = Some(entry);
        if matches!(role, Role::Down | Role::Up) {
            format.get_or_insert_with(|| spelling(&entry.name));
        }
    }
    let format = format.ok_or_else(|| fail(Problem::NotLora))?;
    let header_alpha = header_alpha(reader);
    let resolver = Resolver::new(modules.keys().copied());
    let mut updates = Vec::new();
    for (name, module) in &modules {
        if resolver.resolve(name, "weight").is_none() {
            names.push((*name).to_owned());
            continue;
        }
        for delta in deltas(reader, name, module, format, header_alpha, &fail)? {
            let (kind, delta) = delta;
            if let Some((part, target, rows)) = resolver.resolve(name, kind) {
                updates.push(Update {
                    part,
                    target,
                    rows,
                    delta,
                });
            }
        }
    }
    if !names.is_empty() {
        return Err(fail(Problem::Names { names }));
    }
    updates.sort_by(|a, b| (a.part, &a.target).cmp(&(b.part, &b.target)));
    Ok(Lora { format, updates })
}

fn deltas(
    reader: &TensorReader,
    name: &str,
    module: &Module<'_>,
    format: LoraFormat,
    header_alpha: Option<f32>,
    fail: &impl Fn(Problem) -> Error,
) -> Result<Vec<(&'static str, Delta)>> {
    let mut deltas = Vec::new();
    let half = |missing| {
        fail(Problem::Half {
            module: name.to_owned(),
            missing,
        })
    };
    match (module.up, module.down) {
        (Some(up), Some(down)) => {
            let rank = down.shape.first().copied().unwrap_or(0);
            let fits =
                up.shape.len() >= 2 && down.shape.len() >= 2 && up.shape[1] == rank && rank > 0;
            if !fits {
                let (up, down) = (up.shape.clone(), down.shape.clone());
                return Err(fail(Problem::Rank {
                    module: name.to_owned(),
                    up,
                    down,
                }));
            }
            let alpha = match module.alpha {
                Some(entry) => Some(read_scalar(reader, entry)?),
                None if format == LoraFormat::Peft => header_alpha,
                None => None,
            };
            let scale = alpha.map_or(1.0, |a| a / rank as f32);
            let (up, down, mid) = (up.clone(), down.clone(), module.mid.cloned());
            let low_rank = LowRank {
                up,
                down,
                mid,
                rank,
                alpha,
                scale,
            };
            deltas.push(("weight", Delta::LowRank(Box::new(low_rank))));
        }
        (Some(_), None) => return Err(half("down matrix")),
        (None, Some(_)) => return Err(half("up matrix")),
        (None, None) if module.diff.is_none() && module.diff_bias.is_none() => {
            return Err(half("matrices"));
        }
        (None, None) => {}
    }
    deltas.extend(module.diff.map(|e| ("weight", Delta::Full(e.clone()))));
    deltas.extend(module.diff_bias.map(|e| ("bias", Delta::Full(e.clone()))));
    Ok(deltas)
}

fn read_scalar(reader: &TensorReader, entry: &Entry) -> Result<f32> {
    let mut value = [0.0];
    reader.read_f32(entry, &mut value)?;
    Ok(value[0])
}

/// Newer diffusers files keep PEFT's configuration in the header instead of alpha tensors.
fn header_alpha(reader: &TensorReader) -> Option<f32> {
    let text = reader
        .index()
        .metadata
        .get("lora_adapter_metadata")?
        .as_str()?;
    let config: BTreeMap<String, serde_json::Value> = serde_json::from_str(text).ok()?;
    let (_, alpha) = config.iter().find(|(k, _)| k.ends_with("lora_alpha"))?;
    alpha.as_f64().map(|a| a as f32)
}
