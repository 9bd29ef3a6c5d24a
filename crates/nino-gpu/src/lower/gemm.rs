//! Linear layers, batched products and convolutions.

use nino_dtype::DType;
use nino_graph::{Conv, Epilogue, Halved, Linear, MatMul, Node, Prologue as PrologueOp, Rounded};

use super::{Launches, Lower};
use crate::GpuError;
use crate::kernel::{Launch, MOST_GROUPS, View, dtype_code, grid};
use crate::ops::act::ActCode;
use crate::ops::gemm::{ConvShape, Gemm, Join, Prologue};
use crate::shader::KernelKey;

/// What both a linear layer and a convolution carry around their product.
struct Around<'a> {
    prologue: Option<Prologue<'a>>,
    scale: Option<View<'a>>,
    bias: Option<View<'a>>,
    factor: Option<View<'a>>,
    beside: Option<(View<'a>, Join)>,
    act: ActCode,
    post: ActCode,
}

impl<'a> Lower<'a> {
    pub(super) fn linear(&self, o: &Linear) -> Launches<'a> {
        let around = self.around(o.x, o.pre.as_ref(), &o.epi)?;
        let shape = self.graph.shape(o.w);
        let (n, k) = (o.columns(self.graph), shape[1]);
        let used = |view: View<'a>| match o.rows {
            Some(rows) => view.rows(shape[0], rows),
            None => view,
        };
        let (rounded, halved) = (self.rounded(), self.halved());
        let stored = used(self.operands[1]);
        let (weights, mut launches) = if rounded.is_some() || halved.is_some() {
            (stored, Vec::new())
        } else {
            self.expanded(stored, n * k)?
        };
        let gemm = Gemm {
            m: self.rows.len() as u32,
            n: n as u32,
            k: k as u32,
            batch: 1,
            first: self.rows.start as u32,
            w_first: 0,
            x: self.operands[0],
            w: weights,
            out: self.out,
            scale: around.scale.map(used),
            bias: around.bias.map(used),
            factor: around.factor,
            beside: around.beside,
            prologue: around.prologue,
            act: around.act,
            post: around.post,
            halves: None,
            gate: o.gate.map(|act| Some(act).into()),
            alpha: 1.0,
            w_kn: false,
            w_packed: false,
            conv: None,
        };
        if let Some((scratch, sizes)) = rounded {
            return gemm.int8_pieces(self.caps, scratch, sizes);
        }
        if let Some((scratch, sizes)) = halved {
            return gemm.half_pieces(self.caps, scratch, sizes);
        }
        launches.extend(gemm.best_pieces(self.caps)?);
        Ok(launches)
    }

    /// Scratch for rows rounded to 8 bits, where the plan has some for that.
    fn rounded(&self) -> Option<(View<'a>, Rounded)> {
        let scratch = self.scratch.filter(|_| self.caps.rounds_rows())?;
        Some((scratch, self.graph.rounded(self.node)?))
    }

    /// Scratch for rows and weights as f16, where the plan has some for that.
    fn halved(&self) -> Option<(View<'a>, Halved)> {
        let scratch = self.scratch.filter(|_| self.caps.halves_rows())?;
        Some((scratch, self.graph.halved(self.node)?))
    }

    /// The weights to multiply with, and what must run before: where the plan has scratch for it,
    /// they are expanded to f16 there.
    fn expanded(&self, from: View<'a>, n: usize) -> Result<(View<'a>, Vec<Launch<'a>>), GpuError> {
        let Some(scratch) = self.scratch else {
            return Ok((from, Vec::new()));
        };
        let n = n as u32;
        let to = View {
            dtype: DType::F16,
            ..scratch
        };
        let code = dtype_code(from.dtype)
            .ok_or_else(|| self.unsupported(format!("weights stored as {}", from.dtype)))?;
        let key = KernelKey::new("expand")
            .with("OT", self.code(&to)?)
            .with("WT", code)
            .with("VEC", 1);
        let expand = Launch {
            kernel: key.into(),
            views: vec![to, from],
            writes: 1,
            params: vec![0, n, 0, n, self.caps.base(&to), self.caps.base(&from)],
            groups: grid(u64::from(n / 4).div_ceil(256)),
        };
        Ok((to, vec![expand]))
    }

    pub(super) fn matmul(&self, o: &MatMul) -> Launches<'a> {
        let (out, a) = (self.shape(), self.graph.shape(o.a));
        let rank = out.rank();
        let [m, n, k] = [out[rank - 2], out[rank - 1], a[rank - 1]];
        let gemm = |rows: std::ops::Range<usize>, batch: usize| Gemm {
            m: (rows.len() / batch) as u32,
            n: n as u32,
            k: k as u32,
            batch: batch as u32,
            first: rows.start as u32,
            w_first: (rows.start / m * n * k) as u32,
            x: self.operands[0],
            w: self.operands[1],
            out: self.out,
            scale: None,
            bias: None,
            factor: None,
            beside: None,
            prologue: None,
            act: ActCode::default(),
            post: ActCode::default(),
            halves: None,
            gate: None,
            alpha: o.scale,
            w_kn: !o.b_transposed,
            w_packed: false,
            conv: None,
        };
        let whole = self.rows.start.is_multiple_of(m) && self.rows.end.is_multiple_of(m);
        if whole && self.rows.len() / m <= MOST_GROUPS as usize {
            return gemm(self.rows.clone(), self.rows.len() / m).best_pieces(self.caps);
        }
        let batches = self.rows.start / m..self.rows.end.div_ceil(m);
        let cut = |b: usize| self.rows.start.max(b * m)..self.rows.end.min((b + 1) * m);
        let launches = batches.map(|b| gemm(cut(b), 1).best_pieces(self.caps));
        let launches = launches.collect::<Result<Vec<_>, _>>()?;
        Ok(launches.into_iter().flatten().collect())
    }

    pub(super) fn conv(&self, o: &Conv) -> Launches<'a> {
        let around = self.around(o.x, o.pre.as_ref(), &o.epi)?;
        let video = |n: Node| {
            self.graph
                .shape(n)
                .as_video()
                .map(|s| s.map(|v| v as u32))
                .ok_or_else(|| self.unsupported(format!("shape {}", self.graph.shape(n))))
        };
        let ([_, t, h, w, c], [n, kt, kh, kw, _]) = (video(o.x)?, video(o.w)?);
        let [_, ot, oh, ow, _] = video(self.node)?;
        if o.pre.is_some_and(|p| self.graph.shape(p.stats).rank() != 3) {
            return Err(self.unsupported("statistics per pixel".to_owned()));
        }
        let up = o.upsample as u32;
        let shape = ConvShape {
            input: [t, h * up, w * up],
            c,
            output: [ot, oh, ow],
            kernel: [kt, kh, kw],
            stride: o.stride.map(|s| s as u32),
            dilation: [1, o.dilation[0] as u32, o.dilation[1] as u32],
            pad: [0, o.pad[0] as i32, o.pad[2] as i32],
            upsample: up,
        };
        // Without a window it is a product of rows.
        let pointwise = shape.kernel == [1; 3]
            && shape.stride == [1; 3]
            && shape.pad == [0; 3]
            && up == 1
            && shape.input == shape.output;
        let (weights, mut launches) =
            self.expanded(self.operands[1], self.graph.shape(o.w).numel())?;
        let gemm = Gemm {
            m: self.rows.len() as u32 * ow,
            n,
            k: kt * kh * kw * c,
            batch: 1,
            first: self.rows.start as u32 * ow,
            w_first: 0,
            x: self.operands[0],
            w: weights,
            out: self.out,
            scale: around.scale,
            bias: around.bias,
            factor: around.factor,
            beside: around.beside,
            prologue: around.prologue,
            act: around.act,
            post: around.post,
            halves: None,
            gate: None,
            alpha: 1.0,
            w_kn: false,
            w_packed: self.packed,
            conv: (!pointwise).then_some(shape),
        };
        let rows = self.rows.start as u32..self.rows.end as u32;
        launches.extend(gemm.best_conv(self.caps, &rows)?);
        Ok(launches)
    }

    fn around(
        &self,
        x: Node,
        pre: Option<&PrologueOp>,
        epi: &Epilogue,
    ) -> Result<Around<'a>, crate::GpuError> {
        let mut rest = self.operands[2..].iter().copied();
        let mut take = |node: Option<Node>| node.and_then(|_| rest.next());
        let shape = self.graph.shape(x);
        let prologue = pre.and_then(|p| {
            let (groups, rows_per_stat) = match *self.graph.shape(p.stats) {
                [_, groups, 2] => (groups, shape[1..shape.rank() - 1].iter().product()),
                _ => (1, 1usize),
            };
            Some(Prologue {
                stats: take(Some(p.stats))?,
                weight: take(p.weight),
                bias: take(p.bias),
                groups: groups as u32,
                rows_per_stat: rows_per_stat.max(1) as u32,
                act: p.act.into(),
            })
        });
        let [scale, bias, factor, beside] =
            [epi.scale, epi.bias, epi.factor, epi.beside()].map(&mut take);
        let (out, x) = (Some(self.out), Some(self.operands[0]));
        for view in [out, x, scale, bias, factor, beside].iter().flatten() {
            self.code(view)?;
        }
        let join = match epi.multiplier {
            Some(_) => Join::Multiply,
            None => Join::Add,
        };
        Ok(Around {
            prologue,
            scale,
            bias,
            factor,
            beside: beside.map(|view| (view, join)),
            act: epi.act.into(),
            post: epi.post.into(),
        })
    }
}
