//! FreeU (Si et al. 2023): in output blocks of two widths, half of the channels are strengthened
//! and the low frequencies of the skip connection weakened. Behavior: ComfyUI's `FreeU` and
//! `FreeU_V2`.
//!
//! The filter multiplies the frequencies {-1, 0} by {-1, 0} by a factor `s`: x + (s - 1)·P·x, where
//! P projects every channel on at most seven functions of the place.

use nino_graph::{Binary, BinaryFn, Graph, Node, ReduceFn};
use std::f64::consts::TAU;

/// Coefficients are so many times a mean: sums would exceed f16, and so would, at the other end,
/// the parts that means are made of.
const LIFT: f64 = 16.0;

/// Factors of a FreeU, an option of the user that no file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FreeU {
    // Bits of f32, so that configs can be compared and hashed.
    backbone: [u32; 2],
    skip: [u32; 2],
    is_second: bool,
}

impl FreeU {
    /// `b1`, `b2` and `s1`, `s2`: the first ones are for blocks of 4 times the model's channels,
    /// the second ones for those of 2 times.
    pub fn new(backbone: [f32; 2], skip: [f32; 2]) -> FreeU {
        FreeU {
            backbone: backbone.map(f32::to_bits),
            skip: skip.map(f32::to_bits),
            is_second: false,
        }
    }

    /// FreeU V2: half of the channels are strengthened most where their mean is largest.
    #[must_use]
    pub fn second(self) -> FreeU {
        FreeU {
            is_second: true,
            ..self
        }
    }

    /// `h` and `skip` before they are concatenated, `[b, h, w, c]` both.
    pub(super) fn apply(
        self,
        g: &mut Graph,
        model_channels: usize,
        h: Node,
        skip: Node,
    ) -> (Node, Node) {
        let width = g.shape(h).last_dim();
        let level = [4, 2].iter().position(|n| n * model_channels == width);
        let Some(level) = level else {
            return (h, skip);
        };
        let [backbone, factor] = [self.backbone, self.skip].map(|all| f32::from_bits(all[level]));
        let first = g.slice(h, 3, 0, width / 2);
        let rest = g.slice(h, 3, width / 2, width);
        let first = if self.is_second {
            let mean = normalized_mean(g, h);
            let factors = g.affine(mean, backbone - 1.0, 1.0);
            g.mul(first, factors)
        } else {
            g.affine(first, backbone, 0.0)
        };
        (g.concat(&[first, rest], 3), filtered(g, skip, factor))
    }
}

/// The mean over the channels, `[b, h, w, 1]`, moved and scaled so that it reaches from 0 to 1 over
/// each picture.
fn normalized_mean(g: &mut Graph, h: Node) -> Node {
    let mean = g.reduce(h, 3, ReduceFn::Mean); // [b, h, w, 1]
    let shape = g.shape(mean);
    let flat = g.reshape(mean, [shape[0], shape[1] * shape[2]]); // [b, h·w]
    let most = g.reduce(flat, 1, ReduceFn::Max); // [b, 1]
    let negated = g.affine(flat, -1.0, 0.0);
    let less = g.reduce(negated, 1, ReduceFn::Max);
    let from_least = g.add(flat, less);
    let span = g.add(most, less);
    let share = g.push(Binary {
        a: from_least,
        b: span,
        f: BinaryFn::Div,
    });
    g.reshape(share, shape)
}

/// The lowest frequencies of every channel multiplied by a factor; x `[b, h, w, c]`.
fn filtered(g: &mut Graph, x: Node, factor: f32) -> Node {
    let shape = g.shape(x);
    let (b, h, w, c) = (shape[0], shape[1], shape[2], shape[3]);
    let functions = functions(h, w);
    let (n, m) = (h * w, functions.len());
    let dtype = g.dtype(x);
    let rows = functions.iter().flatten();
    let rows: Vec<f32> = rows.map(|v| (v * LIFT / n as f64) as f32).collect();
    let places = (0..n).flat_map(|place| functions.iter().map(move |f| f[place]));
    let places: Vec<f32> = places.map(|v| (v / LIFT) as f32).collect();
    let name = format!("low frequencies of {h}x{w}");
    let analysis = g.constant(&format!("{name}, means, {b}"), [b, m, n], &rows.repeat(b));
    let synthesis = g.constant(&format!("{name}, {b}"), [b, n, m], &places.repeat(b));
    let (analysis, synthesis) = (g.cast(analysis, dtype), g.cast(synthesis, dtype));
    let flat = g.reshape(x, [b, n, c]);
    let coefficients = g.matmul(analysis, flat); // [b, m, c]
    let low = g.matmul(synthesis, coefficients); // [b, n, c]
    let low = g.affine(low, factor - 1.0, 0.0);
    let flat = g.add(flat, low);
    g.reshape(flat, shape)
}

/// Functions of the place, `[h, w]` each, whose products with themselves, summed and divided by
/// the number of places, are the real part of the filter that keeps those frequencies.
fn functions(h: usize, w: usize) -> Vec<Vec<f64>> {
    // One row or column has one frequency.
    let of = |side: usize| if side > 1 { &[0, 1][..] } else { &[0] };
    let mut all = Vec::new();
    for &fy in of(h) {
        for &fx in of(w) {
            let angle = |place: usize| {
                let (y, x) = ((place / w) as f64, (place % w) as f64);
                TAU * (f64::from(fy) * y / h as f64 + f64::from(fx) * x / w as f64)
            };
            all.push((0..h * w).map(|place| angle(place).cos()).collect());
            if (fy, fx) != (0, 0) {
                all.push((0..h * w).map(|place| angle(place).sin()).collect());
            }
        }
    }
    all
}
