//! The graph: values in the order they were recorded, each an input, a parameter or an op's result.

use crate::ops::Mistake;
use crate::{Op, Reshape, Shape};
use nino_dtype::DType;
use std::panic::Location;
use std::sync::Arc;

/// A value of one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(pub(crate) u32);

impl Node {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A weight the graph needs: read from a [`crate::ParamSource`] by name, or carried along.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamSpec {
    pub name: String,
    pub shape: Shape,
    pub dtype: DType,
    /// Bytes of a constant that the model computed itself (a rotary table, say).
    pub inline: Option<Arc<[u8]>>,
}

impl ParamSpec {
    pub fn bytes(&self) -> usize {
        bytes_of(self.dtype, self.shape).unwrap_or(0)
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Def {
    /// Written before each run.
    Input {
        name: String,
    },
    Param(ParamSpec),
    Op(Op),
    /// Fused into another op by a rewrite.
    Dead,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub def: Def,
    pub shape: Shape,
    pub dtype: DType,
    /// Module path a model gave to this value, for comparing intermediates.
    pub label: Option<String>,
}

/// A mistake in recording a graph: which op, what it was given, where in the model's source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {what} (recorded at {caller})")]
pub struct GraphError {
    pub op: &'static str,
    pub what: String,
    pub caller: String,
}

/// A place that graphs have in common ([`Graph::share`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    pub bytes: usize,
    /// What this graph has there: an input, with the output that is carried to it, or an output.
    pub value: Option<Node>,
}

/// A recorded computation. The first mistake is kept and returned by [`Graph::finish`], so that a
/// model's code reads without error handling.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    values: Vec<Value>,
    outputs: Vec<Node>,
    /// (input, output): the output is the input of the next run.
    carried: Vec<(Node, Node)>,
    /// Inputs that keep their values between runs.
    kept: Vec<Node>,
    shared: Vec<Shared>,
    error: Option<GraphError>,
}

impl Graph {
    pub fn new() -> Graph {
        Graph::default()
    }

    /// A value written before each run.
    #[track_caller]
    pub fn input(&mut self, name: &str, shape: impl Into<Shape>, dtype: DType) -> Node {
        self.record(
            "input",
            Def::Input {
                name: name.to_owned(),
            },
            Ok((shape.into(), dtype)),
        )
    }

    /// A weight, by the name it has in the canonical layout.
    #[track_caller]
    pub fn param(&mut self, name: &str, shape: impl Into<Shape>, dtype: DType) -> Node {
        let shape = shape.into();
        let spec = ParamSpec {
            name: name.to_owned(),
            shape,
            dtype,
            inline: None,
        };
        self.record("param", Def::Param(spec), Ok((shape, dtype)))
    }

    /// An f32 table that the model computes itself. The name says all that the values depend on.
    #[track_caller]
    pub fn constant(&mut self, name: &str, shape: impl Into<Shape>, values: &[f32]) -> Node {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.inline(name, (shape.into(), DType::F32), values.len(), bytes)
    }

    /// The same of ids, which [`Graph::gather`] takes.
    #[track_caller]
    pub fn constant_ids(&mut self, name: &str, shape: impl Into<Shape>, ids: &[i32]) -> Node {
        let bytes = ids.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.inline(name, (shape.into(), DType::I32), ids.len(), bytes)
    }

    #[track_caller]
    fn inline(
        &mut self,
        name: &str,
        (shape, dtype): (Shape, DType),
        n: usize,
        bytes: Arc<[u8]>,
    ) -> Node {
        let fits = if shape.checked_numel() == Some(n) {
            Ok((shape, dtype))
        } else {
            Err(Mistake(format!("{n} values for shape {shape}")))
        };
        let spec = ParamSpec {
            name: name.to_owned(),
            shape,
            dtype,
            inline: Some(bytes),
        };
        self.record("constant", Def::Param(spec), fits)
    }

