//! Fusions by matching on the graph. Each can be switched off; on or off, results agree within the
//! dtype's class.
//!
//! A fused op takes the place of the last op it replaces, so operands still come before their uses
//! and nodes keep their numbers.

use crate::{
    Act, Binary, BinaryFn, Def, Epilogue, Gate, Graph, Linear, Node, Op, Over, Prologue, Reshape,
    Shape, Slice, Stats, Unary, UpsampleMode,
};
use nino_dtype::DType;

mod split;

/// Whether a device has a kernel for a linear layer with [`Linear::gate`] in this graph.
pub type TakesGate = fn(&Graph, &Linear) -> bool;

/// Which fusions to do.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent switches
pub struct Rewrites {
    /// Norm and its activation into the conv or linear that reads it. A norm of rows goes into a
    /// linear only: kernels of convs know no statistics per pixel.
    pub norm_into_conv: bool,
    pub norm_into_linear: bool,
    /// Bias, activation and residual add into the conv or linear before them.
    pub epilogue: bool,
    /// Gate into the linear before it, where the device says that it has a kernel for the two.
    pub gate_into_linear: Option<TakesGate>,
    /// A linear layer whose result is only ever cut by columns becomes one layer for each part,
    /// over some rows of its weight, where those begin at multiples of this many bytes.
    pub split_linear: Option<usize>,
    /// A factor for each column, which is the same for all rows, into the linear before it.
    pub factor_into_linear: bool,
    /// The product with another activation of the same shape into the later of the linears before
    /// it: the two halves of SwiGLU.
    pub product_into_linear: bool,
    /// A factor for each column, then a residual add, into the norm of rows before them.
    pub epilogue_into_norm: bool,
    /// Activation into the norm before it.
    pub act_into_norm: bool,
    /// Nearest upsample into the conv that follows.
    pub upsample_into_conv: bool,
    /// Reshapes, casts, slices and the like that change nothing.
    pub drop_no_ops: bool,
}

impl Rewrites {
    /// What every device takes.
    pub const ALL: Rewrites = Rewrites {
        gate_into_linear: None,
        split_linear: None,
        factor_into_linear: false,
        product_into_linear: false,
        epilogue_into_norm: false,
        norm_into_conv: true,
        norm_into_linear: true,
        epilogue: true,
        act_into_norm: true,
        upsample_into_conv: true,
        drop_no_ops: true,
    };
    pub const NONE: Rewrites = Rewrites {
        gate_into_linear: None,
        split_linear: None,
        factor_into_linear: false,
        product_into_linear: false,
        epilogue_into_norm: false,
        norm_into_conv: false,
        norm_into_linear: false,
        epilogue: false,
        act_into_norm: false,
        upsample_into_conv: false,
        drop_no_ops: false,
    };
}

/// The same computation in fewer ops. Ops whose results nothing needs are dropped in any case.
pub fn rewrite(graph: &Graph, on: Rewrites) -> Graph {
    let mut g = graph.clone();
    if on.drop_no_ops {
        drop_no_ops(&mut g);
    }
    drop_unused(&mut g);
    if let Some(align) = on.split_linear {
        split::linears(&mut g, align);
    }
    if on.epilogue {
        let steady = g.steady();
        sweep(&mut g, |g, users, node| {
            fuse_epilogue(g, users, node, &steady, on)
        });
    }
    if let Some(takes) = on.gate_into_linear {
        sweep(&mut g, |g, users, node| fuse_gate(g, users, node, takes));
    }
    if on.act_into_norm {
        sweep(&mut g, fuse_act_into_norm);
    }
    if on.epilogue_into_norm {
        sweep(&mut g, fuse_after_norm);
    }
    // Only after activations went into norms: a norm with its activation is what a conv takes over.
    sweep(&mut g, |g, users, node| fuse_norm(g, users, node, on));
    if on.upsample_into_conv {
        sweep(&mut g, fuse_upsample);
    }
    drop_unused(&mut g);
    g
}

/// Number of reads of each value; an output counts as one more.
struct Users(Vec<u32>);

impl Users {
    fn count(g: &Graph) -> Users {
        let mut users = vec![0; g.len()];
        for (_, op) in g.ops() {
            op.operands().iter().for_each(|n| users[n.index()] += 1);
        }
        g.outputs().iter().for_each(|n| users[n.index()] += 1);
        Users(users)
    }

