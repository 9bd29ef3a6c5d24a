//! Positions of the tokens and their RoPE table. Image tokens are at (0, row, column), tokens of
//! the first, second, … reference image at (1, row, column), (2, …), and so on. Rows and columns
//! are counted from the center of each image. Text tokens follow on the diagonal after the image.

use super::Config;
use nino_graph::{Graph, Node};

const THETA: f64 = 10_000.0;

/// RoPE table `[n_txt + n_img, hd/2, 2]` of cosine and sine, computed in f64. `sizes` are rows and
/// columns of the image that is denoised, then of the reference images.
pub(super) fn rope_table(g: &mut Graph, c: &Config, n_txt: usize, sizes: &[[usize; 2]]) -> Node {
    let start = sizes
        .first()
        .map_or(0, |&[rows, columns]| rows.max(columns) / 2);
    let text = (0..n_txt).map(|i| [(start + i) as f64; 3]);
    let images = sizes.iter().enumerate().flat_map(|(i, &[rows, columns])| {
        let centered = |position: usize, n: usize| position as f64 - (n / 2) as f64;
        (0..rows * columns).map(move |token| {
            let (y, x) = (token / columns, token % columns);
            [i as f64, centered(y, rows), centered(x, columns)]
        })
    });
    let index_dim = c.head / 8;
    let side_dim = (c.head - index_dim) / 2;
    let mut values = Vec::new();
    let mut n = 0;
    for position in text.chain(images) {
        n += 1;
        for (coordinate, axis_dim) in position.into_iter().zip([index_dim, side_dim, side_dim]) {
            for pair in 0..axis_dim / 2 {
                let angle = coordinate / THETA.powf(2.0 * pair as f64 / axis_dim as f64);
                values.extend([angle.cos() as f32, angle.sin() as f32]);
            }
        }
    }
    let name = format!(
        "rotations of {n_txt} tokens and centered {sizes:?}, heads of {}",
        c.head
    );
    g.constant(&name, [n, c.head / 2, 2], &values)
}
