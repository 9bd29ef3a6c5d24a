//! Small checkpoints of every family against ComfyUI: conditioning, then whole paths.

use crate::generate::passes::Passes;
use crate::generate::{GenerateRequest, Prompts, Start, encode_prompts, start};
use crate::tests::made;
use crate::{Checkpoint, Control, EngineError, Event, Family, Latent, Precision, Store};
use nino_cpu::{Cpu, CpuOptions};
use nino_sample::{Prediction, Sampler, Scheduler};
use nino_weights::TensorReader;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) const PROMPT: &str = "(masterpiece:1.2), a portrait of a ((red fox)) sitting in deep snow, \
    (soft evening light:0.8), pine trees \\(very old\\) behind it, café lanterns, 雪, highly detailed fur, \
    sharp focus, shallow depth of field, volumetric fog, warm rim light, the forest edge of a small village \
    with wooden houses and smoke from chimneys, (dramatic clouds:1.35), cinematic color grading, \
    photograph taken with an 85mm lens, award winning wildlife picture";
pub(crate) const NEGATIVE: &str = "blurry, (low quality:1.4)";
const INVERSIONS: &str = "a photo of embedding:cat, in (embedding:style:1.3) with embedding:nobody and embedding:xl snow";

/// Samplers and their schedulers.
const RUNS: [(&str, &str); 4] = [
    ("euler", "normal"),
    ("dpmpp_2m", "karras"),
    ("euler_ancestral", "normal"),
    ("dpmpp_2m_sde", "karras"),
];

pub(super) struct Case {
    pub(super) model: Checkpoint,
    golden: TensorReader,
    name: &'static str,
    /// Text goldens hold every so manyth number.
    every: usize,
    pub(super) store: Store,
    _folder: tempfile::TempDir,
}

impl Case {
    pub(super) fn new(name: &'static str, family: Family) -> Case {
        Case::of(name, family, &made::list(name))
    }

    /// With the weights of a list of its own.
    pub(super) fn of(name: &'static str, family: Family, list: &str) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{name}.safetensors"));
        made::write_list(list, &path);
        let vocabulary = made::goldens().join("tiny_flux2.tekken.json");
        if family == Family::Flux2 {
            std::fs::copy(vocabulary, folder.path().join("tekken.json")).unwrap();
        }
        let model = Checkpoint::open(&path, None).unwrap();
        assert_eq!(model.family(), family);
        let golden = made::goldens().join(format!("{name}.safetensors"));
        Case {
            model,
            golden: nino_weights::open(golden).unwrap(),
            name,
            every: if name.starts_with("wide_") { 997 } else { 13 },
            // One part of a large model is enough at a time.
            store: if name.starts_with("wide_") {
                Store::keeping_nothing(Arc::new(Cpu::new(CpuOptions::default()).unwrap()))
            } else {
                store()
            },
            _folder: folder,
        }
    }

    /// The same model, compared with what another golden file has.
    pub(super) fn judged_by(mut self, golden: &str) -> Case {
        let path = made::goldens().join(format!("{golden}.safetensors"));
        self.golden = nino_weights::open(path).unwrap();
        self
    }

    pub(super) fn request(&self, prompt: &str) -> GenerateRequest {
        let mut request = GenerateRequest::new(&self.model, prompt);
        request.negative = NEGATIVE.to_owned();
        request.seed.value = 1_234_567_890_123;
        (request.width, request.height) = (64, 48);
        (request.steps, request.cfg) = (8, 7.0);
        request.embeddings = vec![made::goldens().join("embeddings")];
        request
    }

    pub(super) fn golden(&self, key: &str) -> Vec<f32> {
        let entry = self.golden.entry(key).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        self.golden.read_f32(entry, &mut values).unwrap();
        values
    }

    /// The numbers that a text golden holds.
    pub(super) fn thin(&self, values: &[f32]) -> Vec<f32> {
        values.iter().copied().step_by(self.every).collect()
    }

