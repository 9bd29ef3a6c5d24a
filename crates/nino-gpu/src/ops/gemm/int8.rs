//! Products of bytes: rows rounded to 8 bits, weights in `Q8_0`, by packed dot products
//! (`round8.wgsl`, `gemm_int8.wgsl`). Rows are rounded as on the CPU, so that results agree.

use nino_dtype::DType;
use nino_graph::Rounded;

use super::Gemm;
use crate::kernel::{Launch, View, dtype_code, grid};
use crate::shader::KernelKey;
use crate::{Caps, GpuError};

/// Shape of a kernel; see `gemm_int8.wgsl`. Its lanes, one for `um` x `un` blocks of 4 x 4 sums,
/// are at most twice as many as the rows, and as the columns, of the tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int8Tile {
    pub bm: u32,
    pub bn: u32,
    pub um: u32,
    pub un: u32,
}

/// Where the parameters say where the rows and their factors begin.
const X_OFF: usize = 4;
const S_OFF: usize = 23;

impl<'a> Gemm<'a> {
    /// Rounds the rows into scratch and multiplies them there, as many at a time as it holds.
    pub(crate) fn int8_pieces(
        &self,
        caps: &Caps,
        scratch: View<'a>,
        sizes: Rounded,
    ) -> Result<Vec<Launch<'a>>, GpuError> {
        let factors_at = sizes.factors_at() as u64;
        let codes = View {
            dtype: DType::I8,
            bytes: factors_at,
            ..scratch
        };
        let factors = View {
            dtype: DType::F32,
            offset: scratch.offset + factors_at,
            bytes: scratch.bytes - factors_at,
            ..scratch
        };
        let mut launches = Vec::new();
        for start in (0..self.m).step_by(sizes.rows) {
            let piece = Gemm {
                m: (sizes.rows as u32).min(self.m - start),
                first: self.first + start,
                ..self.clone()
            };
            launches.push(piece.round(caps, [codes, factors]));
            let piece = Gemm { x: codes, ..piece };
            launches.push(piece.int8(caps, piece.int8_tile(), factors)?);
        }
        Ok(launches)
    }

    /// Its rows as bytes and factors.
    fn round(&self, caps: &Caps, [codes, factors]: [View<'a>; 2]) -> Launch<'a> {
        let code = |view: &View<'_>| dtype_code(view.dtype).unwrap_or(0);
        let key = KernelKey::new("round8")
            .with("QT", code(&codes))
            .with("XT", code(&self.x));
        let blocks = self.m * (self.k / Rounded::BLOCK as u32);
        let skipped = self.first.wrapping_mul(self.k);
        let from = caps.base(&self.x).wrapping_add(skipped);
        Launch {
            kernel: key.into(),
            views: vec![codes, factors, self.x],
            writes: 2,
            params: vec![blocks, caps.base(&codes), caps.base(&factors), from],
            groups: grid(u64::from(blocks).div_ceil(64)),
        }
    }

    /// The kernel with a given tile; `x` are bytes from the first row on, and `factors` theirs.
    pub fn int8(
        &self,
        caps: &Caps,
        tile: Int8Tile,
        factors: View<'a>,
    ) -> Result<Launch<'a>, GpuError> {
        let key = KernelKey::new("gemm_int8")
            .with("I8", 1)
            .with("BM", tile.bm)
            .with("BN", tile.bn)
            .with("UM", tile.um)
            .with("UN", tile.un);
        let key = self.vectors(caps, key);
        let groups = [self.n.div_ceil(tile.bn), self.m.div_ceil(tile.bm), 1];
        let mut launch = self.launch(caps, &key, groups)?;
        launch.views.push(factors);
        launch.params[X_OFF] = caps.base(&self.x);
        launch.params[S_OFF] = caps.base(&factors);
        Ok(launch)
    }

    /// By the compiler's numbers for RDNA 2 (`cargo xtask amd --tiles int8`): sums as integers and
    /// as floats leave the large tile two waves, which is enough where there is much to do.
    fn int8_tile(&self) -> Int8Tile {
        let tile = |bm, bn, um, un| Int8Tile { bm, bn, um, un };
        let tiles = |side: u32| self.m.div_ceil(side) * self.n.div_ceil(side);
        if tiles(128) >= 512 {
            tile(128, 128, 2, 2)
        } else if tiles(64) >= 64 {
            tile(64, 64, 2, 1)
        } else {
            tile(32, 32, 1, 1)
        }
    }
}

#[cfg(test)]
mod tests;
