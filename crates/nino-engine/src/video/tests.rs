//! Small Wan models against ComfyUI: conditioning, then whole paths, with what ComfyUI's nodes show
//! them.

mod files;
mod sound;
mod wide;

use super::{ClipSize, Given, Journal, VideoModel, VideoRequest, make_video, plan_video};
use crate::generate::tests::comfy::{NEGATIVE, PROMPT, control, planes, store};
use crate::tests::{lists, made};
use crate::{
    CacheWay, CameraMove, CameraPath, Checkpoint, ClipHints, Conditioning, Control, DiffusionModel,
    EngineError, Event, Family, Image, ImageStates, Latent, LatentSize, Lens, Mask, ModelSampling,
    Noise, Pace, Precision, SampleRequest, Sampled, SkipWay, Spread, StepReuse, Store, TrackWay,
    Tracks, encode_texts, sample, sigmas,
};
use nino_cpu::{Cpu, CpuOptions};
use nino_sample::{Correction, Options, Rng, Sampler, Scheduler, Seed};
use nino_weights::TensorReader;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SIZE: ClipSize = ClipSize {
    width: 48,
    height: 32,
    frames: 9,
};

struct Case {
    model: Checkpoint,
    golden: TensorReader,
    /// The small models' golden, which has the pictures.
    pictures: TensorReader,
    /// That of models that nodes have changed, and of tracks.
    patches: TensorReader,
    /// That of models that reuse steps.
    step_cache: TensorReader,
    store: Store,
    folder: tempfile::TempDir,
    /// The prompt and the negative prompt.
    sides: [Conditioning; 2],
}

/// What a path is told beside its model.
struct Told<'a> {
    sides: [Conditioning; 2],
    latent: Latent,
    noise: Noise<'a>,
    frame_mask: Vec<f32>,
    sampler: &'a str,
    scheduler: &'a str,
    cfg: f32,
    steps: usize,
    /// The steps that are run.
    window: std::ops::Range<usize>,
}

impl Case {
    fn new() -> Case {
        Case::of("tiny_wan", &made::list("tiny_wan"))
    }

