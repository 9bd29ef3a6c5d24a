//! Plans of whole requests, without a file.

use super::super::dry::Dry;
use super::{Residency, plan_generate};
use crate::{Checkpoint, Control, EngineError, GenerateRequest, generate};
use nino_cpu::{Cpu, CpuOptions};
use nino_dtype::DType;
use nino_graph::{Around, Budget, Device, Limits, Plan, PlanError};
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::atomic::AtomicBool;

/// The CPU with a budget.
struct Capped(Cpu, Option<usize>);

impl Around for Capped {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &self.0 as &dyn Device
    }

    /// Of a device with memory of its own: pictures are not in it.
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

fn cpu(budget: Option<usize>) -> Capped {
    Capped(Cpu::new(CpuOptions::default()).unwrap(), budget)
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
    let plan = plan_generate(&cpu(None), &model, &small(&model), 1).unwrap();
    let stages: Vec<_> = plan.stages.iter().map(|s| (s.stage, s.runs)).collect();
    assert_eq!(stages, [("text", 2), ("unet", 4), ("decode", 1)]);
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
    let together = plan_generate(&cpu(None), &model, &request, 2).unwrap();
    let all = |p: &super::GeneratePlan, r| p.stages.iter().all(|s| s.residency == r);
    assert!(all(&together, Residency::Resident));
    let peak = together.peak_bytes();
    let some = plan_generate(&cpu(Some(peak - 1)), &model, &request, 2).unwrap();
    assert!(some.peak_bytes() < peak && !all(&some, Residency::Resident));
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
        let plan = plan_generate(&cpu(Some(budget)), &model, &request, 1).unwrap();
        assert!(plan.peak_bytes() <= budget);
        let unet = &plan.stages[1];
        assert_eq!(unet.residency, Residency::Streamed);
        assert!(plan.streamed_bytes() > last);
        last = plan.streamed_bytes();
    }
    // What is told does at once, for all stages together.
    let told = |budget| match plan_generate(&cpu(Some(budget)), &model, &request, 1) {
        Err(EngineError::Plan(PlanError::OverBudget {
            need, budget: told, ..
        })) => {
            assert_eq!(told, budget);
            need
        }
        plan => panic!("{budget} bytes are not enough: {plan:?}"),
    };
    let least = told(MIB);
    assert_eq!(told(least - 1), least);
    let plan = plan_generate(&cpu(Some(least)), &model, &request, 1).unwrap();
    assert!(plan.peak_bytes() <= least);
}

#[test]
fn both_passes_stream_the_same_weights() {
    let model = Checkpoint::spec("sd15").unwrap();
    let first = small(&model);
    let budget = plan_generate(&cpu(None), &model, &first, 1).unwrap();
    let request = GenerateRequest {
        hires: Some(crate::Hires {
            width: 512,
            height: 512,
            method: crate::Upscale::default(),
            steps: 2,
            denoise: 0.5,
        }),
        ..first
    };
    // Enough for the small pass alone.
    let device = cpu(Some(budget.peak_bytes() + MIB));
    let dry = Dry::new(&device);
    let never = AtomicBool::new(false);
    let mut control = Control {
        cancel: &never,
        on_event: &mut |_| {},
    };
    generate(&dry, &model, &request, &mut control, &mut |_| Ok(())).unwrap();
    let sessions = dry.sessions();
    let unets = sessions
        .iter()
        .filter(|s| super::stage(&s.plan).1 == "unet");
    let streamed: Vec<BTreeSet<&str>> = unets.map(|s| fetched(&s.plan)).collect();
    assert_eq!(streamed.len(), 2);
    assert!(!streamed[0].is_empty());
    assert!(streamed[0] == streamed[1]);
}

/// Names of the weights a plan streams.
fn fetched(plan: &Plan) -> BTreeSet<&str> {
    let params = plan.fetches().iter().flat_map(|f| &f.params);
    let nodes: BTreeSet<_> = params.map(|(node, _)| *node).collect();
    let params = plan.graph().params().filter(|(n, _)| nodes.contains(n));
    params.map(|(_, p)| p.name.as_str()).collect()
}

/// The least budget a request fits into, as the refusal tells it.
fn least(model: &Checkpoint, request: &GenerateRequest) -> usize {
    match plan_generate(&cpu(Some(MIB)), model, request, 1) {
        Err(EngineError::Plan(PlanError::OverBudget { need, .. })) => need,
        plan => panic!("a MiB is not enough: {plan:?}"),
    }
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
    let device = cpu(Some(least(&model, &first)));
    let never = AtomicBool::new(false);
    let mut stages = Vec::new();
    let mut on_event = |event| {
        if let crate::Event::Stage(name) = event {
            stages.push(name);
        }
    };
    let mut control = Control {
        cancel: &never,
        on_event: &mut on_event,
    };
    let made = generate(&device, &model, &both, &mut control, &mut |_| Ok(()));
    let made = made.map(|_| ());
    let over = matches!(made, Err(EngineError::Plan(PlanError::OverBudget { .. })));
    assert!(over, "{made:?}");
    assert_eq!(stages.first(), Some(&"text"));
    assert!(!stages.contains(&"sample"), "{stages:?}");
}

#[test]
fn quantizing_on_load_is_planned_for() {
    let mut model = Checkpoint::spec("sd15").unwrap();
    let request = small(&model);
    let unet = |model: &Checkpoint| {
        let plan = plan_generate(&cpu(None), model, &request, 1).unwrap();
        plan.stages[1].plan.weight_bytes()
    };
    let f16 = unet(&model);
    model.quantize(DType::Q8_0);
    let q8 = unet(&model);
    assert!((0.52..0.56).contains(&(q8 as f64 / f16 as f64)), "{q8}");
    model.quantize(DType::Q4_K);
    let q4 = unet(&model);
    assert!(q4 < q8, "{q4}");
}

/// Keys and values of the prompt in every cross-attention, and the embedded label.
#[test]
fn what_the_prompt_gives_is_computed_once_for_all_steps() {
    for (name, steps) in [("sd15", 2 * 16), ("sdxl", 2 * 70 + 2)] {
        let model = Checkpoint::spec(name).unwrap();
        let plan = plan_generate(&cpu(None), &model, &small(&model), 1).unwrap();
        let unet = plan.stages.iter().find(|s| s.stage == "unet").unwrap();
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
    let latents = |device: &dyn Device, steady: bool| {
        let requests = [("a fox", 4.0), ("a red sun", 1.0)];
        requests.map(|(prompt, cfg)| {
            let request = request(prompt, cfg);
            let plan = plan_generate(device, &model, &request, 1).unwrap();
            let unet = plan.stages.iter().find(|s| s.stage == "unet").unwrap();
            assert_eq!(unet.plan.steady_steps() > 0, steady);
            let never = AtomicBool::new(false);
            let mut control = Control {
                cancel: &never,
                on_event: &mut |_| {},
            };
            let mut latent = None;
            let made = generate(device, &model, &request, &mut control, &mut |l| {
                latent = Some(l.latent.values.clone());
                Ok(())
            });
            made.unwrap();
            latent.unwrap()
        })
    };
    let kept = latents(&cpu(None), true);
    assert_ne!(kept[0], kept[1]);
    assert!(kept == latents(&Frugal(cpu(None)), false));
}
