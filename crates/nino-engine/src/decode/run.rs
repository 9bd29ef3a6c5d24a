//! Runs a planned decode.

use super::tiles::{At, Blend};
use super::{DecodeOptions, DecodePlan, LatentSize, Part, Precision, plan_decode};
use crate::values::{read, write};
use crate::{Control, EngineError, Latent, Picture, VaeFile};
use nino_dtype::DType;
use nino_graph::{Device, RunOptions, Session, Weights};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How the pictures came about.
#[derive(Debug)]
pub struct Decoded {
    pub plan: DecodePlan,
    /// Bytes for weights and the largest session's activations, as allocated.
    pub measured_peak: usize,
    /// Decodes repeated in f32 because values were not finite.
    pub retries: usize,
    pub load_time: Duration,
    pub decode_time: Duration,
}

/// Takes each picture or frame as it is ready: batch element, frame, picture.
pub type OnPicture<'a> = dyn FnMut(usize, usize, Picture) -> Result<(), EngineError> + 'a;

/// Decodes every latent of the batch; pictures go out as they are ready, in order.
pub fn decode(
    device: &dyn Device,
    vae: &VaeFile,
    latent: &Latent,
    options: &DecodeOptions,
    control: &mut Control<'_>,
    on_picture: &mut OnPicture<'_>,
) -> Result<Decoded, EngineError> {
    let expected = vae.vae.latent_channels();
    if latent.channels != expected {
        return Err(EngineError::Channels {
            expected,
            found: latent.channels,
        });
    }
    if latent.frames > 1 && vae.vae.time_scale().is_none() {
        return Err(EngineError::VideoLatent {
            frames: latent.frames,
            vae: vae.name.clone(),
        });
    }
    let mut latent = latent.clone();
    if vae.vae.in_model_units() {
        let format = options
            .format
            .or_else(|| vae.assumed_format())
            .ok_or_else(|| EngineError::NoFormat {
                vae: vae.name.clone(),
            })?;
        if options.format.is_none() {
            control.note(format!(
                "{} takes scaled latents: assuming the {} latent format",
                vae.name, format.name
            ));
        }
        latent.scale_to_model(format);
    }
    let size = LatentSize {
        frames: latent.frames,
        height: latent.height,
        width: latent.width,
    };
    let plan = plan_decode(device, vae, size, options)?;
    let job = Job::load(device, vae, plan, control)?;
    match job.run(&latent, control, on_picture) {
        Err(EngineError::NotFinite { bad, all }) if job.plan.dtype != DType::F32 => {
            control.note(format!(
                "{bad} of {all} values were not finite in {}: decoding again in f32",
                job.plan.dtype
            ));
            drop(job);
            let again = DecodeOptions {
                precision: Precision::F32,
                ..*options
            };
            let plan = plan_decode(device, vae, size, &again)?;
            let job = Job::load(device, vae, plan, control)?;
            let ran = job.run(&latent, control, on_picture)?;
            Ok(job.finish(ran, 1))
        }
        ran => Ok(job.finish(ran?, 0)),
    }
}

/// A loaded plan.
struct Job<'a> {
    device: &'a dyn Device,
    vae: &'a VaeFile,
    plan: DecodePlan,
    weights: Weights,
    load_time: Duration,
}

#[derive(Clone, Copy)]
struct Ran {
    arena: usize,
    time: Duration,
}

/// Cached frames by layer, on their way from one graph to the next.
type Caches = BTreeMap<String, Vec<u8>>;

impl<'a> Job<'a> {
    fn load(
        device: &'a dyn Device,
        vae: &'a VaeFile,
        plan: DecodePlan,
        control: &mut Control<'_>,
    ) -> Result<Job<'a>, EngineError> {
        control.stage("load")?;
        let started = Instant::now();
        let plans: Vec<_> = plan.parts.iter().map(|p| &*p.plan).collect();
        let weights = device.load(&plans, vae.params()?)?;
        Ok(Job {
            device,
            vae,
            plan,
            weights,
            load_time: started.elapsed(),
        })
    }

    fn finish(self, ran: Ran, retries: usize) -> Decoded {
        Decoded {
            measured_peak: self.plan.weight_bytes() + ran.arena,
            plan: self.plan,
            retries,
            load_time: self.load_time,
            decode_time: ran.time,
        }
    }

    fn run(
        &self,
        latent: &Latent,
        control: &mut Control<'_>,
        on_picture: &mut OnPicture<'_>,
    ) -> Result<Ran, EngineError> {
        control.stage("decode")?;
        let started = Instant::now();
        let mut arena = 0;
        let chunks: usize = self.plan.parts.iter().map(|p| p.runs).sum();
        let total = latent.batch * self.plan.n_tiles * chunks;
        let mut done = 0;
        // A picture's one graph keeps its session from tile to tile; a clip's would be in each other's way.
        let mut kept = None;
        for b in 0..latent.batch {
            let mut clip = Clip::new(&self.plan);
            for (x, y) in self.plan.tile_starts(latent, self.vae.vae.scale()) {
                let mut caches = Caches::new();
                let mut at = 0;
                let mut frame = 0;
                for part in &self.plan.parts {
                    let mut session = match kept.take() {
                        Some(session) => session,
                        None => self.device.session(part.plan.clone(), &self.weights)?,
                    };
                    arena = arena.max(session.arena_bytes());
                    enter(&mut *session, part, &caches)?;
                    for run in 0..part.runs {
                        let tile = crop(latent, b, at, part, (x, y));
                        let values = step(&mut *session, part, &tile, control)?;
                        let last = run + 1 == part.runs;
                        leave(&mut *session, part, last, &mut caches)?;
                        at += part.frames;
                        frame = clip.add((x, y), frame, &values, b, on_picture)?;
                        done += 1;
                        control.progress(done, total)?;
                    }
                    if self.plan.parts.len() == 1 {
                        kept = Some(session);
                    }
                }
            }
            clip.finish(b, on_picture)?;
        }
        Ok(Ran {
            arena,
            time: started.elapsed(),
        })
    }
}

