//! The search for scales that block encoders share.
//!
//! Groups are searched side by side, one per lane: `x[i][lane]` is value `i` of group `lane`. Every
//! sum runs down a lane in order, so the outcome does not depend on the vector width.

/// 1.5 * 2^23: adding it leaves the nearest integer in a float's low bits.
const ROUND: f32 = 12_582_912.0;
/// Groups narrower than this are taken as constant: f16 scales cannot resolve them.
const TINY: f32 = 1e-20;

pub(super) type Lanes<const L: usize> = [f32; L];

/// One value per lane. A loop, because `array::map` is compiled apart from the kernel.
#[inline(always)]
pub(super) fn lanes<const L: usize>(value: impl Fn(usize) -> f32) -> Lanes<L> {
    let mut v = [0.0; L];
    for l in 0..L {
        v[l] = value(l);
    }
    v
}

/// Nearest integer, ties to even, for magnitudes below 2^22.
#[inline(always)]
pub(super) fn round(x: f32) -> f32 {
    (x + ROUND) - ROUND
}

/// The low byte of the nearest integer.
#[inline(always)]
pub(super) fn code(x: f32) -> u8 {
    (x + ROUND).to_bits() as u8
}

/// 1 / x, and 0 for what is too small to divide by.
#[inline(always)]
pub(super) fn inverse(x: f32) -> f32 {
    if x.abs() > TINY { 1.0 / x } else { 0.0 }
}

/// Groups of `N` consecutive values as lanes.
#[inline(always)]
pub(super) fn transpose<const N: usize, const L: usize>(values: &[f32]) -> [Lanes<L>; N] {
    let mut x = [[0.0; L]; N];
    for (lane, group) in values.as_chunks::<N>().0.iter().enumerate().take(L) {
        for i in 0..N {
            x[i][lane] = group[i];
        }
    }
    x
}

/// Sums over each group of codes `q` and residuals `r = x - (scale * q + offset)`.
pub(super) struct Sums<const L: usize> {
    pub q: Lanes<L>,
    pub qq: Lanes<L>,
    pub r: Lanes<L>,
    pub rq: Lanes<L>,
    pub rr: Lanes<L>,
}

/// The codes are the best ones in `low..=high` for the given scales and offsets.
#[inline(always)]
pub(super) fn sums<const N: usize, const L: usize>(
    x: &[Lanes<L>; N],
    scale: &Lanes<L>,
    offset: &Lanes<L>,
    (low, high): (f32, f32),
) -> Sums<L> {
    let zero = [0.0; L];
    let mut s = Sums {
        q: zero,
        qq: zero,
        r: zero,
        rq: zero,
        rr: zero,
    };
    let inv: Lanes<L> = lanes(|l| inverse(scale[l]));
    for row in x {
        for l in 0..L {
            let q = round((row[l] - offset[l]) * inv[l]);
            let q = if q < low { low } else { q };
            let q = if q > high { high } else { q };
            let r = row[l] - (scale[l] * q + offset[l]);
            s.q[l] += q;
            s.qq[l] += q * q;
            s.r[l] += r;
            s.rq[l] += r * q;
            s.rr[l] += r * r;
        }
    }
    s
}

/// Squared error of each group under the best codes for the given scales and offsets.
#[inline(always)]
pub(super) fn errors<const N: usize, const L: usize>(
    x: &[Lanes<L>; N],
    scale: &Lanes<L>,
    offset: &Lanes<L>,
    (low, high): (f32, f32),
) -> Lanes<L> {
    let mut error = [0.0; L];
    let inv: Lanes<L> = lanes(|l| inverse(scale[l]));
    for row in x {
        for l in 0..L {
            let q = round((row[l] - offset[l]) * inv[l]);
            let q = if q < low { low } else { q };
            let q = if q > high { high } else { q };
            let r = row[l] - (scale[l] * q + offset[l]);
            error[l] += r * r;
        }
    }
    error
}

/// How far past the last code the largest value of a group is tried, in codes: little past it and
/// the largest value is met exactly, far past it and the others gain what it loses.
pub(super) const OVERSHOOTS: [f32; 4] = [-0.4, 0.0, 0.4, 0.8];
/// With many codes the error has many small minima.
pub(super) const OVERSHOOTS_FINE: [f32; 9] = [-0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8];

