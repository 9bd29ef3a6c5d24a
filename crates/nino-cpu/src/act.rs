//! Activation functions over rows, alone or with the scale and shift of a norm in front.
//!
//! # Safety
//!
//! `src` and `dst` must be valid for `n` values and may be the same row. `Scaled::mul` and
//! `Scaled::add` must be valid for `n` values.

// Nearly every expression here is an unsafe operation under the contract above, so blocks around
// each would say nothing and hide the arithmetic.
#![allow(unsafe_op_in_unsafe_fn)]

use nino_dtype::DType;
use nino_graph::Act;

use crate::simd::{Simd, dispatch, math};

/// An activation, and how exact it is to be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Activation {
    act: Option<Act>,
    /// Whether it may be off by 3e-4, where rounding to bf16 is off by 2e-3.
    coarse: bool,
}

impl Activation {
    /// Gives the activation of values that are stored in a type before or after it.
    pub(crate) fn of(act: Option<Act>, stored: DType) -> Activation {
        let coarse = stored == DType::BF16;
        Activation { act, coarse }
    }

    pub(crate) fn kind(self) -> (Option<Act>, bool) {
        (self.act, self.coarse)
    }
}

/// A function of one vector. The choice among them is made outside the loop.
pub(crate) trait VectorFn: Copy {
    unsafe fn apply<S: Simd>(self, x: S::V) -> S::V;
}

macro_rules! vector_fns {
    ($($name:ident => $f:path),* $(,)?) => {$(
        #[derive(Clone, Copy)]
        pub(crate) struct $name;
        impl VectorFn for $name {
            #[inline(always)]
            unsafe fn apply<S: Simd>(self, x: S::V) -> S::V {
                $f(x)
            }
        }
    )*};
}

#[inline(always)]
unsafe fn identity<S: Simd>(x: S::V) -> S::V {
    x
}

#[inline(always)]
unsafe fn relu<S: Simd>(x: S::V) -> S::V {
    // In this order NaN stays NaN, so that overflows are seen in the result.
    S::max(S::zero(), x)
}

vector_fns! {
    Identity => identity::<S>,
    Silu => math::silu::<S>,
    SiluCoarse => math::silu_coarse::<S>,
    Gelu => math::gelu::<S>,
    GeluCoarse => math::gelu_coarse::<S>,
    GeluTanh => math::gelu_tanh::<S>,
    GeluTanhCoarse => math::gelu_tanh_coarse::<S>,
    QuickGelu => math::quick_gelu::<S>,
    QuickGeluCoarse => math::quick_gelu_coarse::<S>,
    Relu => relu::<S>,
    Sigmoid => math::sigmoid::<S>,
    SigmoidCoarse => math::sigmoid_coarse::<S>,
    Tanh => math::tanh::<S>,
}

