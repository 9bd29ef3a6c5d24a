//! How a picture of some size is enlarged on a device: each piece whole, or in bands.

use super::bands::Bands;
use super::{UpscaleModel, UpscaleOptions};
use crate::fit::{Room, fit_within};
use crate::{EngineError, Store};
use nino_dtype::DType;
use nino_graph::{Graph, Node, Plan};
use nino_models::Params;
use nino_models::upscaler::{Piece, PieceShape};
use std::sync::Arc;

/// A piece that is known to fit.
pub(super) struct Planned {
    pub(super) plan: Arc<Plan>,
    pub(super) input: Node,
    pub(super) output: Node,
    pub(super) shape: PieceShape,
    pub(super) bands: Bands,
    /// Bytes of host memory while it runs.
    pub(super) beside: usize,
}

/// Plans every piece for a picture of so many of the first piece's pixels, or finds the plans made
/// before.
pub(super) fn pieces(
    store: &Store,
    model: &UpscaleModel,
    (width, height): (usize, usize),
    options: &UpscaleOptions,
) -> Result<Vec<Arc<Planned>>, EngineError> {
    let dtype = options.precision.dtype(store.device());
    let mut size = (width, height);
    let mut planned = Vec::new();
    for &piece in model.pieces() {
        let planner = Planner {
            store,
            model,
            piece,
            shape: model.network.shape(piece),
            size,
            dtype,
            beside: options.beside,
        };
        size = (size.0 * planner.shape.scale, size.1 * planner.shape.scale);
        let what = format!(
            "upscale {piece:?} {:?} {dtype} {}",
            planner.size, options.beside
        );
        planned.push(store.plan(&model.id(), what, || planner.best())?);
    }
    Ok(planned)
}

struct Planner<'a> {
    store: &'a Store,
    model: &'a UpscaleModel,
    piece: Piece,
    shape: PieceShape,
    /// Width and height of the piece's input.
    size: (usize, usize),
    dtype: DType,
    beside: usize,
}

impl Planner<'_> {
    /// The quickest of what fits: as few bands as are on the device with all their values, or the
    /// whole with values on the host.
    fn best(&self) -> Result<Planned, EngineError> {
        let choices = Bands::choices(self.size.1, self.shape.reach);
        let mut on_device = choices.iter().map(|&bands| self.fit(bands, false));
        let on_device = on_device.find_map(Result::ok);
        let whole = Bands::whole(self.size.1);
        match on_device {
            Some(found) if found.bands == whole => Ok(found),
            Some(found) => {
                let rates = self.store.device().rates();
                let time = |p: &Planned| rates.time(&p.plan.load(p.bands.len()));
                Ok(match self.fit(whole, true) {
                    Ok(other) if time(&other) < time(&found) => other,
                    _ => found,
                })
            }
            None => self.fit(whole, true).or_else(|error| {
                // The thinnest bands need the least, and their refusal tells it.
                let thinnest = choices.last().filter(|&&bands| bands != whole);
                thinnest.map_or(Err(error), |&bands| self.fit(bands, true))
            }),
        }
    }

    fn fit(&self, bands: Bands, allow_host: bool) -> Result<Planned, EngineError> {
        let (width, height) = self.size;
        let PieceShape {
            channels,
            out_channels,
            scale,
            ..
        } = self.shape;
        let weights = &self.model.weights;
        let params = Params::new(|name| weights.dtype(name));
        let mut g = Graph::new();
        let input = g.input("x", [1, bands.rows, width, channels], self.dtype);
        let output = self
            .model
            .network
            .record(&mut g, &params, self.piece, input);
        g.output(output);
        // Both sheets, and a band on its way in and out, as bytes and as numbers.
        let made = width * scale * scale * out_channels;
        let row = width * channels + made;
        let values = height * row + 2 * bands.rows * row;
        let beside = self.beside + values * size_of::<f32>();
        let room = Room {
            beside,
            allow_host,
            ..Room::default()
        };
        let plan = fit_within(self.store.device(), &g.finish()?, bands.len(), room)?;
        Ok(Planned {
            plan,
            input,
            output,
            shape: self.shape,
            bands,
            beside,
        })
    }
}
