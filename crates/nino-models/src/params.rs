//! Declares a model's parameters by their checkpoint names, and the layers that use them.
//!
//! A [`Params`] is a prefix in the tree of names: `p.at("mid").conv(g, "conv_in", x, 512, 3)`
//! declares `mid.conv_in.weight` and `.bias`, with the model's shapes and the file's storage types,
//! and records the convolution. There is one root per graph: a name declared twice is the same
//! parameter.

use crate::stream::join;
use crate::weights::{SCALE, Scaled};
use nino_dtype::DType;
use nino_graph::{Epilogue, Graph, Node, Shape};
use nino_weights::hadamard;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Display;
use std::rc::Rc;

/// Shape (as stored) and storage type of a tensor of the checkpoint, by name.
pub type Find<'a> = dyn Fn(&str) -> Option<(Shape, DType)> + 'a;

/// A prefix in the tree of parameter names.
#[derive(Clone)]
pub struct Params<'a> {
    prefix: String,
    root: Rc<Root<'a>>,
}

/// Low-rank branches of a weight, by its name and its storage type in the graph.
type Branches<'a> = dyn Fn(&str, DType) -> Vec<Branch> + 'a;

/// How a linear layer's weight with separate scales is stored, by its name; `None` for others.
type ScaledWeights<'a> = dyn Fn(&str) -> Option<Scaled> + 'a;

struct Root<'a> {
    dtype: Box<dyn Fn(&str) -> DType + 'a>,
    branches: Option<Box<Branches<'a>>>,
    scaled: Option<Box<ScaledWeights<'a>>>,
    by_tap: bool,
    declared: RefCell<HashMap<String, Node>>,
}

/// A low-rank branch (LoRA) in parallel to a layer whose weight is not changed:
/// `y + up(down(x))`. Its parameters are `name.down`, of the weight's shape with `rank` outputs,
/// and `name.up`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    pub name: String,
    pub rank: usize,
    pub dtype: DType,
}

/// The parameters of a convolution: see [`Params::conv_with`].
#[derive(Clone, Copy, Debug)]
pub struct ConvShape {
    pub cout: usize,
    /// `[t, h, w]`; t is 1 for images.
    pub kernel: [usize; 3],
    /// `[t, h, w]`
    pub stride: [usize; 3],
    /// Top, bottom, left, right.
    pub pad: [usize; 4],
    pub bias: bool,
}

impl ConvShape {
    /// Stride 1, padded to the same size, with bias.
    pub fn same(cout: usize, k: usize) -> ConvShape {
        ConvShape {
            cout,
            kernel: [1, k, k],
            stride: [1; 3],
            pad: [k / 2; 4],
            bias: true,
        }
    }
}

impl<'a> Params<'a> {
    /// `dtype` gives the storage type of a weight, by its full name. It is called only for weights
    /// that the model declares.
    pub fn new(dtype: impl Fn(&str) -> DType + 'a) -> Params<'a> {
        Params {
            prefix: String::new(),
            root: Rc::new(Root {
                dtype: Box::new(dtype),
                branches: None,
                scaled: None,
                by_tap: false,
                declared: RefCell::default(),
            }),
        }
    }

    /// Adds the low-rank branches that `branches` gives for a weight. Call it before any layer is
    /// recorded.
    #[must_use]
    pub fn with_branches(self, branches: impl Fn(&str, DType) -> Vec<Branch> + 'a) -> Params<'a> {
        let branches: Option<Box<Branches<'a>>> = Some(Box::new(branches));
        self.changed(|root| Root { branches, ..root })
    }

    /// Keeps the scales of linear layers' weights separate, for the weights that `scaled` names.
    /// Call it before any layer is recorded.
    #[must_use]
    pub fn with_scaled(self, scaled: impl Fn(&str) -> Option<Scaled> + 'a) -> Params<'a> {
        let scaled: Option<Box<ScaledWeights<'a>>> = Some(Box::new(scaled));
        self.changed(|root| Root { scaled, ..root })
    }

    /// Sets whether a convolution over frames is recorded as a sum of one convolution per frame of
    /// its window. Call it before any layer is recorded.
    #[must_use]
    pub fn by_tap(self, by_tap: bool) -> Params<'a> {
        self.changed(|root| Root { by_tap, ..root })
    }

    fn changed(self, change: impl FnOnce(Root<'a>) -> Root<'a>) -> Params<'a> {
        let root = Rc::try_unwrap(self.root).map(change);
        Params {
            prefix: self.prefix,
            root: Rc::new(root.unwrap_or_else(|_| panic!("changed after layers"))),
        }
    }

    /// All weights in one storage type.
    pub fn uniform(dtype: DType) -> Params<'static> {
        Params::new(move |_| dtype)
    }

    /// The names below `part`.
    #[must_use]
    pub fn at(&self, part: impl Display) -> Params<'a> {
        Params {
            prefix: self.path(part),
            root: Rc::clone(&self.root),
        }
    }

