//! Vector functions against f64, at every level this machine has.

use super::{Level, Simd, dispatch, math};

#[inline(always)]
unsafe fn functions_impl<S: Simd>(x: *const f32, out: *mut f32, which: usize) {
    let v = S::load_n(x, 1);
    let y = match which {
        0 => math::exp::<S>(v),
        1 => math::sigmoid::<S>(v),
        2 => math::tanh::<S>(v),
        3 => math::erf::<S>(v),
        4 => math::gelu::<S>(v),
        5 => math::gelu_tanh::<S>(v),
        6 => math::silu::<S>(v),
        8 => math::exp2_falling::<S>(v),
        9 => math::exp2_coarse::<S>(v),
        10 => math::sigmoid_coarse::<S>(v),
        11 => math::silu_coarse::<S>(v),
        12 => math::gelu_coarse::<S>(v),
        13 => math::gelu_tanh_coarse::<S>(v),
        14 => math::quick_gelu_coarse::<S>(v),
        _ => math::quick_gelu::<S>(v),
    };
    S::store_n(out, y, 1);
}

dispatch! { fn functions(x: *const f32, out: *mut f32, which: usize) = functions_impl }

/// Maclaurin series: enough terms for |x| < 6 in f64.
fn erf64(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / n as f64;
        sum += term / (2 * n + 1) as f64;
    }
    if x.abs() > 5.0 {
        x.signum()
    } else {
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }
}

#[test]
fn functions_match_f64() {
    for level in Level::available() {
        for i in -2000..2000 {
            let x = i as f32 * 0.0071;
            let t = f64::from(x);
            let sigmoid = |t: f64| 1.0 / (1.0 + (-t).exp());
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (t + 0.044_715 * t * t * t);
            let expected = [
                t.exp(),
                sigmoid(t),
                t.tanh(),
                erf64(t),
                t / 2.0 * (1.0 + erf64(t / 2f64.sqrt())),
                t / 2.0 * (1.0 + inner.tanh()),
                t * sigmoid(t),
                t * sigmoid(1.702 * t),
            ];
            for (which, want) in expected.into_iter().enumerate() {
                let mut got = 0.0;
                // SAFETY: the level is available, one value is read and written.
                unsafe { functions(level, &raw const x, &raw mut got, which) };
                let error = (f64::from(got) - want).abs() / want.abs().max(1.0);
                assert!(
                    error < 5e-7,
                    "{level} function {which} at {x}: {got}, want {want}"
                );
            }
        }
    }
}

/// Against the exact functions, whose own error is a thousandth of what is allowed.
#[test]
fn coarse_functions_are_as_good_as_they_say() {
    for level in Level::available() {
        let value = |x: f32, which: usize| {
            let mut y = 0.0;
            // SAFETY: the level is available, one value is read and written.
            unsafe { functions(level, &raw const x, &raw mut y, which) };
            y
        };
        for (coarse, exact) in [(10, 1), (11, 6), (12, 4), (13, 5), (14, 7)] {
            for i in -1500..1500 {
                let x = i as f32 * 0.0071;
                let (found, want) = (value(x, coarse), value(x, exact));
                // Far below zero, the exact functions' small values are differences of large ones.
                let error = (found - want).abs() / want.abs().max(1e-3);
                assert!(
                    error < 3e-4,
                    "{level} {coarse} at {x}: {found}, want {want}"
                );
            }
            assert!(value(f32::NAN, coarse).is_nan(), "{level} {coarse}");
            for x in [-1e4, -200.0, 200.0, 1e4] {
                let (found, want) = (value(x, coarse), value(x, exact));
                let close = (found - want).abs() <= 3e-4 * want.abs().max(1e-3);
                assert!(close, "{level} {coarse} at {x}: {found}, want {want}");
            }
        }
    }
}

#[test]
fn exp_at_the_ends() {
    for level in Level::available() {
        let exp = |x: f32| {
            let mut y = 0.0;
            // SAFETY: the level is available, one value is read and written.
            unsafe { functions(level, &raw const x, &raw mut y, 0) };
            y
        };
        assert!(exp(-200.0) < 1e-37, "{level}");
        assert!(exp(f32::NEG_INFINITY) < 1e-37, "{level}");
        assert!(exp(88.0).is_finite() && exp(88.0) > 1e38, "{level}");
        assert!(exp(f32::NAN).is_nan(), "{level}");
    }
}

#[test]
fn falling_powers_of_two() {
    for level in Level::available() {
        for (which, limit) in [(8, 3e-7), (9, 8e-5)] {
            let exp2 = |x: f32| {
                let mut y = 0.0;
                // SAFETY: the level is available, one value is read and written.
                unsafe { functions(level, &raw const x, &raw mut y, which) };
                y
            };
            for i in 0..12_500 {
                let x = i as f32 * -0.01;
                let want = f64::from(x).exp2();
                let error = f64::from(exp2(x)) / want - 1.0;
                assert!(error.abs() < limit, "{level} {which} at {x}: {error}");
            }
            assert!(exp2(-1e30) < 1e-37, "{level} {which}");
            assert!(exp2(f32::NEG_INFINITY) < 1e-37, "{level} {which}");
            assert!(exp2(f32::NAN).is_nan(), "{level} {which}");
        }
    }
}
