//! Pictures as CLIP sees them, which Wan 2.1 image to video looks at. ComfyUI's `CLIPVisionLoader`
//! and `CLIPVisionEncode`.

use crate::fit::fit;
use crate::model::identity::{NetId, Origin, Part};
use crate::store::Network as Opened;
use crate::values::{read, write};
use crate::{Control, EngineError, Image, ImageStates, Stage, Store};
use nino_dtype::DType;
use nino_graph::{Graph, Node, Plan, RunOptions};
use nino_models::{FileParams, Network, Params, clip_vision};
use nino_weights::names::{self, Net};
use std::path::Path;
use std::sync::Arc;

/// An image encoder out of a file.
#[derive(Clone)]
pub struct ImageEncoder {
    config: clip_vision::Config,
    weights: FileParams,
    origin: Origin,
}

/// How a picture becomes square.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Square {
    /// Its middle counts.
    #[default]
    Cut,
    /// All of it counts, stretched.
    Stretch,
}

/// The layer that Wan looks at, counted from the last, which is 1.
const LAYER: usize = 2;

struct Recorded {
    plan: Arc<Plan>,
    pixels: Node,
    states: Node,
}

impl ImageEncoder {
    /// Reads the image encoder of a file.
    pub fn open(path: &Path) -> Result<ImageEncoder, EngineError> {
        let reader = Arc::new(nino_weights::open(path)?);
        let (components, _) = names::canonical(reader.index())?;
        for component in components.into_iter().filter(|c| c.net == Net::ClipVision) {
            let opened = nino_models::open(&reader, component)?;
            if let Some(nino_models::Opened {
                network: Network::ClipVision(config),
                params,
                ..
            }) = opened
            {
                return Ok(ImageEncoder {
                    config,
                    weights: params,
                    origin: Origin::files(&reader.index().files),
                });
            }
        }
        Err(EngineError::NotAnImageEncoder {
            path: path.to_owned(),
        })
    }

    /// CLIP-H without weights: it can be planned with, not run.
    pub fn spec() -> Result<ImageEncoder, EngineError> {
        let config = clip_vision::Config::clip_h();
        Ok(ImageEncoder {
            weights: FileParams::described(&Network::ClipVision(config.clone()))?,
            config,
            origin: Origin::unique(),
        })
    }

    /// Tokens of one picture.
    pub fn tokens(&self) -> usize {
        self.config.tokens()
    }

    /// Its file.
    pub fn path(&self) -> Option<&Path> {
        self.origin.path()
    }

    pub(crate) fn id(&self) -> NetId {
        NetId::plain(self.origin.clone(), Part::Image)
    }

    fn record(&self, store: &Store) -> Result<Recorded, EngineError> {
        let side = self.config.image;
        let mut g = Graph::new();
        let pixels = g.input("pixels", [1, side, side, 3], DType::F32);
        let params = Params::new(|name| self.weights.dtype(name))
            .with_scaled(|name| self.weights.scaled(name));
        let states = clip_vision::encoder(&mut g, &params, &self.config, pixels, LAYER);
        g.output(states);
        Ok(Recorded {
            plan: fit(store.device(), &g.finish()?, 1)?,
            pixels,
            states,
        })
    }
}

/// CLIP's hidden states of a picture.
pub fn encode_for_clip(
    store: &Store,
    encoder: &ImageEncoder,
    image: &Image,
    square: Square,
    control: &mut Control<'_>,
) -> Result<ImageStates, EngineError> {
    control.stage(Stage::Encode)?;
    let net = encoder.id();
    net.check_unchanged()?;
    let recorded = store.plan(&net, "states of a picture".to_owned(), || {
        encoder.record(store)
    })?;
    let mut lease = store.open(&Opened {
        stage: Stage::Encode,
        net,
        plans: std::slice::from_ref(&recorded.plan),
        beside: 0,
        source: &|| Ok(Arc::new(encoder.weights.clone())),
    })?;
    let graph = recorded.plan.graph();
    let session = lease.session();
    let pixels = normalized(image, encoder.config.image, square);
    write(session, graph, recorded.pixels, &pixels)?;
    session.run(RunOptions {
        cancel: Some(control.cancel),
        ..RunOptions::default()
    })?;
    let values = read(session, graph, recorded.states)?;
    lease.finish();
    Ok(ImageStates {
        values,
        width: encoder.config.width,
    })
}

/// `[side, side, 3]`: the picture scaled, cut, rounded to bytes, and in CLIP's units.
fn normalized(image: &Image, side: usize, square: Square) -> Vec<f32> {
    let (w, h) = (image.width, image.height);
    let scaled = |n: usize| {
        let scale = side as f64 / w.min(h).max(1) as f64;
        ((scale * n as f64).round_ties_even() as usize).max(side)
    };
    let (width, height) = match square {
        Square::Cut => (scaled(w), scaled(h)),
        Square::Stretch => (side, side),
    };
    let whole = if (w, h) == (side, side) {
        image.values.clone()
    } else {
        nino_media::resize_smooth(&image.values, (h, w, 3), (height, width))
    };
    let (x, y) = ((width - side) / 2, (height - side) / 2);
    let rows = whole.chunks_exact(width * 3).skip(y).take(side);
    let pixels = rows.flat_map(|row| row[x * 3..(x + side) * 3].as_chunks::<3>().0);
    let unit = |v: f32, c: usize| {
        let byte = (v * 255.0).clamp(0.0, 255.0).round_ties_even();
        (byte / 255.0 - clip_vision::MEAN[c]) / clip_vision::DEVIATION[c]
    };
    pixels
        .flat_map(|p| [0, 1, 2].map(|c| unit(p[c], c)))
        .collect()
}

#[cfg(test)]
mod tests;