    /// Read once and by an op: its producer may be merged into that op.
    fn single(&self, n: Node) -> bool {
        self.0[n.index()] == 1
    }
}

/// Applies a fusion at every op in order. A fusion only ever removes reads, so counts taken before
/// stay safe to rely on.
fn sweep(g: &mut Graph, mut fuse: impl FnMut(&mut Graph, &Users, Node) -> Option<()>) {
    let users = Users::count(g);
    for i in 0..g.len() {
        let node = Node(i as u32);
        if g.op(node).is_some() {
            let _ = fuse(g, &users, node);
        }
    }
}

/// `act(f(x))` and `f(x) + y` where f is a conv or a linear, and `f(x) * y` where f is a linear and
/// the device takes factors or products. One that need not run each time does not take in what
/// changes.
fn fuse_epilogue(
    g: &mut Graph,
    users: &Users,
    node: Node,
    steady: &[bool],
    on: Rewrites,
) -> Option<()> {
    let can = |n: Node| {
        users.single(n)
            && g.op(n).and_then(epilogue_of).is_some()
            && g.shape(n) == g.shape(node)
            && steady[n.index()] == steady[node.index()]
    };
    // The later of the two, so that its other operand's life is not stretched for nothing.
    let later = |o: &Binary| {
        if can(o.b) && (o.b > o.a || !can(o.a)) {
            (o.b, o.a)
        } else {
            (o.a, o.b)
        }
    };
    let same =
        |y: Node| g.shape(y) == g.shape(node) && !g.is_param(y) && g.dtype(y) == g.dtype(node);
    let (source, extra) = match g.op(node)? {
        Op::Unary(o) => (o.x, Extra::Act(o.act)),
        Op::Binary(o) if o.f == BinaryFn::Add => {
            let (x, y) = later(o);
            let bias = g.is_param(y) && g.shape(y) == Shape::from([g.shape(node).last_dim()]);
            match (bias, same(y)) {
                (true, _) => (x, Extra::Bias(y)),
                (_, true) => (x, Extra::Residual(y)),
                _ => return None,
            }
        }
        Op::Binary(o) if o.f == BinaryFn::Mul => {
            let factor = [(o.a, o.b), (o.b, o.a)]
                .into_iter()
                .find(|&(_, y)| on.factor_into_linear && is_factor(g, y, node));
            let (x, extra) = if let Some((x, y)) = factor {
                (x, Extra::Factor(y))
            } else {
                let (x, y) = later(o);
                let taken = on.product_into_linear && x != y && same(y);
                (x, taken.then_some(Extra::Multiplier(y))?)
            };
            if !matches!(g.op(x), Some(Op::Linear(_))) {
                return None;
            }
            (x, extra)
        }
        _ => return None,
    };
    let alike = g.dtype(source) == g.dtype(node)
        && g.shape(source) == g.shape(node)
        && steady[source.index()] == steady[node.index()];
    if !users.single(source) || !alike {
        return None;
    }
    let mut op = g.op(source)?.clone();
    let e = epilogue_mut(&mut op)?;
    match extra {
        Extra::Act(act) if e.post.is_none() && (e.beside().is_some() || e.factor.is_some()) => {
            e.post = Some(act);
        }
        Extra::Act(act) if e.act.is_none() && e.post.is_none() => e.act = Some(act),
        Extra::Factor(f) if e.factor.is_none() && e.beside().is_none() && e.post.is_none() => {
            e.factor = Some(f);
        }
        Extra::Bias(b) if *e == Epilogue::default() => e.bias = Some(b),
        Extra::Residual(r) if e.beside().is_none() && e.post.is_none() => e.residual = Some(r),
        Extra::Multiplier(m) if e.beside().is_none() && e.post.is_none() => {
            e.multiplier = Some(m);
        }
        _ => return None,
    }
    replace(g, node, op, source);
    Some(())
}

/// Whether a value has one row, with a factor for each column of the product's many.
fn is_factor(g: &Graph, y: Node, product: Node) -> bool {
    let (shape, all) = (g.shape(y), g.shape(product));
    !g.is_param(y)
        && shape.rank() > 0
        && (shape.rows(), shape.last_dim()) == (1, all.last_dim())
        && all.rows() > 1
        && g.dtype(y) == g.dtype(product)
}