    /// The full name of `part`.
    pub fn path(&self, part: impl Display) -> String {
        if self.prefix.is_empty() {
            part.to_string()
        } else {
            format!("{}.{part}", self.prefix)
        }
    }

    /// Labels a value with this prefix, so that a test can compare it with the reference's.
    pub fn label(&self, g: &mut Graph, node: Node) -> Node {
        g.label(node, &self.prefix);
        node
    }

    /// Stride 1, padded to the same size, with bias.
    #[track_caller]
    pub fn conv(&self, g: &mut Graph, name: &str, x: Node, cout: usize, k: usize) -> Node {
        self.conv_with(g, name, x, ConvShape::same(cout, k))
    }

    #[track_caller]
    pub fn conv_with(&self, g: &mut Graph, name: &str, x: Node, c: ConvShape) -> Node {
        let w = self.kernel(g, name, x, &c);
        let bias = c
            .bias
            .then(|| self.vector(g, &format!("{name}.bias"), c.cout));
        let mut y = if self.root.by_tap && c.kernel[0] > 1 {
            taps(g, x, (w, bias), &c)
        } else {
            g.causal_conv(x, w, bias, c.stride, c.pad)
        };
        let shape = g.shape(w);
        for b in self.branches(name, g.dtype(w)) {
            let mut narrow = shape;
            narrow[0] = b.rank;
            let down = g.param(&format!("{}.down", b.name), narrow, b.dtype);
            let up = g.param(&format!("{}.up", b.name), [c.cout, b.rank], b.dtype);
            let h = g.causal_conv(x, down, None, c.stride, c.pad);
            let h = g.linear(h, up, None);
            y = g.add(y, h);
        }
        y
    }

    /// Declares only the weight: `[cout, kh, kw, cin]`, or `[cout, kt, kh, kw, cin]` for a kernel
    /// over frames.
    pub fn kernel(&self, g: &mut Graph, name: &str, x: Node, c: &ConvShape) -> Node {
        let cin = g.shape(x).last_dim();
        let [kt, kh, kw] = c.kernel;
        let shape = if kt == 1 {
            Shape::from([c.cout, kh, kw, cin])
        } else {
            Shape::from([c.cout, kt, kh, kw, cin])
        };
        self.declare(g, &format!("{name}.weight"), shape)
    }

    #[track_caller]
    pub fn linear(&self, g: &mut Graph, name: &str, x: Node, out: usize) -> Node {
        let bias = self.vector(g, &format!("{name}.bias"), out);
        self.linear_of(g, name, x, out, Some(bias))
    }

    #[track_caller]
    pub fn linear_no_bias(&self, g: &mut Graph, name: &str, x: Node, out: usize) -> Node {
        self.linear_of(g, name, x, out, None)
    }

    #[track_caller]
    fn linear_of(
        &self,
        g: &mut Graph,
        name: &str,
        x: Node,
        out: usize,
        bias: Option<Node>,
    ) -> Node {
        let cin = g.shape(x).last_dim();
        let weight = format!("{name}.weight");
        let scaled = self.root.scaled.as_ref();
        let scaled = scaled.and_then(|scaled| scaled(&self.path(&weight)));
        let (mut y, w) = if let Some(Scaled { dtype, rotated }) = scaled {
            let w = self.once(g, &weight, Shape::from([out, cin]), |_| dtype);
            let input = rotated.map_or(x, |size| self.rotated(g, x, size));
            let scale = Some(self.vector(g, &format!("{weight}{SCALE}"), out));
            let epi = Epilogue {
                scale,
                ..Epilogue::bias(bias)
            };
            (g.scaled_linear(input, w, epi), w)
        } else {
            let w = self.matrix(g, &weight, out, cin);
            (g.linear(x, w, bias), w)
        };
        for b in self.branches(name, g.dtype(w)) {
            let down = g.param(&format!("{}.down", b.name), [b.rank, cin], b.dtype);
            let up = g.param(&format!("{}.up", b.name), [out, b.rank], b.dtype);
            let h = g.linear(x, down, None);
            let h = g.linear(h, up, None);
            y = g.add(y, h);
        }
        y
    }

