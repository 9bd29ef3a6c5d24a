//! A whole clip in one call: text, what is given, each expert in turn, and the decode.

use super::given::{ClipSize, Given};
use super::journal::{Journal, OfExpert};
use super::sound::Sounding;
use crate::ahead::ReadAhead;
use crate::decode::{self, DecodeOptions, Decoded, OnPicture, Precision, decode, plan_decode};
use crate::model::identity::NetId;
use crate::sample::{self, Noise, Preview, Remember, SampleRequest, sample};
use crate::text::encode_beside;
use crate::vision::{ImageEncoder, Square, encode_for_clip};
use crate::{
    Audio, AudioEncoder, CameraMove, CameraPath, ClipHints, Conditioning, Control, DiffusionModel,
    EngineError, Event, Family, Follows, GeneratePlan, Image, Latent, Lens, Mask, Store,
    TextEncoders, VaeFile, encode_audio, plan_work,
};
use nino_sample::{Options, Sampler, Scheduler, Seed};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The parts that a clip is made with.
#[derive(Clone)]
pub struct VideoModel {
    pub high: DiffusionModel,
    /// The expert for low noise, which takes over at [`VideoRequest::switch`]; one model does all
    /// where there is none.
    pub low: Option<DiffusionModel>,
    pub text: TextEncoders,
    pub vae: Arc<VaeFile>,
    /// For models that look at pictures as CLIP sees them.
    pub vision: Option<ImageEncoder>,
    /// For models that take audio.
    pub hearing: Option<AudioEncoder>,
}

/// A clip to be made.
#[derive(Clone)]
pub struct VideoRequest {
    pub prompt: String,
    pub negative: String,
    pub seed: Seed,
    pub steps: usize,
    pub cfg: f32,
    pub sampler: &'static Sampler,
    pub scheduler: Scheduler,
    /// The step at which the second expert takes over.
    pub switch: usize,
    pub size: ClipSize,
    /// The first frame; of a model that takes audio, a picture of who makes the sound.
    pub start: Option<Image>,
    /// The last frame.
    pub end: Option<Image>,
    /// For VACE and for models that are trained with a clip to follow.
    pub follow: Option<Follow>,
    /// How the camera moves and how fast, for models that were trained with that.
    pub camera: Option<(CameraMove, f64)>,
    /// The sound that the clip is made to.
    pub audio: Option<Arc<Audio>>,
    pub precision: Precision,
    pub preview: Option<Preview>,
    pub decode: DecodeOptions,
}

/// A clip to follow: poses, edges, depth, or frames to be changed.
#[derive(Clone)]
pub struct Follow {
    pub frames: Vec<Image>,
    /// Of VACE: where each frame is to be changed, all of it where there is no mask.
    pub masks: Vec<Mask>,
    /// Of VACE: a picture of what the clip shows.
    pub reference: Option<Image>,
    /// Of VACE.
    pub strength: f32,
}

/// A clip, and how it came about.
#[derive(Debug)]
pub struct MadeVideo {
    pub latent: Latent,
    pub decoded: Decoded,
    /// The most weights and activations that were on the device at once.
    pub peak_bytes: usize,
    pub load_time: Duration,
    pub sample_time: Duration,
}

/// What the experts are shown, and where sampling starts.
struct Shown {
    positive: Conditioning,
    negative: Conditioning,
    latent: Latent,
    frame_mask: Vec<f32>,
    /// Latent frames at the beginning that are no part of the clip.
    trim: usize,
}

impl Shown {
    /// Bytes of the frames that the experts see and of the latent that they start from.
    fn bytes(&self) -> usize {
        let seen = self.positive.clip.frames.as_ref();
        let masks = seen.into_iter().flat_map(|seen| &seen.mask);
        let seen = seen.into_iter().map(|seen| &seen.latent).chain(masks);
        let followed = self.positive.clip.controls.iter();
        let followed = followed.flat_map(|f| [&f.frames, &f.mask]);
        let all = seen.chain(followed).chain([&self.latent]);
        all.map(|latent| size_of_val(&latent.values[..])).sum()
    }
}

