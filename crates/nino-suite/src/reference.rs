//! The plain reference: every op in f64, one loop nest each, in the order the definition has it.
//! Slow on purpose; nothing here is shared with an executor.

mod dense;
mod elementwise;
mod layout;
mod norm;

use crate::Tensor;
use nino_dtype::CodecError;
use nino_graph::{Def, Graph, Node, Op, ParamError, ParamSource};
use std::collections::BTreeMap;

#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    #[error(transparent)]
    Param(#[from] ParamError),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("input {name:?} was not given")]
    MissingInput { name: String },
}

/// Computes every value of the graph that is not dead, from the inputs and parameters.
pub fn eval(
    graph: &Graph,
    inputs: &BTreeMap<Node, Tensor>,
    params: &dyn ParamSource,
) -> Result<BTreeMap<Node, Tensor>, EvalError> {
    let mut known: BTreeMap<Node, Tensor> = BTreeMap::new();
    for (node, value) in graph.values() {
        let tensor = match &value.def {
            Def::Dead => continue,
            Def::Input { name } => inputs
                .get(&node)
                .cloned()
                .ok_or_else(|| EvalError::MissingInput { name: name.clone() })?,
            Def::Param(spec) => {
                let mut bytes = vec![0; spec.bytes()];
                match &spec.inline {
                    Some(inline) => bytes.copy_from_slice(inline),
                    None => params.read(spec, &mut bytes)?,
                }
                Tensor::decode(spec.dtype, spec.shape, &bytes)?
            }
            Def::Op(op) => eval_op(graph, node, op, &known),
        };
        known.insert(node, tensor);
    }
    Ok(known)
}

fn eval_op(graph: &Graph, node: Node, op: &Op, known: &BTreeMap<Node, Tensor>) -> Tensor {
    let get = |n: Node| &known[&n];
    let some = |n: Option<Node>| n.map(get);
    let out = graph.shape(node);
    match op {
        Op::Linear(o) => {
            let x = norm::prologue(get(o.x), o.pre.as_ref(), &get);
            let all = dense::epilogue(dense::linear(&x, get(o.w)), &o.epi, &get);
            match o.gate {
                Some(act) => elementwise::gate(&all, act, out),
                None => all,
            }
        }
        Op::MatMul(o) => dense::matmul(get(o.a), get(o.b), o, out),
        Op::Conv(o) => {
            let x = norm::prologue(get(o.x), o.pre.as_ref(), &get);
            dense::epilogue(dense::conv(&x, get(o.w), o, out), &o.epi, &get)
        }
        Op::Stats(o) => norm::stats(get(o.x), o, out),
        Op::Normalize(o) => norm::prologue(get(o.x), Some(&o.norm), &get),
        Op::RowNorm(o) => norm::row_norm(get(o.x), o, &some),
        Op::Softmax(x) => norm::softmax(get(*x)),
        Op::Attention(o) => dense::attention(
            get(o.q),
            get(o.k),
            get(o.v),
            some(o.mask),
            f64::from(o.scale),
        ),
        Op::Rope(o) => elementwise::rope(get(o.x), get(o.table), o.layout),
        Op::Unary(x, act) => elementwise::unary(get(*x).clone(), *act),
        Op::Gate(x, act) => elementwise::gate(get(*x), *act, out),
        Op::Binary(o) => elementwise::binary(get(o.a), get(o.b), o.f, out),
        Op::Upsample(o) => layout::upsample(get(o.x), o, out),
        Op::AvgPool(o) => layout::avg_pool(get(o.x), o.size, out),
        Op::Concat(o) => layout::concat(
            &o.xs.iter().map(|&x| get(x)).collect::<Vec<_>>(),
            o.axis,
            out,
        ),
        Op::Slice(o) => layout::slice(get(o.x), o, out),
        Op::Permute(o) => layout::permute(get(o.x), &o.perm, out),
        Op::Reshape(x) => Tensor::new(out, get(*x).values.clone()),
        Op::Pad(o) => layout::pad(get(o.x), o, out),
        Op::Gather(o) => layout::gather(get(o.table), get(o.ids), out),
        Op::TimestepEmbed(o) => elementwise::timestep_embed(get(o.t), o, out),
        Op::Reduce(o) => elementwise::reduce(get(o.x), o, out),
        Op::Cast(x, _) => get(*x).clone(),
    }
}

/// Calls `f` with every multi-index of a shape, in row-major order.
fn each_index(shape: nino_graph::Shape, mut f: impl FnMut(&[usize])) {
    let mut index = vec![0; shape.rank()];
    for _ in 0..shape.numel() {
        f(&index);
        for axis in (0..shape.rank()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}
