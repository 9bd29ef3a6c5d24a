//! Frames that causal video models cache from chunk to chunk.
//!
//! A video is encoded or decoded by running a graph once per chunk of frames. The earlier frames
//! that a layer needs are an input of the graph, and those that the next chunk will need are an
//! output, so memory does not grow with the video. The first chunk has its own graph, with zeros
//! before its first frame.

use nino_graph::{Graph, Node, PadMode, Shape};
use std::collections::BTreeMap;

/// Cached frames `[b, n, h, w, c]` of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The layer's path.
    pub name: String,
    pub shape: Shape,
    /// The input for the previous chunk's output; `None` in the first chunk's graph. It is zero
    /// when the previous chunk's graph has no output of this name.
    pub input: Option<Node>,
    pub output: Node,
}

/// The caches of one graph while it is recorded.
#[derive(Debug)]
pub struct Stream {
    first: bool,
    /// The last input frames of a layer, by its path, in the order of first calls.
    cached: Vec<(String, Node)>,
    inputs: BTreeMap<String, Node>,
}

impl Stream {
    /// `first`: the graph is for the beginning of a video.
    pub fn new(first: bool) -> Stream {
        Stream {
            first,
            cached: Vec::new(),
            inputs: BTreeMap::new(),
        }
    }

    pub fn is_first(&self) -> bool {
        self.first
    }

    /// Prepends the `n` frames before x `[b, t, h, w, c]`: `[b, n + t, h, w, c]`.
    #[track_caller]
    pub fn window(&mut self, g: &mut Graph, layer: &str, x: Node, n: usize) -> Node {
        let t = g.shape(x)[1];
        let window = match self.previous(g, layer, x, n) {
            Some(previous) => g.concat(&[previous, x], 1),
            None => g.pad(x, 1, n, 0, PadMode::Constant(0.0)),
        };
        let last = g.slice(window, 1, t, t + n);
        self.cache(layer, last);
        window
    }

    /// Caches frames for the layer's next call.
    pub fn cache(&mut self, layer: &str, frames: Node) {
        match self.cached.iter_mut().find(|(name, _)| name == layer) {
            Some((_, cached)) => *cached = frames,
            None => self.cached.push((layer.to_owned(), frames)),
        }
    }

    /// The frames cached by the layer's last call, in this graph or in the previous chunk's;
    /// `None` for zeros.
    fn previous(&mut self, g: &mut Graph, layer: &str, x: Node, n: usize) -> Option<Node> {
        if let Some((_, cached)) = self.cached.iter().find(|(name, _)| name == layer) {
            return Some(*cached);
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

    /// Marks the cached frames as outputs, in the order of the layers.
    pub fn finish(self, g: &mut Graph) -> Vec<Cache> {
        let mut caches = Vec::new();
        for (name, output) in self.cached {
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

/// Calls `f` with each frame of x and concatenates the results along the frames.
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

/// Concatenates along the frames.
#[track_caller]
pub(crate) fn join(g: &mut Graph, parts: &[Node]) -> Node {
    match parts {
        [one] => *one,
        _ => g.concat(parts, 1),
    }
}

/// Folds axis `from` into axis `to`: `[.., n, .., c]` → `[.., 1, .., n·c]`. Recorded as slices and
/// a concatenation, which can be split by rows; a permutation could not.
#[track_caller]
pub(crate) fn fold_axis(g: &mut Graph, x: Node, from: usize, to: usize) -> Node {
    let n = g.shape(x)[from];
    if n == 1 {
        return x;
    }
    let parts: Vec<Node> = (0..n).map(|i| g.slice(x, from, i, i + 1)).collect();
    g.concat(&parts, to)
}