impl VideoModel {
    /// All that decides the values of its weights, as a text: its files as they are now, the LoRAs
    /// on them, how they are held.
    pub fn identity(&self) -> String {
        let experts: Vec<NetId> = self.experts().map(DiffusionModel::id).collect();
        let vision = self.vision.as_ref().map(ImageEncoder::id);
        let hearing = self.hearing.as_ref().map(AudioEncoder::id);
        let (text, vae) = (self.text.ids(), self.vae.id());
        format!("{experts:?} {text:?} {vae:?} {vision:?} {hearing:?}")
    }

    /// The experts in the order they work.
    fn experts(&self) -> impl Iterator<Item = &DiffusionModel> {
        std::iter::once(&self.high).chain(&self.low)
    }
}

impl VideoRequest {
    /// What cannot be meant, before anything is loaded.
    fn check(&self, model: &VideoModel) -> Result<(), EngineError> {
        let scale = model.vae.kind.scale() * 2;
        let ClipSize { width, height, .. } = self.size;
        for (what, found) in [("width", width), ("height", height)] {
            if found == 0 || !found.is_multiple_of(scale) {
                return Err(EngineError::Vae(nino_models::VaeError::Size {
                    what,
                    found,
                    multiple: scale,
                }));
            }
        }
        for expert in model.experts() {
            expert.check_vae(&model.vae)?;
            let hears = expert.net().wants().audio.is_some();
            if self.audio.is_some() && !hears {
                return Err(EngineError::NoAudioInput {
                    model: expert.name.clone(),
                });
            }
            if self.audio.is_some() && model.hearing.is_none() {
                return Err(EngineError::NoAudioEncoder {
                    model: expert.name.clone(),
                });
            }
            let takes = match expert.family {
                Family::Wan5B => self.end.is_none(),
                _ if hears => self.end.is_none(),
                _ => expert.sees_frames() || (self.start.is_none() && self.end.is_none()),
            };
            if self.follow.is_some() && expert.follows().is_none() {
                return Err(EngineError::NoClipInput {
                    model: expert.name.clone(),
                });
            }
            if self.camera.is_some() && expert.net().wants().camera.is_none() {
                return Err(EngineError::NoCameraInput {
                    model: expert.name.clone(),
                });
            }
            if !takes {
                return Err(EngineError::NoPictureInput {
                    model: expert.name.clone(),
                });
            }
        }
        Ok(())
    }

    /// The noise levels of an expert.
    fn levels(&self, model: &VideoModel, expert: usize) -> Result<Vec<f32>, EngineError> {
        let network = if expert == 0 {
            Some(&model.high)
        } else {
            model.low.as_ref()
        };
        let network = network.unwrap_or(&model.high);
        let all = sample::sigmas(network, self.sampler, self.scheduler, self.steps, 1.0)?;
        let last = all.len().saturating_sub(1);
        let switch = match model.low {
            Some(_) => self.switch.min(last),
            None => last,
        };
        let part: RangeInclusive<usize> = if expert == 0 {
            0..=switch
        } else {
            switch..=last
        };
        // A part without a step has nothing to do.
        Ok(if part.start() == part.end() {
            Vec::new()
        } else {
            all[part].to_vec()
        })
    }

    fn run<'a>(
        &'a self,
        shown: &'a Shown,
        latent: &'a Latent,
        expert: usize,
        sigmas: &'a [f32],
        memory: Option<&'a dyn Remember>,
    ) -> SampleRequest<'a> {
        static USUAL: std::sync::LazyLock<Options> = std::sync::LazyLock::new(Options::default);
        SampleRequest {
            positive: std::slice::from_ref(&shown.positive),
            negative: std::slice::from_ref(&shown.negative),
            third: None,
            latent,
            noise: if expert == 0 {
                Noise::Seeded
            } else {
                Noise::None
            },
            mask: None,
            frame_mask: &shown.frame_mask,
            sigmas,
            sampler: self.sampler,
            options: &USUAL,
            seed: self.seed,
            cfg: self.cfg,
            precision: self.precision,
            preview: self.preview.as_ref(),
            beside: self.held_bytes() + shown.bytes(),
            memory,
        }
    }

    fn decode_options(&self, model: &VideoModel) -> DecodeOptions {
        DecodeOptions {
            format: model.high.latent_format(),
            beside: self.decode.beside + self.held_bytes(),
            ..self.decode
        }
    }

    /// Bytes of the pictures that are given, which are held until the clip is done.
    fn held_bytes(&self) -> usize {
        let given = self.start.iter().chain(&self.end);
        let audio = self.audio.as_ref();
        let audio = audio.map_or(0, |audio| size_of_val(&audio.samples[..]));
        let follow = self.follow.as_ref();
        let masks = follow.into_iter().flat_map(|f| &f.masks);
        let masks: usize = masks.map(|mask| size_of_val(&mask.values[..])).sum();
        let follow = follow
            .into_iter()
            .flat_map(|f| f.frames.iter().chain(&f.reference));
        let pictures = given.chain(follow);
        masks
            + audio
            + pictures
                .map(|image| size_of_val(&image.values[..]))
                .sum::<usize>()
    }
}

