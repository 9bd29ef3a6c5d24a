//! Vector exp, tanh and erf, good to a few units in the last place of f32 (erf to 1.5e-7 absolute).
//!
//! # Safety
//!
//! The CPU must have the level `S`; nothing else is needed, since all values are in registers.

use super::Simd;

/// Gives e^x: 0 below -87.3, and a value near the largest f32 above 88. NaN stays NaN.
#[inline(always)]
pub(crate) unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    let clamped = S::min(S::max(x, S::splat(-87.336_54)), S::splat(88.376_26));
    let n = S::round(S::mul(clamped, S::splat(std::f32::consts::LOG2_E)));
    // ln 2 in two parts, so that r keeps full precision.
    let r = S::fma(n, S::splat(-0.693_359_4), clamped);
    let r = S::fma(n, S::splat(2.121_944_4e-4), r);
    let mut p = S::splat(1.987_569_1e-4);
    p = S::fma(p, r, S::splat(1.398_199_9e-3));
    p = S::fma(p, r, S::splat(8.333_452e-3));
    p = S::fma(p, r, S::splat(4.166_579_6e-2));
    p = S::fma(p, r, S::splat(1.666_666_5e-1));
    p = S::fma(p, r, S::splat(0.5));
    let y = S::add(S::fma(S::mul(r, r), p, r), S::splat(1.0));
    S::keep_nan(x, S::ldexp(y, n))
}

/// Gives 2^x for x up to 0, and 0 far below it. NaN stays NaN.
#[inline(always)]
pub(crate) unsafe fn exp2_falling<S: Simd>(x: S::V) -> S::V {
    // `max` gives its second operand when that is NaN.
    let x = S::max(S::splat(-126.0), x);
    let n = S::round(x);
    let r = S::sub(x, n);
    // Least squares of the relative error, with 1 at 0: good to 1e-7.
    let mut p = S::splat(1.321_867_2e-3);
    p = S::fma(p, r, S::splat(9.671_698e-3));
    p = S::fma(p, r, S::splat(5.550_893e-2));
    p = S::fma(p, r, S::splat(2.402_223_8e-1));
    p = S::fma(p, r, S::splat(6.931_469e-1));
    p = S::fma(p, r, S::splat(1.0));
    S::ldexp(p, n)
}

/// As [`exp2_falling`] for x up to 126, good to 8e-5: enough where the result is rounded to bf16.
#[inline(always)]
pub(crate) unsafe fn exp2_coarse<S: Simd>(x: S::V) -> S::V {
    let x = S::max(S::splat(-126.0), x);
    let n = S::round(x);
    let r = S::sub(x, n);
    // The polynomial with the least largest relative error.
    let mut p = S::splat(5.517_128e-2);
    p = S::fma(p, r, S::splat(2.426_104_5e-1));
    p = S::fma(p, r, S::splat(6.932_61e-1));
    p = S::fma(p, r, S::splat(9.999_281e-1));
    S::ldexp(p, n)
}

/// 1 / (1 + e^-x)
#[inline(always)]
pub(crate) unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    let one = S::splat(1.0);
    S::div(one, S::add(one, exp::<S>(S::sub(S::zero(), x))))
}

/// As [`sigmoid`], good to 3e-4: enough where the result is rounded to bf16. NaN stays NaN.
#[inline(always)]
pub(crate) unsafe fn sigmoid_coarse<S: Simd>(x: S::V) -> S::V {
    let power = S::mul(x, S::splat(-std::f32::consts::LOG2_E));
    // `min` gives its second operand when that is NaN.
    let e = exp2_coarse::<S>(S::min(S::splat(126.0), power));
    S::reciprocal(S::add(S::splat(1.0), e))
}

/// As [`silu`], as good as [`sigmoid_coarse`].
#[inline(always)]
pub(crate) unsafe fn silu_coarse<S: Simd>(x: S::V) -> S::V {
    S::mul(x, sigmoid_coarse::<S>(x))
}

/// x / (1 + e^-x)
#[inline(always)]
pub(crate) unsafe fn silu<S: Simd>(x: S::V) -> S::V {
    S::div(x, S::add(S::splat(1.0), exp::<S>(S::sub(S::zero(), x))))
}