    pub(super) fn close(&self, key: &str, found: &[f32]) {
        let expected = self.golden(key);
        assert_eq!(found.len(), expected.len(), "{} {key}", self.name);
        let nmse = nmse(found, &expected);
        println!("{} {key}: NMSE {nmse:.1e}", self.name);
        assert!(nmse <= 1e-8, "{} {key}: NMSE {nmse:.1e}", self.name);
    }

    pub(super) fn text(&self, request: &GenerateRequest) -> (Prompts, Vec<Event>) {
        control(|c| encode_prompts(&self.store, &self.model, request, c))
    }

    /// The prompts as the text encoders of another model give them.
    pub(super) fn text_of(&self, model: &Checkpoint, request: &GenerateRequest) -> Prompts {
        control(|c| encode_prompts(&self.store, model, request, c)).0
    }

    /// Two cases at a time: a prompt each for the positive and the negative.
    pub(super) fn check_text(&self, cases: [(&str, &str); 2], skip: Option<usize>) {
        let mut request = self.request(cases[0].1);
        cases[1].1.clone_into(&mut request.negative);
        request.clip_skip = skip;
        let (found, _) = self.text(&request);
        for ((case, _), found) in cases.iter().zip([found.positive, found.negative]) {
            let shape = [found.tokens(), found.width];
            let expected = self.golden(&format!("text/{case}/shape"));
            let expected: Vec<usize> = expected.iter().map(|&n| n as usize).collect();
            assert_eq!(shape[..], expected, "{} {case}", self.name);
            let thin: Vec<f32> = found.context.iter().copied().step_by(self.every).collect();
            self.close(&format!("text/{case}/context"), &thin);
            if !found.pooled.is_empty() {
                self.close(&format!("text/{case}/pooled"), &found.pooled);
            }
        }
    }

    fn check_texts(&self) {
        let long = "a red fox, ".repeat(60);
        self.check_text([("prompt", PROMPT), ("negative", NEGATIVE)], None);
        self.check_text([("long", &long), ("empty", "")], None);
        let old = "embedding:old fox embedding:list";
        self.check_text([("inversion", INVERSIONS), ("old", old)], None);
        for skip in 1..=4 {
            let case = format!("skip-{skip}");
            self.check_text([(&case, NEGATIVE), (&case, NEGATIVE)], Some(skip));
        }
    }

    /// What the UNet is told, then latents.
    fn check_paths(&self, runs: &[(&str, &str)]) {
        let request = self.request(PROMPT);
        let (prompts, _) = self.text(&request);
        if self.golden.index().contains("y/positive") {
            let (family, size) = (self.model.family(), (request.width, request.height));
            let label = |negative: bool| {
                let prompt = if negative {
                    &prompts.negative
                } else {
                    &prompts.positive
                };
                prompt.label(family, size, negative, request.seed)
            };
            self.close("y/positive", &label(false));
            self.close("y/negative", &label(true));
        }
        for (sampler, scheduler) in runs {
            let request = GenerateRequest {
                sampler: Sampler::find(sampler).unwrap(),
                scheduler: Scheduler::find(scheduler).unwrap(),
                ..self.request(PROMPT)
            };
            let key = format!("latent/{sampler}/{scheduler}");
            self.close(&key, &self.sample(&request, &prompts));
        }
    }

    fn sample(&self, request: &GenerateRequest, prompts: &Prompts) -> Vec<f32> {
        self.sampled(&self.model, request, prompts)
    }

    /// With another model of the same weights.
    pub(super) fn sampled(
        &self,
        model: &Checkpoint,
        request: &GenerateRequest,
        prompts: &Prompts,
    ) -> Vec<f32> {
        sampled(&self.store, model, request, prompts)
    }

    /// Names in the golden file that begin so.
    pub(super) fn keys(&self, start: &str) -> Vec<String> {
        let all = self.golden.index().entries().iter();
        let names = all.map(|e| e.name.clone());
        names.filter(|name| name.starts_with(start)).collect()
    }
}

/// What latents in bf16 may be from f32: a few times the worst that was seen.
const BRAIN: f64 = 5e-4;

