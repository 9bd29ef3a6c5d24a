//! Plans of whole requests, without a file.

use super::{Residency, plan_generate};
use crate::{Checkpoint, Control, EngineError, GenerateRequest, Stage, Store, generate};
use nino_cpu::{Cpu, CpuOptions};
use nino_dtype::DType;
use nino_graph::{Around, Budget, Device, Limits, PlanError};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The CPU with a budget.
struct Capped(Cpu, Option<usize>);

impl Around for Capped {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &self.0 as &dyn Device
    }

    /// As of a device with memory of its own: the program is not in it.
    fn budget(&self) -> Budget {
        Budget {
            total: self.1,
            ..Budget::default()
        }
    }
}

/// The same without memory for what stays between runs.
struct Frugal(Capped);

impl Around for Frugal {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &self.0 as &dyn Device
    }

    fn limits(&self) -> Limits {
        Limits {
            keep_steady: false,
            ..Around::limits(&self.0)
        }
    }
}

fn capped(budget: Option<usize>) -> Capped {
    Capped(Cpu::new(CpuOptions::default()).unwrap(), budget)
}

fn cpu(budget: Option<usize>) -> Arc<dyn Device> {
    Arc::new(capped(budget))
}

fn small(model: &Checkpoint) -> GenerateRequest {
    GenerateRequest {
        width: 256,
        height: 256,
        steps: 4,
        ..GenerateRequest::new(model, "a fox")
    }
}

const MIB: usize = 1 << 20;

#[test]
fn a_description_plans_like_a_file_of_f16() {
    let model = Checkpoint::spec("sd15").unwrap();
    let plan = plan_generate(&Store::for_pictures(cpu(None), 1), &model, &small(&model)).unwrap();
    let stages: Vec<_> = plan.stages.iter().map(|s| (s.stage, s.runs)).collect();
    let expected = [(Stage::Text, 2), (Stage::Sample, 4), (Stage::Decode, 1)];
    assert_eq!(stages, expected);
    // 860 million weights of the UNet, 123 of the encoder, 49 of the decoder.
    let mib: Vec<usize> = plan
        .stages
        .iter()
        .map(|s| s.plan.weight_bytes() / MIB)
        .collect();
    assert!((230..240).contains(&mib[0]), "{mib:?}");
    assert!((1635..1650).contains(&mib[1]), "{mib:?}");
    assert!((93..97).contains(&mib[2]), "{mib:?}");
    assert!(plan.stages.iter().all(|s| s.residency == Residency::InTurn));
    assert_eq!(plan.streamed_bytes(), 0);
}

#[test]
fn what_fits_beside_each_other_stays_for_the_next_picture() {
    let model = Checkpoint::spec("sd15").unwrap();
    let request = small(&model);
    let together = plan_generate(&Store::for_pictures(cpu(None), 2), &model, &request).unwrap();
    let all = |p: &super::GeneratePlan, r| p.stages.iter().all(|s| s.residency == r);
    assert!(all(&together, Residency::Resident));
    // Enough for all weights, but not for activations beside them.
    let budget = together.weight_bytes();
    let some = plan_generate(&Store::for_pictures(cpu(Some(budget)), 2), &model, &request).unwrap();
    assert!(some.peak_bytes() <= budget && !all(&some, Residency::Resident));
    assert!(
        some.stages
            .iter()
            .any(|s| s.residency == Residency::Resident)
    );
}

#[test]
fn a_smaller_budget_streams_and_a_tiny_one_says_what_is_missing() {
    let model = Checkpoint::spec("sd15").unwrap();
    let request = small(&model);
    let mut last = 0;
    for budget in [1600 * MIB, 1000 * MIB, 600 * MIB] {
        let plan =
            plan_generate(&Store::for_pictures(cpu(Some(budget)), 1), &model, &request).unwrap();
        assert!(plan.peak_bytes() <= budget);
        let unet = &plan.stages[1];
        assert_eq!(unet.residency, Residency::Streamed);
        assert!(plan.streamed_bytes() > last);
        last = plan.streamed_bytes();
    }
    let error = plan_generate(
        &Store::for_pictures(cpu(Some(64 * MIB)), 1),
        &model,
        &request,
    )
    .unwrap_err();
    assert!(
        matches!(error, EngineError::Plan(PlanError::OverBudget { need, .. }) if need > 64 * MIB),
        "{error}"
    );
}