/// Makes a clip; its frames are given as they are decoded. With a `journal`, predictions that it
/// has are not computed again.
pub fn make_video(
    store: &Store,
    model: &VideoModel,
    request: &VideoRequest,
    journal: Option<&Journal>,
    control: &mut Control<'_>,
    on_picture: &mut OnPicture<'_>,
) -> Result<MadeVideo, EngineError> {
    store.reset_peak();
    request.check(model)?;
    let options = request.decode_options(model);
    plan_decode(store, &model.vae, request.size.latent(&model.vae), &options)?;
    let shown = show(store, model, request, control)?;
    let (mut load_time, mut sample_time) = (Duration::ZERO, Duration::ZERO);
    let mut latent = shown.latent.clone();
    let total = model.experts().count();
    for (index, network) in model.experts().enumerate() {
        let known = journal.map(|j| j.finished(index, &latent)).transpose()?;
        if let Some(known) = known.flatten() {
            latent = known;
            continue;
        }
        if total > 1 {
            (control.on_event)(Event::Pass { index, total });
        }
        let sigmas = request.levels(model, index)?;
        let memory = journal.map(|journal| OfExpert {
            journal,
            expert: index,
        });
        let memory = memory.as_ref().map(|m| -> &dyn Remember { m });
        let run = request.run(&shown, &latent, index, &sigmas, memory);
        let next = model.low.as_ref().filter(|_| index == 0);
        let next = next.map_or_else(Vec::new, DiffusionModel::paths);
        let ahead = ReadAhead::begin(&network.paths(), &next);
        let sampled = sample(store, network, &run, control)?;
        drop(ahead);
        load_time += sampled.load_time;
        sample_time += sampled.sample_time;
        latent = sampled.latent;
        if let Some(journal) = journal {
            journal.finish(index, &latent)?;
        }
    }
    latent = latent.without_first(shown.trim);
    let decoded = decode(store, &model.vae, &latent, &options, control, on_picture)?;
    Ok(MadeVideo {
        latent,
        decoded,
        peak_bytes: store.usage().peak_bytes,
        load_time,
        sample_time,
    })
}

/// Plans a whole clip for a store: text encoder, pictures, frames that are given, each expert,
/// decode.
pub fn plan_video(
    store: &Store,
    model: &VideoModel,
    request: &VideoRequest,
) -> Result<GeneratePlan, EngineError> {
    plan_work(store, |store| {
        let never = AtomicBool::new(false);
        let mut control = Control {
            cancel: &never,
            on_event: &mut |_| {},
        };
        rehearse(store, model, request, &mut control)
    })
}

/// Goes through a request on a device that computes nothing.
fn rehearse(
    store: &Store,
    model: &VideoModel,
    request: &VideoRequest,
    control: &mut Control<'_>,
) -> Result<(), EngineError> {
    request.check(model)?;
    let options = request.decode_options(model);
    let size = request.size.latent(&model.vae);
    plan_decode(store, &model.vae, size, &options)?;
    let shown = show(store, model, request, control)?;
    let latent = shown.latent.without_values();
    for (i, network) in model.experts().enumerate() {
        let sigmas = request.levels(model, i)?;
        let run = request.run(&shown, &latent, i, &sigmas, None);
        sample::rehearse(store, network, &run, control)?;
    }
    decode::rehearse(store, &model.vae, (size, 1), &options, control)
}