fn nmse(found: &[f32], expected: &[f32]) -> f64 {
    let square = |v: f32| f64::from(v) * f64::from(v);
    let pairs = found.iter().zip(expected);
    let error: f64 = pairs.map(|(f, e)| square(f - e)).sum();
    error / expected.iter().map(|&e| square(e)).sum::<f64>()
}

/// A store on the CPU.
pub(crate) fn store() -> Store {
    Store::new(Arc::new(Cpu::new(CpuOptions::default()).unwrap()))
}

/// The sampled latent as torch has it.
pub(super) fn sampled(
    store: &Store,
    model: &Checkpoint,
    request: &GenerateRequest,
    prompts: &Prompts,
) -> Vec<f32> {
    let passes = Passes::plan(store, model, request, prompts).unwrap();
    let (sampled, _) = control(|c| {
        let canvas = start::prepare(store, model, request, c)?;
        passes.run(&canvas, c, &mut |_| Ok(()))
    });
    planes(&sampled.latent)
}

pub(crate) fn control<T>(
    f: impl FnOnce(&mut Control<'_>) -> Result<T, EngineError>,
) -> (T, Vec<Event>) {
    let (cancel, mut events) = (AtomicBool::new(false), Vec::new());
    let mut on_event = |event| events.push(event);
    let made = f(&mut Control {
        cancel: &cancel,
        on_event: &mut on_event,
    });
    (made.unwrap(), events)
}

/// `[h, w, c]` to `[c, h, w]`.
pub(crate) fn planes(latent: &Latent) -> Vec<f32> {
    let c = latent.channels;
    (0..c)
        .flat_map(|at| latent.values.iter().copied().skip(at).step_by(c))
        .collect()
}

#[test]
fn sd1_makes_what_comfyui_makes() {
    let mut case = Case::new("tiny_sd1", Family::Sd1);
    case.check_texts();
    case.check_paths(&RUNS);
    case.check_paths(&[
        ("lcm", "sgm_uniform"),
        ("heun", "simple"),
        ("dpmpp_sde", "exponential"),
        ("uni_pc", "beta"),
        ("ddim", "ddim_uniform"),
    ]);
    check_predictions(&mut case);
    for name in ["nobody", "../tiny_sd1"] {
        let (_, events) = case.text(&case.request(&format!("embedding:{name} fox")));
        let told = |e: &Event| matches!(e, Event::Note(n) if n.contains(name));
        assert!(events.iter().any(told), "{name}: {events:?}");
    }
}

/// What `ModelSamplingDiscrete` makes of it.
fn check_predictions(case: &mut Case) {
    let (prompts, _) = case.text(&case.request(PROMPT));
    let keys = case.keys("sampling/");
    let mut seen = 0;
    for key in &keys {
        let parts: Vec<&str> = key.split('/').collect();
        let [_, what, zsnr, sampler, scheduler] = parts[..] else {
            panic!("{key}")
        };
        let prediction = match what {
            "eps" => Prediction::Eps,
            "v_prediction" => Prediction::V,
            "x0" => Prediction::X0,
            "lcm" => Prediction::Lcm,
            _ => panic!("{key}"),
        };
        case.model = case.model.with_prediction(prediction, zsnr == "True");
        let request = GenerateRequest {
            sampler: Sampler::find(sampler).unwrap(),
            scheduler: Scheduler::find(scheduler).unwrap(),
            ..case.request(PROMPT)
        };
        case.close(key, &case.sample(&request, &prompts));
        seen += 1;
    }
    assert_eq!(seen, 5);
}

/// Sees the picture beside the noise.
#[test]
fn instruct_pix2pix_makes_what_comfyui_makes() {
    let first = "model.diffusion_model.input_blocks.0.0.weight 32x";
    let list = made::list("tiny_sd1");
    let list = list.replace(&format!("{first}4x3x3"), &format!("{first}8x3x3"));
    let case = Case::of("tiny_edit", Family::Sd1, &list);
    assert!(case.model.diffusion.edits() && !case.model.diffusion.paints_over());
    let (prompts, _) = case.text(&case.request(PROMPT));
    let planes = case.golden("seen");
    let (channels, height, width) = (4, 6, 8);
    let pixels = height * width;
    let at = |i: usize| planes[i % channels * pixels + i / channels];
    let seen = Latent {
        batch: 1,
        frames: 1,
        height,
        width,
        channels,
        values: (0..planes.len()).map(at).collect(),
        is_video: false,
        format: None,
    };
    for (sampler, scheduler) in RUNS {
        let request = GenerateRequest {
            sampler: Sampler::find(sampler).unwrap(),
            scheduler: Scheduler::find(scheduler).unwrap(),
            start: Start::Latent(seen.clone()),
            ..case.request(PROMPT)
        };
        request.check(&case.model).unwrap();
        let key = format!("latent/{sampler}/{scheduler}");
        case.close(&key, &case.sample(&request, &prompts));
    }
}

#[test]
fn playground_makes_what_comfyui_makes() {
    let list = made::list("tiny_sdxl") + "edm_mean 1x4x1x1\nedm_std 1x4x1x1\n";
    let case = Case::of("tiny_playground", Family::Sdxl, &list);
    assert_eq!(case.model.diffusion.sampling.prediction, Prediction::Edm);
    assert_eq!(case.model.defaults().scheduler, "karras");
    case.check_paths(&RUNS);
}

/// A consistency model that is told its guidance needs one run a step, and no negative prompt.
#[test]
fn guidance_is_told_to_models_that_take_it() {
    let list = made::list("tiny_sd1") + "model.diffusion_model.time_embed.cond_proj.weight 32x16\n";
    let case = Case::of("tiny_sd1", Family::Sd1, &list);
    assert_eq!(case.model.diffusion.sampling.prediction, Prediction::Lcm);
    let defaults = case.model.defaults();
    assert_eq!((defaults.sampler, defaults.steps), ("lcm", 4));
    let latent = |cfg: f32, negative: &str| {
        let request = GenerateRequest {
            steps: 2,
            cfg,
            negative: negative.to_owned(),
            sampler: Sampler::find("lcm").unwrap(),
            ..case.request("a fox")
        };
        let (prompts, _) = case.text(&request);
        case.sample(&request, &prompts)
    };
    let strong = latent(8.0, "");
    assert_ne!(strong, latent(2.0, ""));
    assert_eq!(strong, latent(8.0, "blurry"));
}

#[test]
fn sd2_makes_what_comfyui_makes() {
    let case = Case::new("tiny_sd2", Family::Sd2);
    case.check_texts();
    case.check_paths(&RUNS);
}

#[test]
fn sdxl_makes_what_comfyui_makes() {
    let case = Case::new("tiny_sdxl", Family::Sdxl);
    case.check_texts();
    case.check_paths(&RUNS);
}

/// How far activations in bf16 lead a network of some dozen channels away from f32 in twenty steps:
/// far more than one of full size (`docs/performance.md`), for which alone `auto` takes bf16.
#[test]
fn bf16_is_near_f32_after_twenty_steps() {
    let mut failures = Vec::new();
    for (name, family) in [("tiny_sd1", Family::Sd1), ("tiny_flux", Family::Flux)] {
        let case = Case::new(name, family);
        let request = |precision| GenerateRequest {
            precision,
            steps: 20,
            ..case.request(PROMPT)
        };
        let (prompts, _) = case.text(&request(Precision::F32));
        let exact = case.sample(&request(Precision::F32), &prompts);
        let found = case.sample(&request(Precision::Bf16), &prompts);
        let nmse = nmse(&found, &exact);
        println!("{name}: NMSE {nmse:.1e}");
        if family == Family::Sd1 {
            let auto = case.sample(&request(Precision::Auto), &prompts);
            assert!(auto == exact, "{name}: auto is not f32");
        }
        if nmse.is_nan() || nmse > BRAIN {
            failures.push(format!("{name}: NMSE {nmse:.1e}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("; "));
}

#[test]
fn the_refiner_makes_what_comfyui_makes() {
    let case = Case::new("tiny_refiner", Family::SdxlRefiner);
    case.check_texts();
    case.check_paths(&RUNS);
}
