//! Upscalers: ESRGAN, Real-ESRGAN and its compact variant.
//!
//! Pixels `[b, h, w, 3]` in 0..1 → `[b, h·scale, w·scale, 3]`. An upscaler is one or two
//! [`Piece`]s, each with a limited receptive field. So an image that is too large for the memory
//! can be computed in bands of rows that overlap by the piece's reach, with the same result.

pub mod rrdb;
pub mod srvgg;

use crate::{Find, Params};
use nino_graph::{Graph, Node};

/// An upscaler with its hyperparameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upscaler {
    Rrdb(rrdb::Config),
    Srvgg(srvgg::Config),
}

/// A part of an upscaler that is recorded as a graph of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The image to features of the same size.
    Trunk,
    /// Features to the upscaled image.
    Head,
    /// The full network.
    Whole,
}

/// Shapes of a piece's input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceShape {
    /// Channels of its input.
    pub channels: usize,
    pub out_channels: usize,
    /// Output pixels per input pixel along one side.
    pub scale: usize,
    /// Receptive field: input rows above and below its own that an output row depends on.
    pub reach: usize,
}

impl Upscaler {
    /// Reads sizes from tensor shapes alone; `None` when this is no upscaler of RGB images.
    pub fn detect(find: &Find) -> Option<Upscaler> {
        let rrdb = rrdb::Config::detect(find).map(Upscaler::Rrdb);
        rrdb.or_else(|| srvgg::Config::detect(find).map(Upscaler::Srvgg))
    }

    /// Output pixels per image pixel along one side.
    pub fn scale(&self) -> usize {
        match self {
            Upscaler::Rrdb(c) => c.scale(),
            Upscaler::Srvgg(c) => c.scale,
        }
    }

    /// Factor of the pixel unshuffle before the first piece, ordered as PyTorch's
    /// `pixel_unshuffle`; 1 without one.
    pub fn unshuffle(&self) -> usize {
        match self {
            Upscaler::Rrdb(c) => c.unshuffle,
            Upscaler::Srvgg(_) => 1,
        }
    }

    /// Its pieces, in the order they run.
    pub fn pieces(&self) -> &'static [Piece] {
        match self {
            Upscaler::Rrdb(_) => &[Piece::Trunk, Piece::Head],
            Upscaler::Srvgg(_) => &[Piece::Whole],
        }
    }

    /// Shapes of one of its pieces.
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
