//! Small checkpoints of every family against ComfyUI: conditioning, then whole paths.

use super::made;
use crate::generate::sample::{self, Work};
use crate::generate::text::{self, Conditioning};
use crate::generate::{Checkpoint, Family, GenerateRequest, start};
use crate::{Control, EngineError, Event, Latent};
use nino_cpu::{Cpu, CpuOptions};
use nino_sample::{Sampler, Scheduler};
use nino_weights::TensorReader;
use std::sync::atomic::AtomicBool;

pub(super) const PROMPT: &str = "(masterpiece:1.2), a portrait of a ((red fox)) sitting in deep snow, \
    (soft evening light:0.8), pine trees \\(very old\\) behind it, café lanterns, 雪, highly detailed fur, \
    sharp focus, shallow depth of field, volumetric fog, warm rim light, the forest edge of a small village \
    with wooden houses and smoke from chimneys, (dramatic clouds:1.35), cinematic color grading, \
    photograph taken with an 85mm lens, award winning wildlife picture";
pub(super) const NEGATIVE: &str = "blurry, (low quality:1.4)";
const INVERSIONS: &str = "a photo of embedding:cat, in (embedding:style:1.3) with embedding:nobody and embedding:xl snow";

/// Samplers and their schedulers.
const RUNS: [(&str, &str); 4] = [
    ("euler", "normal"),
    ("dpmpp_2m", "karras"),
    ("euler_ancestral", "normal"),
    ("dpmpp_2m_sde", "karras"),
];

struct Case {
    model: Checkpoint,
    golden: TensorReader,
    name: &'static str,
    device: Cpu,
    _folder: tempfile::TempDir,
}

impl Case {
    fn new(name: &'static str, family: Family) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{name}.safetensors"));
        made::write(name, &path);
        let model = Checkpoint::open(&path, None).unwrap();
        assert_eq!(model.family, family);
        let golden = made::goldens().join(format!("{name}.safetensors"));
        Case {
            model,
            golden: nino_weights::open(golden).unwrap(),
            name,
            device: Cpu::new(CpuOptions::default()).unwrap(),
            _folder: folder,
        }
    }

    fn request(&self, prompt: &str) -> GenerateRequest {
        let mut request = GenerateRequest::new(&self.model, prompt);
        request.negative = NEGATIVE.to_owned();
        request.seed.value = 1_234_567_890_123;
        (request.width, request.height) = (64, 48);
        (request.steps, request.cfg) = (8, 7.0);
        request.embeddings = vec![made::goldens().join("embeddings")];
        request
    }

    fn golden(&self, key: &str) -> Vec<f32> {
        let entry = self.golden.entry(key).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        self.golden.read_f32(entry, &mut values).unwrap();
        values
    }

    fn close(&self, key: &str, found: &[f32]) {
        let expected = self.golden(key);
        assert_eq!(found.len(), expected.len(), "{} {key}", self.name);
        let square = |v: f32| f64::from(v) * f64::from(v);
        let pairs = found.iter().zip(&expected);
        let error: f64 = pairs.map(|(f, e)| square(f - e)).sum();
        let nmse = error / expected.iter().map(|&e| square(e)).sum::<f64>();
        println!("{} {key}: NMSE {nmse:.1e}", self.name);
        assert!(nmse <= 1e-8, "{} {key}: NMSE {nmse:.1e}", self.name);
    }

    fn text(&self, request: &GenerateRequest) -> ([Conditioning; 2], Vec<Event>) {
        control(|c| text::each(&self.device, &self.model, request, c))
    }

    /// Two cases at a time: a prompt each for the positive and the negative.
    fn check_text(&self, cases: [(&str, &str); 2], skip: Option<usize>) {
        let mut request = self.request(cases[0].1);
        cases[1].1.clone_into(&mut request.negative);
        request.clip_skip = skip;
        let (found, _) = self.text(&request);
        for ((case, _), found) in cases.iter().zip(found) {
            let shape = [found.tokens, found.context.len() / found.tokens];
            let expected = self.golden(&format!("text/{case}/shape"));
            let expected: Vec<usize> = expected.iter().map(|&n| n as usize).collect();
            assert_eq!(shape[..], expected, "{} {case}", self.name);
            let thin: Vec<f32> = found.context.iter().copied().step_by(13).collect();
            self.close(&format!("text/{case}/context"), &thin);
            if !found.vector.is_empty() {
                self.close(&format!("text/{case}/pooled"), &found.vector[..1280]);
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
        let (prompts, _) = control(|c| {
            let request = self.request(PROMPT);
            text::encode(&self.device, &self.model, &request, c)
        });
        if self.golden.index().contains("y/positive") {
            self.close("y/positive", &prompts.0.vector);
            self.close("y/negative", &prompts.1.vector);
        }
        for (sampler, scheduler) in runs {
            let mut request = self.request(PROMPT);
            request.sampler = Sampler::find(sampler).unwrap();
            request.scheduler = Scheduler::find(scheduler).unwrap();
            let work = Work {
                device: &self.device,
                model: &self.model,
                request: &request,
            };
            let planned = sample::plan(work, prompts.0.tokens).unwrap();
            let (sampled, _) = control(|c| {
                let canvas = start::prepare(&self.device, &self.model, &request, c)?;
                sample::sample(work, &planned, canvas, &prompts, c, &mut |_| Ok(()))
            });
            let key = format!("latent/{sampler}/{scheduler}");
            self.close(&key, &planes(&sampled.latent));
        }
    }
}

pub(super) fn control<T>(
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
pub(super) fn planes(latent: &Latent) -> Vec<f32> {
    let c = latent.channels;
    (0..c)
        .flat_map(|at| latent.values.iter().copied().skip(at).step_by(c))
        .collect()
}

#[test]
fn sd1_makes_what_comfyui_makes() {
    let case = Case::new("tiny_sd1", Family::Sd1);
    case.check_texts();
    case.check_paths(&RUNS);
    case.check_paths(&[
        ("lcm", "sgm_uniform"),
        ("heun", "simple"),
        ("dpmpp_sde", "exponential"),
        ("uni_pc", "beta"),
        ("ddim", "ddim_uniform"),
    ]);
    for name in ["nobody", "../tiny_sd1"] {
        let (_, events) = case.text(&case.request(&format!("embedding:{name} fox")));
        let told = |e: &Event| matches!(e, Event::Note(n) if n.contains(name));
        assert!(events.iter().any(told), "{name}: {events:?}");
    }
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

#[test]
fn the_refiner_makes_what_comfyui_makes() {
    let case = Case::new("tiny_refiner", Family::SdxlRefiner);
    case.check_texts();
    case.check_paths(&RUNS);
}
