//! RoPE table of the video's tokens, with axes for frame, row and column.

use super::{Config, RopeScale};
use nino_graph::{Graph, Node};

const THETA: f64 = 10_000.0;

/// RoPE table `[frames·rows·columns, hd/2, 2]` of cosine and sine, computed in f64.
pub(super) fn rope_table(g: &mut Graph, c: &Config, grid: [usize; 3]) -> Node {
    let [frames, rows, columns] = grid;
    let axes_dim = c.axes_dim();
    // Cosines and sines are computed once per position along an axis, not once per token.
    let axis_table = |axis: usize, n: usize| -> Vec<Vec<f32>> {
        let axis_dim = axes_dim[axis];
        let row = |position: usize| {
            let scaled = |s: RopeScale| s.apply(axis, position);
            let position = c.rope_scale.map_or(position as f64, scaled);
            let pairs = (0..axis_dim / 2).flat_map(|pair| {
                let angle = position / THETA.powf(2.0 * pair as f64 / axis_dim as f64);
                [angle.cos() as f32, angle.sin() as f32]
            });
            pairs.collect()
        };
        (0..n).map(row).collect()
    };
    let [by_frame, by_row, by_column] =
        [(0, frames), (1, rows), (2, columns)].map(|(axis, n)| axis_table(axis, n));
    let n = frames * rows * columns;
    let mut values = Vec::with_capacity(n * c.head());
    for t in &by_frame {
        for y in &by_row {
            for x in &by_column {
                values.extend_from_slice(t);
                values.extend_from_slice(y);
                values.extend_from_slice(x);
            }
        }
    }
    let name = format!(
        "rotations of {frames}×{rows}×{columns} tokens, heads of {}, stretched by {:?}",
        c.head(),
        c.rope_scale
    );
    g.constant(&name, [n, c.head() / 2, 2], &values)
}
