//! Files to run with: latents, and checkpoints with made-up weights by the lists of tensors that
//! the goldens have.

use super::Random;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Values that are drawn; a prime, so that rows differ.
const POOL: usize = 1_000_003;

struct Tensor {
    name: String,
    shape: Vec<usize>,
}

/// Writes the tensors of `goldens/generate/<list>.txt` whose names begin with `prefix`, in f16.
pub(super) fn checkpoint(path: &Path, list: &str, prefix: &str) -> Result<()> {
    let list = crate::tree::root().join(format!("goldens/generate/{list}.txt"));
    let text = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let lines = text.lines().filter(|l| l.starts_with(prefix));
    let tensors: Vec<Tensor> = lines.flat_map(tensors).collect();
    write(path, &tensors, "F16", &mut |random, out| {
        // About 0.01 to 0.03 of either sign: nothing grows beyond what f16 holds.
        let bits = 0x2100 + (random.next() & 0x83ff) as u16;
        out.extend(bits.to_le_bytes());
    })
}

/// Writes a latent of numbers of about 1.
pub(super) fn latent(path: &Path, shape: &[usize]) -> Result<()> {
    let tensors = [Tensor {
        name: "samples".to_owned(),
        shape: shape.to_vec(),
    }];
    write(path, &tensors, "F32", &mut |random, out| {
        let value = (random.share() * 4.0 - 2.0) as f32;
        out.extend(value.to_le_bytes());
    })
}

/// The tensors of a line such as `blocks.{0-2}.weight 320x4x3x3`.
fn tensors(line: &str) -> Vec<Tensor> {
    let (name, shape) = line.rsplit_once(' ').unwrap_or((line, ""));
    let shape: Vec<usize> = shape.split('x').filter_map(|n| n.parse().ok()).collect();
    let names = names(name).into_iter();
    let tensor = |name| Tensor {
        name,
        shape: shape.clone(),
    };
    names.map(tensor).collect()
}

/// Every name that a pattern stands for: `{a-b}` is every number from a to b.
fn names(pattern: &str) -> Vec<String> {
    let parts = pattern.split_once('{').and_then(|(before, rest)| {
        let (range, after) = rest.split_once('}')?;
        let (from, to) = range.split_once('-')?;
        Some((
            before,
            from.parse().ok()?..=to.parse::<usize>().ok()?,
            after,
        ))
    });
    match parts {
        None => vec![pattern.to_owned()],
        Some((before, range, after)) => {
            let all = range.flat_map(|i| names(&format!("{before}{i}{after}")));
            all.collect()
        }
    }
}

/// Writes a safetensors file; `value` appends one value.
fn write(
    path: &Path,
    tensors: &[Tensor],
    dtype: &str,
    value: &mut dyn FnMut(&mut Random, &mut Vec<u8>),
) -> Result<()> {
    let size = if dtype == "F16" { 2 } else { 4 };
    let mut at = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|t| {
            let end = at + t.shape.iter().product::<usize>() * size;
            let entry = format!(
                r#""{}":{{"dtype":"{dtype}","shape":{:?},"data_offsets":[{at},{end}]}}"#,
                t.name, t.shape
            );
            at = end;
            entry
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    // The same values again and again: drawing them all would take longer than the runs.
    let mut random = Random(1);
    let mut values = Vec::new();
    (0..POOL).for_each(|_| value(&mut random, &mut values));
    let positive: Vec<u8> = values
        .chunks_exact(size)
        .flat_map(|value| {
            let (sign, rest) = value.split_last().unwrap_or((&0, &[]));
            rest.iter().copied().chain([sign & 0x7f])
        })
        .collect();
    for tensor in tensors {
        // A variance below zero has no root.
        let is_variance = tensor.name.ends_with("running_var");
        let from = if is_variance { &positive } else { &values };
        let mut left = tensor.shape.iter().product::<usize>() * size;
        while left > 0 {
            let n = left.min(from.len());
            file.write_all(&from[..n])?;
            left -= n;
        }
    }
    Ok(file.flush()?)
}
