//! Ops whose output values are independent of each other: activations, casts, broadcasting
//! arithmetic, rotary embedding, timestep embedding, resampling, reductions.

use nino_graph::{Act, AvgPool, Binary, BinaryFn, Cast, Gate, Reduce, ReduceFn, Rope, RopeLayout};
use nino_graph::{Shape, TimestepEmbed, Unary, Upsample, UpsampleMode};

use super::{Launches, Lower, six};
use crate::kernel::{Launch, View, grid};
use crate::ops::act::{self, ActCode};
use crate::shader::KernelKey;

impl<'a> Lower<'a> {
    /// A launch of a kernel that includes `each.wgsl`, with rows of the output's last dimension:
    /// `params` follow the output's offset; `vec` says four neighbours can be made at once if the
    /// output allows.
    pub(super) fn each(
        &self,
        key: KernelKey,
        inputs: &[View<'a>],
        params: &[u32],
        vec: bool,
    ) -> Launches<'a> {
        self.each_row(self.shape().last_dim(), key, inputs, params, vec)
    }

    /// The same with rows of `d` elements, one of which starts where the step does.
    pub(super) fn each_row(
        &self,
        d: usize,
        key: KernelKey,
        inputs: &[View<'a>],
        params: &[u32],
        vec: bool,
    ) -> Launches<'a> {
        let range = self.elements();
        let d = d.max(1);
        debug_assert!(range.start.is_multiple_of(d), "{range:?} in rows of {d}");
        let aligned = range.start.is_multiple_of(4) && range.end.is_multiple_of(4);
        let vec = vec && aligned && self.quads(&[self.out]);
        let len = range.len() as u64;
        let lanes = if vec {
            len / 4
        } else if self.out.dtype.block_bytes() == 4 {
            len
        } else {
            len / 2 + 1
        };
        // The first element wraps where the tensor has more than 32 bits count.
        let mut all = [range.start, range.len(), range.start / d, d]
            .map(|v| v as u32)
            .to_vec();
        all.push(self.caps.base(&self.out));
        all.extend(params);
        let key = key.with("OT", self.code(&self.out)?).with("VEC", vec);
        let mut views = vec![self.out];
        views.extend(inputs);
        Ok(vec![Launch {
            kernel: key.into(),
            views,
            writes: 1,
            params: all,
            groups: grid(lanes.div_ceil(256)),
        }])
    }