    /// The case of a golden, with its model's list of tensors.
    fn of(name: &str, list: &str) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{name}.safetensors"));
        made::write_list(list, &path);
        let vocabulary = made::goldens().join("../text/small/spiece.model");
        std::fs::copy(vocabulary, folder.path().join("spiece.model")).unwrap();
        let model = Checkpoint::open(&path, None).unwrap();
        assert_eq!(model.family(), Family::Wan);
        let store = store();
        let open = |name: &str| {
            let path = made::goldens().join(format!("{name}.safetensors"));
            nino_weights::open(path).unwrap()
        };
        let (mut sides, _) =
            control(|c| encode_texts(&store, &model.text, &[PROMPT, NEGATIVE], &[], c));
        let negative = sides.pop().unwrap();
        Case {
            sides: [sides.pop().unwrap(), negative],
            golden: open(name),
            pictures: open("tiny_wan"),
            patches: open("patches"),
            step_cache: open("step_cache"),
            model,
            store,
            folder,
        }
    }

    /// A diffusion model alone in a file.
    fn other(&self, name: &str) -> DiffusionModel {
        self.other_of(name, &made::list(name))
    }

    /// The same by its list of tensors.
    fn other_of(&self, name: &str, list: &str) -> DiffusionModel {
        let path = self.folder.path().join(format!("{name}.safetensors"));
        made::write_list(list, &path);
        DiffusionModel::open(&path).unwrap()
    }

    fn golden(&self, key: &str) -> (Vec<usize>, Vec<f32>) {
        let (patches, step_cache) = (&self.patches, &self.step_cache);
        let files = [&self.golden, &self.pictures, patches, step_cache];
        let found = files.iter().find_map(|f| Some((f, f.entry(key).ok()?)));
        let (file, entry) = found.unwrap();
        let mut values = vec![0.0; entry.n_values()];
        file.read_f32(entry, &mut values).unwrap();
        (entry.shape.clone(), values)
    }

    #[track_caller]
    fn close(&self, key: &str, found: &[f32]) {
        close(key, found, &self.golden(key).1);
    }

    fn told(&self) -> Told<'static> {
        let size = SIZE.latent(&self.model.vae);
        Told {
            sides: self.sides.clone(),
            latent: Latent::empty(1, 16, size),
            noise: Noise::Seeded,
            frame_mask: Vec::new(),
            sampler: "euler",
            scheduler: "simple",
            cfg: 3.0,
            steps: 6,
            window: 0..6,
        }
    }

    fn sampled(&self, model: &DiffusionModel, told: &Told<'_>) -> Latent {
        self.run(model, told).latent
    }

    fn run(&self, model: &DiffusionModel, told: &Told<'_>) -> Sampled {
        let sampler = Sampler::find(told.sampler).unwrap();
        let scheduler = Scheduler::find(told.scheduler).unwrap();
        let levels = sigmas(model, sampler, scheduler, told.steps, 1.0).unwrap();
        let run = SampleRequest {
            positive: &told.sides[..1],
            negative: &told.sides[1..],
            third: None,
            latent: &told.latent,
            noise: told.noise,
            mask: None,
            frame_mask: &told.frame_mask,
            sigmas: &levels[told.window.start..=told.window.end],
            sampler,
            options: &Options::default(),
            seed: Seed {
                value: 1_234_567_890_123,
                rng: Rng::Torch,
            },
            cfg: told.cfg,
            precision: Precision::F32,
            preview: None,
            beside: 0,
            memory: None,
        };
        control(|c| Ok(sample(&self.store, model, &run, c)?)).0
    }

    fn images(&self, key: &str) -> Vec<Image> {
        let (shape, values) = self.golden(key);
        let [_, height, width, 3] = shape[..] else {
            panic!("{shape:?}")
        };
        let each = values.chunks_exact(height * width * 3);
        let image = |values: &[f32]| Image {
            width,
            height,
            values: values.to_vec(),
        };
        each.map(image).collect()
    }

    fn given(&self) -> Given<'_> {
        Given {
            store: &self.store,
            vae: &self.model.vae,
            size: SIZE,
            precision: Precision::F32,
            beside: 0,
        }
    }

    /// CLIP's states, so many times.
    fn states(&self, times: usize) -> Arc<ImageStates> {
        let (_, values) = self.golden("states");
        Arc::new(ImageStates {
            values: values.repeat(times),
            width: 1280,
            ..ImageStates::default()
        })
    }

    fn showing(&self, clip: &ClipHints) -> Told<'static> {
        let mut told = self.told();
        told.sides = told.sides.map(|side| side.with_clip(clip.clone()));
        told
    }
}

#[track_caller]
fn close(key: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{key}");
    let square = |v: f32| f64::from(v) * f64::from(v);
    let error: f64 = found.iter().zip(expected).map(|(f, e)| square(f - e)).sum();
    let nmse = error / expected.iter().map(|&e| square(e)).sum::<f64>();
    println!("{key}: NMSE {nmse:.1e}");
    assert!(nmse <= 1e-8, "{key}: NMSE {nmse:.1e}");
}

#[test]
fn text_to_video_makes_what_comfyui_makes() {
    let case = Case::new();
    check_text(&case, 13);
    for (sampler, scheduler, shift, cfg) in [
        ("uni_pc", "simple", "usual", "6.0"),
        ("euler", "simple", "5.0", "1.0"),
        ("dpmpp_2m", "beta", "8.0", "5.0"),
    ] {
        let mut model = case.model.diffusion.clone();
        if let Ok(shift) = shift.parse() {
            model = model.with_sampling(ModelSampling::flow(shift, 1000.0));
        }
        let told = Told {
            sampler,
            scheduler,
            cfg: cfg.parse().unwrap(),
            ..case.told()
        };
        let key = format!("t2v/{sampler}/{scheduler}/{shift}/{cfg}");
        case.close(&key, &planes(&case.sampled(&model, &told)));
    }
    let model = case.model.diffusion.clone();
    let model = model.with_correction(Correction::ZeroStar);
    let told = Told {
        cfg: 5.0,
        ..case.told()
    };
    case.close("zero_star", &planes(&case.sampled(&model, &told)));
}

