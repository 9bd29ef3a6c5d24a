//! Everything that starts from a picture or a latent, against ComfyUI: whole paths of a small SD 1,
//! and of the same with the nine channels of an inpaint model.

use super::comfy::{NEGATIVE, PROMPT, control, planes, store};
use crate::generate::passes::Passes;
use crate::generate::{Fill, GenerateRequest, Hires, Inpaint, Start, encode_prompts, start};
use crate::tests::{Golden, golden, made};
use crate::{Checkpoint, Latent, Mask, Picture, Store, Upscale};
use nino_sample::ksampler::Window;
use nino_sample::{Blend, Sampler, Scheduler};

struct Case {
    model: Checkpoint,
    golden: Golden,
    store: Store,
    _folder: tempfile::TempDir,
}

impl Case {
    fn new(channels: usize) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let first = "input_blocks.0.0.weight 32x";
        let list =
            made::list("tiny_sd1").replace(&format!("{first}4x"), &format!("{first}{channels}x"));
        made::write_list(&list, &path);
        Case {
            model: Checkpoint::open(&path, None).unwrap(),
            golden: golden("generate/image"),
            store: store(),
            _folder: folder,
        }
    }

    fn request(&self) -> GenerateRequest {
        let mut request = GenerateRequest::new(&self.model, PROMPT);
        NEGATIVE.clone_into(&mut request.negative);
        request.seed.value = 1_234_567_890_123;
        (request.width, request.height) = (64, 48);
        (request.steps, request.cfg) = (8, 7.0);
        request.sampler = Sampler::find("euler").unwrap();
        request.scheduler = Scheduler::find("normal").unwrap();
        request
    }

    fn start(&self) -> GenerateRequest {
        GenerateRequest {
            start: Start::Latent(self.golden.latent("start")),
            denoise: 0.6,
            ..self.request()
        }
    }

    fn picture(&self) -> Picture {
        let (_, values) = self.golden.tensor("picture");
        let rgb = values.iter().map(|v| (v * 255.0).round() as u8).collect();
        Picture {
            width: 64,
            height: 48,
            rgb,
        }
    }

    fn inpaint(&self, fill: Fill, grow: usize) -> Inpaint {
        let mask = Mask {
            width: 64,
            height: 48,
            values: self.golden.tensor("mask").1,
        };
        Inpaint {
            mask,
            fill,
            grow,
            feather: 0,
            paste: false,
        }
    }

    fn check(&self, key: &str, request: &GenerateRequest) -> Latent {
        self.check_with(&self.model, key, request)
    }

    fn check_with(&self, model: &Checkpoint, key: &str, request: &GenerateRequest) -> Latent {
        let (sampled, _) = control(|c| {
            let prompts = encode_prompts(&self.store, model, request, c)?;
            let passes = Passes::plan(&self.store, model, request, &prompts)?;
            let canvas = start::prepare(&self.store, model, request, c)?;
            passes.run(&canvas, c, &mut |_| Ok(()))
        });
        let (found, expected) = (planes(&sampled.latent), self.golden.tensor(key).1);
        assert_eq!(found.len(), expected.len(), "{key}");
        let square = |v: f32| f64::from(v) * f64::from(v);
        let error: f64 = found
            .iter()
            .zip(&expected)
            .map(|(f, e)| square(f - e))
            .sum();
        let nmse = error / expected.iter().map(|&e| square(e)).sum::<f64>();
        println!("{key}: NMSE {nmse:.1e}");
        assert!(nmse <= 1e-8, "{key}: NMSE {nmse:.1e}");
        sampled.latent
    }
}

#[test]
fn a_start_a_mask_parts_and_a_second_pass_are_comfyuis() {
    let case = Case::new(4);
    case.check("strength", &case.start());
    let masked = GenerateRequest {
        inpaint: Some(case.inpaint(Fill::Keep, 0)),
        ..case.start()
    };
    case.check("masked", &masked);
    let mut rescaled = case.model.clone();
    rescaled.diffusion.blend = Blend::Rescaled(0.7);
    case.check_with(&rescaled, "rescale", &case.start());
    let window = |start_at_step, end_at_step, return_with_leftover_noise| {
        Some(Window {
            start_at_step,
            end_at_step,
            return_with_leftover_noise,
        })
    };
    let part = GenerateRequest {
        window: window(0, 5, true),
        ..case.request()
    };
    let latent = case.check("part", &part);
    let whole = GenerateRequest {
        window: window(5, 10_000, false),
        add_noise: false,
        start: Start::Latent(latent),
        ..case.request()
    };
    case.check("whole", &whole);
    let hires = GenerateRequest {
        hires: Some(Hires {
            width: 128,
            height: 96,
            method: Upscale::Bilinear,
            steps: 5,
            denoise: 0.5,
        }),
        ..case.request()
    };
    case.check("hires", &hires);
    let gray = GenerateRequest {
        start: Start::Picture(case.picture()),
        inpaint: Some(case.inpaint(Fill::Gray, 6)),
        ..case.request()
    };
    case.check("inpaint/gray", &gray);
}

#[test]
fn an_inpaint_model_is_comfyuis() {
    let case = Case::new(9);
    case.check("inpaint/none", &case.request());
    let picture = GenerateRequest {
        start: Start::Picture(case.picture()),
        inpaint: Some(case.inpaint(Fill::Keep, 0)),
        ..case.request()
    };
    case.check("inpaint/picture", &picture);
}
