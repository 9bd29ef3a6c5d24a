//! Networks that enlarge pictures: ESRGAN and its kin.
//!
//! Pixels `[b, h, w, 3]` in 0..1 → `[b, h·scale, w·scale, 3]`. An upscaler is one or two
//! [`Piece`]s, each of which makes a row of its result from rows that are near. So a picture that
//! is too large for the memory can be computed in bands of rows that overlap by the piece's reach,
//! and the result is what it is in one piece.

pub mod rrdb;
pub mod srvgg;

use crate::{Find, Params};
use nino_graph::{Graph, Node};

/// An upscaler with its sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upscaler {
    Rrdb(rrdb::Config),
    Srvgg(srvgg::Config),
}

/// A part of an upscaler that is computed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The picture to features, at the size of the picture.
    Trunk,
    /// Features to the result.
    Head,
    /// All of it.
    Whole,
}

/// What a piece takes and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceShape {
    /// Channels of its input.
    pub channels: usize,
    pub out_channels: usize,
    /// Pixels of the result along one pixel of the input.
    pub scale: usize,
    /// Rows of the input above and below its own that a row of the result may depend on.
    pub reach: usize,
}

impl Upscaler {
    /// Reads sizes from tensor shapes alone; `None` when this is no upscaler of colour pictures.
    pub fn detect(find: &Find) -> Option<Upscaler> {
        let rrdb = rrdb::Config::detect(find).map(Upscaler::Rrdb);
        rrdb.or_else(|| srvgg::Config::detect(find).map(Upscaler::Srvgg))
    }

    /// Pixels of the result along one pixel of the picture.
    pub fn scale(&self) -> usize {
        match self {
            Upscaler::Rrdb(c) => c.scale(),
            Upscaler::Srvgg(c) => c.scale,
        }
    }

    /// Pixels of the picture along one pixel of the first piece's input: where it is more than one,
    /// the channels of a square of them are one pixel's, ordered as PyTorch's `pixel_unshuffle`.
    pub fn unshuffle(&self) -> usize {
        match self {
            Upscaler::Rrdb(c) => c.unshuffle,
            Upscaler::Srvgg(_) => 1,
        }
    }

    /// In the order they run.
    pub fn pieces(&self) -> &'static [Piece] {
        match self {
            Upscaler::Rrdb(_) => &[Piece::Trunk, Piece::Head],
            Upscaler::Srvgg(_) => &[Piece::Whole],
        }
    }

    /// What one of its pieces takes and gives.
    pub fn shape(&self, piece: Piece) -> PieceShape {
        match self {
            Upscaler::Rrdb(c) => c.shape(piece),
            Upscaler::Srvgg(c) => c.shape(),
        }
    }

    /// Records one of its pieces.
    pub fn record(&self, g: &mut Graph, p: &Params, piece: Piece, x: Node) -> Node {
        match (self, piece) {
            (Upscaler::Rrdb(c), Piece::Trunk) => rrdb::trunk(g, p, c, x),
            (Upscaler::Rrdb(c), Piece::Head) => rrdb::head(g, p, c, x),
            (Upscaler::Rrdb(c), Piece::Whole) => {
                let features = rrdb::trunk(g, p, c, x);
                rrdb::head(g, p, c, features)
            }
            (Upscaler::Srvgg(c), _) => srvgg::network(g, p, c, x),
        }
    }
}
