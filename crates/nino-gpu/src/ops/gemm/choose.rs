//! Which kernel and tile a product gets on a device.

use std::ops::Range;

use nino_dtype::DType;

use super::{Conv3Tile, ConvShape, CoopTile, Gemm, PlainTile};
use crate::kernel::{Launch, View};
use crate::{Gpu, GpuError, Tier};

impl<'a> Gemm<'a> {
    /// The best kernel for this product on this device.
    pub fn best(&self, gpu: &Gpu) -> Result<Launch<'a>, GpuError> {
        if self.out.dtype.block_bytes() == 2 && !self.n.is_multiple_of(2) {
            return self.words(gpu);
        }
        if self.coop_fits(gpu) {
            return self.coop(gpu, coop_tile(gpu));
        }
        let tile = |bm, bn, bk, um, un| PlainTile { bm, bn, bk, um, un };
        let large = self.m.div_ceil(128) * self.n.div_ceil(128) * self.batch >= 64;
        self.plain(
            gpu,
            if large {
                tile(128, 128, 16, 2, 2)
            } else {
                tile(32, 32, 16, 1, 1)
            },
        )
    }

    /// The best kernels for a convolution, given its rows `(b, t, h)` of output.
    pub fn best_conv(&self, gpu: &Gpu, rows: &Range<u32>) -> Result<Vec<Launch<'a>>, GpuError> {
        let Some(conv) = self
            .conv
            .as_ref()
            .filter(|c| self.coop_fits(gpu) && c.is_plain_3x3())
        else {
            return Ok(vec![self.best(gpu)?]);
        };
        let height = conv.output[1];
        let tile = conv3_tile(gpu);
        if rows.start.is_multiple_of(height) && rows.end.is_multiple_of(height) {
            let images = [rows.start / height, (rows.end - rows.start) / height];
            return Ok(vec![self.conv3(gpu, tile, images, (0, height))?]);
        }
        let part = |image: u32| {
            let from = rows.start.max(image * height) - image * height;
            let to = rows.end.min((image + 1) * height) - image * height;
            self.conv3(gpu, tile, [image, 1], (from, to))
        };
        (rows.start / height..rows.end.div_ceil(height))
            .map(part)
            .collect()
    }

    /// Whether the cooperative kernels' demands are met: f16 in, eight values at a time.
    pub fn coop_fits(&self, gpu: &Gpu) -> bool {
        let c = self.conv.as_ref().map_or(self.k, |c| c.c);
        let eights = |v: &View<'_>| gpu.base(v).is_multiple_of(8);
        let around = [self.residual.as_ref(), self.bias.as_ref()];
        gpu.tier >= Tier::Coop
            && self.x.dtype == DType::F16
            && !self.w_kn
            && [c, self.k, self.n, self.w_first]
                .iter()
                .all(|v| v.is_multiple_of(8))
            && self.n >= 16
            && [&self.x, &self.w, &self.out].into_iter().all(eights)
            && around.into_iter().flatten().all(eights)
    }
}

/// The tile measured best on large products (NVIDIA); 8-wide matrices are the software device's.
fn coop_tile(gpu: &Gpu) -> CoopTile {
    let tile = |bm, bn, bk, wm, wn| {
        let (pad, double, swap) = (2, false, false);
        CoopTile {
            bm,
            bn,
            bk,
            wm,
            wn,
            pad,
            double,
            swap,
        }
    };
    match gpu.info.coop_size {
        Some(8) => tile(32, 32, 16, 16, 16),
        _ => tile(128, 128, 32, 64, 32),
    }
}

fn conv3_tile(gpu: &Gpu) -> Conv3Tile {
    let tile = |ty, tx, bn, bk, wm, wn| Conv3Tile {
        ty,
        tx,
        bn,
        bk,
        wm,
        wn,
        taps: 3,
        packed: false,
    };
    match gpu.info.coop_size {
        Some(8) => tile(4, 8, 16, 8, 16, 16),
        _ => tile(16, 16, 128, 16, 64, 64),
    }
}

impl ConvShape {
    fn is_plain_3x3(&self) -> bool {
        self.kernel == [1, 3, 3] && self.stride == [1; 3] && self.dilation == [1; 3]
    }
}
