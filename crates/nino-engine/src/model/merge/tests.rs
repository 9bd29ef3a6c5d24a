//! Mixed weights against ComfyUI's (`goldens/lora/merge.py`), and whole models.

use super::*;
use crate::model::identity::{NetId, Origin, Part};
use crate::model::lora::Source;
use crate::tests::made;
use crate::{Checkpoint, EngineError};
use nino_dtype::DType;
use nino_graph::{ParamSource, ParamSpec, Shape};
use nino_models::FileParams;
use nino_weights::TensorReader;
use std::path::PathBuf;

const PART: LoraPart = LoraPart::Diffusion;

fn golden() -> Arc<TensorReader> {
    let path = "../../goldens/lora/merge.safetensors";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    Arc::new(nino_weights::open(path).unwrap())
}

/// One of the golden's models.
fn model(reader: &Arc<TensorReader>, prefix: &str) -> (NetId, Source) {
    let index = reader.index();
    let entries = index.entries().iter().filter_map(|e| {
        let name = e.name.strip_prefix(prefix)?.to_owned();
        Some(nino_weights::Entry { name, ..e.clone() })
    });
    let source = Source {
        file: FileParams::of(reader, index.with_entries(entries.collect())),
        part: PART,
        loras: Arc::default(),
        controls: Vec::new(),
    };
    (NetId::plain(Origin::unique(), Part::Diffusion), source)
}

fn mixed(
    (id, own): &(NetId, Source),
    other: &(NetId, Source),
    mix: impl Fn(&str) -> Mix,
) -> (NetId, Source) {
    let (tensors, alone) = shared(own.file.index(), other.1.file.index(), mix);
    let loras = own.loras.mixed(PART, other.clone(), tensors);
    let loras = Arc::new(multiplied(loras, PART, alone));
    let id = NetId {
        loras: loras.ids(PART),
        ..id.clone()
    };
    let source = Source {
        loras,
        ..own.clone()
    };
    (id, source)
}

fn between(ratio: f64) -> Mix {
    Mix {
        own: ratio as f32,
        other: (1.0 - ratio) as f32,
    }
}

fn read(source: &Source, name: &str, shape: &[usize]) -> Vec<f32> {
    let param = ParamSpec {
        name: name.to_owned(),
        shape: Shape::new(shape),
        dtype: DType::F32,
        inline: None,
    };
    let mut values = vec![0.0f32; param.shape.numel()];
    let bytes = bytemuck::cast_slice_mut(&mut values);
    source.read(&param, bytes).unwrap();
    values
}

#[test]
fn mixed_weights_are_comfyuis() {
    let reader = golden();
    let [a, b, c] = ["a.", "b.", "c."].map(|prefix| model(&reader, prefix));
    let by_block = |name: &str| match name {
        _ if name.starts_with("middle") => between(0.5),
        _ if name.starts_with("out") => between(0.9),
        _ => between(0.2),
    };
    let subtracted = mixed(&b, &c, |_| Mix {
        own: 0.7,
        other: -0.7,
    });
    let sum = Mix {
        own: 1.0,
        other: 1.0,
    };
    let cases = [
        ("simple", mixed(&b, &c, |_| between(0.3))),
        ("blocks", mixed(&b, &c, by_block)),
        ("nested", mixed(&a, &subtracted, |_| sum)),
        ("own", mixed(&a, &b, |_| between(0.4))),
    ];
    for (case, (_, source)) in &cases {
        let wanted = reader.index().entries().iter();
        let wanted = wanted.filter_map(|e| Some((e, e.name.strip_prefix(&format!("{case}."))?)));
        let mut n = 0;
        for (entry, name) in wanted {
            let mut values = vec![0.0; entry.n_values()];
            reader.read_f32(entry, &mut values).unwrap();
            // The same operations in the same order: equal to the bit.
            assert_eq!(read(source, name, &entry.shape), values, "{case} {name}");
            n += 1;
        }
        assert_eq!(n, 6, "{case}");
    }
    let ids: Vec<_> = cases.iter().map(|(_, (id, _))| id.loras.clone()).collect();
    for (i, id) in ids.iter().enumerate() {
        assert!(
            !ids[..i].contains(id),
            "weights of two mixtures are kept apart"
        );
    }
}

#[test]
fn a_model_halved_with_itself_is_itself_and_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let path = folder.path().join(format!("{name}.safetensors"));
        made::write_list(&made::list(name), &path);
        Checkpoint::open(&path, None).unwrap()
    };
    let (sd1, sdxl) = (open("tiny_sd1"), open("tiny_sdxl"));
    let half = between(0.5);
    let model = sd1.diffusion.mixed(&sd1.diffusion, |_| half).unwrap();
    assert_ne!(model.id(), sd1.diffusion.id());
    let whole = sd1.diffusion.mixed(&sd1.diffusion, |_| between(1.0));
    assert_eq!(whole.unwrap().id(), sd1.diffusion.id());
    let text = sd1.text.mixed(&sd1.text, half).unwrap();
    assert_ne!(text.ids(), sd1.text.ids());
    let pairs = [
        (model.source(), sd1.diffusion.source()),
        (text.source(0), sd1.text.source(0)),
    ];
    for (mixed, plain) in pairs {
        for entry in plain.file.index().entries().iter().step_by(17) {
            let (shape, _) = plain.file.find(&entry.name).unwrap();
            let found = read(&mixed, &entry.name, &shape);
            assert_eq!(found, read(&plain, &entry.name, &shape), "{}", entry.name);
        }
    }
    let refused = sd1.diffusion.mixed(&sdxl.diffusion, |_| half);
    assert!(matches!(refused, Err(EngineError::Merge { .. })));
    let refused = sd1.text.mixed(&sdxl.text, half).err().unwrap();
    assert!(refused.to_string().contains("different kinds"), "{refused}");
}
