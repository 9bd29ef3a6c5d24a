//! Where tokens are: a table of rotations by frame, row and column.

use super::Config;
use nino_graph::{Graph, Node};

const THETA: f64 = 10_000.0;

/// `[frames·rows·columns, hd/2, 2]` of cosine and sine, computed in f64.
pub(super) fn table(g: &mut Graph, c: &Config, grid: [usize; 3]) -> Node {
    let [frames, rows, columns] = grid;
    let axes = c.axes();
    // Angles are taken once for every place along an axis, not for every token.
    let turns = |axis: usize, n: usize| -> Vec<Vec<f32>> {
        let width = axes[axis];
        let at = |place: usize| {
            let place = c.stretch.map_or(place as f64, |s| s.at(axis, place));
            let pairs = (0..width / 2).flat_map(|pair| {
                let angle = place / THETA.powf(2.0 * pair as f64 / width as f64);
                [angle.cos() as f32, angle.sin() as f32]
            });
            pairs.collect()
        };
        (0..n).map(at).collect()
    };
    let [by_frame, by_row, by_column] =
        [(0, frames), (1, rows), (2, columns)].map(|(axis, n)| turns(axis, n));
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
        c.stretch
    );
    g.constant(&name, [n, c.head() / 2, 2], &values)
}
