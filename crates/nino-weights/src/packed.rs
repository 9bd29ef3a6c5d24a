//! Weights in encodings that no kernel decodes. They become a block type that kernels do decode,
//! as they are read, so that nothing else needs to know of them:
//!
//! - **nvfp4** (4-bit floats, an 8-bit float for each 16, one factor for all) becomes Q6_K, whose
//!   groups of 16 with integer factors hold it exactly while the factors of 256 values lie within
//!   eight times of each other, and to the nearest 1/64 of the largest beyond that. The factor for
//!   all stays apart.
//! - **mxfp8** (8-bit floats, a power of two for each 32) and **nf4** and **fp4** of bitsandbytes
//!   (4-bit codes of a table, a factor for each 64) become Q8_0: the nearest of 255 steps, which is
//!   far below what those encodings lost themselves.
//!
//! Rows that blocks do not fill become bf16, which holds the first two exactly.

pub(crate) mod bitsandbytes;

use std::ops::Range;

use nino_dtype::{DType, e4m3_to_f32, f32_to_f16, q6_k_block};

use crate::{Entry, Result, TensorReader};
use bitsandbytes::Codes;

/// One such weight, `[rows, row]`.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) kind: Kind,
    pub(crate) rows: usize,
    pub(crate) row: usize,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Nvfp4 { weight: Entry, scales: Entry },
    Mxfp8 { weight: Entry, scales: Entry },
    Codes(Box<Codes>),
}

/// Values that share a factor.
const NVFP4_GROUP: usize = 16;
const MXFP8_GROUP: usize = 32;
/// Rows of the tiles that factors are stored in, and factors of a row that a tile holds.
const TILE_ROWS: usize = 128;
const TILE_COLUMNS: usize = 4;
const TILE_BYTES: usize = TILE_ROWS * TILE_COLUMNS;
/// Twice what a 4-bit float stands for, by its code without the sign.
const E2M1_DOUBLED: [i8; 8] = [0, 1, 2, 3, 4, 6, 8, 12];

impl Packed {
    /// What people call the encoding.
    pub(crate) fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Nvfp4 { .. } => "nvfp4",
            Kind::Mxfp8 { .. } => "mxfp8",
            Kind::Codes(codes) => codes.name,
        }
    }

    /// The type that values are read in.
    pub(crate) fn dtype(&self) -> DType {
        let wanted = match self.kind {
            Kind::Nvfp4 { .. } => DType::Q6_K,
            Kind::Mxfp8 { .. } | Kind::Codes(_) => DType::Q8_0,
        };
        if self.row.is_multiple_of(wanted.block_len()) {
            wanted
        } else {
            DType::BF16
        }
    }

    fn row_bytes(&self) -> usize {
        let dtype = self.dtype();
        self.row / dtype.block_len() * dtype.block_bytes()
    }

    pub(crate) fn n_bytes(&self) -> u64 {
        (self.rows * self.row_bytes()) as u64
    }

    /// Bytes from `start` on, in the type of [`Packed::dtype`].
    pub(crate) fn read(&self, reader: &TensorReader, start: u64, buf: &mut [u8]) -> Result<()> {
        let (row_bytes, mut at, mut rest) = (self.row_bytes(), start as usize, buf);
        while !rest.is_empty() {
            let first = at / row_bytes;
            // Up to the end of a row of tiles, so that each tile is read once.
            let end = (first / TILE_ROWS + 1) * TILE_ROWS;
            let end = end.min((at + rest.len()).div_ceil(row_bytes));
            let mut made = vec![0; (end - first) * row_bytes];
            self.rows(reader, first..end, &mut made)?;
            let made = &made[at - first * row_bytes..];
            let (now, later) = rest.split_at_mut(made.len().min(rest.len()));
            now.copy_from_slice(&made[..now.len()]);
            (at, rest) = (at + now.len(), later);
        }
        Ok(())
    }

    /// Whole rows, all of one row of tiles.
    fn rows(&self, reader: &TensorReader, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        match &self.kind {
            Kind::Nvfp4 { weight, scales } => {
                let mut codes = vec![0; rows.len() * self.row / 2];
                reader.read_range(weight, (rows.start * self.row / 2) as u64, &mut codes)?;
                let tiles = Tiles::read(reader, scales, rows.start, self.row / NVFP4_GROUP)?;
                for ((row, codes), out) in rows
                    .zip(codes.chunks_exact(self.row / 2))
                    .zip(out.chunks_exact_mut(self.row_bytes()))
                {
                    let factors = tiles.row(row).map(e4m3_to_f32);
                    self.nvfp4_row(codes, &factors.collect::<Vec<f32>>(), out);
                }
            }
            Kind::Mxfp8 { weight, scales } => {
                let mut values = vec![0.0; rows.len() * self.row];
                reader.read_f32_at(weight, rows.start * self.row, &mut values)?;
                let tiles = Tiles::read(reader, scales, rows.start, self.row / MXFP8_GROUP)?;
                for (row, values) in rows.zip(values.chunks_exact_mut(self.row)) {
                    let groups = values.chunks_exact_mut(MXFP8_GROUP);
                    for (group, exponent) in groups.zip(tiles.row(row)) {
                        let factor = f32::from_bits(u32::from(exponent) << 23);
                        group.iter_mut().for_each(|v| *v *= factor);
                    }
                }
                self.encode(&values, out);
            }
            Kind::Codes(codes) => {
                let mut values = vec![0.0; rows.len() * self.row];
                codes.read(reader, rows.start * self.row, &mut values)?;
                self.encode(&values, out);
            }
        }
        Ok(())
    }

    fn encode(&self, values: &[f32], out: &mut [u8]) {
        nino_dtype::encode(self.dtype(), values, out).expect("rows are whole blocks");
    }

    fn nvfp4_row(&self, codes: &[u8], factors: &[f32], out: &mut [u8]) {
        let doubled: Vec<i8> = codes
            .iter()
            .flat_map(|b| [b >> 4, b & 15])
            .map(e2m1)
            .collect();
        if self.dtype() != DType::Q6_K {
            let value = |(i, &v): (usize, &i8)| f32::from(v) * 0.5 * factors[i / NVFP4_GROUP];
            let values: Vec<f32> = doubled.iter().enumerate().map(value).collect();
            return self.encode(&values, out);
        }
        let blocks = doubled.as_chunks::<256>().0.iter();
        let factors = factors.as_chunks::<16>().0.iter();
        for ((codes, factors), out) in blocks.zip(factors).zip(out.as_chunks_mut::<210>().0) {
            let unit = unit(factors);
            let scales = factors.map(|f| (f / unit).round() as i8);
            *out = q6_k_block(f32_to_f16(unit * 0.5), &scales, codes);
        }
    }
}

