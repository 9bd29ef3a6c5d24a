//! Requests that cannot be meant are refused before anything is planned, with a kind that hosts can
//! match on.

use super::{Noise, SampleRequest, sample};
use crate::decode::Precision;
use crate::tests::made;
use crate::{
    Checkpoint, Conditioning, Control, EngineError, ErrorKind, Latent, LatentSize, Store, Upscale,
    encode_text,
};
use nino_cpu::{Cpu, CpuOptions};
use nino_sample::{Options, Sampler, Seed};
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        made::write_list(&made::list("tiny_sd1"), &path);
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
        p.prompts[0].context.truncate(7);
    });
    told(ErrorKind::Request, "1 of", &|p| {
        p.prompts[0].context[9] = f32::NAN;
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
