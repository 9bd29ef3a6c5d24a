//! `torch.randn` on the CPU, bit for bit, for f32.
//!
//! Sixteen values or more go through a vectorized Box-Muller over blocks of 16 whose logarithm,
//! sine and cosine are Cephes' single-precision polynomials with fused multiply-adds, as x86 builds
//! with AVX2 evaluate them (AVX-512 machines run the same kernel). A ragged tail redraws and
//! recomputes the last 16 values. Fewer than sixteen are double-precision pairs; the second of a
//! pair waits in the generator for later calls.

use super::mt19937::Mt19937;
use crate::parallel;

/// Fewer values than this (a large image has a quarter of it) are not worth threads.
const PARALLEL: usize = 1 << 18;

/// A `torch.Generator` on the CPU.
#[derive(Clone)]
pub struct TorchCpu {
    engine: Mt19937,
    /// The sine half of the last double-precision pair, if it has not been handed out.
    spare: Option<f64>,
}

impl TorchCpu {
    pub fn new(seed: u64) -> Self {
        Self {
            engine: Mt19937::new(seed),
            spare: None,
        }
    }

    pub fn randn(&mut self, out: &mut [f32]) {
        let n = out.len();
        if n < 16 {
            for v in out {
                *v = self.normal_f64() as f32;
            }
            return;
        }
        self.uniform(out);
        box_muller(out);
        if !n.is_multiple_of(16) {
            let tail = &mut out[n - 16..];
            self.uniform(tail);
            box_muller_16(tail);
        }
    }

    fn uniform(&mut self, out: &mut [f32]) {
        for v in out {
            *v = (self.engine.next_u32() & 0x00ff_ffff) as f32 * (1.0 / 16_777_216.0);
        }
    }

    fn normal_f64(&mut self) -> f64 {
        if let Some(v) = self.spare.take() {
            return v;
        }
        let mut uniform =
            || (self.engine.next_u64() & ((1 << 53) - 1)) as f64 * (1.0 / (1u64 << 53) as f64);
        let (u1, u2) = (uniform(), uniform());
        let radius = (-2.0 * (-u2).ln_1p()).sqrt();
        let theta = std::f64::consts::TAU * u1;
        self.spare = Some(radius * theta.sin());
        radius * theta.cos()
    }
}

/// Over whole blocks, on all cores where there are many: the uniforms are in place, so blocks are
/// independent.
fn box_muller(values: &mut [f32]) {
    let threads = if values.len() < PARALLEL {
        1
    } else {
        parallel::cores()
    };
    let share = values.len().div_ceil(threads).next_multiple_of(16).max(16);
    parallel::for_each(values.chunks_mut(share), threads, |part| {
        part.chunks_exact_mut(16).for_each(box_muller_16);
    });
}

fn box_muller_16(block: &mut [f32]) {
    for j in 0..8 {
        let radius = (-2.0 * ln(1.0 - block[j])).sqrt();
        let (sin, cos) = sin_cos(std::f32::consts::TAU * block[j + 8]);
        // Adding zero turns -0.0 into 0.0, as the kernel's closing multiply-add with mean 0 does.
        block[j] = radius * cos + 0.0;
        block[j + 8] = radius * sin + 0.0;
    }
}

/// Cephes `logf`, for `x` in (0, 1]. Which products are fused decides the last bit; this is what
/// GCC fuses.
fn ln(x: f32) -> f32 {
    const P: [f32; 8] = [
        -1.151_461e-1,
        1.167_699_87e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_7e-1,
        2.000_071_4e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ];
    let bits = x.max(f32::MIN_POSITIVE).to_bits();
    let mut e = (bits >> 23) as f32 - 126.0;
    let mantissa = f32::from_bits(bits & 0x007f_ffff | 0x3f00_0000);
    let mut x = mantissa - 1.0;
    if mantissa < std::f32::consts::FRAC_1_SQRT_2 {
        e -= 1.0;
        x += mantissa;
    }
    let z = x * x;
    let mut y = P.iter().fold(7.037_683_6e-2_f32, |y, &p| y.mul_add(x, p)) * x;
    y = y.mul_add(z, e * -2.121_944_4e-4);
    y = z.mul_add(-0.5, y);
    e.mul_add(0.693_359_4, x + y)
}

/// Cephes `sinf` and `cosf`, for `x` >= 0.
fn sin_cos(x: f32) -> (f32, f32) {
    const FOUR_OVER_PI: f32 = 1.273_239_5;
    let octant = ((x * FOUR_OVER_PI) as i32 + 1) & !1;
    let y = octant as f32;
    let x = y.mul_add(-0.785_156_25, x);
    let x = y.mul_add(-2.418_756_5e-4, x);
    let x = y.mul_add(-3.774_895e-8, x);
    let z = x * x;
    let c = 2.443_315_7e-5_f32
        .mul_add(z, -1.388_731_6e-3)
        .mul_add(z, 4.166_664_6e-2)
        * z;
    let c = c.mul_add(z, -(z * 0.5)) + 1.0;
    let s = (-1.951_529_6e-4_f32)
        .mul_add(z, 8.332_161e-3)
        .mul_add(z, -1.666_665_5e-1)
        * z;
    let s = s.mul_add(x, x);
    let (sin, cos) = if octant & 2 == 0 { (s, c) } else { (c, s) };
    let sin = if octant & 4 == 0 { sin } else { -sin };
    let cos = if (octant + 2) & 4 == 0 { cos } else { -cos };
    (sin, cos)
}
