//! From a latent to pictures: checks, units, plan, run, and what to do when a run fails.

use super::plan::{Rest, plan};
use super::session::Cursor;
use super::{Band, DecodeOptions, DecodePlan, Decoder, LatentSize, OnBand, Precision, plan_decode};
use crate::capture::{self, Pictures};
use crate::units::to_decoder;
use crate::{Control, EngineError, Image, Latent, Picture, Store, VaeFile};
use nino_dtype::DType;
use nino_graph::{ExecError, PlanError};
use std::time::{Duration, Instant};

/// How the pictures came about.
#[derive(Debug)]
pub struct Decoded {
    pub plan: DecodePlan,
    /// Bytes for weights and the largest session's activations, as allocated.
    pub measured_peak: usize,
    /// Pictures, tiles or clips made again in f32 because values were not finite.
    pub retries: usize,
    /// Times the device was lost or its memory ran out, and the decode went on.
    pub recoveries: usize,
    pub load_time: Duration,
    pub decode_time: Duration,
}

/// Takes each picture or frame as it is ready: batch element, frame, picture.
pub type OnPicture<'a> = dyn FnMut(usize, usize, Picture) -> Result<(), EngineError> + 'a;

/// Decodes every latent of the batch; pictures go out as they are ready, in order.
pub fn decode(
    store: &Store,
    vae: &VaeFile,
    latent: &Latent,
    options: &DecodeOptions,
    control: &mut Control<'_>,
    on_picture: &mut OnPicture<'_>,
) -> Result<Decoded, EngineError> {
    let mut picture = Picture::default();
    let mut on_band = |band: Band<'_>| {
        if band.y == 0 {
            picture = Picture::new(band.width, band.height);
        }
        picture.set_rows(band.y, band.values);
        if band.y * band.width * 3 + band.values.len() < picture.rgb.len() {
            return Ok(());
        }
        on_picture(band.item, band.frame, std::mem::take(&mut picture))
    };
    decode_bands(store, vae, latent, options, control, &mut on_band)
}

/// Goes through a decode of so many latents on a device that computes nothing.
pub(crate) fn rehearse(
    store: &Store,
    vae: &VaeFile,
    latents: (LatentSize, usize),
    options: &DecodeOptions,
    control: &mut Control<'_>,
) -> Result<(), EngineError> {
    let (size, batch) = latents;
    let plan = plan_decode(store, vae, size, options)?;
    let mut decoder = Decoder::open(store, vae, plan, control)?;
    decoder.rehearse(batch, control)?;
    decoder.finish();
    Ok(())
}

/// Decodes every latent of the batch to floats, all of them in memory. ComfyUI's `VAEDecode`.
pub fn decode_images(
    store: &Store,
    vae: &VaeFile,
    latent: &Latent,
    options: &DecodeOptions,
    control: &mut Control<'_>,
) -> Result<(Vec<Image>, Decoded), EngineError> {
    let mut images: Vec<Image> = Vec::new();
    // The pictures that are done are held until the last one is.
    let frames = vae.kind.n_frames(latent.frames) * latent.batch;
    let pixels = latent.height * latent.width * vae.kind.scale().pow(2);
    let options = DecodeOptions {
        beside: options.beside + frames * pixels * 3 * size_of::<f32>(),
        ..*options
    };
    let mut on_band = |band: Band<'_>| {
        if band.y == 0 {
            images.push(Image {
                width: band.width,
                height: band.height,
                values: Vec::with_capacity(band.width * band.height * 3),
            });
        }
        let image = images.last_mut();
        image.into_iter().for_each(|i| i.values.extend(band.values));
        Ok(())
    };
    let decoded = decode_bands(store, vae, latent, &options, control, &mut on_band)?;
    Ok((images, decoded))
}

/// Decodes every latent of the batch; rows go out as they are ready, in order. They are captured
/// where that is asked for.
fn decode_bands(
    store: &Store,
    vae: &VaeFile,
    latent: &Latent,
    options: &DecodeOptions,
    control: &mut Control<'_>,
    on_band: &mut OnBand<'_>,
) -> Result<Decoded, EngineError> {
    if !capture::is_on(store) {
        return decode_all(store, vae, latent, options, control, on_band);
    }
    let mut pictures = Pictures::default();
    let mut kept = |band: Band<'_>| {
        (pictures.width, pictures.height) = (band.width, band.height);
        pictures.values.extend(band.values);
        on_band(band)
    };
    let decoded = decode_all(store, vae, latent, options, control, &mut kept)?;
    let format = options.format.or(latent.format).map(|f| f.name);
    capture::decode(vae, latent, format, decoded.plan.dtype, pictures);
    Ok(decoded)
}