    pub(super) fn unary(&self, o: &Unary) -> Launches<'a> {
        self.activated(Some(o.act))
    }

    pub(super) fn cast(&self, _: &Cast) -> Launches<'a> {
        self.activated(None)
    }

    fn activated(&self, act: Option<Act>) -> Launches<'a> {
        let x = self.operands[0];
        let key = KernelKey::new("unary").with("XT", self.code(&x)?);
        let key = ActCode::from(act).constants(key, act::ACT);
        self.each(key, &[x], &[self.caps.base(&x)], self.quads(&[x]))
    }

    pub(super) fn gate(&self, o: &Gate) -> Launches<'a> {
        let x = self.operands[0];
        let key = KernelKey::new("gate").with("XT", self.code(&x)?);
        let key = ActCode::from(Some(o.act)).constants(key, act::ACT);
        let whole = self.shape().last_dim().is_multiple_of(4) && self.quads(&[x]);
        self.each(key, &[x], &[self.caps.base(&x)], whole)
    }

    pub(super) fn binary(&self, o: &Binary) -> Launches<'a> {
        let (a, b) = (self.operands[0], self.operands[1]);
        let dims = six(&self.shape());
        let (sa, sb) = (self.graph.shape(o.a), self.graph.shape(o.b));
        let same = sa == self.shape() && sb == self.shape();
        let (stride_a, stride_b) = (broadcast(sa, &dims), broadcast(sb, &dims));
        let fits = |s: &[u32; 6]| s[5] == 0 || s[..5].iter().all(|v| v.is_multiple_of(4));
        let whole = dims[5].is_multiple_of(4) && fits(&stride_a) && fits(&stride_b);
        let vec = self.quads(&[a, b]) && (same || whole);
        let f = match o.f {
            BinaryFn::Add => 0,
            BinaryFn::Sub => 1,
            BinaryFn::Mul => 2,
            BinaryFn::Div => 3,
        };
        let key = KernelKey::new("binary")
            .with("AT", self.code(&a)?)
            .with("BT", self.code(&b)?)
            .with("F", f)
            .with("SAME", same)
            .with("AONE", stride_a[5] == 0)
            .with("BONE", stride_b[5] == 0);
        let mut params = vec![self.caps.base(&a), self.caps.base(&b)];
        params.extend(&dims[1..5]);
        params.extend(stride_a);
        params.extend(stride_b);
        self.each(key, &[a, b], &params, vec)
    }

    pub(super) fn rope(&self, o: &Rope) -> Launches<'a> {
        let (x, table) = (self.operands[0], self.operands[1]);
        let shape = self.shape();
        let halves = o.layout == RopeLayout::Halves;
        let key = KernelKey::new("rope")
            .with("XT", self.code(&x)?)
            .with("HALVES", halves);
        let params = [
            self.caps.base(&x),
            self.caps.base(&table),
            shape[1] as u32,
            shape[2] as u32,
        ];
        let whole = shape.last_dim().is_multiple_of(if halves { 8 } else { 4 });
        let vec = whole && self.quads(&[x, table]);
        self.each(key, &[x, table], &params, vec)
    }

    pub(super) fn timestep_embed(&self, o: &TimestepEmbed) -> Launches<'a> {
        let t = self.operands[0];
        let half = o.dim as f32 / 2.0;
        let rate = -o.max_period.ln() / (half - o.shift);
        let params = [self.caps.base(&t), u32::from(!o.cos_first), rate.to_bits()];
        self.each(KernelKey::new("timestep"), &[t], &params, false)
    }

    pub(super) fn upsample(&self, o: &Upsample) -> Launches<'a> {
        match o.mode {
            UpsampleMode::Nearest => self.nearest(o.factor),
            UpsampleMode::Bilinear => self.resample(true, o.factor, self.graph.shape(o.x)),
        }
    }

    pub(super) fn avg_pool(&self, o: &AvgPool) -> Launches<'a> {
        self.resample(false, [o.size; 2], self.graph.shape(o.x))
    }

    fn resample(&self, bilinear: bool, factor: [usize; 2], from: Shape) -> Launches<'a> {
        let x = self.operands[0];
        let (input, output) = (six(&from), six(&self.shape()));
        let key = KernelKey::new("resample")
            .with("XT", self.code(&x)?)
            .with("BILINEAR", bilinear);
        let params = [
            self.caps.base(&x),
            input[3],
            input[4],
            output[3],
            output[4],
            factor[0] as u32,
            factor[1] as u32,
        ];
        self.each(
            key,
            &[x],
            &params,
            input[5].is_multiple_of(4) && self.quads(&[x]),
        )
    }

    pub(super) fn reduce(&self, o: &Reduce) -> Launches<'a> {
        let x = self.operands[0];
        let shape = self.graph.shape(o.x);
        let inner: usize = shape[o.axis + 1..].iter().product();
        let f = match o.f {
            ReduceFn::Sum => 0,
            ReduceFn::Mean => 1,
            ReduceFn::Max => 2,
        };
        let key = KernelKey::new("reduce")
            .with("XT", self.code(&x)?)
            .with("F", f);
        let params = [self.caps.base(&x), shape[o.axis] as u32];
        self.each_row(inner, key, &[x], &params, false)
    }
}

/// Strides of an operand in the dimensions of the result: 0 where it repeats. They wrap, as the
/// offsets do that they are part of.
fn broadcast(shape: Shape, dims: &[u32; 6]) -> [u32; 6] {
    let own = six(&shape);
    let mut strides = [0; 6];
    let mut step = 1u32;
    for i in (0..6).rev() {
        if own[i] == dims[i] && own[i] > 1 {
            strides[i] = step;
        }
        step = step.wrapping_mul(own[i]);
    }
    strides
}