    /// Records any op; the methods named after ops are the usual way.
    #[track_caller]
    pub fn push(&mut self, op: impl Into<Op>) -> Node {
        let op = op.into();
        let inferred = if self.error.is_some() {
            Ok((Shape::from([1; 6]), DType::F32))
        } else {
            op.infer(self)
        };
        self.record(op.name(), Def::Op(op), inferred)
    }

    /// Marks a result that can be read after a run.
    pub fn output(&mut self, node: Node) {
        if !self.outputs.contains(&node) {
            self.outputs.push(node);
        }
    }

    /// Says that `output` is what `input` holds in the next run (a causal model's cached frames),
    /// so that a plan can give both one place. Both must have one shape and dtype.
    #[track_caller]
    pub fn carry(&mut self, input: Node, output: Node) {
        let same =
            self.shape(input) == self.shape(output) && self.dtype(input) == self.dtype(output);
        let is_input = matches!(self.value(input).def, Def::Input { .. });
        if !same || !is_input || self.kept.contains(&input) {
            let what = format!(
                "{} cannot hold {} for the next run",
                self.shape(input),
                self.shape(output)
            );
            self.mistake("carry", what);
        }
        self.output(output);
        self.carried.push((input, output));
    }

    /// Pairs of [`Graph::carry`].
    pub fn carried(&self) -> &[(Node, Node)] {
        &self.carried
    }

    /// Says that `input` stays as it is until it is written again. What is computed from such
    /// inputs and parameters alone is steady: a plan with the memory for it keeps it from run to
    /// run.
    #[track_caller]
    pub fn keep(&mut self, input: Node) {
        let is_input = matches!(self.value(input).def, Def::Input { .. });
        if !is_input || self.carried.iter().any(|&(carried, _)| carried == input) {
            self.mistake("keep", "only inputs that are not carried can be".to_owned());
        }
        if !self.kept.contains(&input) {
            self.kept.push(input);
        }
    }

    /// Says what this graph and others that run by turns in one arena find where another left it:
    /// plans put it first, in this order, so graphs that list the same sizes agree on the places. A
    /// place whose value this graph does not know stays as it is.
    pub fn share(&mut self, shared: Vec<Shared>) {
        self.shared = shared;
    }

    /// Places of [`Graph::share`].
    pub fn shared(&self) -> &[Shared] {
        &self.shared
    }

    /// Inputs of [`Graph::keep`].
    pub fn kept(&self) -> &[Node] {
        &self.kept
    }

    /// For each value, whether it is the same in every run until a kept input is written: no other
    /// input is behind it. Parameters stay in any case and do not count.
    pub(crate) fn steady(&self) -> Vec<bool> {
        let mut steady = vec![false; self.len()];
        if self.kept.is_empty() {
            return steady;
        }
        for (node, value) in self.values() {
            steady[node.index()] = match &value.def {
                Def::Input { .. } => self.kept.contains(&node),
                Def::Op(op) => {
                    let stays = |n: &Node| steady[n.index()] || self.is_param(*n);
                    op.operands().iter().all(stays)
                }
                Def::Param(_) | Def::Dead => false,
            };
        }
        steady
    }

    /// Names a value, so that tests can compare it with a reference's intermediate.
    pub fn label(&mut self, node: Node, label: &str) {
        self.values[node.index()].label = Some(label.to_owned());
    }

    /// The graph, or the first mistake made in recording it.
    pub fn finish(self) -> Result<Graph, GraphError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// The first mistake so far.
    pub fn error(&self) -> Option<&GraphError> {
        self.error.as_ref()
    }

    pub fn shape(&self, node: Node) -> Shape {
        self.values[node.index()].shape
    }

    pub fn dtype(&self, node: Node) -> DType {
        self.values[node.index()].dtype
    }

    /// Bytes a value takes.
    pub fn bytes(&self, node: Node) -> usize {
        let value = self.value(node);
        bytes_of(value.dtype, value.shape).unwrap_or(0)
    }

    pub fn value(&self, node: Node) -> &Value {
        &self.values[node.index()]
    }

    pub(crate) fn value_mut(&mut self, node: Node) -> &mut Value {
        &mut self.values[node.index()]
    }