fn decode_all(
    store: &Store,
    vae: &VaeFile,
    latent: &Latent,
    options: &DecodeOptions,
    control: &mut Control<'_>,
    on_band: &mut OnBand<'_>,
) -> Result<Decoded, EngineError> {
    let latent = to_decoder(vae, latent, options.format, control)?;
    let mut job = Job {
        store,
        vae,
        latent: &latent,
        options: *options,
        at: Cursor::with_marks(store.device().backup()),
    };
    let (mut retries, mut recoveries) = (0, 0);
    let started = Instant::now();
    let mut plan = job.plan()?;
    loop {
        let mut decoder = match Decoder::open(store, vae, plan.clone(), control) {
            Ok(decoder) => decoder,
            Err(error) => {
                recoveries += 1;
                plan = job.recover(error, &plan, recoveries, control)?;
                continue;
            }
        };
        match decoder.resume(&latent, &mut job.at, control, on_band) {
            Ok(_) if job.at.output.item < latent.batch => {
                drop(decoder);
                plan = job.plan()?;
            }
            Ok(_) => {
                let decoded = Decoded {
                    measured_peak: decoder.measured_peak(),
                    load_time: decoder.load_time,
                    decode_time: started.elapsed().saturating_sub(decoder.load_time),
                    plan: decoder.plan.clone(),
                    retries,
                    recoveries,
                };
                decoder.finish();
                return Ok(decoded);
            }
            Err(EngineError::NotFinite { dtype }) if dtype != DType::F32 => {
                control.note(format!(
                    "values were not finite in {dtype}: this {} and what follows are computed \
                     again in f32",
                    decoder.plan.stage()
                ));
                retries += 1;
                drop(decoder);
                job.at.mark = None;
                job.options.precision = Precision::F32;
                plan = job.plan()?;
            }
            Err(error) => {
                recoveries += 1;
                // What the lost device held goes before another is opened.
                drop(decoder);
                plan = job.recover(error, &plan, recoveries, control)?;
            }
        }
    }
}

/// How often a decode or an encode is taken up again.
pub(crate) const MAX_RECOVERIES: usize = 4;

/// What stays the same while plans and devices come and go.
struct Job<'a> {
    store: &'a Store,
    vae: &'a VaeFile,
    latent: &'a Latent,
    options: DecodeOptions,
    at: Cursor,
}

impl Job<'_> {
    fn plan(&self) -> Result<DecodePlan, EngineError> {
        let rest = Rest {
            size: self.latent.size(),
            behind: self.at.latent_frames_behind(),
        };
        if rest.behind == 0 {
            return plan_decode(self.store, self.vae, rest.size, &self.options);
        }
        plan(self.store.device(), self.vae, rest, &self.options)
    }

    /// After memory ran out or the device was lost: the device anew and a smaller plan. Any other
    /// error is given back.
    fn recover(
        &mut self,
        error: EngineError,
        failed: &DecodePlan,
        recoveries: usize,
        control: &mut Control<'_>,
    ) -> Result<DecodePlan, EngineError> {
        let (what, free) = match &error {
            _ if recoveries > MAX_RECOVERIES => return Err(error),
            EngineError::Exec(ExecError::DeviceLost { .. }) => {
                if let Err(why) = self.store.reopen() {
                    tracing::warn!("{why}");
                    return Err(error);
                }
                ("the device was opened again", None)
            }
            EngineError::Exec(ExecError::OutOfMemory { free, .. }) => {
                ("less memory is free than planned", *free)
            }
            _ => return Err(error),
        };
        let lost = matches!(error, EngineError::Exec(ExecError::DeviceLost { .. }));
        let before = self.options.budget;
        let less = failed.peak_bytes() / 4 * 3;
        self.options.budget = Some(free.map_or(less, |free| less.min(free as usize)));
        let mut plan = self.plan();
        if let Err(EngineError::Plan(PlanError::OverBudget {
            need,
            outside_plans,
            ..
        })) = plan
        {
            // Nothing that small is possible. What failed may still do on a device opened anew;
            // where memory ran out, the least there is may.
            self.options.budget = if lost {
                before
            } else {
                Some(need - outside_plans)
            };
            plan = self.plan();
        }
        let Ok(plan) = plan else { return Err(error) };
        if plan.peak_bytes() >= failed.peak_bytes() && !lost {
            return Err(error);
        }
        control.note(format!(
            "{error}; {what}: continuing with a plan of {} MiB, because {} MiB failed",
            plan.peak_bytes() >> 20,
            failed.peak_bytes() >> 20
        ));
        Ok(plan)
    }
}
