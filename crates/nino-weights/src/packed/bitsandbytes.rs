//! Weights as bitsandbytes stores them in 4 bits: codes of a table of 16 numbers, two in a byte,
//! and a factor for each block of values. The factors may be codes themselves, of a table of 256
//! numbers with factors and an offset of their own. Beside `x.weight` stand `x.weight.absmax`,
//! `.quant_map`, `.nested_absmax`, `.nested_quant_map` and a JSON text whose name ends in
//! `quant_state.bitsandbytes__nf4` or `__fp4`.

use nino_dtype::DType;
use nino_dtype::block::NF4_VALUES;
use serde::Deserialize;

use super::{Kind, Packed};
use crate::{Entry, Error, Result, TensorReader};

const STATES: [(&str, &str); 2] = [
    (".quant_state.bitsandbytes__nf4", "nf4"),
    (".quant_state.bitsandbytes__fp4", "fp4"),
];
const MAX_STATE: u64 = 4096;
const PARTS: [&str; 4] = ["absmax", "quant_map", "nested_absmax", "nested_quant_map"];

#[derive(Deserialize)]
struct State {
    blocksize: usize,
    shape: Vec<usize>,
    nested_blocksize: Option<usize>,
    nested_offset: Option<f32>,
}

/// What the codes of one weight stand for.
#[derive(Debug)]
pub(crate) struct Codes {
    pub(crate) name: &'static str,
    weight: Entry,
    absmax: Entry,
    /// Values that share a factor.
    block: usize,
    table: [f32; 16],
    nested: Option<Nested>,
}

#[derive(Debug)]
struct Nested {
    absmax: Entry,
    block: usize,
    table: Vec<f32>,
    offset: f32,
}

/// A weight found in a file, and the names of the tensors that describe it.
pub(crate) struct Found {
    pub(crate) weight: String,
    pub(crate) packed: Packed,
    pub(crate) side: Vec<String>,
}

/// All weights of a file that are stored so.
pub(crate) fn find(reader: &TensorReader) -> Result<Vec<Found>> {
    let described = reader.index().entries().iter().filter_map(|entry| {
        let (end, name) = STATES.iter().find(|(end, _)| entry.name.ends_with(end))?;
        Some((entry, entry.name.strip_suffix(end)?, *name))
    });
    described
        .map(|(state, weight, name)| {
            let found = one(reader, state, weight, name)?;
            found.ok_or_else(|| Error::QuantFormat {
                tensor: weight.to_owned(),
                format: format!("{name} of bitsandbytes in a form that is not known"),
            })
        })
        .collect()
}

fn one(
    reader: &TensorReader,
    state: &Entry,
    weight: &str,
    name: &'static str,
) -> Result<Option<Found>> {
    let index = reader.index();
    let bytes = reader.read_small(state, MAX_STATE)?.unwrap_or_default();
    let Ok(text) = serde_json::from_slice::<State>(bytes.trim_ascii()) else {
        return Ok(None);
    };
    let part = |name: &str| index.get(&format!("{weight}.{name}")).cloned();
    let (Some(stored), Some(absmax), Some(map)) =
        (index.get(weight), part("absmax"), part("quant_map"))
    else {
        return Ok(None);
    };
    let mut table = [0.0; 16];
    if map.n_values() != table.len() {
        return Ok(None);
    }
    reader.read_f32(&map, &mut table)?;
    let nested = match (part("nested_absmax"), part("nested_quant_map")) {
        (Some(absmax), Some(map)) => {
            let mut table = vec![0.0; map.n_values()];
            reader.read_f32(&map, &mut table)?;
            Some(Nested {
                absmax,
                block: text.nested_blocksize.unwrap_or(256),
                table,
                offset: text.nested_offset.unwrap_or(0.0),
            })
        }
        _ => None,
    };
    let codes = Codes {
        name,
        weight: stored.clone(),
        absmax,
        block: text.blocksize,
        table,
        nested,
    };
    let Some((rows, row)) = codes.sizes(&text.shape) else {
        return Ok(None);
    };
    let side = PARTS.iter().map(|name| format!("{weight}.{name}"));
    let side = side.filter(|name| index.contains(name));
    Ok(Some(Found {
        weight: weight.to_owned(),
        packed: Packed {
            kind: Kind::Codes(Box::new(codes)),
            rows,
            row,
        },
        side: side.chain([state.name.clone()]).collect(),
    }))
}