#[test]
fn steps_are_reused_as_in_comfyui() {
    let case = Case::new();
    for (key, way, sampler, threshold) in [
        ("easy_euler", CacheWay::Easy, "euler", 1.0),
        ("easy_dpmpp_2m", CacheWay::Easy, "dpmpp_2m", 1.0),
        ("lazy_euler", CacheWay::Lazy, "euler", 0.3),
    ] {
        let reuse = StepReuse {
            threshold,
            ..StepReuse::new(way)
        };
        let model = case.model.diffusion.with_step_reuse(reuse).unwrap();
        let size = LatentSize {
            frames: 3,
            height: 12,
            width: 20,
        };
        let told = Told {
            latent: Latent::empty(1, 16, size),
            sampler,
            cfg: 5.0,
            steps: 12,
            window: 0..12,
            ..case.told()
        };
        let made = case.run(&model, &told);
        let key = format!("tiny_wan/{key}");
        let wanted = case.golden(&format!("{key}/reused")).1;
        assert!(made.reuses.reused > 0, "{key}");
        assert_eq!(wanted, [made.reuses.reused as f32], "{key}");
        case.close(&key, &planes(&made.latent));
    }
}

#[test]
fn guidance_without_some_layers_is_comfyuis() {
    let case = Case::new();
    let model = &case.model.diffusion;
    let apart = |scale, rescale| SkipWay::Apart { scale, rescale };
    let told = Told {
        cfg: 5.0,
        ..case.told()
    };
    for (name, way, part) in [
        ("apart", apart(3.0, 0.0), (0.0, 0.7)),
        ("rescaled", apart(2.0, 0.6), (0.1, 1.0)),
        ("simple", SkipWay::Negative, (0.2, 0.9)),
    ] {
        let guided = model.with_skipped_layers(&[1], way, part).unwrap();
        let found = planes(&case.sampled(&guided, &told));
        case.close(&format!("skip/{name}"), &found);
    }
    // Blocks that are not there, and nothing to go away from, change nothing.
    for (blocks, scale) in [(7, 3.0), (1, 0.0)] {
        let same = model.with_skipped_layers(&[blocks], apart(scale, 0.0), (0.0, 1.0));
        assert!(same.unwrap().skipped_layers().is_none());
    }
    let unet = Checkpoint::spec("sd15").unwrap().diffusion;
    let none = unet.with_skipped_layers(&[1], apart(3.0, 0.0), (0.0, 1.0));
    assert!(matches!(none, Err(EngineError::NoSkippedLayers { .. })));
}

#[test]
fn places_are_scaled_as_in_comfyui() {
    let case = Case::new();
    let model = &case.model.diffusion;
    // ComfyUI's order is columns, rows, frames.
    for (name, scale, shift) in [
        ("time", [7.0, 1.0, 1.0], [0.0, 0.0, 0.0]),
        ("all", [2.0, 0.8, 1.5], [4.0, -3.0, 0.5]),
    ] {
        let model = model.with_stretched_places(scale, shift).unwrap();
        let found = planes(&case.sampled(&model, &case.told()));
        case.close(&format!("rope/{name}"), &found);
    }
    let flux = Checkpoint::spec("flux1-dev").unwrap().diffusion;
    let none = flux.with_stretched_places([2.0; 3], [0.0; 3]);
    assert!(matches!(none, Err(EngineError::NoStretch { .. })));
}

#[test]
fn tracks_go_where_comfyuis_go() {
    let case = Case::new();
    let (start, end) = ([4.8, 6.4], [43.2, 25.6]);
    let way = |mid, tracks, apart, pace| TrackWay {
        start,
        mid,
        end,
        frames: 9,
        tracks,
        apart: apart * 40.0,
        pace,
    };
    for (name, way) in [
        ("one", way(None, 1, 0.0, Pace::Faster)),
        ("line", way(None, 4, 0.05, Pace::Slower)),
        ("curve", way(Some([33.6, 3.2]), 3, 0.02, Pace::Smooth)),
    ] {
        let found: Vec<f32> = way.path().concat().concat();
        close(name, &found, &case.golden(&format!("tracks/path/{name}")).1);
    }
}