/// Twice the value of a 4-bit float.
fn e2m1(code: u8) -> i8 {
    let magnitude = E2M1_DOUBLED[usize::from(code & 7)];
    if code & 8 == 0 { magnitude } else { -magnitude }
}

/// The smallest power of two of which all factors are at most 127; factors are 8-bit floats, so it
/// is one that f16 holds.
fn unit(factors: &[f32; 16]) -> f32 {
    let largest = factors.iter().copied().fold(0.0, f32::max);
    let mut unit = 1.0 / 65536.0;
    while largest > 127.0 * unit {
        unit *= 2.0;
    }
    unit
}

/// The factors of 128 rows as matrix units want them: tiles of 128 rows and 4 columns, in which 32
/// rows lie 16 bytes apart, and the rows 32 further on beside them.
struct Tiles {
    bytes: Vec<u8>,
    columns: usize,
}

impl Tiles {
    /// The tiles that hold a row.
    fn read(reader: &TensorReader, scales: &Entry, row: usize, columns: usize) -> Result<Tiles> {
        let mut bytes = vec![0; columns.div_ceil(TILE_COLUMNS) * TILE_BYTES];
        let start = row / TILE_ROWS * bytes.len();
        reader.read_range(scales, start as u64, &mut bytes)?;
        Ok(Tiles { bytes, columns })
    }

    /// The factors of a row.
    fn row(&self, row: usize) -> impl Iterator<Item = u8> {
        let row = row % TILE_ROWS;
        (0..self.columns).map(move |column| {
            let tile = column / TILE_COLUMNS * TILE_BYTES;
            self.bytes[tile + row % 32 * 16 + row / 32 * TILE_COLUMNS + column % TILE_COLUMNS]
        })
    }
}

/// Bytes that the factors of a weight take in tiles.
pub(crate) fn tiled_bytes(rows: usize, columns: usize) -> usize {
    rows.div_ceil(TILE_ROWS) * columns.div_ceil(TILE_COLUMNS) * TILE_BYTES
}

/// A weight of nvfp4 with what stands beside it; `None` where shapes do not belong together.
pub(crate) fn nvfp4(weight: &Entry, scales: &Entry) -> Option<Packed> {
    let [rows, half] = weight.shape[..] else {
        return None;
    };
    let row = half * 2;
    let fits = matches!(weight.dtype, DType::U8 | DType::I8) && row.is_multiple_of(NVFP4_GROUP);
    let tiled = scales.n_bytes() == tiled_bytes(rows, row / NVFP4_GROUP) as u64;
    (fits && tiled && row > 0).then(|| Packed {
        kind: Kind::Nvfp4 {
            weight: weight.clone(),
            scales: scales.clone(),
        },
        rows,
        row,
    })
}

/// The same of mxfp8.
pub(crate) fn mxfp8(weight: &Entry, scales: &Entry) -> Option<Packed> {
    let [rows, row] = weight.shape[..] else {
        return None;
    };
    let fits = weight.dtype == DType::F8E4M3 && row.is_multiple_of(MXFP8_GROUP);
    let tiled = scales.n_bytes() == tiled_bytes(rows, row / MXFP8_GROUP) as u64;
    (fits && tiled && row > 0).then(|| Packed {
        kind: Kind::Mxfp8 {
            weight: weight.clone(),
            scales: scales.clone(),
        },
        rows,
        row,
    })
}

#[cfg(test)]
mod tests;
