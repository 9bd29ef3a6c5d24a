//! Winograd's one-dimensional transforms F(4, 3), by the points that they interpolate at.
//!
//! Any points give the same result; they differ in how much of a rounding error reaches it.

use crate::simd::Simd;

/// A choice of points: zero, two pairs of opposite numbers, and infinity.
pub(super) trait Interpolation {
    /// Transforms six inputs.
    ///
    /// # Safety
    /// The CPU must have the level, as for all functions here.
    unsafe fn input<S: Simd>(d: [S::V; 6]) -> [S::V; 6];
    /// Transforms three taps.
    unsafe fn filter<S: Simd>(g: [S::V; 3]) -> [S::V; 6];
    /// Transforms six products to four outputs.
    unsafe fn output<S: Simd>(m: [S::V; 6]) -> [S::V; 4];
}

/// The points 0, ±1, ±2 of Lavin and Gray.
pub(super) struct Integers;

impl Interpolation for Integers {
    #[inline(always)]
    unsafe fn input<S: Simd>(d: [S::V; 6]) -> [S::V; 6] {
        let a = S::fma(S::splat(-4.0), d[2], d[4]);
        let b = S::fma(S::splat(-4.0), d[1], d[3]);
        let c = S::sub(d[4], d[2]);
        let e = S::sub(d[3], d[1]);
        [
            S::fma(S::splat(4.0), d[0], S::fma(S::splat(-5.0), d[2], d[4])),
            S::add(a, b),
            S::sub(a, b),
            S::fma(S::splat(2.0), e, c),
            S::fma(S::splat(-2.0), e, c),
            S::fma(S::splat(4.0), d[1], S::fma(S::splat(-5.0), d[3], d[5])),
        ]
    }

    #[inline(always)]
    unsafe fn filter<S: Simd>(g: [S::V; 3]) -> [S::V; 6] {
        let s = S::mul(S::splat(-1.0 / 6.0), S::add(g[0], g[2]));
        let m = S::mul(S::splat(1.0 / 6.0), g[1]);
        let t = S::fma(
            S::splat(1.0 / 24.0),
            g[0],
            S::mul(S::splat(1.0 / 6.0), g[2]),
        );
        let u = S::mul(S::splat(1.0 / 12.0), g[1]);
        [
            S::mul(S::splat(0.25), g[0]),
            S::sub(s, m),
            S::add(s, m),
            S::add(t, u),
            S::sub(t, u),
            g[2],
        ]
    }

    #[inline(always)]
    unsafe fn output<S: Simd>(m: [S::V; 6]) -> [S::V; 4] {
        let a = S::add(m[1], m[2]);
        let b = S::sub(m[1], m[2]);
        let c = S::add(m[3], m[4]);
        let d = S::sub(m[3], m[4]);
        [
            S::add(S::add(m[0], a), c),
            S::fma(S::splat(2.0), d, b),
            S::fma(S::splat(4.0), c, a),
            S::add(S::fma(S::splat(8.0), d, b), m[5]),
        ]
    }
}

/// The points 0, ±2/3, ±3/2: of errors of the products, five times less power reaches the outputs
/// than with [`Integers`], and twenty times less the worst of them, in the corner of a tile.
///
/// The product of 2/3 and 3/2 is one, which saves multiplications. Factors that belong to the
/// filters are in the outputs instead, where they cost less.
pub(super) struct Fractions;

impl Fractions {
    /// The points.
    pub(super) const A: f32 = 2.0 / 3.0;
    pub(super) const B: f32 = 1.5;
    const A2: f32 = 4.0 / 9.0;
    const B2: f32 = 2.25;
    /// 1 / (2 a² (a² - b²)), and the same with a and b exchanged.
    const OF_A: f32 = -81.0 / 130.0;
    const OF_B: f32 = 8.0 / 65.0;
}

impl Interpolation for Fractions {
    #[inline(always)]
    unsafe fn input<S: Simd>(d: [S::V; 6]) -> [S::V; 6] {
        let both = S::splat(-(Self::A2 + Self::B2));
        let a_even = S::fma(S::splat(-Self::B2), d[2], d[4]);
        let a_odd = S::fma(S::splat(-Self::B2), d[1], d[3]);
        let b_even = S::fma(S::splat(-Self::A2), d[2], d[4]);
        let b_odd = S::fma(S::splat(-Self::A2), d[1], d[3]);
        [
            S::fma(both, d[2], S::add(d[0], d[4])),
            S::fma(S::splat(Self::A), a_odd, a_even),
            S::fma(S::splat(-Self::A), a_odd, a_even),
            S::fma(S::splat(Self::B), b_odd, b_even),
            S::fma(S::splat(-Self::B), b_odd, b_even),
            S::fma(both, d[3], S::add(d[1], d[5])),
        ]
    }

    #[inline(always)]
    unsafe fn filter<S: Simd>(g: [S::V; 3]) -> [S::V; 6] {
        // Additions run beside multiplications, so these are not fused.
        let a = S::fma(S::splat(Self::A2), g[2], g[0]);
        let b = S::fma(S::splat(Self::B2), g[2], g[0]);
        let a_odd = S::mul(S::splat(Self::A), g[1]);
        let b_odd = S::mul(S::splat(Self::B), g[1]);
        [
            g[0],
            S::add(a, a_odd),
            S::sub(a, a_odd),
            S::add(b, b_odd),
            S::sub(b, b_odd),
            g[2],
        ]
    }

    #[inline(always)]
    unsafe fn output<S: Simd>(m: [S::V; 6]) -> [S::V; 4] {
        let a = S::add(m[1], m[2]);
        let a_odd = S::sub(m[1], m[2]);
        let b = S::add(m[3], m[4]);
        let b_odd = S::sub(m[3], m[4]);
        let first = S::fma(S::splat(Self::OF_A), a, m[0]);
        let last = S::fma(S::splat(Self::OF_A * Self::A * Self::A2), a_odd, m[5]);
        [
            S::fma(S::splat(Self::OF_B), b, first),
            S::fma(
                S::splat(Self::OF_B * Self::B),
                b_odd,
                S::mul(S::splat(Self::OF_A * Self::A), a_odd),
            ),
            S::fma(
                S::splat(Self::OF_B * Self::B2),
                b,
                S::mul(S::splat(Self::OF_A * Self::A2), a),
            ),
            S::fma(S::splat(Self::OF_B * Self::B * Self::B2), b_odd, last),
        ]
    }
}