/// The least budget a request fits into, as the first refusal says it.
fn least(model: &Checkpoint, request: &GenerateRequest) -> usize {
    match plan_generate(&Store::for_pictures(cpu(Some(MIB)), 1), model, request) {
        Err(EngineError::Plan(PlanError::OverBudget { need, budget, .. })) => {
            assert_eq!(budget, MIB);
            need
        }
        other => panic!("{:?}", other.map(|p| p.peak_bytes())),
    }
}

#[test]
fn the_least_budget_is_told_at_the_first_try() {
    let emoji =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/nino-emoji.gguf");
    let models = [Checkpoint::open(&emoji, None), Checkpoint::spec("sd15")];
    for model in models.map(Result::unwrap) {
        let request = small(&model);
        let least = least(&model, &request);
        plan_generate(&Store::for_pictures(cpu(Some(least)), 1), &model, &request).unwrap();
        let less = plan_generate(
            &Store::for_pictures(cpu(Some(least - MIB)), 1),
            &model,
            &request,
        );
        assert!(
            less.is_err(),
            "{} fits into less than {least}",
            model.name()
        );
    }
}

/// The device that samples then holds nothing of them.
#[test]
fn text_encoders_may_run_on_another_device() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let model = Checkpoint::open(&root.join("models/nino-emoji.gguf"), None).unwrap();
    let request = GenerateRequest {
        width: 64,
        height: 64,
        steps: 2,
        ..GenerateRequest::new(&model, "a fox")
    };
    let (one, two) = (Store::new(cpu(None)), Store::new(cpu(None)));
    two.encode_text_on(cpu(None));
    let [together, apart] = [&one, &two].map(|store| {
        let plan = plan_generate(store, &model, &request).unwrap();
        let never = AtomicBool::new(false);
        let mut control = Control {
            cancel: &never,
            on_event: &mut |_| {},
        };
        let made = generate(store, &model, &request, &mut control, &mut |_| Ok(())).unwrap();
        assert_eq!(made.peak_bytes, plan.peak_bytes());
        (plan, made.pictures)
    });
    assert!(together.1 == apart.1, "the same picture");
    let text = |plan: &super::GeneratePlan| -> Vec<bool> {
        let stages = plan.stages.iter().map(|s| (s.stage, s.elsewhere));
        stages
            .filter(|(_, elsewhere)| *elsewhere)
            .map(|(stage, _)| stage == Stage::Text)
            .collect()
    };
    assert_eq!(text(&together.0), [false; 0]);
    assert_eq!(text(&apart.0), [true]);
    // All weights stay, but for those of the encoder.
    let encoder = apart.0.stages.iter().find(|s| s.elsewhere).unwrap();
    let saved = together.0.peak_bytes() - apart.0.peak_bytes();
    assert!(saved >= encoder.plan.weight_bytes(), "{saved} bytes");
}

#[test]
fn a_second_pass_that_does_not_fit_is_told_before_the_first() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let model = Checkpoint::open(&root.join("models/nino-emoji.gguf"), None).unwrap();
    let tiles = crate::DecodeOptions {
        tile: crate::Tile::Fast(crate::Tiling {
            size: 64,
            overlap: 16,
        }),
        ..crate::DecodeOptions::default()
    };
    let first = GenerateRequest {
        width: 64,
        height: 64,
        steps: 2,
        decode: tiles,
        ..GenerateRequest::new(&model, "a fox")
    };
    let both = GenerateRequest {
        hires: Some(crate::Hires {
            width: 1024,
            height: 1024,
            method: crate::Upscale::default(),
            steps: 2,
            denoise: 0.5,
        }),
        ..first.clone()
    };
    let store = Store::new(cpu(Some(least(&model, &first))));
    let never = AtomicBool::new(false);
    let mut stages = Vec::new();
    let mut on_event = |event| {
        if let crate::Event::Stage(stage) = event {
            stages.push(stage);
        }
    };
    let mut control = Control {
        cancel: &never,
        on_event: &mut on_event,
    };
    let made = generate(&store, &model, &both, &mut control, &mut |_| Ok(()));
    let made = made.map(|_| ());
    let over = matches!(made, Err(EngineError::Plan(PlanError::OverBudget { .. })));
    assert!(over, "{made:?}");
    assert_eq!(stages.first(), Some(&Stage::Text));
    assert!(!stages.contains(&Stage::Sample), "{stages:?}");
}