#[test]
fn parts_of_a_picture_follow_tracks_as_in_comfyui() {
    let case = Case::new();
    let model = case.other("tiny_wan_i2v");
    let start = case.images("image/start");
    let tracks: [Vec<[f32; 2]>; 2] = [
        (0..121)
            .map(|i| i as f32)
            .map(|i| [8.0 + i / 4.0, 20.0 - i / 9.0])
            .collect(),
        (0..70)
            .map(|i| i as f32)
            .map(|i| [40.0 - i / 2.0, 5.0 + i / 5.0])
            .collect(),
    ];
    let spread = Spread {
        temperature: 40.0,
        most: 2,
    };
    let (ati, _) = control(|c| case.given().moved(&start[0], &tracks, spread, c));
    let (shape, path) = case.golden("tracks/path/one");
    assert_eq!(shape, [9, 1, 2]);
    let path = path.chunks_exact(2).map(|p| vec![[p[0], p[1]]]);
    let point = Tracks::seen(path.collect());
    let (dragged, _) = control(|c| case.given().dragged(&start, &point, 0.8, c));
    for (name, frames) in [("ati", ati), ("move", dragged)] {
        let clip = ClipHints {
            frames: Some(Arc::new(frames)),
            ..ClipHints::default()
        };
        let found = planes(&case.sampled(&model, &case.showing(&clip)));
        case.close(&format!("tracks/{name}"), &found);
    }
    let long = Given {
        size: ClipSize {
            frames: 121,
            ..SIZE
        },
        ..case.given()
    };
    let cancel = AtomicBool::new(false);
    let mut control = Control {
        cancel: &cancel,
        on_event: &mut |_| {},
    };
    let wrong = long.moved(&start[0], &tracks, spread, &mut control);
    assert!(matches!(
        wrong,
        Err(EngineError::TrackFrames { frames: 121 })
    ));
}

/// The rays of a camera's path as `WanCameraEmbedding` has them, `[24, t, h, w]`, every 97th.
fn rays(path: &CameraPath) -> Vec<f32> {
    let clip = ClipHints {
        camera: Some(Arc::new(path.clone())),
        ..ClipHints::default()
    };
    let (t, h, w) = (3, 4, 6);
    let shape = crate::sample::LatentShape::of(&Latent::empty(1, 16, path.latent()));
    let values = clip.camera_values(shape);
    assert_eq!(values.len(), t * h * w * 1536);
    let at = |i: usize| {
        let (x, y) = (i % (8 * w), i / (8 * w) % (8 * h));
        let (t, c) = (i / (64 * w * h) % t, i / (64 * w * h) / t);
        let pixel = (t * h + y / 8) * w + x / 8;
        values[pixel * 1536 + c * 64 + y % 8 * 8 + x % 8]
    };
    (0..values.len()).step_by(97).map(at).collect()
}

fn check_camera(case: &Case, model: &DiffusionModel, path: CameraPath, key: &str) {
    let start = case.images("image/start");
    let (frames, _) = control(|c| case.given().before_camera(&start, c));
    let clip = ClipHints {
        frames: Some(Arc::new(frames)),
        camera: Some(Arc::new(path)),
        ..ClipHints::default()
    };
    case.close(key, &planes(&case.sampled(model, &case.showing(&clip))));
}

#[test]
fn a_camera_moves_as_in_comfyui() {
    let case = Case::new();
    let model = case.other_of("tiny_wan_camera", &lists::with_camera("tiny_wan22_i2v"));
    assert_eq!(model.net().wants().camera, Some(1536));
    for (name, speed) in [
        ("Zoom In", 1.0),
        ("Pan Left", 0.7),
        ("ClockWise (CW)", 2.0),
        ("Static", 1.0),
    ] {
        let path = CameraPath {
            motion: CameraMove::find(name).unwrap(),
            size: SIZE,
            speed,
            lens: Lens::default(),
        };
        case.close(&format!("camera/{name}"), &rays(&path));
        check_camera(
            &case,
            &model,
            path,
            &format!("WanCameraImageToVideo/{name}"),
        );
    }
    let blind = case.sampled(&model, &case.told());
    case.close("blind/tiny_wan_camera", &planes(&blind));
}

/// Both prompts as they are encoded, every so many numbers of them.
fn check_text(case: &Case, every: usize) {
    for (name, side) in ["prompt", "negative"].iter().zip(&case.sides) {
        let (_, shape) = case.golden(&format!("text/{name}/shape"));
        let found = [side.tokens(), side.width];
        assert_eq!(found, [shape[0] as usize, shape[1] as usize]);
        let thin: Vec<f32> = side.context.iter().copied().step_by(every).collect();
        case.close(&format!("text/{name}/context"), &thin);
    }
}