/// Encodes the prompts and what the experts are shown.
fn show(
    store: &Store,
    model: &VideoModel,
    request: &VideoRequest,
    control: &mut Control<'_>,
) -> Result<Shown, EngineError> {
    let prompts = [&request.prompt[..], &request.negative];
    let held = request.held_bytes();
    let text = model.text.with_precision(request.precision);
    let sides = encode_beside(store, &text, &prompts, &[], held, control)?;
    let mut sides = sides.into_iter();
    let positive = sides.next().unwrap_or_default();
    let negative = sides.next().unwrap_or_default();
    let mut clip = ClipHints::default();
    let given: Vec<&Image> = request.start.iter().chain(&request.end).collect();
    let looks = model.experts().any(|e| e.net().wants().image.is_some());
    if let Some(vision) = model.vision.as_ref().filter(|_| looks && !given.is_empty()) {
        let mut states = None;
        for image in &given {
            let seen = encode_for_clip(store, vision, image, Square::Cut, control)?;
            states = Some(match states {
                None => seen,
                Some(before) => crate::ImageStates::followed_by(&before, &seen),
            });
        }
        clip.image = states.map(Arc::new);
    }
    let frames_of = Given {
        store,
        vae: &model.vae,
        size: request.size,
        precision: request.precision,
        beside: held,
    };
    if model.high.net().wants().audio.is_some() {
        return sounded(
            store,
            model,
            request,
            &frames_of,
            [positive, negative],
            control,
        );
    }
    let (start, end) = (request.start.as_slice(), request.end.as_slice());
    let mut size = request.size.latent(&model.vae);
    let mut trim = 0;
    match (&request.follow, model.high.follows()) {
        (Some(follow), Some(Follows::Vace)) => {
            let (frames, masks) = (&follow.frames, &follow.masks);
            let reference = follow.reference.as_ref();
            let (followed, before) =
                frames_of.followed(frames, masks, reference, follow.strength, control)?;
            clip.controls.push(Arc::new(followed));
            trim = before;
        }
        (Some(follow), Some(Follows::Frames { masked })) => {
            let seen = frames_of.controlled(&follow.frames, start, masked, control)?;
            clip.frames = Some(Arc::new(seen));
        }
        _ => {}
    }
    clip.camera = request.camera.map(|(motion, speed)| {
        Arc::new(CameraPath {
            motion,
            size: request.size,
            speed,
            lens: Lens::default(),
        })
    });
    size.frames += trim;
    let channels = model.high.net().wants().channels;
    let mut latent = Latent::empty(1, channels, size);
    latent.is_video = true;
    let mut frame_mask = Vec::new();
    // A clip to follow has the frames that are given beside it.
    if clip.frames.is_none() && !given.is_empty() {
        if model.high.family == Family::Wan5B {
            (latent, frame_mask) = frames_of.fixed_frames(start, control)?;
        } else {
            let follows_camera = model.high.net().wants().camera.is_some();
            clip.frames = Some(Arc::new(if end.is_empty() && follows_camera {
                frames_of.before_camera(start, control)?
            } else if end.is_empty() {
                frames_of.first_frames(start, control)?
            } else {
                frames_of.first_and_last(start, end, control)?
            }));
        }
    }
    Ok(Shown {
        positive: positive.with_clip(clip.clone()),
        negative: negative.with_clip(clip),
        latent,
        frame_mask,
        trim,
    })
}

/// What a model is shown that takes audio.
fn sounded(
    store: &Store,
    model: &VideoModel,
    request: &VideoRequest,
    given: &Given<'_>,
    [positive, negative]: [Conditioning; 2],
    control: &mut Control<'_>,
) -> Result<Shown, EngineError> {
    let heard = match (&request.audio, &model.hearing) {
        (Some(audio), Some(encoder)) => Some(encode_audio(store, encoder, audio, control)?),
        _ => None,
    };
    let sounding = Sounding {
        audio: heard.as_ref(),
        reference: request.start.as_ref(),
        ..Sounding::default()
    };
    let sounded = given.sounded(&sounding, control)?;
    let channels = model.high.net().wants().channels;
    let latent = Latent::empty(1, channels, request.size.latent(&model.vae));
    Ok(Shown {
        positive: sounded.given_to(&positive, &sounded.positive),
        negative: sounded.given_to(&negative, &sounded.negative),
        latent: Latent {
            is_video: true,
            ..latent
        },
        frame_mask: Vec::new(),
        trim: 0,
    })
}
