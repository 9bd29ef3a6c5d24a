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

/// Scales of `scale * q` with `q` in `low..=high`. Each of `peaks` is a code the largest value of a
/// group is tried at; least squares then moves the scale to suit the codes that gives.
#[inline(always)]
pub(super) fn fit_scale<const N: usize, const L: usize>(
    x: &[Lanes<L>; N],
    range: (f32, f32),
    peaks: &[f32],
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
    let mut best = [0.0; L];
    let mut best_error = [f32::INFINITY; L];
    for &code in peaks {
        let scale: Lanes<L> = lanes(|l| peak[l] / code);
        improve_scale(x, range, &scale, &mut best, &mut best_error);
    }
    for _ in 0..REFITS {
        let scale = best;
        improve_scale(x, range, &scale, &mut best, &mut best_error);
    }
    best
}

/// Rounds of "codes for the scale, scale for the codes" after the search.
const REFITS: usize = 2;

#[inline(always)]
fn improve_scale<const N: usize, const L: usize>(
    x: &[Lanes<L>; N],
    range: (f32, f32),
    scale: &Lanes<L>,
    best: &mut Lanes<L>,
    best_error: &mut Lanes<L>,
) {
    let s = sums(x, scale, &[0.0; L], range);
    for l in 0..L {
        let step = if s.qq[l] > 0.0 {
            s.rq[l] / s.qq[l]
        } else {
            0.0
        };
        let error = s.rr[l] - step * s.rq[l];
        let better = error < best_error[l];
        best_error[l] = if better { error } else { best_error[l] };
        best[l] = if better { scale[l] + step } else { best[l] };
    }
}

/// How `fit_affine` searches.
pub(super) struct AffineSearch<'a> {
    /// The largest code; the smallest is 0.
    pub top: f32,
    /// Shares of a group's range to cut off below and above.
    pub cuts: &'a [(f32, f32)],
    /// Offsets must not be positive.
    pub below_zero: bool,
}

/// Scales and offsets of `scale * q + offset` with `q` in `0..=top`.
#[inline(always)]
pub(super) fn fit_affine<const N: usize, const L: usize>(
    x: &[Lanes<L>; N],
    search: &AffineSearch<'_>,
) -> (Lanes<L>, Lanes<L>) {
    let (mut low, mut high) = (x[0], x[0]);
    for row in x {
        for l in 0..L {
            low[l] = if row[l] < low[l] { row[l] } else { low[l] };
            high[l] = if row[l] > high[l] { row[l] } else { high[l] };
        }
    }
    if search.below_zero {
        low = lanes(|l| if low[l] > 0.0 { 0.0 } else { low[l] });
    }
    let mut best = AffineBest {
        scale: [0.0; L],
        offset: low,
        error: [f32::INFINITY; L],
    };
    for &(below, above) in search.cuts {
        let share = (1.0 - below - above) / search.top;
        let scale: Lanes<L> = lanes(|l| (high[l] - low[l]) * share);
        let offset: Lanes<L> = lanes(|l| low[l] + (high[l] - low[l]) * below);
        best.improve(x, search, &scale, &offset);
    }
    for _ in 0..REFITS {
        let (scale, offset) = (best.scale, best.offset);
        best.improve(x, search, &scale, &offset);
    }
    (best.scale, best.offset)
}

struct AffineBest<const L: usize> {
    scale: Lanes<L>,
    offset: Lanes<L>,
    error: Lanes<L>,
}

impl<const L: usize> AffineBest<L> {
    #[inline(always)]
    fn improve<const N: usize>(
        &mut self,
        x: &[Lanes<L>; N],
        search: &AffineSearch<'_>,
        scale: &Lanes<L>,
        offset: &Lanes<L>,
    ) {
        let n = N as f32;
        let s = sums(x, scale, offset, (0.0, search.top));
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
            let hold = search.below_zero && b + shift > 0.0;
            let (new_scale, new_offset, error) = if hold {
                (scale[l] + step0, 0.0, error0)
            } else {
                (scale[l] + step, b + shift, error)
            };
            let better = error < self.error[l];
            self.error[l] = if better { error } else { self.error[l] };
            self.scale[l] = if better { new_scale } else { self.scale[l] };
            self.offset[l] = if better { new_offset } else { self.offset[l] };
        }
    }
}
