//! Deep shrink (Kohya): behind one input block, activations are made smaller, and the output blocks
//! enlarge them again to the size of their skip connections. Behavior: ComfyUI's
//! `PatchModelAddDownscale`.

use nino_graph::{Graph, Node};

/// Activations that are made smaller, an option of the user that no file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shrink {
    /// The input block; the first convolution is block 0.
    pub block: usize,
    /// Bits of the f64 that sides are divided by, so that configs can be compared and hashed.
    factor: u64,
    /// Whether the block's skip connection has the full size.
    pub after_skip: bool,
    pub smaller: Resize,
    pub larger: Resize,
}

/// How values between places are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resize {
    /// The place at the rounded-down coordinate: PyTorch's `nearest`.
    Nearest,
    NearestExact,
    Bilinear,
    /// The mean of all places that it covers.
    Area,
    Bicubic,
}

impl Shrink {
    pub fn new(block: usize, factor: f64, after_skip: bool, ways: [Resize; 2]) -> Shrink {
        let [smaller, larger] = ways;
        Shrink {
            block,
            factor: factor.to_bits(),
            after_skip,
            smaller,
            larger,
        }
    }

    /// x `[b, h, w, c]` behind the input block `block`, before or after it is kept as a skip
    /// connection.
    pub(super) fn apply(self, g: &mut Graph, block: usize, after_skip: bool, x: Node) -> Node {
        if (self.block, self.after_skip) != (block, after_skip) {
            return x;
        }
        let share = 1.0 / f64::from_bits(self.factor);
        let smaller = |side: usize| ((side as f64 * share).round_ties_even() as usize).max(1);
        let [h, w] = [g.shape(x)[1], g.shape(x)[2]].map(smaller);
        resize(g, x, [h, w], self.smaller)
    }

    /// h `[b, h, w, c]` before it is concatenated with its skip connection.
    pub(super) fn enlarge(self, g: &mut Graph, h: Node, skip: Node) -> Node {
        let size = [g.shape(skip)[1], g.shape(skip)[2]];
        if g.shape(h)[1] == size[0] {
            return h;
        }
        resize(g, h, size, self.larger)
    }
}

/// Resizes x `[b, h, w, c]` to `[h, w]`, one axis after the other.
pub(super) fn resize(g: &mut Graph, x: Node, [height, width]: [usize; 2], how: Resize) -> Node {
    let shape = g.shape(x);
    let (b, h, w, c) = (shape[0], shape[1], shape[2], shape[3]);
    let x = g.reshape(x, [b, h, w * c]);
    let x = along(g, x, height, how); // [b, height, w·c]
    let x = g.reshape(x, [b, height, w, c]);
    let x = g.permute(x, &[0, 2, 1, 3]); // [b, w, height, c]
    let x = g.reshape(x, [b, w, height * c]);
    let x = along(g, x, width, how);
    let x = g.reshape(x, [b, width, height, c]);
    g.permute(x, &[0, 2, 1, 3]) // [b, height, width, c]
}

/// Resizes the middle axis of x `[b, of, c]` to `n`.
fn along(g: &mut Graph, x: Node, n: usize, how: Resize) -> Node {
    let (b, of) = (g.shape(x)[0], g.shape(x)[1]);
    if n == of {
        return x;
    }
    let mut weights = vec![0.0; n * of];
    for (i, row) in weights.chunks_exact_mut(of).enumerate() {
        for (at, weight) in taps(i, of, n, how) {
            row[at] += weight;
        }
    }
    let name = format!("{how:?} from {of} to {n}, {b}");
    let weights = g.constant(&name, [b, n, of], &weights.repeat(b));
    let weights = g.cast(weights, g.dtype(x));
    g.matmul(weights, x)
}

/// The places that make up place `i` of `n`, out of `of`, and their weights: those of PyTorch's
/// `interpolate` without aligned corners.
fn taps(i: usize, of: usize, n: usize, how: Resize) -> Vec<(usize, f32)> {
    let scale = of as f32 / n as f32;
    let center = scale * (i as f32 + 0.5);
    let within = |at: f32| (at.max(0.0) as usize).min(of - 1);
    match how {
        Resize::Nearest => vec![(within(scale * i as f32), 1.0)],
        Resize::NearestExact => vec![(within(center), 1.0)],
        Resize::Bilinear => {
            let at = (center - 0.5).max(0.0);
            let (first, ratio) = (at.floor(), at.fract());
            vec![(within(first), 1.0 - ratio), (within(first + 1.0), ratio)]
        }
        Resize::Area => {
            let (start, end) = (i * of / n, ((i + 1) * of).div_ceil(n));
            let weight = 1.0 / (end - start) as f32;
            (start..end).map(|at| (at, weight)).collect()
        }
        Resize::Bicubic => {
            let at = center - 0.5;
            let tap = |k: f32| {
                let place = at.floor() + k;
                (within(place), cubic((at - place).abs()))
            };
            [-1.0, 0.0, 1.0, 2.0].map(tap).to_vec()
        }
    }
}

/// Keys' kernel with a = -0.75.
fn cubic(t: f32) -> f32 {
    const A: f32 = -0.75;
    if t <= 1.0 {
        ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0
    } else {
        ((A * t - 5.0 * A) * t + 8.0 * A) * t - 4.0 * A
    }
}