/// One run of a session: latent values in, picture values out.
fn step(
    session: &mut dyn Session,
    part: &Part,
    latent: &[f32],
    control: &mut Control<'_>,
) -> Result<Vec<f32>, EngineError> {
    let graph = part.plan.graph();
    write(session, graph, part.latent, latent)?;
    session.run(RunOptions {
        cancel: Some(control.cancel),
        profile: false,
    })?;
    let values = read(session, graph, part.pictures)?;
    match values.iter().filter(|v| !v.is_finite()).count() {
        0 => Ok(values),
        bad => Err(EngineError::NotFinite {
            bad,
            all: values.len(),
        }),
    }
}

/// Latent values of one tile and chunk, `[t, h, w, c]`.
fn crop(latent: &Latent, b: usize, frame: usize, part: &Part, (x, y): (usize, usize)) -> Vec<f32> {
    let shape = part.plan.graph().shape(part.latent);
    let (h, w) = (shape[shape.rank() - 3], shape[shape.rank() - 2]);
    let (item, c) = (latent.item(b), latent.channels);
    let rows = (frame..frame + part.frames)
        .flat_map(|t| (y..y + h).map(move |row| t * latent.height + row));
    rows.flat_map(|row| &item[(row * latent.width + x) * c..(row * latent.width + x + w) * c])
        .copied()
        .collect()
}

/// Gives a new session the frames the chunk before kept; zeros where it kept none.
fn enter(session: &mut dyn Session, part: &Part, caches: &Caches) -> Result<(), EngineError> {
    for cache in &part.caches {
        let Some(input) = cache.input else { continue };
        match caches.get(&cache.name) {
            Some(bytes) => session.write(input, bytes)?,
            None => session.write(input, &vec![0; part.plan.graph().bytes(input)])?,
        }
    }
    Ok(())
}

/// After a run: what is carried in place stays, the rest is moved; the last run hands everything on.
fn leave(
    session: &mut dyn Session,
    part: &Part,
    last: bool,
    caches: &mut Caches,
) -> Result<(), EngineError> {
    for cache in &part.caches {
        let in_place = cache
            .input
            .is_some_and(|input| part.plan.place(input) == part.plan.place(cache.output));
        if in_place && !last {
            continue;
        }
        let mut bytes = vec![0; part.plan.graph().bytes(cache.output)];
        session.read(cache.output, &mut bytes)?;
        match cache.input {
            Some(input) if !last => session.write(input, &bytes)?,
            _ => {
                caches.insert(cache.name.clone(), bytes);
            }
        }
    }
    Ok(())
}

/// Puts tiles together; without tiles, frames go straight out.
struct Clip<'a> {
    plan: &'a DecodePlan,
    /// One per frame, only with tiles.
    blends: Vec<Blend>,
    scale: usize,
}

impl<'a> Clip<'a> {
    fn new(plan: &'a DecodePlan) -> Clip<'a> {
        let blends = if plan.tiling.is_some() {
            plan.n_frames
        } else {
            0
        };
        let blends = (0..blends)
            .map(|_| Blend::new(plan.width, plan.height))
            .collect();
        let shape = |p: &Part| {
            (
                p.plan.graph().shape(p.latent),
                p.plan.graph().shape(p.pictures),
            )
        };
        let scale = plan.parts.first().map_or(1, |p| {
            let (latent, pictures) = shape(p);
            pictures[pictures.rank() - 2] / latent[latent.rank() - 2]
        });
        Clip {
            plan,
            blends,
            scale,
        }
    }

    /// Takes the frames of one run; gives the number of the next frame.
    fn add(
        &mut self,
        (x, y): (usize, usize),
        first: usize,
        values: &[f32],
        b: usize,
        on_picture: &mut OnPicture<'_>,
    ) -> Result<usize, EngineError> {
        let (width, height) = self.plan.tile_pixels(self.scale);
        let frames = values.chunks_exact(width * height * 3);
        let n = frames.len();
        for (i, frame) in frames.enumerate() {
            match self.plan.tiling {
                None => on_picture(b, first + i, Picture::from_unit(width, height, frame))?,
                Some(t) => {
                    let at = At {
                        x: x * self.scale,
                        y: y * self.scale,
                        width,
                        height,
                    };
                    self.blends[first + i].add(at, t.overlap, frame);
                }
            }
        }
        Ok(first + n)
    }

    fn finish(self, b: usize, on_picture: &mut OnPicture<'_>) -> Result<(), EngineError> {
        for (i, blend) in self.blends.into_iter().enumerate() {
            on_picture(b, i, blend.finish())?;
        }
        Ok(())
    }
}

impl DecodePlan {
    /// Latent x and y of every tile.
    fn tile_starts(&self, latent: &Latent, scale: usize) -> Vec<(usize, usize)> {
        let Some(t) = self.tiling else {
            return vec![(0, 0)];
        };
        let xs = t.starts(latent.width, scale);
        t.starts(latent.height, scale)
            .into_iter()
            .flat_map(|y| xs.iter().map(move |&x| (x, y)).collect::<Vec<_>>())
            .collect()
    }

    fn tile_pixels(&self, scale: usize) -> (usize, usize) {
        let part = &self.parts[0];
        let shape = part.plan.graph().shape(part.latent);
        (
            shape[shape.rank() - 2] * scale,
            shape[shape.rank() - 3] * scale,
        )
    }
}