#[test]
fn quantizing_on_load_is_planned_for() {
    let model = Checkpoint::spec("sd15").unwrap();
    let request = small(&model);
    let unet = |model: &Checkpoint| {
        let plan = plan_generate(&Store::for_pictures(cpu(None), 1), model, &request).unwrap();
        plan.stages[1].plan.weight_bytes()
    };
    let f16 = unet(&model);
    let q8 = unet(&model.quantized(DType::Q8_0));
    assert!((0.52..0.56).contains(&(q8 as f64 / f16 as f64)), "{q8}");
    let q4 = unet(&model.quantized(DType::Q4_K));
    assert!(q4 < q8, "{q4}");
}

/// Keys and values of the prompt in every cross-attention, and the embedded label.
#[test]
fn what_the_prompt_gives_is_computed_once_for_all_steps() {
    for (name, steps) in [("sd15", 2 * 16), ("sdxl", 2 * 70 + 2)] {
        let model = Checkpoint::spec(name).unwrap();
        let plan =
            plan_generate(&Store::for_pictures(cpu(None), 1), &model, &small(&model)).unwrap();
        let unet = plan
            .stages
            .iter()
            .find(|s| s.stage == Stage::Sample)
            .unwrap();
        assert_eq!(unet.plan.steady_steps(), steps, "{name}");
    }
}

/// Pictures in turn, with the memory to keep what stays between steps and without it.
#[test]
fn keeping_what_stays_does_not_change_a_latent() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let model = Checkpoint::open(&root.join("models/nino-emoji.gguf"), None).unwrap();
    let request = |prompt: &str, cfg: f32| GenerateRequest {
        width: 64,
        height: 64,
        steps: 3,
        cfg,
        batch: 2,
        ..GenerateRequest::new(&model, prompt)
    };
    let latents = |device: Arc<dyn Device>, steady: bool| {
        let store = Store::new(Arc::clone(&device));
        let requests = [("a fox", 4.0), ("a red sun", 1.0)];
        requests.map(|(prompt, cfg)| {
            let request = request(prompt, cfg);
            let plan = plan_generate(
                &Store::for_pictures(Arc::clone(&device), 1),
                &model,
                &request,
            )
            .unwrap();
            let unet = plan
                .stages
                .iter()
                .find(|s| s.stage == Stage::Sample)
                .unwrap();
            assert_eq!(unet.plan.steady_steps() > 0, steady);
            let never = AtomicBool::new(false);
            let mut control = Control {
                cancel: &never,
                on_event: &mut |_| {},
            };
            let mut latent = None;
            let made = generate(&store, &model, &request, &mut control, &mut |l| {
                latent = Some(l.latent.values.clone());
                Ok(())
            });
            made.unwrap();
            latent.unwrap()
        })
    };
    let kept = latents(cpu(None), true);
    assert_ne!(kept[0], kept[1]);
    assert!(kept == latents(Arc::new(Frugal(capped(None))), false));
}

/// The transformers in 8 bits are 6.5 and 4.1 GB; of the text encoder's 36 layers Z-Image needs 35
/// and klein 27, and no more are planned for. Its table of tokens stays f16.
#[test]
fn models_of_this_year_fit_cards_of_6_and_8_gib() {
    for (name, text_gb) in [("z-image-turbo", 4.5..4.6), ("flux2-klein-4b", 3.6..3.7)] {
        let model = Checkpoint::spec(name).unwrap().quantized(DType::Q8_0);
        let request = GenerateRequest::new(&model, "a fox");
        assert_eq!((request.width, request.height), (1024, 1024));
        for gib in [8, 6] {
            let budget = gib << 30;
            let store = Store::for_pictures(cpu(Some(budget)), 1);
            let plan = plan_generate(&store, &model, &request).unwrap();
            assert!(plan.peak_bytes() <= budget, "{name} in {gib} GiB");
            let text = plan.stages[0].plan.weight_bytes() as f64 / 1e9;
            assert!(text_gb.contains(&text), "{name}: {text} GB of text encoder");
        }
    }
}
