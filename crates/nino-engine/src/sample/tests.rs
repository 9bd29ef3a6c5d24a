//! Requests that cannot be meant are refused before anything is planned, with a kind that hosts can
//! match on. Predictions that overflow half precision are made again.

use super::{Noise, SampleRequest, plan, sample};
use crate::decode::Precision;
use crate::tests::made;
use crate::{
    CacheWay, Checkpoint, Conditioning, Control, EngineError, ErrorKind, Event, Latent, LatentSize,
    StepReuse, Store, Upscale, encode_text,
};
use nino_cpu::{Cpu, CpuOptions};
use nino_sample::{Options, Sampler, Seed};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

struct Bench {
    store: Store,
    model: Checkpoint,
    prompt: Conditioning,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(|_| {})
    }

    /// With something changed in the file of the model.
    fn with(change: impl Fn(&Path)) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        made::write_list(&made::list("tiny_sd1"), &path);
        change(&path);
        let model = Checkpoint::open(&path, None).unwrap();
        let store = Store::new(Arc::new(Cpu::new(CpuOptions::default()).unwrap()));
        let never = AtomicBool::new(false);
        let mut control = Control {
            cancel: &never,
            on_event: &mut |_| {},
        };
        let prompt = encode_text(&store, &model.text, "a fox", &[], &mut control).unwrap();
        Bench {
            store,
            model,
            prompt,
            _folder: folder,
        }
    }

    /// The error of a usual request with something changed.
    fn refused(&self, change: impl Fn(&mut Parts)) -> EngineError {
        let mut parts = Parts {
            prompts: vec![self.prompt.clone()],
            latent: Latent::empty(1, 4, LatentSize::picture(8, 8)),
            noise: None,
            sigmas: vec![14.0, 1.0, 0.0],
        };
        change(&mut parts);
        let request = SampleRequest {
            positive: &parts.prompts,
            negative: &[],
            third: None,
            latent: &parts.latent,
            noise: parts.noise.as_deref().map_or(Noise::Seeded, Noise::Given),
            mask: None,
            frame_mask: &[],
            sigmas: &parts.sigmas,
            sampler: Sampler::find("euler").unwrap(),
            options: &Options::default(),
            seed: Seed::new(1),
            cfg: 1.0,
            precision: Precision::default(),
            preview: None,
            beside: 0,
            memory: None,
        };
        let never = AtomicBool::new(false);
        let mut control = Control {
            cancel: &never,
            on_event: &mut |_| panic!("nothing is done for a request that is refused"),
        };
        let sampled = sample(&self.store, &self.model.diffusion, &request, &mut control);
        sampled.unwrap_err().error
    }
}

/// What the cases change of a request.
struct Parts {
    prompts: Vec<Conditioning>,
    latent: Latent,
    noise: Option<Vec<f32>>,
    sigmas: Vec<f32>,
}