/// Scales, of either sign, of `scale * q` with `q` in `-half..half`.
#[inline(always)]
pub(super) fn fit_scale<const N: usize, const L: usize>(
    x: &[Lanes<L>; N],
    half: f32,
    overshoots: &[f32],
) -> Lanes<L> {
    let mut peak = [0.0; L];
    for row in x {
        for l in 0..L {
            peak[l] = if row[l].abs() > f32::abs(peak[l]) {
                row[l]
            } else {
                peak[l]
            };
        }
    }
    let mut best = ScaleBest {
        scale: [0.0; L],
        error: [f32::INFINITY; L],
    };
    for over in overshoots {
        for code in [-half - over, half - 1.0 + over] {
            best.improve(x, half, &lanes(|l| peak[l] / code));
        }
    }
    let scale = best.scale;
    best.improve(x, half, &scale);
    best.scale
}

struct ScaleBest<const L: usize> {
    scale: Lanes<L>,
    error: Lanes<L>,
}

impl<const L: usize> ScaleBest<L> {
    /// Takes the best codes for `scale`, and then the best scale for those.
    #[inline(always)]
    fn improve<const N: usize>(&mut self, x: &[Lanes<L>; N], half: f32, scale: &Lanes<L>) {
        let s = sums(x, scale, &[0.0; L], (-half, half - 1.0));
        for l in 0..L {
            let step = if s.qq[l] > 0.0 {
                s.rq[l] / s.qq[l]
            } else {
                0.0
            };
            let error = s.rr[l] - step * s.rq[l];
            let better = error < self.error[l];
            self.error[l] = if better { error } else { self.error[l] };
            self.scale[l] = if better {
                scale[l] + step
            } else {
                self.scale[l]
            };
        }
    }
}

/// How much of a group's range is left beyond the first and the last code, in codes.
const CUTS: [f32; 3] = [-0.3, 0.15, 0.6];

/// Scales and offsets of `scale * q + offset` with `q` in `0..=top`; `below_zero` keeps offsets
/// from being positive.
#[inline(always)]
pub(super) fn fit_affine<const N: usize, const L: usize>(
    x: &[Lanes<L>; N],
    top: f32,
    below_zero: bool,
) -> (Lanes<L>, Lanes<L>) {
    let (mut low, mut high) = (x[0], x[0]);
    for row in x {
        for l in 0..L {
            low[l] = if row[l] < low[l] { row[l] } else { low[l] };
            high[l] = if row[l] > high[l] { row[l] } else { high[l] };
        }
    }
    if below_zero {
        low = lanes(|l| if low[l] > 0.0 { 0.0 } else { low[l] });
    }
    let mut best = AffineBest {
        scale: [0.0; L],
        offset: low,
        error: [f32::INFINITY; L],
    };
    for below in CUTS {
        for above in CUTS {
            let step = 1.0 / (top + below + above);
            let scale: Lanes<L> = lanes(|l| (high[l] - low[l]) * step);
            let offset = lanes(|l| low[l] + scale[l] * below);
            best.improve(x, (top, below_zero), &scale, &offset);
        }
    }
    let (scale, offset) = (best.scale, best.offset);
    best.improve(x, (top, below_zero), &scale, &offset);
    (best.scale, best.offset)
}

struct AffineBest<const L: usize> {
    scale: Lanes<L>,
    offset: Lanes<L>,
    error: Lanes<L>,
}

impl<const L: usize> AffineBest<L> {
    /// Takes the best codes for `scale` and `offset`, and then the best of both for those.
    #[inline(always)]
    fn improve<const N: usize>(
        &mut self,
        x: &[Lanes<L>; N],
        (top, below_zero): (f32, bool),
        scale: &Lanes<L>,
        offset: &Lanes<L>,
    ) {
        let n = N as f32;
        let s = sums(x, scale, offset, (0.0, top));
        for l in 0..L {
            let det = n * s.qq[l] - s.q[l] * s.q[l];
            let step = if det > 0.0 {
                (n * s.rq[l] - s.r[l] * s.q[l]) / det
            } else {
                0.0
            };
            let shift = (s.r[l] - step * s.q[l]) / n;
            let error = s.rr[l] - step * s.rq[l] - shift * s.r[l];
            // The same with the offset held at 0.
            let b = offset[l];
            let rq0 = s.rq[l] + b * s.q[l];
            let step0 = if s.qq[l] > 0.0 { rq0 / s.qq[l] } else { 0.0 };
            let error0 = s.rr[l] + 2.0 * b * s.r[l] + n * b * b - step0 * rq0;
            let hold = below_zero && b + shift > 0.0;
            let new_scale = scale[l] + if hold { step0 } else { step };
            let new_offset = if hold { 0.0 } else { b + shift };
            let error = if hold { error0 } else { error };
            let better = error < self.error[l];
            self.error[l] = if better { error } else { self.error[l] };
            self.scale[l] = if better { new_scale } else { self.scale[l] };
            self.offset[l] = if better { new_offset } else { self.offset[l] };
        }
    }
}
