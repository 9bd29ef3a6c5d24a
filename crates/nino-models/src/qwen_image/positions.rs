//! Where tokens are: a table of rotations. A token of the picture is at (0, row, column), one of
//! the first, second, … picture to look at at (1, row, column), (2, …), and so on, with rows and
//! columns counted from each picture's middle. Text follows on the diagonal behind the picture.

use super::Config;
use nino_graph::{Graph, Node};

const THETA: f64 = 10_000.0;

/// `[n_txt + n_img, head/2, 2]` of cosine and sine, computed in f64. `sizes` are rows and columns
/// of the pictures, the one that is denoised first.
pub(super) fn table(g: &mut Graph, c: &Config, n_txt: usize, sizes: &[[usize; 2]]) -> Node {
    let start = sizes
        .first()
        .map_or(0, |&[rows, columns]| rows.max(columns) / 2);
    let text = (0..n_txt).map(|i| [(start + i) as f64; 3]);
    let pictures = sizes.iter().enumerate().flat_map(|(i, &[rows, columns])| {
        let centered = |at: usize, n: usize| at as f64 - (n / 2) as f64;
        (0..rows * columns).map(move |at| {
            let (y, x) = (at / columns, at % columns);
            [i as f64, centered(y, rows), centered(x, columns)]
        })
    });
    let first = c.head / 8;
    let each = (c.head - first) / 2;
    let mut values = Vec::new();
    let mut n = 0;
    for place in text.chain(pictures) {
        n += 1;
        for (at, axis) in place.into_iter().zip([first, each, each]) {
            for pair in 0..axis / 2 {
                let angle = at / THETA.powf(2.0 * pair as f64 / axis as f64);
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