    /// Hadamard rotation: every group of `size` values of x's rows times a Hadamard matrix.
    #[track_caller]
    fn rotated(&self, g: &mut Graph, x: Node, size: usize) -> Node {
        let shape = g.shape(x);
        let name = format!("hadamard.{size}");
        let known = self.root.declared.borrow().get(&name).copied();
        let matrix = known.unwrap_or_else(|| {
            let node = g.constant(&name, [size, size], &hadamard::matrix(size));
            self.root.declared.borrow_mut().insert(name, node);
            node
        });
        let groups = g.reshape(x, [shape.rows() * shape.last_dim() / size, size]);
        let rotated = g.linear(groups, matrix, None); // [groups, size]
        g.reshape(rotated, shape)
    }

    /// Low-rank branches of layer `name`, whose weight has this storage type in the graph.
    fn branches(&self, name: &str, dtype: DType) -> Vec<Branch> {
        let Some(branches) = &self.root.branches else {
            return Vec::new();
        };
        branches(&self.path(format_args!("{name}.weight")), dtype)
    }

    #[track_caller]
    pub fn group_norm(&self, g: &mut Graph, name: &str, x: Node, groups: usize, eps: f32) -> Node {
        let c = g.shape(x).last_dim();
        let weight = self.vector(g, &format!("{name}.weight"), c);
        let bias = self.vector(g, &format!("{name}.bias"), c);
        g.group_norm(x, groups, weight, bias, eps)
    }

    #[track_caller]
    pub fn layer_norm(&self, g: &mut Graph, name: &str, x: Node, eps: f32) -> Node {
        let d = g.shape(x).last_dim();
        let weight = self.vector(g, &format!("{name}.weight"), d);
        let bias = self.vector(g, &format!("{name}.bias"), d);
        g.layer_norm(x, Some(weight), Some(bias), eps)
    }

    pub fn matrix(&self, g: &mut Graph, name: &str, out: usize, cin: usize) -> Node {
        self.declare(g, name, Shape::from([out, cin]))
    }

    /// A bias or a norm's weight. Always f32: it is small, and every kernel reads it as such.
    pub fn vector(&self, g: &mut Graph, name: &str, n: usize) -> Node {
        self.once(g, name, Shape::from([n]), |_| DType::F32)
    }

    /// A few vectors as one tensor, such as a block's modulation. Always f32, as
    /// [`Params::vector`].
    pub fn small(&self, g: &mut Graph, name: &str, shape: impl Into<Shape>) -> Node {
        self.once(g, name, shape.into(), |_| DType::F32)
    }

    fn declare(&self, g: &mut Graph, name: &str, shape: Shape) -> Node {
        self.once(g, name, shape, |stored| storage(stored, shape))
    }

    fn once(
        &self,
        g: &mut Graph,
        name: &str,
        shape: Shape,
        dtype: impl Fn(DType) -> DType,
    ) -> Node {
        let name = self.path(name);
        let known = self.root.declared.borrow().get(&name).copied();
        known.unwrap_or_else(|| {
            let node = g.param(&name, shape, dtype((self.root.dtype)(&name)));
            self.root.declared.borrow_mut().insert(name, node);
            node
        })
    }
}

/// The storage type of a weight in the graph.
fn storage(wanted: DType, shape: Shape) -> DType {
    match wanted {
        d if d.is_block() => in_blocks(d, shape.last_dim()).unwrap_or(DType::F16),
        d if d.is_real() && d != DType::F64 => d,
        _ => DType::F32,
    }
}

/// The block type for a weight with rows of `row` values. Blocks run along rows, whose length must
/// be a multiple of theirs: if it is not one of 256, blocks of 32 are used, and if it is not one of
/// 32 either, the result is `None`.
pub(crate) fn in_blocks(wanted: DType, row: usize) -> Option<DType> {
    let fills = |d: &DType| row.is_multiple_of(d.block_len());
    [wanted, DType::Q8_0].into_iter().find(fills)
}

/// A convolution over frames as a sum over the frames of its window.
#[track_caller]
fn taps(g: &mut Graph, x: Node, (w, bias): (Node, Option<Node>), c: &ConvShape) -> Node {
    let ([kt, ..], [step, sh, sw]) = (c.kernel, c.stride);
    let n = g.shape(x)[1].saturating_sub(kt) / step + 1;
    let mut sum = None;
    for tap in 0..kt {
        let frames = if step == 1 {
            g.slice(x, 1, tap, tap + n)
        } else {
            let at = (0..n).map(|i| i * step + tap);
            let frames: Vec<Node> = at.map(|t| g.slice(x, 1, t, t + 1)).collect();
            join(g, &frames)
        };
        let w = g.slice(w, 1, tap, tap + 1);
        let y = g.causal_conv(frames, w, bias.filter(|_| tap == 0), [1, sh, sw], c.pad);
        sum = Some(sum.map_or(y, |sum| g.add(y, sum)));
    }
    sum.unwrap_or(x)
}

#[cfg(test)]
mod tests;