#[derive(Clone, Copy)]
pub(crate) struct LeakyRelu(pub f32);
impl VectorFn for LeakyRelu {
    #[inline(always)]
    unsafe fn apply<S: Simd>(self, x: S::V) -> S::V {
        // As with `relu`, NaN stays NaN: the second operand of `max` is x.
        let positive = S::max(S::zero(), x);
        S::fma(S::min(x, S::zero()), S::splat(self.0), positive)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Clamp(pub f32, pub f32);
impl VectorFn for Clamp {
    #[inline(always)]
    unsafe fn apply<S: Simd>(self, x: S::V) -> S::V {
        S::keep_nan(x, S::min(S::max(x, S::splat(self.0)), S::splat(self.1)))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Affine(pub f32, pub f32);
impl VectorFn for Affine {
    #[inline(always)]
    unsafe fn apply<S: Simd>(self, x: S::V) -> S::V {
        S::fma(x, S::splat(self.0), S::splat(self.1))
    }
}

/// Calls `$body` with `$f` bound to the vector function of `$act`.
macro_rules! with_act {
    ($act:expr, |$f:ident| $body:expr) => {{
        use nino_graph::Act;
        use $crate::act as a;
        macro_rules! with {
            ($function:expr) => {{
                let $f = $function;
                $body
            }};
        }
        match $act.kind() {
            (None, _) => with!(a::Identity),
            (Some(Act::Silu), false) => with!(a::Silu),
            (Some(Act::Silu), true) => with!(a::SiluCoarse),
            (Some(Act::Gelu), false) => with!(a::Gelu),
            (Some(Act::Gelu), true) => with!(a::GeluCoarse),
            (Some(Act::GeluTanh), false) => with!(a::GeluTanh),
            (Some(Act::GeluTanh), true) => with!(a::GeluTanhCoarse),
            (Some(Act::QuickGelu), false) => with!(a::QuickGelu),
            (Some(Act::QuickGelu), true) => with!(a::QuickGeluCoarse),
            (Some(Act::Sigmoid), false) => with!(a::Sigmoid),
            (Some(Act::Sigmoid), true) => with!(a::SigmoidCoarse),
            (Some(Act::Relu), _) => with!(a::Relu),
            (Some(Act::LeakyRelu { slope }), _) => with!(a::LeakyRelu(slope)),
            (Some(Act::Tanh), _) => with!(a::Tanh),
            (Some(Act::Clamp { lo, hi }), _) => with!(a::Clamp(lo, hi)),
            (Some(Act::Affine { mul, add }), _) => with!(a::Affine(mul, add)),
        }
    }};
}
pub(crate) use with_act;

dispatch! {
    /// Writes dst = act(src), element by element.
    pub(crate) fn map(act: Activation, src: *const f32, dst: *mut f32, n: usize) = map_impl
}

#[inline(always)]
unsafe fn map_impl<S: Simd>(act: Activation, src: *const f32, dst: *mut f32, n: usize) {
    with_act!(act, |f| map_with::<S, _>(src, dst, n, f));
}

#[inline(always)]
unsafe fn map_with<S: Simd, F: VectorFn>(src: *const f32, dst: *mut f32, n: usize, f: F) {
    let mut i = 0;
    while i + S::LANES <= n {
        S::store(dst.add(i), f.apply::<S>(S::load(src.add(i))));
        i += S::LANES;
    }
    if i < n {
        S::store_n(
            dst.add(i),
            f.apply::<S>(S::load_n(src.add(i), n - i)),
            n - i,
        );
    }
}

/// A norm over one row of channels: `act(((x - mean) * rstd) * mul[c] + add[c])`.
#[derive(Clone, Copy)]
pub(crate) struct Scaled {
    pub mul: *const f32,
    pub add: *const f32,
    /// The row's mean; 0 where the group's statistics are already in `mul` and `add`.
    pub mean: f32,
    /// The row's 1/√(var + eps); 1 where the group's statistics are already in `mul` and `add`.
    pub rstd: f32,
    pub act: Activation,
}

dispatch! {
    /// Writes the norm of `src` to `dst`.
    pub(crate) fn scale_map(s: &Scaled, src: *const f32, dst: *mut f32, n: usize) = scale_map_impl
}

#[inline(always)]
unsafe fn scale_map_impl<S: Simd>(s: &Scaled, src: *const f32, dst: *mut f32, n: usize) {
    with_act!(s.act, |f| scale_map_with::<S, _>(s, src, dst, n, f));
}

#[inline(always)]
unsafe fn scale_map_with<S: Simd, F: VectorFn>(
    s: &Scaled,
    src: *const f32,
    dst: *mut f32,
    n: usize,
    f: F,
) {
    let (mean, rstd) = (S::splat(s.mean), S::splat(s.rstd));
    let mut i = 0;
    while i + S::LANES <= n {
        let x = S::mul(S::sub(S::load(src.add(i)), mean), rstd);
        let y = S::fma(x, S::load(s.mul.add(i)), S::load(s.add.add(i)));
        S::store(dst.add(i), f.apply::<S>(y));
        i += S::LANES;
    }
    if i < n {
        let m = n - i;
        let x = S::mul(S::sub(S::load_n(src.add(i), m), mean), rstd);
        let y = S::fma(x, S::load_n(s.mul.add(i), m), S::load_n(s.add.add(i), m));
        S::store_n(dst.add(i), f.apply::<S>(y), m);
    }
}
