//! HyperTile (Fernandez 2023): the places of an image look, in self-attention, at a part of it.
//! Behavior: ComfyUI's `HyperTile`, in which the queries of a tile look at a run of keys in the
//! order of rows.

use nino_graph::{Graph, Node};

/// Sizes of tiles, an option of the user that no file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HyperTile {
    /// The least side of a tile, in latent pixels.
    pub side: usize,
    /// Self-attention is tiled at sizes that halve the latent's up to so many times.
    pub max_depth: usize,
    /// Whether tiles at smaller sizes have as many places, and not show as much of the image.
    pub scale_depth: bool,
}

/// The tiles of one layer: so many, each of so many places, along both axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiles {
    counts: [usize; 2],
    sides: [usize; 2],
}

impl HyperTile {
    /// The tiles of a layer of `n` places in a network whose latent has these sides; `None` where
    /// the layer is not tiled.
    pub(super) fn tiles(self, latent: [usize; 2], n: usize) -> Option<Tiles> {
        let [height, width] = latent;
        let depth = (0..=self.max_depth).find(|depth| height * width == n << (2 * depth))?;
        let least = if self.scale_depth {
            self.side << depth
        } else {
            self.side
        };
        // ComfyUI takes the width for the height.
        let ratio = width as f64 / height as f64;
        let side = |ratio: f64| (n as f64 * ratio).sqrt().round_ties_even() as usize;
        let sides = [side(ratio), side(1.0 / ratio)];
        let counts = sides.map(|side| count(side, least));
        let is_tiled = counts[0] * counts[1] > 1 && sides[0] * sides[1] == n;
        is_tiled.then(|| Tiles {
            counts,
            sides: [0, 1].map(|axis| sides[axis] / counts[axis]),
        })
    }
}

/// How many tiles a side is divided into, that are no smaller than `least` and of one size.
fn count(side: usize, least: usize) -> usize {
    let divisor = (least.min(side)..=side).find(|d| side.is_multiple_of(*d));
    side / divisor.unwrap_or(side).max(1)
}

impl Tiles {
    /// How many tiles an image has.
    pub(super) fn n(self) -> usize {
        self.counts[0] * self.counts[1]
    }

    /// x `[b, n, d]` → `[b·tiles, n / tiles, d]`
    pub(super) fn cut(self, g: &mut Graph, x: Node) -> Node {
        let (b, n, d) = (g.shape(x)[0], g.shape(x)[1], g.shape(x)[2]);
        let ([down, across], [h, w]) = (self.counts, self.sides);
        let x = g.reshape(x, [b * down, h, across, w * d]);
        let x = g.permute(x, &[0, 2, 1, 3]); // [b·down, across, h, w·d]
        g.reshape(x, [b * self.n(), n / self.n(), d])
    }

    /// The other way round.
    pub(super) fn join(self, g: &mut Graph, x: Node) -> Node {
        let (b, n, d) = (g.shape(x)[0], g.shape(x)[1], g.shape(x)[2]);
        let ([down, across], [h, w]) = (self.counts, self.sides);
        let b = b / self.n();
        let x = g.reshape(x, [b * down, across, h, w * d]);
        let x = g.permute(x, &[0, 2, 1, 3]); // [b·down, h, across, w·d]
        g.reshape(x, [b, n * self.n(), d])
    }
}
