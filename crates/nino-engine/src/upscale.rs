//! Pictures made larger by a network. ComfyUI's `UpscaleModelLoader` and `ImageUpscaleWithModel`.
//!
//! A piece of the network (see [`nino_models::upscaler`]) runs on the whole picture where that fits
//! the memory, and else on bands of its rows that overlap by as much as a row can see (`bands.rs`).
//! So no seams are blended, and less memory changes nothing but the last bits of floats: kernels
//! that transform squares of pixels round with the zeros beyond a cut in them.

mod bands;
mod plan;
mod sheet;

use crate::decode::part::shares;
use crate::model::identity::{NetId, Origin, Part};
use crate::store::Network as Opened;
use crate::values::{read, write};
use crate::{Control, EngineError, Event, Image, Precision, Stage, Store};
use nino_dtype::DType;
use nino_graph::RunOptions;
use nino_models::upscaler::Piece;
use nino_models::{FileParams, Network, Upscaler};
use nino_weights::names::{self, Net};
use plan::Planned;
use sheet::Sheet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An upscaler out of a file.
#[derive(Clone)]
pub struct UpscaleModel {
    /// The name of its file.
    pub name: String,
    network: Upscaler,
    weights: FileParams,
    origin: Origin,
}

/// What the user asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpscaleOptions {
    pub precision: Precision,
    /// Bytes of host memory that the caller holds meanwhile, such as other pictures of a batch.
    pub beside: usize,
}

/// A larger picture, and how it came about.
#[derive(Clone, Debug)]
pub struct Upscaled {
    /// Its values are in 0..1.
    pub image: Image,
    /// Storage of activations.
    pub dtype: DType,
    /// Bands of rows that each piece of the network was run on.
    pub bands: Vec<usize>,
    /// The most bytes for weights and activations at once, as allocated.
    pub measured_peak: usize,
    pub load_time: Duration,
    pub run_time: Duration,
}

/// Pixels along the longest side of a result.
const MOST: usize = 65_536;

impl UpscaleModel {
    /// Reads the upscaler of a file.
    pub fn open(path: &Path) -> Result<UpscaleModel, EngineError> {
        let reader = Arc::new(nino_weights::open(path)?);
        let (mut components, _) = names::canonical(reader.index())?;
        components.retain(|c| matches!(c.net, Net::Rrdb | Net::Srvgg));
        // Training keeps an average of the weights beside them, which is the one to use.
        components.sort_by_key(|c| !c.prefix.contains("ema"));
        for component in components {
            let opened = nino_models::open(&reader, component)?;
            if let Some(nino_models::Opened {
                network: Network::Upscaler(network),
                params,
                ..
            }) = opened
            {
                let name = path.file_name().unwrap_or(path.as_os_str());
                return Ok(UpscaleModel {
                    name: name.to_string_lossy().into_owned(),
                    network,
                    weights: params,
                    origin: Origin::files(&reader.index().files),
                });
            }
        }
        Err(EngineError::NotAnUpscaler {
            path: path.to_owned(),
        })
    }

    /// How many times wider and higher it makes a picture.
    pub fn scale(&self) -> usize {
        self.network.scale()
    }

    fn id(&self) -> NetId {
        NetId::plain(self.origin.clone(), Part::Upscaler)
    }

    fn check_size(&self, image: &Image) -> Result<(), EngineError> {
        let scale = self.scale();
        let fits = |side: usize| side > 0 && side.saturating_mul(scale) <= MOST;
        if fits(image.width) && fits(image.height) {
            return Ok(());
        }
        Err(EngineError::UpscaledSize {
            width: image.width,
            height: image.height,
            scale,
            most: MOST,
        })
    }
}