#[test]
fn requests_that_cannot_be_meant_are_refused_by_kind() {
    let bench = Bench::new();
    let told = |kind: ErrorKind, words: &str, change: &dyn Fn(&mut Parts)| {
        let error = bench.refused(change);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    told(ErrorKind::Mismatch, "5 latent frames", &|p| {
        let size = LatentSize {
            frames: 5,
            height: 8,
            width: 8,
        };
        p.latent = Latent::empty(1, 4, size);
    });
    told(ErrorKind::Mismatch, "16 channels", &|p| {
        p.latent = Latent::empty(1, 16, LatentSize::picture(8, 8));
    });
    told(ErrorKind::Mismatch, "384", &|p| {
        p.prompts[0].width = 384;
    });
    told(ErrorKind::Request, "7", &|p| {
        Arc::make_mut(&mut p.prompts[0].context).truncate(7);
    });
    told(ErrorKind::Request, "1 of", &|p| {
        Arc::make_mut(&mut p.prompts[0].context)[9] = f32::NAN;
    });
    told(ErrorKind::Request, "1 of 256", &|p| {
        p.latent.values[3] = f32::INFINITY;
    });
    told(ErrorKind::Request, "255", &|p| {
        p.noise = Some(vec![0.0; 255]);
    });
    told(ErrorKind::Request, "2", &|p| {
        p.sigmas = vec![1.0, 2.0, 0.0];
    });
    told(ErrorKind::Request, "NaN", &|p| {
        p.sigmas = vec![1.0, f32::NAN, 0.0];
    });
    told(ErrorKind::Request, "prompt", &|p| p.prompts.clear());
}

/// Sets every value of a tensor.
fn fill(path: &Path, tensor: &str, value: f32) {
    let mut bytes = std::fs::read(path).unwrap();
    let length = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let at = |i: usize| 8 + length + header[tensor]["data_offsets"][i].as_u64().unwrap() as usize;
    let (start, end) = (at(0), at(1));
    let half = nino_dtype::f32_to_f16(value).to_le_bytes();
    for pair in bytes[start..end].as_chunks_mut::<2>().0 {
        *pair = half;
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn predictions_that_overflow_half_precision_are_made_again_in_f32() {
    // Sums over 288 inputs of the last layer go beyond 65504.
    let last = "model.diffusion_model.out.2.weight";
    let sampled = |weight: f32, precision: Precision| {
        let bench = Bench::with(|path| fill(path, last, weight));
        let latent = Latent::empty(1, 4, LatentSize::picture(8, 8));
        let request = SampleRequest {
            positive: std::slice::from_ref(&bench.prompt),
            negative: &[],
            third: None,
            latent: &latent,
            noise: Noise::Seeded,
            mask: None,
            frame_mask: &[],
            memory: None,
            beside: 0,
            sigmas: &[14.0, 1.0, 0.0],
            sampler: Sampler::find("euler").unwrap(),
            options: &Options::default(),
            seed: Seed::new(1),
            cfg: 1.0,
            precision,
            preview: None,
        };
        let never = AtomicBool::new(false);
        let mut notes = Vec::new();
        let mut control = Control {
            cancel: &never,
            on_event: &mut |event| {
                if let Event::Note(note) = event {
                    notes.push(note);
                }
            },
        };
        let sampled = sample(&bench.store, &bench.model.diffusion, &request, &mut control);
        (sampled.unwrap().latent.values, notes)
    };
    let (usual, notes) = sampled(0.01, Precision::F16);
    assert!(
        usual.iter().all(|v| v.is_finite()) && notes.is_empty(),
        "{notes:?}"
    );
    let (again, notes) = sampled(30000.0, Precision::F16);
    assert!(
        notes.len() == 1 && notes[0].contains("again in f32"),
        "{notes:?}"
    );
    let (exact, notes) = sampled(30000.0, Precision::F32);
    assert!(notes.is_empty(), "{notes:?}");
    assert!(again.iter().all(|v| v.is_finite()) && again == exact);
}

#[test]
fn what_reused_steps_are_made_of_is_in_the_plan() {
    let bench = Bench::new();
    let latent = Latent::empty(1, 4, LatentSize::picture(8, 8));
    let request = SampleRequest {
        positive: std::slice::from_ref(&bench.prompt),
        negative: &[],
        third: None,
        latent: &latent,
        noise: Noise::Seeded,
        mask: None,
        frame_mask: &[],
        memory: None,
        beside: 0,
        sigmas: &[14.0, 1.0, 0.0],
        sampler: Sampler::find("euler").unwrap(),
        options: &Options::default(),
        seed: Seed::new(1),
        cfg: 1.0,
        precision: Precision::F32,
        preview: None,
    };
    let plain = &bench.model.diffusion;
    let reuse = StepReuse::new(CacheWay::Easy);
    let cached = plain.with_step_reuse(reuse).unwrap();
    let bytes = |model| plan(&bench.store, model, &request).unwrap().host_bytes;
    assert_eq!(bytes(&cached) - bytes(plain), 3 * 4 * latent.values.len());
}

#[test]
fn every_frame_of_a_clip_is_resized() {
    let size = LatentSize {
        frames: 2,
        height: 1,
        width: 2,
    };
    let clip = Latent {
        values: vec![1.0, 2.0, 5.0, 6.0],
        ..Latent::empty(1, 1, size)
    };
    let wide = clip.resized(1, 4, Upscale::NearestExact);
    assert_eq!(wide.values, [1.0, 1.0, 2.0, 2.0, 5.0, 5.0, 6.0, 6.0]);
    assert_eq!((wide.frames, wide.is_video), (2, true));
}
