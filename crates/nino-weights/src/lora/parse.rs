//! Groups a LoRA's tensors by module and resolves their targets.

use std::collections::BTreeMap;

use super::keys::{self, Role, spelling, split};
use super::target::Resolver;
use super::{Delta, Factor, General, Lora, LoraFormat, LowRank, Pair, Problem, Turn, Update};
use crate::{Entry, Error, Result, TensorReader};

#[derive(Default)]
struct Module<'a> {
    down: Option<&'a Entry>,
    up: Option<&'a Entry>,
    mid: Option<&'a Entry>,
    alpha: Option<&'a Entry>,
    diff: Option<&'a Entry>,
    diff_bias: Option<&'a Entry>,
    set: Option<&'a Entry>,
    reshape: Option<&'a Entry>,
    magnitude: Option<&'a Entry>,
    /// Whether the weight grows to the sizes of `up` and `down`.
    grows: bool,
    hada: [Pieces<'a>; 2],
    kron: [Pieces<'a>; 2],
    blocks: Option<&'a Entry>,
    rescale: Option<&'a Entry>,
    general: [Option<&'a Entry>; 4],
}

/// What a file has of one factor.
#[derive(Clone, Copy, Default)]
struct Pieces<'a> {
    whole: Option<&'a Entry>,
    a: Option<&'a Entry>,
    b: Option<&'a Entry>,
    core: Option<&'a Entry>,
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
            Role::Set => &mut module.set,
            Role::Reshape => &mut module.reshape,
            Role::Magnitude => &mut module.magnitude,
            Role::Hada(factor) => slot_of(&mut module.hada, factor),
            Role::Kron(factor) => slot_of(&mut module.kron, factor),
            Role::Blocks => &mut module.blocks,
            Role::Rescale => &mut module.rescale,
            Role::General(i) => &mut module.general[i],
            Role::Refused(format) => {
                return Err(fail(Problem::Unsupported {
                    format,
                    tensor: entry.name.clone(),
                }));
            }
        };
        *slot = Some(entry);
        let changes = matches!(
            role,
            Role::Down | Role::Up | Role::Hada(_) | Role::Kron(_) | Role::Blocks | Role::General(_)
        );
        if changes {
            format.get_or_insert_with(|| spelling(&entry.name));
        }
    }
    let format = format.ok_or_else(|| fail(Problem::NotLora))?;
    let header_alpha = header_alpha(reader);
    grow_as_control(&mut modules);
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
                    magnitude: module.magnitude.filter(|_| kind == "weight").cloned(),
                });
            }
        }
    }
    if updates.is_empty() {
        return Err(fail(Problem::Names { names }));
    }
    updates.sort_by(|a, b| (a.part, &a.target).cmp(&(b.part, &b.target)));
    Ok(Lora {
        format,
        updates,
        unknown: names,
    })
}