enum Extra {
    Act(Act),
    Factor(Node),
    Bias(Node),
    Residual(Node),
    Multiplier(Node),
}

/// The epilogue that can take in what follows the op; a gate behind it would come too late for
/// that.
fn epilogue_of(op: &Op) -> Option<&Epilogue> {
    match op {
        Op::Linear(o) if o.gate.is_none() => Some(&o.epi),
        Op::Conv(o) => Some(&o.epi),
        _ => None,
    }
}

fn epilogue_mut(op: &mut Op) -> Option<&mut Epilogue> {
    match op {
        Op::Linear(o) if o.gate.is_none() => Some(&mut o.epi),
        Op::Conv(o) => Some(&mut o.epi),
        _ => None,
    }
}

fn fuse_gate(g: &mut Graph, users: &Users, node: Node, takes: TakesGate) -> Option<()> {
    let &Op::Gate(Gate { x, act }) = g.op(node)? else {
        return None;
    };
    let &Op::Linear(linear) = g.op(x)? else {
        return None;
    };
    let gated = Linear {
        gate: Some(act),
        ..linear
    };
    if linear.gate.is_some() || !users.single(x) || !takes(g, &gated) {
        return None;
    }
    replace(g, node, Op::Linear(gated), x);
    Some(())
}

fn fuse_act_into_norm(g: &mut Graph, users: &Users, node: Node) -> Option<()> {
    let &Op::Unary(Unary { x, act }) = g.op(node)? else {
        return None;
    };
    let mut op = g.op(x)?.clone();
    match &mut op {
        Op::Normalize(o) if users.single(x) && o.norm.act.is_none() => o.norm.act = Some(act),
        Op::RowNorm(o) if users.single(x) && o.act.is_none() && o.is_alone() => o.act = Some(act),
        _ => return None,
    }
    replace(g, node, op, x);
    Some(())
}

/// `norm(x) * gate`, one row of it for each batch element, and `norm(x) + residual`.
fn fuse_after_norm(g: &mut Graph, users: &Users, node: Node) -> Option<()> {
    let &Op::Binary(o) = g.op(node)? else {
        return None;
    };
    let shape = g.shape(node);
    [(o.a, o.b), (o.b, o.a)].into_iter().find_map(|(norm, y)| {
        let &Op::RowNorm(mut fused) = g.op(norm)? else {
            return None;
        };
        let alike = g.dtype(norm) == g.dtype(node) && g.shape(norm) == shape;
        if !users.single(norm) || !alike || g.is_param(y) || g.dtype(y) != g.dtype(node) {
            return None;
        }
        let y_shape = g.shape(y);
        // One row of `y` for each batch element, aligned with the batch axis.
        let by_batch = y_shape.rank() == shape.rank()
            && (y_shape[0], y_shape.rows()) == (shape[0], shape[0])
            && y_shape.last_dim() == shape.last_dim()
            && shape.rows() > shape[0];
        match o.f {
            BinaryFn::Mul if by_batch && fused.gate.is_none() && fused.residual.is_none() => {
                fused.gate = Some(y);
            }
            BinaryFn::Add if y_shape == shape && fused.residual.is_none() => {
                fused.residual = Some(y);
            }
            _ => return None,
        }
        replace(g, node, Op::RowNorm(fused), norm);
        Some(())
    })
}

/// The norm before a conv or linear becomes its prologue.
fn fuse_norm(g: &mut Graph, users: &Users, node: Node, on: Rewrites) -> Option<()> {
    let mut op = g.op(node)?.clone();
    let by_rows = matches!(op, Op::Linear(_));
    let (x, pre) = match &mut op {
        Op::Linear(o) if on.norm_into_linear => (&mut o.x, &mut o.pre),
        Op::Conv(o) if on.norm_into_conv => (&mut o.x, &mut o.pre),
        _ => return None,
    };
    let norm = *x;
    if pre.is_some() || !users.single(norm) {
        return None;
    }
    match g.op(norm)?.clone() {
        Op::Normalize(n) => {
            *x = n.x;
            *pre = Some(n.norm);
            replace(g, node, op, norm);
            Some(())
        }
        // The norm's place becomes its statistics; applying them is the linear's work.
        Op::RowNorm(n) if by_rows && n.scale.is_none() && n.shift.is_none() && n.is_alone() => {
            *x = n.x;
            *pre = Some(Prologue {
                stats: norm,
                weight: n.weight,
                bias: n.bias,
                act: n.act,
            });
            let stats = Stats {
                x: n.x,
                over: Over::Rows,
                kind: n.kind,
                eps: n.eps,
            };
            let rows = g.shape(n.x).rows();
            let value = g.value_mut(norm);
            value.def = Def::Op(Op::Stats(stats));
            value.shape = [rows, 2].into();
            value.dtype = DType::F32;
            g.value_mut(node).def = Def::Op(op);
            Some(())
        }
        _ => None,
    }
}

