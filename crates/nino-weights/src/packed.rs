//! Weights whose codes and factors are tensors of their own. They are brought into blocks, factors
//! before codes, as they are read, so that a row is one run of bytes and nothing else needs to know
//! of it:
//!
//! - **nvfp4** (4-bit floats, an 8-bit float for each 16, one factor for all, which stays apart);
//! - **mxfp8** (8-bit floats, a power of two for each 32);
//! - **nf4** of bitsandbytes (4-bit codes of a table, a factor for each 64, in f32 also where the
//!   file has the factors in 8 bits).
//!
//! Where blocks do not fill the rows, or the table is another (**fp4**), values become a type that
//! kernels do decode: `Q8_0`, the nearest of 255 steps, or bf16, which holds the first two exactly.

pub(crate) mod bitsandbytes;

use std::ops::Range;

use nino_dtype::DType;

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
    Tiled(Box<Tiled>),
    Codes(Box<Codes>),
}

/// Codes of rows, and factors in tiles.
#[derive(Debug)]
pub(crate) struct Tiled {
    dtype: DType,
    /// Values that share a factor.
    group: usize,
    weight: Entry,
    scales: Entry,
}

const NVFP4_GROUP: usize = 16;
const MXFP8_GROUP: usize = 32;
/// Rows of the tiles that factors are stored in, and factors of a row that a tile holds.
const TILE_ROWS: usize = 128;
const TILE_COLUMNS: usize = 4;
const TILE_BYTES: usize = TILE_ROWS * TILE_COLUMNS;

impl Packed {
    /// What people call the encoding.
    pub(crate) fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Tiled(tiled) => tiled.dtype.name(),
            Kind::Codes(codes) => codes.name,
        }
    }

    /// The type that values are read in.
    pub(crate) fn dtype(&self) -> DType {
        let choices = match &self.kind {
            Kind::Tiled(tiled) => std::slice::from_ref(&tiled.dtype),
            Kind::Codes(codes) if codes.is_nf4() => &[DType::NF4, DType::Q8_0],
            Kind::Codes(_) => &[DType::Q8_0],
        };
        let fits = |dtype: &&DType| self.row.is_multiple_of(dtype.block_len());
        choices.iter().find(fits).copied().unwrap_or(DType::BF16)
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
        let tiled = match &self.kind {
            Kind::Tiled(tiled) => tiled,
            Kind::Codes(codes) if self.dtype() == DType::NF4 => {
                return codes.read_blocks(reader, rows.start * self.row, out);
            }
            Kind::Codes(codes) => {
                let mut values = vec![0.0; rows.len() * self.row];
                codes.read(reader, rows.start * self.row, &mut values)?;
                self.encode(&values, out);
                return Ok(());
            }
        };
        let (dtype, group) = (tiled.dtype, tiled.group);
        let row_codes = tiled.weight.n_bytes() as usize / self.rows;
        let mut codes = vec![0; rows.len() * row_codes];
        reader.read_range(&tiled.weight, (rows.start * row_codes) as u64, &mut codes)?;
        let tiles = Tiles::read(reader, &tiled.scales, rows.start, self.row / group)?;
        let codes = codes.chunks_exact(row_codes);
        for (row, (codes, out)) in rows.zip(codes.zip(out.chunks_exact_mut(self.row_bytes()))) {
            let factors: Vec<u8> = tiles.row(row).collect();
            if self.dtype() == dtype {
                blocks(dtype, group, &factors, codes, out);
                continue;
            }
            let n_blocks = self.row.div_ceil(dtype.block_len());
            let mut whole = vec![0; n_blocks * dtype.block_bytes()];
            blocks(dtype, group, &factors, codes, &mut whole);
            let mut values = vec![0.0; n_blocks * dtype.block_len()];
            nino_dtype::decode(dtype, &whole, &mut values).expect("whole blocks");
            self.encode(&values[..self.row], out);
        }
        Ok(())
    }

    fn encode(&self, values: &[f32], out: &mut [u8]) {
        nino_dtype::encode(self.dtype(), values, out).expect("rows are whole blocks");
    }
}

/// Blocks of a row: factors, then codes. What the row does not fill of the last stays zero.
fn blocks(dtype: DType, group: usize, factors: &[u8], codes: &[u8], out: &mut [u8]) {
    let n = dtype.block_len() / group;
    let parts = factors.chunks(n).zip(codes.chunks(dtype.block_bytes() - n));
    for ((factors, codes), block) in parts.zip(out.chunks_exact_mut(dtype.block_bytes())) {
        block[..factors.len()].copy_from_slice(factors);
        block[n..n + codes.len()].copy_from_slice(codes);
    }
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
        kind: Kind::Tiled(Box::new(Tiled {
            dtype: DType::NVFP4,
            group: NVFP4_GROUP,
            weight: weight.clone(),
            scales: scales.clone(),
        })),
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
        kind: Kind::Tiled(Box::new(Tiled {
            dtype: DType::MXFP8,
            group: MXFP8_GROUP,
            weight: weight.clone(),
            scales: scales.clone(),
        })),
        rows,
        row,
    })
}
