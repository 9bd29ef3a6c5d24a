//! Positions of the tokens and their RoPE table. Text token i is at (i + 1, 0, 0), an image token
//! at (n_txt + 1, row, column), and the image's padding at (0, 0, 0).

use super::{Config, MULTIPLE};
use nino_graph::{Graph, Node};

const THETA: f64 = 256.0;

/// The tokens of a sequence. Images are given by their rows and columns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tokens {
    Text,
    Image([usize; 2]),
    TextAndImage([usize; 2]),
}

/// RoPE table `[n, hd/2, 2]` of cosine and sine, computed in f64, for a text of `n_txt` tokens.
pub(super) fn rope_table(g: &mut Graph, c: &Config, n_txt: usize, tokens: Tokens) -> Node {
    let mut positions: Vec<[usize; 3]> = match tokens {
        Tokens::Text | Tokens::TextAndImage(_) => (0..n_txt).map(|i| [i + 1, 0, 0]).collect(),
        Tokens::Image(_) => Vec::new(),
    };
    if let Tokens::Image([rows, columns]) | Tokens::TextAndImage([rows, columns]) = tokens {
        let n = rows * columns;
        positions.extend((0..n).map(|i| [n_txt + 1, i / columns, i % columns]));
        let padding = n.next_multiple_of(MULTIPLE) - n;
        positions.extend(std::iter::repeat_n([0; 3], padding));
    }
    let index_dim = c.head / 4;
    let side_dim = (c.head - index_dim) / 2;
    let mut values = Vec::new();
    for position in &positions {
        for (&coordinate, axis_dim) in position.iter().zip([index_dim, side_dim, side_dim]) {
            for pair in 0..axis_dim / 2 {
                let angle = coordinate as f64 / THETA.powf(2.0 * pair as f64 / axis_dim as f64);
                values.extend([angle.cos() as f32, angle.sin() as f32]);
            }
        }
    }
    let name = format!(
        "rotations of {tokens:?} with {n_txt} of text, heads of {}",
        c.head
    );
    g.constant(&name, [positions.len(), c.head / 2, 2], &values)
}
