//! Positions of the tokens and their RoPE table. Text tokens are at (0, 0, 0), image tokens at
//! (0, row, column), and reference tokens where the [`ReferenceMethod`] puts them.

use super::{Config, PATCH};
use nino_graph::{Graph, Node};

const THETA: f64 = 10_000.0;

/// Positions of one image's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Coordinate of the first RoPE axis.
    index: usize,
    /// Row and column of its first token.
    start: [usize; 2],
    /// Rows and columns.
    size: [usize; 2],
}

impl Grid {
    /// The image that is denoised.
    pub(super) fn target(size: [usize; 2]) -> Grid {
        Grid {
            index: 0,
            start: [0, 0],
            size,
        }
    }

    fn positions(self) -> impl Iterator<Item = [f64; 3]> {
        let ([y, x], [rows, columns]) = (self.start, self.size);
        let index = self.index as f64;
        (y..y + rows).flat_map(move |y| (x..x + columns).map(move |x| [index, y as f64, x as f64]))
    }
}

/// How reference tokens are positioned: ComfyUI's `reference_latents_method`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReferenceMethod {
    /// All at index 1, next to each other or one below the other so that the shorter side grows.
    #[default]
    Offset,
    /// Each at an index of its own: 1, 2, and so on.
    Index,
    /// As [`ReferenceMethod::Index`], with the reference tokens at timestep 0.
    IndexTimestepZero,
    /// At index 0, diagonally after the lower right corner of the image that is denoised.
    Uxo,
}

impl ReferenceMethod {
    /// ComfyUI's name of the method.
    pub fn name(self) -> &'static str {
        match self {
            ReferenceMethod::Offset => "offset",
            ReferenceMethod::Index => "index",
            ReferenceMethod::IndexTimestepZero => "index_timestep_zero",
            ReferenceMethod::Uxo => "uxo/uno",
        }
    }
}

/// Positions of reference latents. `target` is the size of the denoised image in tokens, `sizes`
/// are the sizes of the references in latent pixels: rows and columns each.
pub(super) fn reference_grids(
    method: ReferenceMethod,
    target: [usize; 2],
    sizes: &[[usize; 2]],
) -> Vec<Grid> {
    use ReferenceMethod as M;
    let (mut height, mut width) = (0, 0);
    let grid = |(i, &[h, w]): (usize, &[usize; 2])| {
        let (index, [y, x]) = match method {
            M::Offset if h + height > w + width => (1, [0, width]),
            M::Offset => (1, [height, 0]),
            M::Index | M::IndexTimestepZero => (i + 1, [0, 0]),
            M::Uxo => (0, [target[0] * PATCH + height, target[1] * PATCH + width]),
        };
        (height, width) = match method {
            M::Offset => (height.max(h + y), width.max(w + x)),
            M::Index | M::IndexTimestepZero | M::Uxo => (height + h, width + w),
        };
        Grid {
            index,
            start: [y.div_ceil(PATCH), x.div_ceil(PATCH)],
            size: [h.div_ceil(PATCH), w.div_ceil(PATCH)],
        }
    };
    sizes.iter().enumerate().map(grid).collect()
}

/// RoPE table `[n_txt + n_img, hd/2, 2]` of cosine and sine, computed in f64.
pub(super) fn rope_table(g: &mut Graph, c: &Config, n_txt: usize, grids: &[Grid]) -> Node {
    let text = std::iter::repeat_n([0.0; 3], n_txt);
    let images = grids.iter().flat_map(|grid| grid.positions());
    let mut values = Vec::new();
    let mut n = 0;
    for position in text.chain(images) {
        n += 1;
        for (coordinate, axis_dim) in position.into_iter().zip(c.axes_dim()) {
            for pair in 0..axis_dim / 2 {
                let angle = coordinate / THETA.powf(2.0 * pair as f64 / axis_dim as f64);
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
