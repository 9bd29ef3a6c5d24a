//! Where tokens are: a table of rotations. Token i of the text is at (0, 0, 0, i), one of the
//! picture at (0, row, column, 0), and one of the first, second, … picture to look at at
//! (10, row, column, 0), (20, …), and so on.

use super::Config;
use nino_graph::{Graph, Node};

const THETA: f64 = 2000.0;
/// From one picture to the next.
const STEP: usize = 10;

/// `[n_txt + n_img, head/2, 2]` of cosine and sine, computed in f64. `sizes` are rows and columns
/// of the pictures, the one that is denoised first.
pub(super) fn table(g: &mut Graph, c: &Config, n_txt: usize, sizes: &[[usize; 2]]) -> Node {
    let text = (0..n_txt).map(|i| [0, 0, 0, i]);
    let pictures = sizes.iter().enumerate().flat_map(|(i, &[rows, columns])| {
        (0..rows).flat_map(move |y| (0..columns).map(move |x| [STEP * i, y, x, 0]))
    });
    let axis = c.head / 4;
    let mut values = Vec::new();
    let mut n = 0;
    for place in text.chain(pictures) {
        n += 1;
        for at in place {
            for pair in 0..axis / 2 {
                let angle = at as f64 / THETA.powf(2.0 * pair as f64 / axis as f64);
                values.extend([angle.cos() as f32, angle.sin() as f32]);
            }
        }
    }
    let name = format!(
        "rotations of {n_txt} tokens and {sizes:?}, heads of {} by 4",
        c.head
    );
    g.constant(&name, [n, c.head / 2, 2], &values)
}