fn slot_of<'a, 'b>(
    pieces: &'b mut [Pieces<'a>; 2],
    factor: keys::Factor,
) -> &'b mut Option<&'a Entry> {
    match factor {
        keys::Factor::Whole(i) => &mut pieces[i].whole,
        keys::Factor::A(i) => &mut pieces[i].a,
        keys::Factor::B(i) => &mut pieces[i].b,
        keys::Factor::Core(i) => &mut pieces[i].core,
    }
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
                reshape: reshape(module),
            };
            deltas.push(("weight", Delta::LowRank(Box::new(low_rank))));
        }
        (Some(_), None) => return Err(half("down matrix")),
        (None, Some(_)) => return Err(half("up matrix")),
        (None, None) => {}
    }
    let alpha = |rank: Option<usize>| -> Result<f32> {
        match (module.alpha, rank) {
            (Some(entry), Some(rank)) => Ok(read_scalar(reader, entry)? / rank as f32),
            _ => Ok(1.0),
        }
    };
    if let Some((factors, ranks)) = factors(&module.hada).map_err(half)? {
        let scale = alpha(ranks[0])?;
        deltas.push(("weight", Delta::Hadamard(Box::new(Pair { factors, scale }))));
    }
    if let Some((factors, ranks)) = factors(&module.kron).map_err(half)? {
        // The second factor's rank counts; a factor stored whole has none.
        let scale = alpha(ranks[1].or(ranks[0]))?;
        deltas.push((
            "weight",
            Delta::Kronecker(Box::new(Pair { factors, scale })),
        ));
    }
    let of_weight = module
        .blocks
        .or(module.general.into_iter().flatten().next());
    if let Some(entry) = of_weight.filter(|_| module.magnitude.is_some()) {
        return Err(fail(Problem::Unsupported {
            format: spelling(&entry.name),
            tensor: format!("{} with DoRA's magnitudes", entry.name),
        }));
    }
    let alpha = module.alpha.map(|entry| read_scalar(reader, entry));
    if let Some(blocks) = module.blocks {
        let turn = Turn {
            blocks: blocks.clone(),
            rescale: module.rescale.cloned(),
            most: alpha.transpose()?.unwrap_or(0.0),
        };
        deltas.push(("weight", Delta::Turned(Box::new(turn))));
    } else if module.general.iter().any(Option::is_some) {
        let [Some(a1), Some(a2), Some(b1), Some(b2)] = module.general else {
            return Err(half("one of a1, a2, b1, b2"));
        };
        let general = General {
            factors: [a1, a2, b1, b2].map(Clone::clone),
            alpha: alpha.transpose()?,
        };
        deltas.push(("weight", Delta::General(Box::new(general))));
    }
    deltas.extend(module.diff.map(|e| ("weight", Delta::Full(e.clone()))));
    deltas.extend(module.diff_bias.map(|e| ("bias", Delta::Full(e.clone()))));
    deltas.extend(module.set.map(|e| ("weight", Delta::Set(e.clone()))));
    if deltas.is_empty() {
        return Err(half("matrices"));
    }
    Ok(deltas)
}

/// Black Forest Labs' control LoRAs for Flux say nothing of it, but their first layer sees a
/// picture beside the latent: its own sizes are what the model's layer grows to.
fn grow_as_control(modules: &mut BTreeMap<&str, Module<'_>>) {
    let is_control = modules
        .get("single_blocks.0.norm.key_norm")
        .is_some_and(|module| module.set.is_some());
    if let Some(module) = modules.get_mut("img_in").filter(|_| is_control) {
        module.grows = true;
    }
}

/// The size that a module's weight grows to. Files that say it repeat what the matrices multiply
/// to.
fn reshape(module: &Module<'_>) -> Option<[usize; 2]> {
    let grows = module.grows || module.reshape.is_some();
    let (up, down) = (module.up.filter(|_| grows)?, module.down?);
    Some([*up.shape.first()?, *down.shape.get(1)?])
}

/// Both factors and their ranks, `None` where the module has neither; else what is missing.
#[allow(clippy::type_complexity)] // two of each
fn factors(
    pieces: &[Pieces<'_>; 2],
) -> std::result::Result<Option<([Factor; 2], [Option<usize>; 2])>, &'static str> {
    if pieces
        .iter()
        .all(|p| p.whole.or(p.a).or(p.b).or(p.core).is_none())
    {
        return Ok(None);
    }
    let factor = |p: &Pieces<'_>| match (p.whole, p.a, p.b) {
        (Some(whole), ..) => Ok((Factor::Whole(whole.clone()), None)),
        (None, Some(a), Some(b)) => {
            let (a, b, core) = (a.clone(), b.clone(), p.core.cloned());
            let rank = b.shape.first().copied();
            Ok((Factor::Product { a, b, core }, rank))
        }
        (None, None, _) => Err("first matrix of a factor"),
        (None, Some(_), None) => Err("second matrix of a factor"),
    };
    let ((first, r0), (second, r1)) = (factor(&pieces[0])?, factor(&pieces[1])?);
    Ok(Some(([first, second], [r0, r1])))
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
