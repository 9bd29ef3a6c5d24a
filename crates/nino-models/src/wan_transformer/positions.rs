//! RoPE table of the tokens, with axes for frame, row and column.

use super::{Config, RopeScale};
use nino_graph::{Graph, Node};

const THETA: f64 = 10_000.0;

/// Evenly spaced positions along an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    first: f64,
    step: f64,
    n: usize,
}

/// Positions of tokens along frames, rows and columns.
pub(super) type Grid = [Axis; 3];

impl Axis {
    /// 0, 1, 2, ...
    pub(super) fn count(n: usize) -> Axis {
        Axis::from(0, n)
    }

    /// `first`, `first` + 1, ...
    pub(super) fn from(first: isize, n: usize) -> Axis {
        let first = first as f64;
        Axis {
            first,
            step: 1.0,
            n,
        }
    }

    /// `n` positions from 0 to the last of `of`, both included: those of `of` tokens that fewer
    /// stand for.
    pub(super) fn spread(n: usize, of: usize) -> Axis {
        let step = of.saturating_sub(1) as f64 / n.saturating_sub(1).max(1) as f64;
        Axis {
            first: 0.0,
            step,
            n,
        }
    }

    /// Position `i`.
    fn at(self, i: usize) -> f64 {
        i as f64 * self.step + self.first
    }
}

/// The grid of a video's tokens; the user may scale and shift their positions.
pub(super) fn video(scale: Option<RopeScale>, sizes: [usize; 3]) -> Grid {
    let axis = |axis: usize| match scale {
        None => Axis::count(sizes[axis]),
        Some(scale) => Axis {
            first: scale.shift(axis),
            step: scale.scale(axis),
            n: sizes[axis],
        },
    };
    [0, 1, 2].map(axis)
}

/// RoPE table `[n, hd/2, 2]` of cosine and sine, computed in f64, for the tokens of all grids, one
/// grid after the other.
pub(super) fn rope_table(g: &mut Graph, c: &Config, grids: &[Grid]) -> Node {
    let axes_dim = c.axes_dim();
    let tokens = |grid: &Grid| grid.iter().map(|axis| axis.n).product::<usize>();
    let n = grids.iter().map(tokens).sum::<usize>();
    let mut values = Vec::with_capacity(n * c.head());
    for grid in grids {
        // Cosines and sines are computed once per position along an axis, not once per token.
        let [by_frame, by_row, by_column] = [0, 1, 2].map(|axis| {
            let positions = (0..grid[axis].n).map(|i| grid[axis].at(i));
            positions
                .map(|position| rotations(position, axes_dim[axis]))
                .collect::<Vec<_>>()
        });
        for t in &by_frame {
            for y in &by_row {
                for x in &by_column {
                    values.extend_from_slice(t);
                    values.extend_from_slice(y);
                    values.extend_from_slice(x);
                }
            }
        }
    }
    let name = format!("rotations of tokens at {grids:?}, heads of {}", c.head());
    g.constant(&name, [n, c.head() / 2, 2], &values)
}

/// Cosine and sine of a position's angles.
fn rotations(position: f64, axis_dim: usize) -> Vec<f32> {
    let pairs = (0..axis_dim / 2).flat_map(|pair| {
        let angle = position / THETA.powf(2.0 * pair as f64 / axis_dim as f64);
        [angle.cos() as f32, angle.sin() as f32]
    });
    pairs.collect()
}
