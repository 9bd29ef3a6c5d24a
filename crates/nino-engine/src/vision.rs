//! Pictures as CLIP sees them, which Wan 2.1 image to video looks at, and as SigLIP does, for Flux
//! Redux and USO. ComfyUI's `CLIPVisionLoader` and `CLIPVisionEncode`.

use crate::fit::fit;
use crate::model::identity::{NetId, Origin, Part};
use crate::model::single;
use crate::store::Network as Opened;
use crate::values::{read, write};
use crate::{Control, EngineError, Image, ImageStates, Stage, Store};
use nino_dtype::DType;
use nino_graph::{Graph, Node, Plan, RunOptions};
use nino_models::clip_vision::{self, Tower};
use nino_models::{FileParams, Network};
use nino_weights::names::Net;
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

struct Recorded {
    plan: Arc<Plan>,
    pixels: Node,
    states: Vec<Node>,
    whole: Option<Node>,
}

/// Layers of SigLIP, counted from the last, that USO looks at.
const DEEPER: [usize; 3] = [20, 11, 2];

impl ImageEncoder {
    /// Reads the image encoder of a file.
    pub fn open(path: &Path) -> Result<ImageEncoder, EngineError> {
        let found = single::first(path, Net::ClipVision, |network| match network {
            Network::ClipVision(config) => Some(config),
            _ => None,
        })?;
        let (config, weights, origin) = found.ok_or_else(|| EngineError::NotAnImageEncoder {
            path: path.to_owned(),
        })?;
        Ok(ImageEncoder {
            config,
            weights,
            origin,
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

    /// The layers that are looked at, counted from the last, which is 1: Wan looks at the one
    /// before the last of CLIP, Redux at the last of SigLIP, and USO at some before it.
    fn layers(&self) -> Vec<usize> {
        match self.config.tower {
            Tower::Clip => vec![2],
            Tower::Siglip => {
                let deeper = DEEPER.into_iter().filter(|&n| n <= self.config.n_layers);
                std::iter::once(1).chain(deeper).collect()
            }
        }
    }

    /// Whether style models look at what it sees, rather than video models.
    pub fn is_for_styles(&self) -> bool {
        self.config.tower == Tower::Siglip
    }

    /// Whether it makes one vector of a whole picture.
    pub fn sees_whole(&self) -> bool {
        self.config.projection.is_some()
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
        let params = self.weights.params();
        let layers = self.layers();
        let outputs = clip_vision::outputs(&mut g, &params, &self.config, pixels, &layers, true);
        outputs
            .hidden_states
            .iter()
            .chain(&outputs.image_embeds)
            .for_each(|&n| g.output(n));
        Ok(Recorded {
            plan: fit(store.device(), &g.finish()?, 1)?,
            pixels,
            states: outputs.hidden_states,
            whole: outputs.image_embeds,
        })
    }
}

/// CLIP's or SigLIP's hidden states of a picture.
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
    let recorded = store.plan(&net, "states of an image".to_owned(), || {
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
    let pixels = normalized(image, encoder.config.image, square, encoder.config.tower);
    write(session, graph, recorded.pixels, &pixels)?;
    session.run(RunOptions {
        cancel: Some(control.cancel),
        ..RunOptions::default()
    })?;
    let states = recorded.states.iter();
    let states = states.map(|&node| read(session, graph, node));
    let mut states = states.collect::<Result<Vec<_>, _>>()?;
    let whole = recorded.whole.map(|node| read(session, graph, node));
    let whole = whole.transpose()?;
    lease.finish();
    Ok(ImageStates {
        values: states.remove(0),
        width: encoder.config.width,
        deeper: states,
        whole: whole.into_iter().collect(),
    })
}

/// `[side, side, 3]`: the picture scaled, cut, rounded to bytes, and in the tower's units.
fn normalized(image: &Image, side: usize, square: Square, tower: Tower) -> Vec<f32> {
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
    let (mean, deviation) = tower.mean_std();
    let unit = |v: f32, c: usize| {
        let byte = (v * 255.0).clamp(0.0, 255.0).round_ties_even();
        (byte / 255.0 - mean[c]) / deviation[c]
    };
    pixels
        .flat_map(|p| [0, 1, 2].map(|c| unit(p[c], c)))
        .collect()
}

#[cfg(test)]
mod tests;