impl Codes {
    /// Rows and their length, if everything has the size that belongs to them.
    fn sizes(&self, shape: &[usize]) -> Option<(usize, usize)> {
        let [rows, row] = *shape else {
            return None;
        };
        let values = rows.checked_mul(row).filter(|&n| n > 0)?;
        let blocks = values.div_ceil(Some(self.block).filter(|&n| n > 0)?);
        let nested = self.nested.as_ref().is_none_or(|nested| {
            let block = nested.block.max(1);
            nested.block > 0
                && nested.table.len() == 256
                && nested.absmax.n_values() == blocks.div_ceil(block)
        });
        let fits = row.is_multiple_of(2)
            && self.weight.n_bytes() == (values / 2) as u64
            && self.absmax.n_values() == blocks
            && nested;
        fits.then_some((rows, row))
    }

    /// Whether these are the blocks that kernels decode: the codes of one table, and blocks of 64
    /// that share a factor with no part of another row.
    pub(super) fn is_nf4(&self) -> bool {
        self.table == NF4_VALUES && self.block.is_multiple_of(DType::NF4.block_len())
    }

    /// Blocks of [`DType::NF4`] from value `start`, the first of one, on.
    pub(super) fn read_blocks(
        &self,
        reader: &TensorReader,
        start: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let (len, size) = (DType::NF4.block_len(), DType::NF4.block_bytes());
        let values = out.len() / size * len;
        let mut bytes = vec![0; values / 2];
        reader.read_range(&self.weight, (start / 2) as u64, &mut bytes)?;
        let first = start / self.block;
        let n = (start + values).div_ceil(self.block) - first;
        let factors = self.factors(reader, first, n)?;
        let codes = bytes.chunks_exact(len / 2);
        for (i, (block, codes)) in out.chunks_exact_mut(size).zip(codes).enumerate() {
            let factor = factors[(start + i * len) / self.block - first];
            block[..4].copy_from_slice(&factor.to_le_bytes());
            block[4..].copy_from_slice(codes);
        }
        Ok(())
    }

    /// Values from `start`, an even number, on.
    pub(super) fn read(&self, reader: &TensorReader, start: usize, out: &mut [f32]) -> Result<()> {
        let mut bytes = vec![0; out.len() / 2];
        reader.read_range(&self.weight, (start / 2) as u64, &mut bytes)?;
        let blocks = start / self.block..(start + out.len()).div_ceil(self.block);
        let factors = self.factors(reader, blocks.start, blocks.len())?;
        let codes = bytes.iter().flat_map(|b| [b >> 4, b & 15]);
        for (i, (value, code)) in out.iter_mut().zip(codes).enumerate() {
            let factor = factors[(start + i) / self.block - blocks.start];
            *value = self.table[usize::from(code)] * factor;
        }
        Ok(())
    }

    /// The factors of `n` blocks.
    fn factors(&self, reader: &TensorReader, first: usize, n: usize) -> Result<Vec<f32>> {
        let mut factors = vec![0.0; n];
        let Some(nested) = &self.nested else {
            reader.read_f32_at(&self.absmax, first, &mut factors)?;
            return Ok(factors);
        };
        let mut codes = vec![0; n];
        reader.read_range(&self.absmax, first as u64, &mut codes)?;
        let outer = first / nested.block..(first + n).div_ceil(nested.block);
        let mut scales = vec![0.0; outer.len()];
        reader.read_f32_at(&nested.absmax, outer.start, &mut scales)?;
        for (i, (factor, code)) in factors.iter_mut().zip(codes).enumerate() {
            let scale = scales[(first + i) / nested.block - outer.start];
            *factor = nested.table[usize::from(code)] * scale + nested.offset;
        }
        Ok(factors)
    }
}
