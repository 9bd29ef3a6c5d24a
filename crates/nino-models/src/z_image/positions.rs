//! Where tokens are: a table of rotations. Token i of the text is at (i + 1, 0, 0), one of the
//! picture at (the text's length + 1, row, column), and the picture's padding at (0, 0, 0).

use super::{Config, MULTIPLE};
use nino_graph::{Graph, Node};

const THETA: f64 = 256.0;

/// The tokens of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tokens {
    Text,
    /// By rows and columns.
    Picture([usize; 2]),
    /// Text, then a picture.
    Both([usize; 2]),
}

/// `[n, head/2, 2]` of cosine and sine, computed in f64, for a text of `n_txt` tokens.
pub(super) fn table(g: &mut Graph, c: &Config, n_txt: usize, tokens: Tokens) -> Node {
    let mut places: Vec<[usize; 3]> = match tokens {
        Tokens::Text | Tokens::Both(_) => (0..n_txt).map(|i| [i + 1, 0, 0]).collect(),
        Tokens::Picture(_) => Vec::new(),
    };
    if let Tokens::Picture([rows, columns]) | Tokens::Both([rows, columns]) = tokens {
        let n = rows * columns;
        places.extend((0..n).map(|i| [n_txt + 1, i / columns, i % columns]));
        let padding = n.next_multiple_of(MULTIPLE) - n;
        places.extend(std::iter::repeat_n([0; 3], padding));
    }
    let first = c.head / 4;
    let each = (c.head - first) / 2;
    let mut values = Vec::new();
    for place in &places {
        for (&at, axis) in place.iter().zip([first, each, each]) {
            for pair in 0..axis / 2 {
                let angle = at as f64 / THETA.powf(2.0 * pair as f64 / axis as f64);
                values.extend([angle.cos() as f32, angle.sin() as f32]);
            }
        }
    }
    let name = format!(
        "rotations of {tokens:?} with {n_txt} of text, heads of {}",
        c.head
    );
    g.constant(&name, [places.len(), c.head / 2, 2], &values)
}