fn fuse_upsample(g: &mut Graph, users: &Users, node: Node) -> Option<()> {
    let mut op = g.op(node)?.clone();
    let Op::Conv(conv) = &mut op else { return None };
    let up = conv.x;
    let &Op::Upsample(u) = g.op(up)? else {
        return None;
    };
    let same = u.factor[0] == u.factor[1] && u.mode == UpsampleMode::Nearest;
    if !same || !users.single(up) || conv.upsample != 1 || conv.pre.is_some() {
        return None;
    }
    conv.x = u.x;
    conv.upsample = u.factor[0];
    replace(g, node, op, up);
    Some(())
}

/// Puts `op` in the place of `node` and marks what it took over as dead.
fn replace(g: &mut Graph, node: Node, op: Op, merged: Node) {
    g.value_mut(node).def = Def::Op(op);
    g.value_mut(merged).def = Def::Dead;
}

fn drop_no_ops(g: &mut Graph) {
    let mut same: Vec<Node> = (0..g.len() as u32).map(Node).collect();
    for i in 0..g.len() {
        let node = Node(i as u32);
        let value = g.value_mut(node);
        if let Def::Op(op) = &mut value.def {
            op.map_operands(|n| same[n.index()]);
        }
        // A reshape of a reshape reads the first one's operand.
        if let Some(Op::Reshape(Reshape { x })) = g.op(node)
            && let Some(&Op::Reshape(first)) = g.op(*x)
        {
            g.value_mut(node).def = Def::Op(Op::Reshape(first));
        }
        // And a slice of a slice along the same axis the first one's.
        if let Some(&Op::Slice(outer)) = g.op(node)
            && let Some(&Op::Slice(inner)) = g.op(outer.x)
            && inner.axis == outer.axis
        {
            g.value_mut(node).def = Def::Op(Op::Slice(Slice {
                start: inner.start + outer.start,
                end: inner.start + outer.end,
                ..inner
            }));
        }
        if let Some(x) = nothing_done(g, node)
            && !g.outputs().contains(&node)
        {
            same[i] = x;
        }
    }
}

/// The operand, when the op gives it back unchanged.
fn nothing_done(g: &Graph, node: Node) -> Option<Node> {
    let x = match g.op(node)? {
        Op::Reshape(o) => o.x,
        Op::Cast(o) => o.x,
        Op::Permute(o) if o.perm.iter().enumerate().all(|(i, &p)| i == p) => o.x,
        Op::Slice(o) => o.x,
        Op::Pad(o) => o.x,
        Op::Upsample(o) => o.x,
        Op::Concat(o) if o.xs.len() == 1 => o.xs[0],
        Op::Unary(o) if o.act == (Act::Affine { mul: 1.0, add: 0.0 }) => o.x,
        _ => return None,
    };
    (g.shape(x) == g.shape(node) && g.dtype(x) == g.dtype(node)).then_some(x)
}

fn drop_unused(g: &mut Graph) {
    let mut needed = vec![false; g.len()];
    g.outputs().iter().for_each(|n| needed[n.index()] = true);
    for i in (0..g.len()).rev() {
        let node = Node(i as u32);
        let Some(op) = g.op(node) else { continue };
        if needed[i] {
            op.operands().iter().for_each(|n| needed[n.index()] = true);
        } else {
            g.value_mut(node).def = Def::Dead;
        }
    }
    // Parameters that only dead ops read are not loaded.
    for (i, &needed) in needed.iter().enumerate() {
        let node = Node(i as u32);
        if !needed && matches!(g.value(node).def, Def::Param(_)) {
            g.value_mut(node).def = Def::Dead;
        }
    }
}

#[cfg(test)]
mod tests;
