//! The methods a model's `forward` calls. Each records one op, or the few that make it up.

use crate::{
    Act, Attention, AvgPool, Binary, BinaryFn, Concat, Conv, Epilogue, Gather, Graph, Linear,
    MatMul, Node, NormKind, Normalize, Op, Over, Pad, PadMode, Permute, Prologue, Reduce, ReduceFn,
    Rope, RopeLayout, RowNorm, Shape, Slice, Stats, TimestepEmbed, Upsample, UpsampleMode,
};
use nino_dtype::DType;

#[allow(missing_docs)]
impl Graph {
    /// x `[.., k]`, w `[n, k]` → `[.., n]`
    #[track_caller]
    pub fn linear(&mut self, x: Node, w: Node, bias: Option<Node>) -> Node {
        self.push(Op::Linear(Linear {
            x,
            w,
            pre: None,
            epi: Epilogue {
                bias,
                ..Epilogue::default()
            },
            gate: None,
        }))
    }

    /// a `[.., m, k]` · b `[.., k, n]`
    #[track_caller]
    pub fn matmul(&mut self, a: Node, b: Node) -> Node {
        self.push(Op::MatMul(MatMul {
            a,
            b,
            b_transposed: false,
            scale: 1.0,
        }))
    }

    /// Stride 1, the same padding on all sides.
    #[track_caller]
    pub fn conv2d(&mut self, x: Node, w: Node, bias: Option<Node>, pad: usize) -> Node {
        self.conv(x, w, bias, [1, 1], [pad; 4])
    }

    /// Any stride `[h, w]` and padding (top, bottom, left, right).
    #[track_caller]
    pub fn conv(
        &mut self,
        x: Node,
        w: Node,
        bias: Option<Node>,
        stride: [usize; 2],
        pad: [usize; 4],
    ) -> Node {
        self.push(Op::Conv(Conv::plain(
            x,
            w,
            bias,
            [1, stride[0], stride[1]],
            pad,
        )))
    }

    /// A window of frames `[b, t + kt − 1, h, w, c]`, cached ones first → `[b, t, h, w, cout]`.
    #[track_caller]
    pub fn causal_conv(
        &mut self,
        window: Node,
        w: Node,
        bias: Option<Node>,
        stride: [usize; 3],
        pad: [usize; 4],
    ) -> Node {
        self.push(Op::Conv(Conv::plain(window, w, bias, stride, pad)))
    }

    /// Statistics and application; the rewriter fuses the second into a following conv or linear.
    #[track_caller]
    pub fn group_norm(
        &mut self,
        x: Node,
        groups: usize,
        weight: Node,
        bias: Node,
        eps: f32,
    ) -> Node {
        let stats = self.push(Op::Stats(Stats {
            x,
            over: Over::Groups(groups),
            kind: NormKind::Layer,
            eps,
        }));
        let norm = Prologue {
            stats,
            weight: Some(weight),
            bias: Some(bias),
            act: None,
        };
        self.push(Op::Normalize(Normalize { x, norm }))
    }

    #[track_caller]
    pub fn layer_norm(
        &mut self,
        x: Node,
        weight: Option<Node>,
        bias: Option<Node>,
        eps: f32,
    ) -> Node {
        self.push(Op::RowNorm(RowNorm {
            x,
            kind: NormKind::Layer,
            eps,
            weight,
            bias,
            scale: None,
            shift: None,
            act: None,
        }))
    }

    #[track_caller]
    pub fn rms_norm(&mut self, x: Node, weight: Option<Node>, eps: f32) -> Node {
        self.push(Op::RowNorm(RowNorm {
            x,
            kind: NormKind::Rms,
            eps,
            weight,
            bias: None,
            scale: None,
            shift: None,
            act: None,
        }))
    }

    #[track_caller]
    pub fn softmax(&mut self, x: Node) -> Node {
        self.push(Op::Softmax(x))
    }

    /// q `[b, n, heads, hd]`, k and v `[b, m, heads, hd]`; scaled by 1/√hd.
    #[track_caller]
    pub fn attention(&mut self, q: Node, k: Node, v: Node, mask: Option<Node>) -> Node {
        let scale = 1.0 / (self.shape(q).last_dim() as f32).sqrt();
        self.push(Op::Attention(Attention {
            q,
            k,
            v,
            mask,
            scale,
            by_keys: false,
        }))
    }

    #[track_caller]
    pub fn rope(&mut self, x: Node, table: Node, layout: RopeLayout) -> Node {
        self.push(Op::Rope(Rope { x, table, layout }))
    }

    #[track_caller]
    pub fn act(&mut self, x: Node, act: Act) -> Node {
        self.push(Op::Unary(x, act))
    }

    /// The first half of the last axis times the activated second half.
    #[track_caller]
    pub fn gate(&mut self, x: Node, act: Act) -> Node {
        self.push(Op::Gate(x, act))
    }

    #[track_caller]
    pub fn silu(&mut self, x: Node) -> Node {
        self.act(x, Act::Silu)
    }

    #[track_caller]
    pub fn affine(&mut self, x: Node, mul: f32, add: f32) -> Node {
        self.act(x, Act::Affine { mul, add })
    }

    #[track_caller]
    pub fn add(&mut self, a: Node, b: Node) -> Node {
        self.push(Op::Binary(Binary {
            a,
            b,
            f: BinaryFn::Add,
        }))
    }

    #[track_caller]
    pub fn sub(&mut self, a: Node, b: Node) -> Node {
        self.push(Op::Binary(Binary {
            a,
            b,
            f: BinaryFn::Sub,
        }))
    }

    #[track_caller]
    pub fn mul(&mut self, a: Node, b: Node) -> Node {
        self.push(Op::Binary(Binary {
            a,
            b,
            f: BinaryFn::Mul,
        }))
    }