#[test]
fn two_experts_hand_over_as_in_comfyui() {
    let case = Case::new();
    check_experts(&case, &case.other("tiny_wan_low"));
}

fn check_experts(case: &Case, low: &DiffusionModel) {
    let shifted = |m: &DiffusionModel| m.with_sampling(ModelSampling::flow(5.0, 1000.0));
    let (high, low) = (shifted(&case.model.diffusion), shifted(low));
    let first = Told {
        cfg: 3.5,
        steps: 4,
        window: 0..2,
        ..case.told()
    };
    let then = Told {
        latent: case.sampled(&high, &first),
        noise: Noise::None,
        window: 2..4,
        ..first
    };
    case.close("experts", &planes(&case.sampled(&low, &then)));
}

#[test]
fn image_to_video_makes_what_comfyui_makes() {
    let case = Case::new();
    for (name, sees_clip) in [("tiny_wan_i2v", true), ("tiny_wan22_i2v", false)] {
        let model = case.other(name);
        assert!(model.sees_frames());
        check_first(&case, &model, name);
        check_first_and_last(&case, &model, name);
        if sees_clip {
            let latent = case.sampled(&model, &case.told());
            case.close("blind/tiny_wan_i2v", &planes(&latent));
        }
    }
}

fn check_first(case: &Case, model: &DiffusionModel, name: &str) {
    let start = case.images("image/start");
    let (frames, _) = control(|c| case.given().first_frames(&start, c));
    let sees_clip = model.net().wants().image.is_some();
    let clip = ClipHints {
        image: sees_clip.then(|| case.states(1)),
        frames: Some(Arc::new(frames)),
        ..ClipHints::default()
    };
    let key = format!("WanImageToVideo/{name}");
    case.close(&key, &planes(&case.sampled(model, &case.showing(&clip))));
}

fn check_first_and_last(case: &Case, model: &DiffusionModel, name: &str) {
    let (start, end) = (case.images("image/start"), case.images("image/end"));
    let (frames, _) = control(|c| case.given().first_and_last(&start, &end, c));
    let sees_clip = model.net().wants().image.is_some();
    let clip = ClipHints {
        image: sees_clip.then(|| case.states(2)),
        frames: Some(Arc::new(frames)),
        ..ClipHints::default()
    };
    let key = format!("WanFirstLastFrameToVideo/{name}");
    case.close(&key, &planes(&case.sampled(model, &case.showing(&clip))));
}

#[test]
fn vace_makes_what_comfyui_makes() {
    let case = Case::new();
    let model = case.other("tiny_wan_vace");
    check_vace(&case, &model, "WanVaceToVideo/tiny_wan_vace");
    let blind = case.sampled(&model, &case.told());
    case.close("blind/tiny_wan_vace", &planes(&blind));
}

fn check_vace(case: &Case, model: &DiffusionModel, key: &str) {
    let (clip, start) = (case.images("image/clip"), case.images("image/start"));
    let (shape, values) = case.golden("image/mask");
    let masks = values.chunks_exact(shape[1] * shape[2]).map(|values| Mask {
        width: shape[2],
        height: shape[1],
        values: values.to_vec(),
    });
    let masks: Vec<Mask> = masks.collect();
    let ((followed, trim), _) =
        control(|c| case.given().followed(&clip, &masks, start.first(), 0.7, c));
    assert_eq!(trim, 1);
    let hints = ClipHints {
        controls: vec![Arc::new(followed)],
        ..ClipHints::default()
    };
    let mut told = case.showing(&hints);
    let mut size = SIZE.latent(&case.model.vae);
    size.frames += trim;
    told.latent = Latent::empty(1, 16, size);
    case.close(key, &planes(&case.sampled(model, &told)));
}

/// The first frame is given clean, and told to be.
#[test]
fn the_5b_model_goes_on_from_a_frame_as_in_comfyui() {
    let case = Case::new();
    check_5b(&case, &case.other("tiny_wan_5b"));
}