#[inline(always)]
pub(crate) unsafe fn tanh<S: Simd>(x: S::V) -> S::V {
    let one = S::splat(1.0);
    let e = exp::<S>(S::mul(S::splat(-2.0), S::abs(x)));
    S::copysign(S::div(S::sub(one, e), S::add(one, e)), x)
}

/// The approximation of Abramowitz and Stegun, 7.1.26.
#[inline(always)]
pub(crate) unsafe fn erf<S: Simd>(x: S::V) -> S::V {
    let one = S::splat(1.0);
    let a = S::abs(x);
    let t = S::div(one, S::fma(S::splat(0.327_591_1), a, one));
    let mut p = S::splat(1.061_405_4);
    p = S::fma(p, t, S::splat(-1.453_152));
    p = S::fma(p, t, S::splat(1.421_413_7));
    p = S::fma(p, t, S::splat(-0.284_496_74));
    p = S::fma(p, t, S::splat(0.254_829_6));
    let e = exp::<S>(S::sub(S::zero(), S::mul(a, a)));
    S::copysign(S::sub(one, S::mul(S::mul(p, t), e)), x)
}

/// x/2 (1 + erf(x / sqrt 2))
#[inline(always)]
pub(crate) unsafe fn gelu<S: Simd>(x: S::V) -> S::V {
    let e = erf::<S>(S::mul(x, S::splat(std::f32::consts::FRAC_1_SQRT_2)));
    S::mul(S::mul(S::splat(0.5), x), S::add(S::splat(1.0), e))
}

/// As [`gelu`], with a reciprocal and a power that are good to 7e-5 and 8e-5.
#[inline(always)]
pub(crate) unsafe fn gelu_coarse<S: Simd>(x: S::V) -> S::V {
    let one = S::splat(1.0);
    let a = S::mul(S::abs(x), S::splat(std::f32::consts::FRAC_1_SQRT_2));
    let t = S::reciprocal(S::fma(S::splat(0.327_591_1), a, one));
    let mut p = S::splat(1.061_405_4);
    p = S::fma(p, t, S::splat(-1.453_152));
    p = S::fma(p, t, S::splat(1.421_413_7));
    p = S::fma(p, t, S::splat(-0.284_496_74));
    p = S::fma(p, t, S::splat(0.254_829_6));
    let power = S::mul(S::mul(a, a), S::splat(-std::f32::consts::LOG2_E));
    // x/2 (1 + erf) is x - rest where x is positive, and the rest where it is negative.
    let rest = S::mul(S::mul(p, t), exp2_coarse::<S>(power));
    let rest = S::mul(S::mul(S::splat(0.5), S::abs(x)), rest);
    S::sub(S::max(S::zero(), x), rest)
}

/// As [`gelu_tanh`], as good as [`sigmoid_coarse`]: (1 + tanh u) / 2 is the sigmoid of 2u.
#[inline(always)]
pub(crate) unsafe fn gelu_tanh_coarse<S: Simd>(x: S::V) -> S::V {
    let x3 = S::mul(S::mul(x, x), x);
    let twice = S::mul(
        S::splat(2.0 * 0.797_884_6),
        S::fma(S::splat(0.044_715), x3, x),
    );
    S::mul(x, sigmoid_coarse::<S>(twice))
}

/// As [`quick_gelu`], as good as [`sigmoid_coarse`].
#[inline(always)]
pub(crate) unsafe fn quick_gelu_coarse<S: Simd>(x: S::V) -> S::V {
    S::mul(x, sigmoid_coarse::<S>(S::mul(S::splat(1.702), x)))
}

/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
#[inline(always)]
pub(crate) unsafe fn gelu_tanh<S: Simd>(x: S::V) -> S::V {
    let x3 = S::mul(S::mul(x, x), x);
    let inner = S::mul(S::splat(0.797_884_6), S::fma(S::splat(0.044_715), x3, x));
    S::mul(
        S::mul(S::splat(0.5), x),
        S::add(S::splat(1.0), tanh::<S>(inner)),
    )
}

/// x sigmoid(1.702 x)
#[inline(always)]
pub(crate) unsafe fn quick_gelu<S: Simd>(x: S::V) -> S::V {
    let e = exp::<S>(S::mul(S::splat(-1.702), x));
    S::div(x, S::add(S::splat(1.0), e))
}
