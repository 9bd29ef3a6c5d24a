//! Where tokens are: a table of rotations. Text is at (0, 0, 0), a token of the picture at (0, row,
//! column).

use super::Config;
use nino_graph::{Graph, Node};

const THETA: f64 = 10_000.0;

/// `[n_txt + rows · columns, head/2, 2]` of cosine and sine, computed in f64.
pub(super) fn table(g: &mut Graph, c: &Config, n_txt: usize, [rows, columns]: [usize; 2]) -> Node {
    let places = (0..rows).flat_map(|y| (0..columns).map(move |x| [0.0, y as f64, x as f64]));
    let text = std::iter::repeat_n([0.0; 3], n_txt);
    let mut values = Vec::with_capacity((n_txt + rows * columns) * c.head);
    for place in text.chain(places) {
        for (at, axis) in place.into_iter().zip(c.axes()) {
            for pair in 0..axis / 2 {
                let angle = at / THETA.powf(2.0 * pair as f64 / axis as f64);
                values.extend([angle.cos() as f32, angle.sin() as f32]);
            }
        }
    }
    let name = format!(
        "rotations of {n_txt} tokens and {rows}x{columns} patches, heads of {}",
        c.head
    );
    g.constant(&name, [n_txt + rows * columns, c.head / 2, 2], &values)
}