fn check_5b(case: &Case, model: &DiffusionModel) {
    assert_eq!(model.family, Family::Wan5B);
    let (shape, first) = case.golden("first");
    let first = Latent::from_planes(&shape, &first, std::path::Path::new("golden")).unwrap();
    let size = LatentSize {
        frames: 3,
        height: 4,
        width: 6,
    };
    let mut latent = Latent::empty(1, 48, size);
    latent.scale_to_vae(model.latent_format().unwrap());
    latent.values[..first.values.len()].copy_from_slice(&first.values);
    let told = Told {
        latent,
        frame_mask: vec![0.0, 1.0, 1.0],
        sampler: "uni_pc",
        cfg: 5.0,
        ..case.told()
    };
    let made = case.sampled(model, &told);
    // The frame that was given is left as it was, where uni_pc in ComfyUI leaves a trace of noise.
    close("first", &made.values[..first.values.len()], &first.values);
    let (shape, expected) = case.golden("5b");
    let expected = Latent::from_planes(&shape, &expected, std::path::Path::new("golden")).unwrap();
    let rest = |latent: &Latent| latent.values[first.values.len()..].to_vec();
    close("5b", &rest(&made), &rest(&expected));
}

#[test]
fn what_does_not_fit_the_clip_is_refused() {
    let case = Case::new();
    let model = case.other("tiny_wan22_i2v");
    let (frames, _) = control(|c| case.given().first_frames(&case.images("image/start"), c));
    let mut short = frames.clone();
    short.latent.frames = 2;
    short
        .latent
        .values
        .truncate(frames.latent.values.len() / 3 * 2);
    let hints = |frames| ClipHints {
        frames: Some(Arc::new(frames)),
        ..ClipHints::default()
    };
    let latent = case.told().latent;
    let said = |hints: &ClipHints| hints.check(&model, &latent).unwrap_err().to_string();
    assert!(hints(frames.clone()).check(&model, &latent).is_ok());
    let text = said(&hints(short));
    assert!(
        text.contains("2 latent frames of 6x4, the video 3"),
        "{text}"
    );
    let mut wide = frames;
    wide.latent.channels = 8;
    let text = said(&hints(wide));
    assert!(
        text.contains("expects 20 conditioning channels") && text.contains("found 8"),
        "{text}"
    );
}

fn clip(case: &Case) -> (VideoModel, VideoRequest) {
    let model = VideoModel {
        high: case.model.diffusion.clone(),
        low: Some(case.other("tiny_wan_low")),
        text: case.model.text.clone(),
        vae: Arc::clone(&case.model.vae),
        vision: None,
        hearing: None,
    };
    let request = VideoRequest {
        follow: None,
        camera: None,
        audio: None,
        prompt: "a red fox".to_owned(),
        negative: "blurry".to_owned(),
        seed: Seed {
            value: 7,
            rng: Rng::Torch,
        },
        steps: 4,
        cfg: 3.0,
        sampler: Sampler::find("uni_pc").unwrap(),
        scheduler: Scheduler::find("simple").unwrap(),
        switch: 2,
        size: SIZE,
        start: None,
        end: None,
        precision: Precision::F32,
        preview: None,
        decode: crate::DecodeOptions::default(),
    };
    (model, request)
}

/// The clip's frames; the run is stopped after so many events of progress while sampling.
fn made(case: &Case, journal: &Journal, stop_after: usize) -> Result<Vec<Vec<u8>>, EngineError> {
    made_of(case, &clip(case), journal, stop_after)
}

fn made_of(
    case: &Case,
    (model, request): &(VideoModel, VideoRequest),
    journal: &Journal,
    stop_after: usize,
) -> Result<Vec<Vec<u8>>, EngineError> {
    let cancel = AtomicBool::new(false);
    let (mut heard, mut samples) = (0, false);
    let mut on_event = |event| match event {
        Event::Stage(stage) => samples = stage == crate::Stage::Sample,
        Event::Progress { .. } if samples => {
            heard += 1;
            cancel.store(heard > stop_after, Ordering::Relaxed);
        }
        _ => {}
    };
    let mut control = Control {
        cancel: &cancel,
        on_event: &mut on_event,
    };
    let mut frames = Vec::new();
    let mut keep = |_, _, picture: crate::Picture| {
        frames.push(picture.rgb);
        Ok(())
    };
    make_video(
        &case.store,
        model,
        request,
        Some(journal),
        &mut control,
        &mut keep,
    )?;
    Ok(frames)
}

