//! Positions of the tokens and their RoPE table. Text token i is at (0, 0, 0, i), an image token at
//! (0, row, column, 0), and a token of the first, second, … reference image at
//! (10, row, column, 0), (20, …), and so on.

use super::Config;
use nino_graph::{Graph, Node};

const THETA: f64 = 2000.0;
/// Distance between images along the first axis.
const INDEX_STEP: usize = 10;

/// RoPE table `[n_txt + n_img, hd/2, 2]` of cosine and sine, computed in f64. `sizes` are rows and
/// columns of the image that is denoised, then of the reference images.
pub(super) fn rope_table(g: &mut Graph, c: &Config, n_txt: usize, sizes: &[[usize; 2]]) -> Node {
    let text = (0..n_txt).map(|i| [0, 0, 0, i]);
    let images = sizes.iter().enumerate().flat_map(|(i, &[rows, columns])| {
        (0..rows).flat_map(move |y| (0..columns).map(move |x| [INDEX_STEP * i, y, x, 0]))
    });
    let axis_dim = c.head / 4;
    let mut values = Vec::new();
    let mut n = 0;
    for position in text.chain(images) {
        n += 1;
        for coordinate in position {
            for pair in 0..axis_dim / 2 {
                let angle = coordinate as f64 / THETA.powf(2.0 * pair as f64 / axis_dim as f64);
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