    #[track_caller]
    pub fn upsample(&mut self, x: Node, factor: usize, mode: UpsampleMode) -> Node {
        self.push(Op::Upsample(Upsample {
            x,
            factor: [factor; 2],
            mode,
        }))
    }

    #[track_caller]
    pub fn avg_pool(&mut self, x: Node, size: usize) -> Node {
        self.push(Op::AvgPool(AvgPool { x, size }))
    }

    #[track_caller]
    pub fn concat(&mut self, xs: &[Node], axis: usize) -> Node {
        self.push(Op::Concat(Concat {
            xs: xs.to_vec(),
            axis,
        }))
    }

    #[track_caller]
    pub fn slice(&mut self, x: Node, axis: usize, start: usize, end: usize) -> Node {
        self.push(Op::Slice(Slice {
            x,
            axis,
            start,
            end,
        }))
    }

    /// Equal parts along an axis.
    #[track_caller]
    pub fn split(&mut self, x: Node, axis: usize, parts: usize) -> Vec<Node> {
        let size = self.shape(x).get(axis).copied().unwrap_or(0);
        if parts == 0 || !size.is_multiple_of(parts) {
            // Recorded as the slice it cannot be, so that the mistake names this caller.
            return vec![self.slice(x, axis, size, size); parts.max(1)];
        }
        let each = size / parts;
        (0..parts)
            .map(|i| self.slice(x, axis, i * each, (i + 1) * each))
            .collect()
    }

    #[track_caller]
    pub fn permute(&mut self, x: Node, perm: &[usize]) -> Node {
        self.push(Op::Permute(Permute {
            x,
            perm: perm.to_vec(),
        }))
    }

    /// Same values in the same order under another shape.
    #[track_caller]
    pub fn reshape(&mut self, x: Node, shape: impl Into<Shape>) -> Node {
        let shape = shape.into();
        if self.error().is_none() && self.shape(x).numel() != shape.numel() {
            return self.mistake("reshape", format!("{} to {shape}", self.shape(x)));
        }
        let node = self.push(Op::Reshape(x));
        self.value_mut(node).shape = shape;
        node
    }

    /// `[b, h, w, c·r·r]` → `[b, h·r, w·r, c]`, channels ordered as PyTorch's `pixel_shuffle`.
    #[track_caller]
    pub fn pixel_shuffle(&mut self, x: Node, r: usize) -> Node {
        let s = self.shape(x);
        let (&[b, h, w, c], true) = (&s[..], r > 0) else {
            return self.mistake("pixel_shuffle", format!("x is {s}, factor {r}"));
        };
        if !c.is_multiple_of(r * r) {
            return self.mistake("pixel_shuffle", format!("x is {s}, factor {r}"));
        }
        let c = c / (r * r);
        let x = self.reshape(x, [b, h, w, c, r, r]);
        let x = self.permute(x, &[0, 1, 4, 2, 5, 3]); // [b, h, r, w, r, c]
        self.reshape(x, [b, h * r, w * r, c])
    }

    /// `[b, h·r, w·r, c]` → `[b, h, w, c·r·r]`, the inverse of [`Graph::pixel_shuffle`].
    #[track_caller]
    pub fn pixel_unshuffle(&mut self, x: Node, r: usize) -> Node {
        let s = self.shape(x);
        let (&[b, h, w, c], true) = (&s[..], r > 0) else {
            return self.mistake("pixel_unshuffle", format!("x is {s}, factor {r}"));
        };
        if !h.is_multiple_of(r) || !w.is_multiple_of(r) {
            return self.mistake("pixel_unshuffle", format!("x is {s}, factor {r}"));
        }
        let x = self.reshape(x, [b, h / r, r, w / r, r, c]);
        let x = self.permute(x, &[0, 1, 3, 5, 2, 4]); // [b, h/r, w/r, c, r, r]
        self.reshape(x, [b, h / r, w / r, c * r * r])
    }

    #[track_caller]
    pub fn pad(
        &mut self,
        x: Node,
        axis: usize,
        before: usize,
        after: usize,
        mode: PadMode,
    ) -> Node {
        self.push(Op::Pad(Pad {
            x,
            axis,
            before,
            after,
            mode,
        }))
    }

    #[track_caller]
    pub fn gather(&mut self, table: Node, ids: Node, dtype: DType) -> Node {
        self.push(Op::Gather(Gather { table, ids, dtype }))
    }

    /// Stable Diffusion's and Flux's sinusoids: cosines first, period 10000.
    #[track_caller]
    pub fn timestep_embed(&mut self, t: Node, dim: usize) -> Node {
        self.push(Op::TimestepEmbed(TimestepEmbed {
            t,
            dim,
            max_period: 10_000.0,
            shift: 0.0,
            cos_first: true,
        }))
    }

    #[track_caller]
    pub fn reduce(&mut self, x: Node, axis: usize, f: ReduceFn) -> Node {
        self.push(Op::Reduce(Reduce { x, axis, f }))
    }

    #[track_caller]
    pub fn cast(&mut self, x: Node, dtype: DType) -> Node {
        self.push(Op::Cast(x, dtype))
    }
}

impl Conv {
    /// A convolution with no fused parts.
    pub fn plain(
        x: Node,
        w: Node,
        bias: Option<Node>,
        stride: [usize; 3],
        pad: [usize; 4],
    ) -> Conv {
        let epi = Epilogue {
            bias,
            ..Epilogue::default()
        };
        Conv {
            x,
            w,
            stride,
            pad,
            dilation: [1, 1],
            upsample: 1,
            pre: None,
            epi,
        }
    }
}
