//! Frames that causal video models carry from chunk to chunk.
//!
//! A video is encoded or decoded by running a graph once per chunk of frames. What a layer needs of
//! earlier frames is an input of the graph, what later ones will need an output, so memory does not
//! grow with the video. The first chunk has its own graph: nothing comes before it but zeros.

use nino_graph::{Graph, Node, PadMode, Shape};
use std::collections::BTreeMap;

/// Cached frames `[b, n, h, w, c]` of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The layer's path.
    pub name: String,
    pub shape: Shape,
    /// Where the previous chunk's output goes; `None` in the first chunk's graph. Zeros when the
    /// previous chunk's graph has no output of this name.
    pub input: Option<Node>,
    pub output: Node,
}

/// The caches of one graph while it is recorded.
#[derive(Debug)]
pub struct Stream {
    first: bool,
    /// Frames a layer has seen last, by its path, in the order of first calls.
    kept: Vec<(String, Node)>,
    inputs: BTreeMap<String, Node>,
}

impl Stream {
    /// `first`: the graph is for the beginning of a video.
    pub fn new(first: bool) -> Stream {
        Stream {
            first,
            kept: Vec::new(),
            inputs: BTreeMap::new(),
        }
    }

    pub fn is_first(&self) -> bool {
        self.first
    }

    /// x `[b, t, h, w, c]` with the `n` frames before it in front: `[b, n + t, h, w, c]`.
    #[track_caller]
    pub fn window(&mut self, g: &mut Graph, layer: &str, x: Node, n: usize) -> Node {
        let t = g.shape(x)[1];
        let window = match self.before(g, layer, x, n) {
            Some(before) => g.concat(&[before, x], 1),
            None => g.pad(x, 1, n, 0, PadMode::Constant(0.0)),
        };
        let last = g.slice(window, 1, t, t + n);
        self.keep(layer, last);
        window
    }

    /// Frames for the layer's next call.
    pub fn keep(&mut self, layer: &str, frames: Node) {
        match self.kept.iter_mut().find(|(name, _)| name == layer) {
            Some((_, kept)) => *kept = frames,
            None => self.kept.push((layer.to_owned(), frames)),
        }
    }

    /// The frames kept by the layer's last call, in this graph or the one before; `None` for zeros.
    fn before(&mut self, g: &mut Graph, layer: &str, x: Node, n: usize) -> Option<Node> {
        if let Some((_, kept)) = self.kept.iter().find(|(name, _)| name == layer) {
            return Some(*kept);
        }
        if self.first {
            return None;
        }
        let mut shape = g.shape(x);
        shape[1] = n;
        let input = g.input(&format!("cache.{layer}"), shape, g.dtype(x));
        self.inputs.insert(layer.to_owned(), input);
        Some(input)
    }

    /// Marks what is kept as outputs, in the order of the layers.
    pub fn finish(self, g: &mut Graph) -> Vec<Cache> {
        let mut caches = Vec::new();
        for (name, output) in self.kept {
            g.output(output);
            caches.push(Cache {
                shape: g.shape(output),
                input: self.inputs.get(&name).copied(),
                output,
                name,
            });
        }
        caches
    }
}

/// Calls `f` with each frame of x on its own and puts the results one after the other.
#[track_caller]
pub(crate) fn by_frame(
    g: &mut Graph,
    x: Node,
    mut f: impl FnMut(&mut Graph, Node, usize) -> Node,
) -> Node {
    let t = g.shape(x)[1];
    let frames: Vec<Node> = (0..t)
        .map(|i| {
            let frame = if t == 1 { x } else { g.slice(x, 1, i, i + 1) };
            f(g, frame, i)
        })
        .collect();
    join(g, &frames)
}

/// Frames one after the other.
#[track_caller]
pub(crate) fn join(g: &mut Graph, parts: &[Node]) -> Node {
    match parts {
        [one] => *one,
        _ => g.concat(parts, 1),
    }
}

/// What is one after the other along dimension `from` becomes one beside the other along `to`,
/// which a permutation would do too, but not by rows: `[.., n, .., c]` → `[.., 1, .., n·c]`.
#[track_caller]
pub(crate) fn beside(g: &mut Graph, x: Node, from: usize, to: usize) -> Node {
    let n = g.shape(x)[from];
    if n == 1 {
        return x;
    }
    let parts: Vec<Node> = (0..n).map(|i| g.slice(x, from, i, i + 1)).collect();
    g.concat(&parts, to)
}