/// Makes a picture larger, by as much as the model does.
pub fn upscale(
    store: &Store,
    model: &UpscaleModel,
    image: &Image,
    options: &UpscaleOptions,
    control: &mut Control<'_>,
) -> Result<Upscaled, EngineError> {
    model.check_size(image)?;
    match upscale_as(store, model, image, options, control) {
        Err(EngineError::NotFinite { dtype }) if dtype != DType::F32 => {
            control.note(format!(
                "values were not finite in {dtype}: the image is computed again in f32"
            ));
            let options = UpscaleOptions {
                precision: Precision::F32,
                ..*options
            };
            upscale_as(store, model, image, &options, control)
        }
        other => other,
    }
}

fn upscale_as(
    store: &Store,
    model: &UpscaleModel,
    image: &Image,
    options: &UpscaleOptions,
    control: &mut Control<'_>,
) -> Result<Upscaled, EngineError> {
    control.stage(Stage::Upscale)?;
    let mut sheet = Sheet::unshuffled(image, model.network.unshuffle());
    let pieces = plan::pieces(store, model, (sheet.width, sheet.height), options)?;
    let total = pieces.iter().map(|p| p.bands.len()).sum();
    let mut run = Run {
        store,
        model,
        control,
        done: 0,
        total,
        made: Upscaled {
            image: Image::default(),
            dtype: options.precision.dtype(store.device()),
            bands: pieces.iter().map(|p| p.bands.len()).collect(),
            measured_peak: 0,
            load_time: Duration::ZERO,
            run_time: Duration::ZERO,
        },
    };
    for piece in &pieces {
        sheet = run.piece(piece, &sheet)?;
    }
    let (width, height) = (image.width * model.scale(), image.height * model.scale());
    Ok(Upscaled {
        image: sheet.into_image(width, height),
        ..run.made
    })
}

/// The pieces of one picture, one after the other.
struct Run<'a, 'c> {
    store: &'a Store,
    model: &'a UpscaleModel,
    control: &'a mut Control<'c>,
    /// Bands that are done, of all of all pieces.
    done: usize,
    total: usize,
    made: Upscaled,
}

impl Run<'_, '_> {
    /// Runs one piece on all of its bands.
    fn piece(&mut self, piece: &Planned, sheet: &Sheet) -> Result<Sheet, EngineError> {
        let weights = &self.model.weights;
        let mut lease = self.store.open(&Opened {
            stage: Stage::Upscale,
            net: self.model.id(),
            plans: std::slice::from_ref(&piece.plan),
            beside: piece.beside,
            source: &|| Ok(Arc::new(weights.clone())),
        })?;
        self.made.load_time += lease.load_time;
        let started = Instant::now();
        let graph = piece.plan.graph();
        let shares = shares(&piece.plan);
        let mut out = Sheet::empty(sheet, &piece.shape);
        let session = lease.session();
        for band in piece.bands.iter() {
            write(session, graph, piece.input, sheet.rows(&band.rows))?;
            let tell = std::cell::RefCell::new(&mut *self.control.on_event);
            let on_step = |done: usize| {
                let share = done.checked_sub(1).and_then(|i| shares.get(i));
                (tell.borrow_mut())(Event::Within(share.copied().unwrap_or(0.0)));
            };
            session.run(RunOptions {
                cancel: Some(self.control.cancel),
                on_step: Some(&on_step),
                ..RunOptions::default()
            })?;
            let values = read(session, graph, piece.output)?;
            if !values.iter().all(|v| v.is_finite()) {
                let dtype = graph.dtype(piece.output);
                return Err(EngineError::NotFinite { dtype });
            }
            out.take(&values, &band, piece.shape.scale);
            self.done += 1;
            self.control.progress(self.done, self.total)?;
        }
        self.made.run_time += started.elapsed();
        let peak = piece.plan.device_weight_bytes() + lease.arena_bytes();
        self.made.measured_peak = self.made.measured_peak.max(peak);
        lease.finish();
        Ok(out)
    }
}

impl UpscaleModel {
    fn pieces(&self) -> &'static [Piece] {
        self.network.pieces()
    }
}

#[cfg(test)]
mod tests;