#[test]
fn a_stopped_clip_goes_on_to_the_same_frames_wherever_it_was_stopped() {
    let case = Case::new();
    let path = case.folder.path().join("clip.journal");
    let whole = made(
        &case,
        &Journal::create(&path, "settings").unwrap(),
        usize::MAX,
    )
    .unwrap();
    assert_eq!(whole.len(), 9);
    let bytes = std::fs::read(&path).unwrap();
    // In either expert, and at the hand-over.
    for stop_after in [2, 5] {
        let journal = Journal::create(&path, "settings").unwrap();
        let stopped = made(&case, &journal, stop_after);
        assert!(
            matches!(stopped, Err(EngineError::Cancelled)),
            "{stop_after}"
        );
        drop(journal);
        let journal = Journal::open(&path, "settings").unwrap();
        assert!(
            journal.predictions() >= stop_after.min(3) - 1,
            "{stop_after}"
        );
        assert!(
            made(&case, &journal, usize::MAX).unwrap() == whole,
            "{stop_after}"
        );
    }
    // What a killed program left half-written does no harm.
    {
        let part = 0.55;
        let len = (bytes.len() as f64 * part) as usize;
        std::fs::write(&path, &bytes[..len]).unwrap();
        let journal = Journal::open(&path, "settings").unwrap();
        assert!(
            made(&case, &journal, usize::MAX).unwrap() == whole,
            "{part}"
        );
    }
    let other = Journal::open(&path, "other settings").err().unwrap();
    assert!(matches!(other, EngineError::OtherJournal { .. }), "{other}");
}

/// What reused steps are made of is not in a journal: it comes from the outputs that are.
#[test]
fn a_stopped_clip_reuses_the_same_steps() {
    let case = Case::new();
    let path = case.folder.path().join("clip.journal");
    for way in [CacheWay::Easy, CacheWay::Lazy] {
        let (model, request) = clip(&case);
        let reuse = StepReuse {
            threshold: 3.0,
            percent: (0.0, 1.0),
            ..StepReuse::new(way)
        };
        let high = model.high.with_step_reuse(reuse).unwrap();
        let request = VideoRequest {
            steps: 8,
            switch: 7,
            ..request
        };
        let clip = (VideoModel { high, ..model }, request);
        let create = || Journal::create(&path, "settings").unwrap();
        let whole = made_of(&case, &clip, &create(), usize::MAX).unwrap();
        let journal = Journal::open(&path, "settings").unwrap();
        let n = journal.predictions();
        assert!(n < 8, "{way:?}: no step was reused");
        for stop_after in [3, 6] {
            let stopped = made_of(&case, &clip, &create(), stop_after);
            assert!(matches!(stopped, Err(EngineError::Cancelled)));
            let journal = Journal::open(&path, "settings").unwrap();
            let found = made_of(&case, &clip, &journal, usize::MAX).unwrap();
            assert!(found == whole, "{way:?}, {stop_after}");
            drop(journal);
            let journal = Journal::open(&path, "settings").unwrap();
            assert_eq!(journal.predictions(), n, "{way:?}, {stop_after}");
        }
    }
}

#[test]
fn a_clip_takes_what_its_plan_says() {
    let case = Case::new();
    let (model, request) = clip(&case);
    let device: Arc<dyn nino_graph::Device> = Arc::new(Cpu::new(CpuOptions::default()).unwrap());
    let store = Store::for_pictures(device, 1);
    let plan = plan_video(&store, &model, &request).unwrap();
    let stages: Vec<&str> = plan.stages.iter().map(|s| s.stage.name()).collect();
    assert_eq!(stages, ["text", "sample", "sample", "decode"]);
    let never = AtomicBool::new(false);
    let mut control = Control {
        cancel: &never,
        on_event: &mut |_| {},
    };
    let made = make_video(
        &store,
        &model,
        &request,
        None,
        &mut control,
        &mut |_, _, _| Ok(()),
    );
    assert_eq!(made.unwrap().peak_bytes, plan.peak_bytes());
}
