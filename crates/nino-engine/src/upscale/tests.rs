//! Pictures are what the reference makes of them, whatever the memory and the names in the file.

use super::*;
use crate::tests::{close, golden};
use crate::{ErrorKind, PlanError};
use nino_cpu::{Cpu, CpuOptions};
use nino_graph::{Around, Budget, Device};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// The CPU with less memory.
struct Capped(Cpu, usize);

impl Around for Capped {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &self.0 as &dyn Device
    }

    fn budget(&self) -> Budget {
        Budget {
            total: Some(self.1),
            ..Budget::default()
        }
    }
}

fn store(budget: usize) -> Store {
    let cpu = Cpu::new(CpuOptions::default()).unwrap();
    Store::keeping_nothing(Arc::new(Capped(cpu, budget)))
}

fn file(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/models");
    root.join(format!("{name}.safetensors"))
}

fn run(store: &Store, model: &UpscaleModel, image: &Image) -> Result<Upscaled, EngineError> {
    let never = AtomicBool::new(false);
    let mut control = Control {
        cancel: &never,
        on_event: &mut |_| {},
    };
    upscale(
        store,
        model,
        image,
        &UpscaleOptions::default(),
        &mut control,
    )
}

fn picture(width: usize, height: usize) -> Image {
    let value = |i: usize| (i * 7919 % 251) as f32 / 250.0;
    Image {
        width,
        height,
        values: (0..width * height * 3).map(value).collect(),
    }
}

#[test]
fn pictures_are_the_references() {
    for (name, scale) in [
        ("esrgan_x4", 4),
        ("esrgan_x2", 2),
        ("esrgan_x1", 1),
        ("esrgan_plus", 2),
        ("esrgan_trunk", 4),
        ("compact_x4", 4),
        ("compact_x1", 1),
    ] {
        let model = UpscaleModel::open(&file(name)).unwrap();
        assert_eq!(model.scale(), scale, "{name}");
        let golden = golden(&format!("models/{name}"));
        let (shape, values) = golden.tensor("golden.in.x");
        let image = Image {
            width: shape[2],
            height: shape[1],
            values,
        };
        let made = run(&store(usize::MAX), &model, &image).unwrap();
        let (shape, values) = golden.tensor("golden.out.x");
        assert_eq!([made.image.height, made.image.width], shape[1..3], "{name}");
        let wanted: Vec<f32> = values.iter().map(|v| v.clamp(0.0, 1.0)).collect();
        let error = close(&made.image.values, &wanted);
        assert!(error < 2e-5, "{name}: {error}");
    }
}

/// Bands overlap by what a row sees, so that less memory makes the same picture.
#[test]
fn less_memory_makes_the_same_picture() {
    for name in ["esrgan_x4", "esrgan_x2", "compact_x4"] {
        let model = UpscaleModel::open(&file(name)).unwrap();
        let image = picture(33, 301);
        let whole = run(&store(usize::MAX), &model, &image).unwrap();
        assert!(whole.bands.iter().all(|&n| n == 1), "{name}");
        let least = match run(&store(1), &model, &image) {
            Err(EngineError::Plan(PlanError::OverBudget { need, .. })) => need,
            other => panic!("{name}: {:?}", other.map(|made| made.bands)),
        };
        let mut most = 0;
        for share in [10, 15, 30] {
            let budget = least * share / 10;
            let made = match run(&store(budget), &model, &image) {
                Err(EngineError::Plan(PlanError::OverBudget { need, .. })) => {
                    // Each piece tells its own least.
                    run(&store(need), &model, &image).unwrap()
                }
                other => other.unwrap(),
            };
            let error = close(&made.image.values, &whole.image.values);
            assert!(error < 2e-6, "{name} in {budget} bytes: {error}");
            most = most.max(made.bands.iter().copied().max().unwrap());
        }
        assert!(most > 1, "{name}: no budget made bands");
    }
}

#[test]
fn what_is_no_upscaler_or_no_picture_is_refused() {
    let error = UpscaleModel::open(&file("taesd")).err().unwrap();
    assert!(
        matches!(error, EngineError::NotAnUpscaler { .. }),
        "{error}"
    );
    let model = UpscaleModel::open(&file("compact_x4")).unwrap();
    for (width, height) in [(0, 4), (4, 0), (20_000, 1)] {
        let error = run(&store(usize::MAX), &model, &picture(width, height)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Request, "{error}");
    }
}

#[test]
fn a_pixel_is_a_picture() {
    for name in ["esrgan_x4", "esrgan_x2", "compact_x4"] {
        let model = UpscaleModel::open(&file(name)).unwrap();
        let made = run(&store(usize::MAX), &model, &picture(1, 1)).unwrap();
        assert_eq!(made.image.values.len(), model.scale().pow(2) * 3, "{name}");
    }
}
