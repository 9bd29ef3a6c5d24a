//! A plan's numbers are the run's: the least budget that a plan tells is enough for the run,
//! whatever the request holds beside it.

use crate::generate::{GenerateRequest, Inpaint, Start, generate, plan_generate};
use crate::tests::made;
use crate::{Checkpoint, Control, EngineError, Fill, Mask, Picture, Store};
use nino_cpu::{Cpu, CpuOptions};
use nino_graph::{Around, Budget, Device, PlanError};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A CPU whose budget is all of the program's memory.
struct Capped(Cpu, usize);

impl Around for Capped {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &self.0 as &dyn Device
    }

    fn budget(&self) -> Budget {
        Budget {
            total: Some(self.1),
            reserve: 1,
            ..Budget::default()
        }
    }
}

fn cpu(budget: usize) -> Arc<dyn Device> {
    Arc::new(Capped(Cpu::new(CpuOptions::default()).unwrap(), budget))
}

fn open(name: &str) -> (Checkpoint, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("{name}.safetensors"));
    made::write_list(&made::list(name), &path);
    (Checkpoint::open(&path, None).unwrap(), folder)
}

fn small(model: &Checkpoint) -> GenerateRequest {
    GenerateRequest {
        width: 128,
        height: 64,
        steps: 2,
        cfg: 4.0,
        ..GenerateRequest::new(
            model,
            "a fox in the snow, and a much longer prompt than nothing",
        )
    }
}

/// The least budget that the first refusal tells.
fn least(model: &Checkpoint, request: &GenerateRequest) -> usize {
    match plan_generate(&Store::keeping_nothing(cpu(2)), model, request) {
        Err(EngineError::Plan(PlanError::OverBudget { need, .. })) => need,
        other => panic!("{:?}", other.map(|p| p.peak_bytes())),
    }
}

fn run(model: &Checkpoint, request: &GenerateRequest, budget: usize) {
    // Plans are made anew for the run: a run that differed would not find its own.
    let planned = Store::keeping_nothing(cpu(budget));
    let planned = plan_generate(&planned, model, request).unwrap();
    let never = AtomicBool::new(false);
    let mut control = Control {
        cancel: &never,
        on_event: &mut |_| {},
    };
    let store = Store::keeping_nothing(cpu(budget));
    let made = generate(&store, model, request, &mut control, &mut |_| Ok(())).unwrap();
    assert_eq!(made.peak_bytes, planned.peak_bytes());
}

/// Chroma's prompts keep their own lengths, so that each side has a network of its own. They were
/// planned as one of a common length, and the second found no room beside the first.
#[test]
fn prompts_of_two_lengths_run_in_the_least_budget() {
    let (model, _folder) = open("tiny_chroma");
    let request = small(&model);
    run(&model, &request, least(&model, &request));
}

/// A picture to start from, its mask and what is pasted back are held through every stage.
#[test]
fn a_start_picture_counts_in_every_stage() {
    let (model, _folder) = open("tiny_sd1");
    let plain = small(&model);
    let picture = Picture::new(plain.width, plain.height);
    let painted = GenerateRequest {
        start: Start::Picture(picture.clone()),
        denoise: 0.7,
        inpaint: Some(Inpaint {
            mask: Mask {
                width: picture.width,
                height: picture.height,
                values: vec![1.0; picture.width * picture.height],
            },
            fill: Fill::Keep,
            grow: 0,
            feather: 0,
            paste: true,
        }),
        ..plain.clone()
    };
    let (without, with) = (least(&model, &plain), least(&model, &painted));
    // As bytes: the picture and the one to paste; as floats: the mask, grown, and to paste.
    let held = picture.width * picture.height * (3 + 3 + 3 * 4);
    assert!(with >= without + held, "{with} for {without} and {held}");
    run(&model, &painted, with);
}

/// Models that stay for the next picture leave room for what each stage holds in host memory. A
/// stage that got its sessions back from the one before did not ask for that room.
#[test]
fn what_stays_for_the_next_picture_is_within_the_budget() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let model = Checkpoint::open(&root.join("models/nino-emoji.gguf"), None).unwrap();
    let request = GenerateRequest {
        width: 256,
        height: 384,
        cfg: 1.0,
        ..small(&model)
    };
    let planned = |budget: usize| plan_generate(&Store::new(cpu(budget)), &model, &request);
    let whole = planned(1 << 40).unwrap();
    let most = whole.peak_bytes() + whole.beside_bytes();
    for share in 50..=100 {
        let budget = most * share / 100;
        let plan = planned(budget).unwrap();
        let all = plan.peak_bytes() + plan.beside_bytes();
        assert!(all <= budget, "{all} of {budget}, of {most} at most");
    }
}