    pub fn values(&self) -> impl Iterator<Item = (Node, &Value)> {
        self.values
            .iter()
            .enumerate()
            .map(|(i, v)| (Node(i as u32), v))
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Ops in the order they run. Operands always come before the ops that use them.
    pub fn ops(&self) -> impl Iterator<Item = (Node, &Op)> {
        self.values().filter_map(|(n, v)| match &v.def {
            Def::Op(op) => Some((n, op)),
            _ => None,
        })
    }

    pub fn op(&self, node: Node) -> Option<&Op> {
        match &self.value(node).def {
            Def::Op(op) => Some(op),
            _ => None,
        }
    }

    /// Lets an attention be cut by keys; whether that is new.
    pub(crate) fn cut_keys(&mut self, node: Node) -> bool {
        match &mut self.values[node.index()].def {
            Def::Op(Op::Attention(o)) => !std::mem::replace(&mut o.by_keys, true),
            _ => false,
        }
    }

    pub fn inputs(&self) -> impl Iterator<Item = (Node, &str)> {
        self.values().filter_map(|(n, v)| match &v.def {
            Def::Input { name } => Some((n, name.as_str())),
            _ => None,
        })
    }

    pub fn params(&self) -> impl Iterator<Item = (Node, &ParamSpec)> {
        self.values().filter_map(|(n, v)| match &v.def {
            Def::Param(spec) => Some((n, spec)),
            _ => None,
        })
    }

    pub fn outputs(&self) -> &[Node] {
        &self.outputs
    }

    /// A parameter or a view of one.
    pub fn is_param(&self, node: Node) -> bool {
        matches!(self.value(self.root(node)).def, Def::Param(_))
    }

    /// The value whose bytes these are: follows reshapes to what they view.
    pub fn root(&self, node: Node) -> Node {
        match self.op(node) {
            Some(Op::Reshape(Reshape { x })) => self.root(*x),
            _ => node,
        }
    }

    /// What a profile or an error calls an op: its weight's module, its label, or its kind.
    pub fn op_label(&self, node: Node) -> String {
        let Some(op) = self.op(node) else {
            return format!("value {}", node.index());
        };
        let weight = op
            .operands()
            .into_iter()
            .find_map(|n| match &self.value(n).def {
                Def::Param(p) => Some(p.name.rsplit_once('.').map_or(p.name.as_str(), |(m, _)| m)),
                _ => None,
            });
        match self.value(node).label.as_deref().or(weight) {
            Some(name) => format!("{} {name}", op.name()),
            None => format!("{} #{}", op.name(), node.index()),
        }
    }

    /// Records a mistake that a builder method found before any op was made.
    #[track_caller]
    pub(crate) fn mistake(&mut self, op: &'static str, what: String) -> Node {
        self.record(op, Def::Dead, Err(Mistake(what)))
    }

    #[track_caller]
    fn record(
        &mut self,
        op: &'static str,
        def: Def,
        inferred: Result<(Shape, DType), Mistake>,
    ) -> Node {
        // Taken here: inside a closure the caller would be this function.
        let caller = Location::caller();
        let checked = inferred.and_then(|(shape, dtype)| match bytes_of(dtype, shape) {
            Some(_) => Ok((shape, dtype)),
            None => Err(Mistake(format!("shape {shape} does not fit dtype {dtype}"))),
        });
        let (shape, dtype) = checked.unwrap_or_else(|mistake| {
            self.error.get_or_insert(GraphError {
                op,
                what: mistake.0,
                caller: format!("{}:{}", caller.file(), caller.line()),
            });
            (Shape::from([1; 6]), DType::F32)
        });
        self.values.push(Value {
            def,
            shape,
            dtype,
            label: None,
        });
        Node(self.values.len() as u32 - 1)
    }
}

/// Bytes of a tensor whose rows are stored as whole blocks.
fn bytes_of(dtype: DType, shape: Shape) -> Option<usize> {
    if dtype.is_block() && !shape.last_dim().is_multiple_of(dtype.block_len()) {
        return None;
    }
    dtype.bytes_for(shape.checked_numel()?)
}
