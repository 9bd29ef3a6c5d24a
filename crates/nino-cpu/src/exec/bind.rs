//! Binds a step of the plan to its kernel: which kernel runs it, and with which operands.

use std::sync::atomic::AtomicBool;

use nino_graph::{ExecError, KeyBlocks, Node, Op, Over, Shape, Step, UpsampleMode};

use super::Session;
use crate::attention::{Attention, Mask, Part};
use crate::conv::{self, Conv, Geometry};
use crate::gemm::epilogue::{Epilogue, Gate};
use crate::gemm::linear::{self, Factor, Linear};
use crate::gemm::matmul::MatMul;
use crate::gemm::prologue::{Prologue, Source};
use crate::gemm::slot::Slot;
use crate::gemm::weights::Packed;
use crate::ops::norm::{self, RowNorm};
use crate::ops::resample::{self, Resample};
use crate::ops::rows::{self, Reduce, Rope};
use crate::ops::stats::{self, Groups};
use crate::ops::{elementwise, layout};
use crate::params::Param;
use crate::team::floats_bytes;

/// A step being bound. Views of values outside the arena are valid for this step's rows.
pub(super) struct Binder<'a> {
    pub(super) session: &'a Session,
    pub(super) step: &'a Step,
    /// See [`Team::cancel`](crate::team::Team::cancel).
    cancel: Option<&'a AtomicBool>,
}

impl Session {
    pub(super) fn param(&self, node: Node) -> Result<&Param, ExecError> {
        let g = self.plan.graph();
        let root = g.root(node);
        let named = || match &g.value(root).def {
            nino_graph::Def::Param(spec) => self.weights.find(&spec.name),
            _ => None,
        };
        self.constants
            .get(&root)
            .or_else(|| self.fetched.get(&root))
            .or_else(named)
            .ok_or_else(|| ExecError::NotInPlan {
                what: format!("parameter {}", root.index()),
            })
    }

    /// Gives the scratch bytes of the op that needs most.
    pub(super) fn scratch_bytes(&self) -> Result<usize, ExecError> {
        let mut most = 0;
        for step in self.plan.steps().iter().filter(|s| s.last) {
            let binder = Binder {
                session: self,
                step,
                cancel: None,
            };
            most = most.max(binder.scratch_bytes()?);
        }
        Ok(most)
    }

    /// Runs one step on all threads. Once `cancel` is true, the result is incomplete.
    ///
    /// # Safety
    /// The step must be one of this session's plan. Its operands must lie in the arena where the
    /// plan says, with the transfers of the step done, and nobody else may use the arena meanwhile.
    pub(super) unsafe fn step(
        &self,
        step: &Step,
        cancel: Option<&AtomicBool>,
    ) -> Result<(), ExecError> {
        let binder = Binder {
            session: self,
            step,
            cancel,
        };
        // SAFETY: the caller's promise is the one that `run` asks for.
        unsafe { binder.run() }
    }
}

