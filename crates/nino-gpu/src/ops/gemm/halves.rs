//! Products of bf16 rows on matrix units that take f16 alone: rows of both operands are written as
//! f16 times a power of two each (`half_rows.wgsl`), and the factors that take them back meet the
//! sums before anything else does (`epilogue.wgsl`).

use nino_dtype::DType;
use nino_graph::Halved;

use super::Gemm;
use crate::kernel::{Launch, View, dtype_code, grid};
use crate::shader::KernelKey;
use crate::{Caps, GpuError};

/// Lanes of the workgroup that writes a row.
const LANES: u32 = 128;

/// Factors of a product's rows and columns.
#[derive(Clone, Copy, Debug)]
pub struct Factors<'a> {
    /// Both, those of the rows first.
    pub view: View<'a>,
    /// The first of the columns; nothing where weights are what they are.
    pub columns: Option<u32>,
}

impl<'a> Gemm<'a> {
    /// Writes operands as f16 into scratch and multiplies them there, as many rows at a time as it
    /// holds.
    pub(crate) fn half_pieces(
        &self,
        caps: &Caps,
        scratch: View<'a>,
        sizes: Halved,
    ) -> Result<Vec<Launch<'a>>, GpuError> {
        let part = |dtype, from: usize, to: usize| View {
            dtype,
            offset: scratch.offset + from as u64,
            bytes: (to - from) as u64,
            ..scratch
        };
        let (weights_at, factors_at) = (sizes.weights_at(), sizes.factors_at());
        let rows = part(DType::F16, 0, weights_at);
        let weights = part(DType::F16, weights_at, factors_at);
        let factors = part(DType::F32, factors_at, sizes.bytes());
        let columns = (sizes.columns > 0).then_some(sizes.column_factor() as u32);
        let mut launches = Vec::new();
        let mut whole = self.clone();
        if let Some(column) = columns {
            let place = [weights, factors];
            launches.push(half_rows(
                caps,
                (self.w, self.w_first),
                place,
                [self.n, self.k],
                column,
            )?);
            (whole.w, whole.w_first) = (weights, 0);
        }
        for turn in sizes.turns(self.m as usize) {
            let piece = Gemm {
                m: turn.len() as u32,
                first: self.first + turn.start as u32,
                halves: Some(Factors {
                    view: factors,
                    columns,
                }),
                ..whole.clone()
            };
            let skipped = piece.first.wrapping_mul(self.k);
            let size = [piece.m, self.k];
            launches.push(half_rows(
                caps,
                (self.x, skipped),
                [rows, factors],
                size,
                0,
            )?);
            launches.push(Gemm { x: rows, ..piece }.best(caps)?);
        }
        Ok(launches)
    }
}

/// Writes rows `[n, k]`, which begin so many elements into a tensor, and their factors from one of
/// them on.
fn half_rows<'a>(
    caps: &Caps,
    (from, first): (View<'a>, u32),
    [to, factors]: [View<'a>; 2],
    [n, k]: [u32; 2],
    factor: u32,
) -> Result<Launch<'a>, GpuError> {
    let code = dtype_code(from.dtype).ok_or_else(|| GpuError::Unsupported {
        op: "half_rows".to_owned(),
        why: format!("storage type {}", from.dtype),
    })?;
    let key = KernelKey::new("half_rows")
        .with("WT", code)
        .with("LANES", LANES);
    Ok(Launch {
        kernel: key.into(),
        views: vec![to, factors, from],
        writes: 2,
        params: vec![
            n,
            k,
            caps.base(&to),
            caps.base(&factors) + factor,
            caps.base(&from).wrapping_add(first),
        ],
        groups: grid(u64::from(n)),
    })
}

#[cfg(test)]
mod tests;
