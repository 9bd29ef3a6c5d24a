//! The plain reference: every op in f64, one loop nest each, in the order the definition has it.
//! Slow on purpose; nothing here is shared with an executor.

#![allow(clippy::trivially_copy_pass_by_ref)] // small ops are passed as all others

mod dense;
mod elementwise;
mod layout;
mod norm;

use crate::Tensor;
use nino_dtype::CodecError;
use nino_graph::{Def, Graph, Node, Op, ParamError, ParamSource, Shape, for_each_op};
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
            Def::Op(_) => eval_op(graph, node, &known),
        };
        known.insert(node, tensor);
    }
    Ok(known)
}

/// The result of the op that makes `node`, from the values of its operands.
///
/// # Panics
/// If `node` is no op, or an operand is not known.
pub fn eval_op(graph: &Graph, node: Node, known: &BTreeMap<Node, Tensor>) -> Tensor {
    let op = graph.op(node).expect("the caller asks for an op");
    let out = graph.shape(node);
    Eval { known, out }.op(op)
}

/// One op being computed. Each op has a method of its name, in the file of its family.
struct Eval<'a> {
    known: &'a BTreeMap<Node, Tensor>,
    /// Shape of the op's result.
    out: Shape,
}

impl<'a> Eval<'a> {
    fn op(&self, op: &Op) -> Tensor {
        macro_rules! by_name {
            ($($op:ident $name:ident),* $(,)?) => {
                match op {
                    $(Op::$op(o) => self.$name(o)),*
                }
            };
        }
        for_each_op!(by_name)
    }

    fn get(&self, n: Node) -> &'a Tensor {
        &self.known[&n]
    }
}

/// Calls `f` with every multi-index of a shape, in row-major order.
fn each_index(shape: Shape, mut f: impl FnMut(&[usize])) {
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
