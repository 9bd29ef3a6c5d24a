//! Where tokens are: a table of rotations. Text is at (0, 0, 0), a token of the picture at (0, row,
//! column), and one of a picture to look at at (1, row, column), each such picture beside or below
//! those before it.

use super::{Config, PATCH};
use nino_graph::{Graph, Node};

const THETA: f64 = 10_000.0;

/// The places of one picture's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    picture: usize,
    /// Row and column of its first token.
    start: [usize; 2],
    /// Rows and columns.
    size: [usize; 2],
}

impl Grid {
    /// The picture that is denoised.
    pub(super) fn first(size: [usize; 2]) -> Grid {
        Grid {
            picture: 0,
            start: [0, 0],
            size,
        }
    }

    fn places(self) -> impl Iterator<Item = [f64; 3]> {
        let ([y, x], [rows, columns]) = (self.start, self.size);
        let picture = self.picture as f64;
        (y..y + rows)
            .flat_map(move |y| (x..x + columns).map(move |x| [picture, y as f64, x as f64]))
    }
}

/// Where latents to look at are, by ComfyUI's names of the methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Places {
    /// All in a picture of their own, beside each other so that the shorter side grows.
    #[default]
    Offset,
    /// Each in a picture of its own.
    Index,
    /// As [`Places::Index`], and the model is told that they have no noise.
    Clean,
    /// In the picture that is made, on from its lower right corner.
    Uxo,
}

impl Places {
    /// What ComfyUI calls the method.
    pub fn name(self) -> &'static str {
        match self {
            Places::Offset => "offset",
            Places::Index => "index",
            Places::Clean => "index_timestep_zero",
            Places::Uxo => "uxo/uno",
        }
    }
}

/// The places of latents to look at, by their rows and columns, beside a picture of `made` rows and
/// columns of tokens.
pub(super) fn beside(places: Places, made: [usize; 2], sizes: &[[usize; 2]]) -> Vec<Grid> {
    let (mut height, mut width) = (0, 0);
    let grid = |(i, &[h, w]): (usize, &[usize; 2])| {
        let (picture, [y, x]) = match places {
            Places::Offset if h + height > w + width => (1, [0, width]),
            Places::Offset => (1, [height, 0]),
            Places::Index | Places::Clean => (i + 1, [0, 0]),
            Places::Uxo => (0, [made[0] * PATCH + height, made[1] * PATCH + width]),
        };
        (height, width) = match places {
            Places::Offset => (height.max(h + y), width.max(w + x)),
            Places::Index | Places::Clean | Places::Uxo => (height + h, width + w),
        };
        Grid {
            picture,
            start: [y.div_ceil(PATCH), x.div_ceil(PATCH)],
            size: [h.div_ceil(PATCH), w.div_ceil(PATCH)],
        }
    };
    sizes.iter().enumerate().map(grid).collect()
}

/// `[n_txt + n_img, head/2, 2]` of cosine and sine, computed in f64.
pub(super) fn table(g: &mut Graph, c: &Config, n_txt: usize, grids: &[Grid]) -> Node {
    let text = std::iter::repeat_n([0.0; 3], n_txt);
    let pictures = grids.iter().flat_map(|grid| grid.places());
    let mut values = Vec::new();
    let mut n = 0;
    for place in text.chain(pictures) {
        n += 1;
        for (at, axis) in place.into_iter().zip(c.axes()) {
            for pair in 0..axis / 2 {
                let angle = at / THETA.powf(2.0 * pair as f64 / axis as f64);
                values.extend([angle.cos() as f32, angle.sin() as f32]);
            }
        }
    }
    let name = format!(
        "rotations of {n_txt} tokens and {grids:?}, heads of {}",
        c.head
    );
    g.constant(&name, [n, c.head / 2, 2], &values)
}