impl Binder<'_> {
    fn shape(&self, n: Node) -> Shape {
        self.session.plan.graph().shape(n)
    }

    fn op(&self) -> Result<&Op, ExecError> {
        let g = self.session.plan.graph();
        let missing = || ExecError::NotInPlan {
            what: g.op_label(self.step.node),
        };
        g.op(self.step.node).ok_or_else(missing)
    }

    pub(super) fn unsupported(&self, why: &str) -> ExecError {
        ExecError::Unsupported {
            op: self.session.plan.graph().op_label(self.step.node),
            device: "cpu".to_owned(),
            why: why.to_owned(),
        }
    }

    fn source(&self, x: Node, pre: Option<&nino_graph::Prologue>) -> Result<Source, ExecError> {
        let pre = match pre {
            None => None,
            Some(p) => {
                let stats = self.shape(p.stats);
                Some(Prologue {
                    stats: self.view(p.stats)?.ptr.cast_const().cast(),
                    groups: (stats.rank() == 3).then(|| stats[1]),
                    weight: self.vector(p.weight)?,
                    bias: self.vector(p.bias)?,
                    act: p.act,
                    channels: self.shape(x).last_dim(),
                })
            }
        };
        Ok(Source {
            x: self.view(x)?,
            pre,
        })
    }

    fn epilogue(&self, e: &nino_graph::Epilogue) -> Result<Epilogue, ExecError> {
        Ok(Epilogue {
            scale: self.vector(e.scale)?,
            bias: self.vector(e.bias)?,
            gate: None,
            act: e.act,
            residual: e.residual.map(|r| self.view(r)).transpose()?,
            post: e.post,
            out: self.out()?,
            ld: self.shape(self.step.node).last_dim(),
        })
    }

    fn geometry(&self, o: &nino_graph::Conv) -> Result<Geometry, ExecError> {
        let sizes = |n: Node| self.shape(n).as_video();
        let (Some([_, t, h, w, _]), Some([_, to, ho, wo, _]), Some([_, kt, kh, kw, _])) =
            (sizes(o.x), sizes(self.step.node), sizes(o.w))
        else {
            return Err(self.unsupported("a convolution of these ranks"));
        };
        let geometry = Geometry {
            input: [t, h, w],
            output: [to, ho, wo],
            window: [kt, kh, kw],
            stride: o.stride,
            pad_top: o.pad[0],
            pad_left: o.pad[2],
            dilation: o.dilation,
            upsample: o.upsample,
        };
        if conv::direct::supported(&geometry) {
            Ok(geometry)
        } else {
            Err(self.unsupported("a filter of more than 512 positions"))
        }
    }

    fn conv<'w>(&self, o: &nino_graph::Conv, weights: &'w Packed) -> Result<Conv<'w>, ExecError> {
        Ok(Conv {
            geometry: self.geometry(o)?,
            source: self.source(o.x, o.pre.as_ref())?,
            readable: self.readable(o.x),
            weights,
            epilogue: self.epilogue(&o.epi)?,
        })
    }

    fn matmul(&self, o: &nino_graph::MatMul) -> Result<MatMul, ExecError> {
        let (a, out) = (self.shape(o.a), self.shape(self.step.node));
        Ok(MatMul {
            a: self.view(o.a)?,
            b: self.view(o.b)?,
            out: self.out()?,
            m: a[a.rank() - 2],
            k: a.last_dim(),
            n: out.last_dim(),
            b_transposed: o.b_transposed,
            scale: o.scale,
        })
    }

    fn attention(&self, o: &nino_graph::Attention) -> Result<Attention, ExecError> {
        let (q, k) = (self.shape(o.q), self.shape(o.k));
        let mask = match o.mask {
            None => None,
            Some(mask) => {
                let (s, strides) = (self.shape(mask), self.shape(mask).strides());
                let step = |i: usize| if s[i] == 1 { 0 } else { strides[i] };
                Some(Mask {
                    view: self.view(mask)?,
                    strides: [step(0), step(1), step(2)],
                })
            }
        };
        Ok(Attention {
            q: self.operand(0, o.q)?,
            k: self.operand(1, o.k)?,
            v: self.operand(2, o.v)?,
            mask,
            out: self.out()?,
            n: q[1],
            m: k[1],
            heads: q[2],
            hd: q[3],
            scale: o.scale,
        })
    }

    fn resample(&self, x: Node) -> Result<Resample, ExecError> {
        let (s, out) = (self.shape(x), self.shape(self.step.node));
        let r = s.rank();
        Ok(Resample {
            x: self.view(x)?,
            out: self.out()?,
            input: [s[r - 3], s[r - 2]],
            output: [out[r - 3], out[r - 2]],
            c: s.last_dim(),
        })
    }

    fn rope(&self, o: &nino_graph::Rope) -> Result<Rope, ExecError> {
        let s = self.shape(o.x);
        Ok(Rope {
            x: self.view(o.x)?,
            table: self.view(o.table)?,
            out: self.out()?,
            n: s[1],
            heads: s[2],
            hd: s[3],
            layout: o.layout,
        })
    }

    fn reduce(&self, o: &nino_graph::Reduce) -> Result<Reduce, ExecError> {
        let s = self.shape(o.x);
        Ok(Reduce {
            x: self.view(o.x)?,
            out: self.out()?,
            n: s[o.axis],
            inner: s[o.axis + 1..].iter().product(),
            f: o.f,
        })
    }

    /// Gives the slots of products with `x`.
    fn slot(&self, x: Node) -> Slot {
        Slot::of(self.session.level, self.session.plan.graph().dtype(x))
    }

    /// Gives the number of rows of one batch element.
    fn rows_per_batch(&self, x: Node) -> usize {
        let s = self.shape(x);
        s.rows().checked_div(s[0]).unwrap_or(1).max(1)
    }

    fn scratch_bytes(&self) -> Result<usize, ExecError> {
        let last = self.shape(self.step.node).last_dim();
        let level = self.session.level;
        Ok(match self.op()? {
            Op::Linear(o)
                if o.gate.is_some() && !linear::takes_gate(self.session.plan.graph(), o) =>
            {
                return Err(self.unsupported("its gate must be an op of its own here"));
            }
            Op::Linear(o)
                if o.rows.is_some() || o.epi.factor.is_some() || o.epi.multiplier.is_some() =>
            {
                let why = "it uses some rows of its weight, or has a factor or a multiplier";
                return Err(self.unsupported(why));
            }
            Op::Linear(o) => {
                let weights = self.weights(o.w)?;
                linear::scratch_bytes(level, self.slot(o.x), &Factor::Weights(&weights))
            }
            Op::MatMul(o) => self.matmul(o)?.scratch_bytes(self.session.level),
            Op::Conv(o) => {
                let (geometry, weights) = (self.geometry(o)?, self.weights(o.w)?);
                let activations = self.session.plan.graph().dtype(o.x);
                conv::scratch_bytes(level, activations, &geometry, &weights)
            }
            Op::Stats(o) => {
                let c = self.shape(o.x).last_dim();
                Groups::scratch_bytes(c)
            }
            Op::Normalize(_) | Op::RowNorm(_) | Op::Softmax(_) => norm::scratch_bytes(last),
            Op::Attention(o) => self.attention(o)?.scratch_bytes(self.session.level),
            Op::Rope(o) => self.rope(o)?.scratch_bytes(),
            Op::Unary(_) | Op::Gate(_) | Op::Cast(_) | Op::Binary(_) => {
                elementwise::scratch_bytes()
            }
            Op::Upsample(_) | Op::AvgPool(_) => resample::scratch_bytes(last),
            Op::Pad(_) | Op::Gather(_) => floats_bytes(last),
            Op::Reduce(_) => Reduce::scratch_bytes(),
            Op::Concat(_)
            | Op::Slice(_)
            | Op::Permute(_)
            | Op::Reshape(_)
            | Op::TimestepEmbed(_) => 0,
        })
    }

    /// Runs the step's kernel.
    ///
    /// # Safety
    /// As for [`Session::step`]: it is what makes the crate's contract hold for every kernel here.
    #[allow(unsafe_op_in_unsafe_fn)] // every arm is one call of a kernel under that contract
    unsafe fn run(&self) -> Result<(), ExecError> {
        let team = &self.session.team(self.cancel);
        let node = self.step.node;
        let (rows, shape) = (self.step.rows.clone(), self.shape(node));
        if shape.numel() == 0 || rows.is_empty() {
            return Ok(());
        }
        let last = shape.last_dim();
        let elements = rows.start * last..rows.end * last;
        match self.op()? {
            Op::Linear(o) => {
                let weights = self.weights(o.w)?;
                let epilogue = Epilogue {
                    gate: o.gate.map(|act| Gate { act, half: last }),
                    ..self.epilogue(&o.epi)?
                };
                let linear = Linear {
                    source: self.source(o.x, o.pre.as_ref())?,
                    b: Factor::Weights(&weights),
                    epilogue,
                    rows_per_batch: self.rows_per_batch(o.x),
                };
                linear::run(team, &linear, rows);
            }
            Op::MatMul(o) => self.matmul(o)?.run(team, rows),
            Op::Conv(o) => conv::run(team, &self.conv(o, &*self.weights(o.w)?)?, rows),
            Op::Stats(o) => self.stats(o)?,
            Op::Normalize(o) => {
                let source = self.source(o.x, Some(&o.norm))?;
                norm::normalize(
                    team,
                    &source,
                    last,
                    self.rows_per_batch(o.x),
                    self.out()?,
                    rows,
                );
            }
            Op::RowNorm(o) if !o.is_alone() => {
                return Err(self.unsupported("it has a gate or a residual"));
            }
            Op::RowNorm(o) => {
                let norm = RowNorm {
                    x: self.view(o.x)?,
                    out: self.out()?,
                    n: last,
                    kind: o.kind,
                    eps: o.eps,
                    weight: self.vector(o.weight)?,
                    bias: self.vector(o.bias)?,
                    scale: o.scale.map(|n| self.view(n)).transpose()?,
                    shift: o.shift.map(|n| self.view(n)).transpose()?,
                    act: o.act,
                    rows_per_batch: self.rows_per_batch(o.x),
                };
                norm.run(team, rows);
            }
            Op::Softmax(o) => norm::softmax(team, self.view(o.x)?, self.out()?, last, rows),
            Op::Attention(o) if o.by_keys => {
                let piece = KeyBlocks::new(self.session.plan.graph(), o).piece(&rows);
                let attention = self.attention(o)?;
                let part = Part {
                    keys: piece.before..piece.before + piece.keys.len(),
                    state: self.scratch().cast(),
                };
                let part = (!piece.is_whole()).then_some(&part);
                attention.run(team, piece.queries, part);
            }
            Op::Attention(o) => self.attention(o)?.run(team, rows, None),
            Op::Rope(o) => self.rope(o)?.run(team, rows),
            Op::Unary(o) => {
                elementwise::unary(team, Some(o.act), self.view(o.x)?, self.out()?, elements);
            }
            Op::Gate(o) => {
                elementwise::gate(team, o.act, self.view(o.x)?, (self.out()?, last), rows);
            }
            Op::Cast(o) => elementwise::unary(team, None, self.view(o.x)?, self.out()?, elements),
            Op::Binary(o) => {
                let (a, b) = (
                    (self.view(o.a)?, self.shape(o.a)),
                    (self.view(o.b)?, self.shape(o.b)),
                );
                elementwise::binary(team, o.f, a, b, (self.out()?, shape), rows);
            }
            Op::Upsample(o) => match o.mode {
                UpsampleMode::Nearest => self.resample(o.x)?.nearest(team, o.factor, rows),
                UpsampleMode::Bilinear => self.resample(o.x)?.bilinear(team, o.factor, rows),
            },
            Op::AvgPool(o) => self.resample(o.x)?.average(team, o.size, rows),
            Op::Concat(o) => {
                let mut start = 0;
                for &x in &o.xs {
                    let part = (self.view(x)?, self.shape(x)[o.axis]);
                    let out = (self.out()?, shape);
                    layout::concat_part(team, part, out, (o.axis, start), rows.clone());
                    start += part.1;
                }
            }
            Op::Slice(o) => {
                let x = (self.view(o.x)?, self.shape(o.x));
                layout::slice(team, x, (self.out()?, shape), (o.axis, o.start), rows);
            }
            Op::Pad(o) => {
                let x = (self.view(o.x)?, self.shape(o.x));
                layout::pad(
                    team,
                    x,
                    (self.out()?, shape),
                    (o.axis, o.before, o.mode),
                    rows,
                );
            }
            Op::Permute(o) => {
                layout::permute(
                    team,
                    (self.view(o.x)?, self.shape(o.x)),
                    (self.out()?, shape),
                    &o.perm,
                    rows,
                );
            }
            Op::Gather(o) => {
                let table = self.view(o.table)?;
                let [v, d] = [self.shape(o.table)[0], last];
                let bytes = self.session.plan.graph().bytes(o.table);
                let bytes = std::slice::from_raw_parts(table.ptr.cast_const(), bytes);
                layout::gather(
                    team,
                    (bytes, table.dtype, [v, d]),
                    self.view(o.ids)?,
                    self.out()?,
                    rows,
                );
            }
            Op::TimestepEmbed(o) => rows::timestep_embed(o, self.view(o.t)?, self.out()?, rows),
            Op::Reduce(o) => self.reduce(o)?.run(team, rows),
            Op::Reshape(_) => {}
        }
        Ok(())
    }

    /// Runs a step of statistics; its last step merges what the others left in the op's scratch.
    ///
    /// # Safety
    /// As for [`Session::step`].
    #[allow(unsafe_op_in_unsafe_fn)] // calls of kernels under that contract
    unsafe fn stats(&self, o: &nino_graph::Stats) -> Result<(), ExecError> {
        let team = &self.session.team(self.cancel);
        let (x, out) = (self.view(o.x)?, self.out()?);
        let s = self.shape(o.x);
        let rows = self.step.rows.clone();
        let Over::Groups(groups) = o.over else {
            stats::rows(team, x, s.last_dim(), (o.kind, o.eps), out, rows);
            return Ok(());
        };
        let task = Groups {
            x,
            positions: s[1..s.rank() - 1].iter().product(),
            channels: s.last_dim(),
            count: groups,
            kind: o.kind,
            eps: o.eps,
            partial: self.scratch().cast(),
            out: out.ptr.cast(),
        };
        task.run(team, rows);
        if self.step.last {
            task.finish(team, s[0]);
        }
        Ok(())
    }
}
