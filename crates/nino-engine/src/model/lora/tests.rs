//! Patched weights against ComfyUI's, branches against merged weights, and files that do not
//! belong.

use super::*;
use nino_cpu::{Cpu, CpuOptions};
use nino_graph::{Device, Graph, ParamSource, ParamSpec, RunOptions, Shape};
use nino_models::FileParams;
use nino_weights::safetensors::{NewTensor, Writer};
use std::collections::BTreeMap;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../goldens/lora/{name}.safetensors"))
}

fn spec(path: PathBuf, unet: f32, clip: f32) -> LoraSpec {
    LoraSpec { path, unet, clip }
}

/// One more LoRA on `loras`.
fn add(
    loras: &mut Loras,
    spec: &LoraSpec,
    parts: &[(LoraPart, &Index)],
    model: &str,
) -> Result<Applied, EngineError> {
    let (fitted, applied) = Fitted::read(spec, parts, Some(&*loras), model)?;
    *loras = loras.with(&fitted);
    Ok(applied)
}

/// The tensors of a file below `prefix`, by the rest of their names.
fn below(reader: &Arc<TensorReader>, prefix: &str) -> FileParams {
    let index = reader.index();
    let entries = index.entries().iter().filter_map(|e| {
        let name = e.name.strip_prefix(prefix)?.to_owned();
        Some(nino_weights::Entry { name, ..e.clone() })
    });
    FileParams::of(reader, index.with_entries(entries.collect()))
}

fn nmse(found: &[f32], expected: &[f32]) -> f64 {
    let square = |v: f32| f64::from(v) * f64::from(v);
    let error: f64 = found.iter().zip(expected).map(|(f, e)| square(f - e)).sum();
    error / expected.iter().map(|&e| square(e)).sum::<f64>().max(1e-30)
}

#[test]
fn every_kind_of_update_gives_comfyuis_weights() {
    let base = Arc::new(nino_weights::open(golden("base")).unwrap());
    let expected = nino_weights::open(golden("expected")).unwrap();
    let parts = [
        (LoraPart::Diffusion, below(&base, "unet.")),
        (LoraPart::TextEncoder(0), below(&base, "text.")),
    ];
    let indices: Vec<_> = parts.iter().map(|(p, f)| (*p, f.index())).collect();
    let mut loras = Loras::default();
    let mut wrong = Vec::new();
    let files = [("1.", "kohya", 0.8, 0.6), ("2.", "diffusers", -0.5, -0.5)];
    for (stage, file, unet, clip) in files {
        let applied = add(
            &mut loras,
            &spec(golden(file), unet, clip),
            &indices,
            "golden",
        )
        .unwrap();
        assert_eq!(applied.unmatched, Vec::<String>::new());
        for ((part, file), prefix) in parts.iter().zip(["unet.", "text."]) {
            let source = Source {
                file: file.clone(),
                part: *part,
                loras: Arc::new(loras.clone()),
                controls: Vec::new(),
            };
            for entry in file.index().entries() {
                let want = expected
                    .entry(&format!("{stage}{prefix}{}", entry.name))
                    .unwrap();
                let mut values = vec![0.0; want.n_values()];
                expected.read_f32(want, &mut values).unwrap();
                let found = read(&source, &entry.name, &want.shape);
                let error = nmse(&found, &values);
                if error > 1e-12 {
                    wrong.push(format!("{stage} {}: NMSE {error:.1e}", entry.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn read(source: &Source, name: &str, shape: &[usize]) -> Vec<f32> {
    let param = ParamSpec {
        name: name.to_owned(),
        shape: Shape::new(shape),
        dtype: DType::F32,
        inline: None,
    };
    let mut bytes = vec![0; param.bytes()];
    source.read(&param, &mut bytes).unwrap();
    let mut values = vec![0.0; param.shape.numel()];
    nino_dtype::decode(DType::F32, &bytes, &mut values).unwrap();
    values
}

/// The golden's base with every matrix and kernel in fp8, which kernels decode exactly.
fn in_fp8(dir: &Path) -> Arc<TensorReader> {
    let base = nino_weights::open(golden("base")).unwrap();
    let dtype = |rank: usize| {
        if rank > 1 { DType::F8E4M3 } else { DType::F32 }
    };
    let list: Vec<NewTensor> = base
        .index()
        .entries()
        .iter()
        .map(|e| NewTensor {
            name: e.name.clone(),
            dtype: dtype(e.shape.len()),
            shape: e.shape.clone(),
        })
        .collect();
    let path = dir.join("fp8.safetensors");
    let mut writer = Writer::create(&path, &list, &BTreeMap::new()).unwrap();
    for (entry, new) in base.index().entries().iter().zip(&list) {
        let mut values = vec![0.0; entry.n_values()];
        base.read_f32(entry, &mut values).unwrap();
        let mut bytes = vec![0; new.dtype.bytes_for(values.len()).unwrap()];
        nino_dtype::encode(new.dtype, &values, &mut bytes).unwrap();
        writer.write(&bytes).unwrap();
    }
    writer.finish().unwrap();
    Arc::new(nino_weights::open(path).unwrap())
}

#[test]
fn a_branch_equals_merged_weights() {
    let dir = tempfile::tempdir().unwrap();
    let base = in_fp8(dir.path());
    let file = below(&base, "unet.");
    let mut loras = Loras::default();
    let indices = [(LoraPart::Diffusion, file.index())];
    let applied = add(
        &mut loras,
        &spec(golden("kohya"), 0.8, 0.0),
        &indices,
        "golden",
    )
    .unwrap();
    // LoHa, LoKr, DoRA, a core and whole differences.
    assert_eq!(applied.widened, 10);
    let source = Source {
        file,
        part: LoraPart::Diffusion,
        loras: Arc::new(loras),
        controls: Vec::new(),
    };
    let beside = run(&source, |stored| stored);
    let merged = run(&source, |_| DType::F32);
    assert!(beside.1 > 0 && merged.1 == 0, "{} {}", beside.1, merged.1);
    for (i, (b, m)) in beside.0.iter().zip(&merged.0).enumerate() {
        let error = nmse(b, m);
        assert!(error <= 1e-12, "output {i}: NMSE {error:.1e}");
    }
}

/// Some layers of the base on the CPU; also how many parameters belong to branches.
fn run(source: &Source, held: impl Fn(DType) -> DType) -> (Vec<Vec<f32>>, usize) {
    let mut g = Graph::new();
    let p = source.params(held);
    let x = g.input("x", [1, 5, 6, 16], DType::F32);
    let block = p.at("input_blocks.1.1.transformer_blocks.0");
    let strided = nino_models::ConvShape {
        bias: false,
        ..nino_models::ConvShape::same(16, 3)
    };
    let outs = [
        block.linear_no_bias(&mut g, "attn1.to_q", x, 16),
        p.linear_no_bias(&mut g, "input_blocks.1.1.proj_in", x, 16),
        p.conv_with(&mut g, "input_blocks.1.0.in_layers.2", x, strided),
    ];
    outs.iter().for_each(|&o| g.output(o));
    let graph = g.finish().unwrap();
    let n = graph
        .params()
        .filter(|(_, p)| p.name.contains(".lora0."))
        .count();
    let cpu = Cpu::new(CpuOptions::default()).unwrap();
    let plan = crate::fit::fit(&cpu, &graph, 1).unwrap();
    let weights = cpu.load(&[&plan], Arc::new(source.clone())).unwrap();
    let mut session = cpu.session(plan.clone(), &weights).unwrap();
    let values: Vec<f32> = (0..5 * 6 * 16).map(|i| (i as f32 * 0.37).sin()).collect();
    crate::values::write(&mut *session, plan.graph(), x, &values).unwrap();
    session.run(RunOptions::default()).unwrap();
    let outs = outs.map(|o| crate::values::read(&mut *session, plan.graph(), o).unwrap());
    (outs.to_vec(), n)
}

#[test]
fn a_lora_for_another_family_is_refused_with_the_numbers() {
    let base = Arc::new(nino_weights::open(golden("base")).unwrap());
    let text = below(&base, "text.");
    // A model that has the text encoder under both names: the UNet's updates find nothing there.
    let parts = [(LoraPart::Diffusion, text.index())];
    let diffusers = spec(golden("diffusers"), 1.0, 1.0);
    let refused = |parts: &[(LoraPart, &Index)], model: &str| {
        add(&mut Loras::default(), &diffusers, parts, model).unwrap_err()
    };
    let error = refused(&parts, "x.safetensors is SDXL").to_string();
    for part in [
        "diffusers.safetensors",
        "x.safetensors is SDXL",
        "3 of 3 updates",
        "attn1.to_out",
    ] {
        assert!(error.contains(part), "{part:?} is missing from {error}");
    }
    // The same names with other sizes.
    let mut entries = below(&base, "unet.").index().entries().to_vec();
    for entry in &mut entries {
        entry.shape[0] += 2;
    }
    let wide = base.index().with_entries(entries);
    let parts = [(LoraPart::Diffusion, &wide)];
    let error = refused(&parts, "model");
    assert!(
        matches!(error, EngineError::LoraFamily { misfits: 3, .. }),
        "{error}"
    );
}

#[test]
fn a_real_lora_says_whom_it_is_for() {
    let Some(path) = nino_testing::data_or_skip("lora/sd15_rank4.safetensors") else {
        return;
    };
    let lora = nino_weights::lora::parse(&nino_weights::open(&path).unwrap()).unwrap();
    assert_eq!(lora_family(&lora), Some("SD 1.x"));
}

/// OFT, BOFT and GLoRA in both orders.
#[test]
fn updates_made_of_the_weight_give_comfyuis_weights() {
    let reader = nino_weights::open(golden("turned")).unwrap();
    let lora = nino_weights::lora::parse(&reader).unwrap();
    assert_eq!(lora.updates.len(), 5);
    let values = |name: &str| {
        let entry = reader.entry(name).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        reader.read_f32(entry, &mut values).unwrap();
        (entry.shape.clone(), values)
    };
    for update in &lora.updates {
        let target = update.target.strip_prefix("double_blocks.0.").unwrap();
        let layer = target.strip_suffix(".weight").unwrap().replace('.', "_");
        let (shape, mut weight) = values(&format!("base.{layer}"));
        let (_, expected) = values(&format!("expected.{layer}"));
        assert!(delta::fits(update, &shape), "{layer}");
        let deltas = delta::Deltas::default();
        let shape = Shape::new(&shape);
        deltas
            .merge(&reader, update, 0.75, shape, &mut weight)
            .unwrap();
        let error = nmse(&weight, &expected);
        println!("{layer}: NMSE {error:.1e}");
        assert!(error <= 1e-12, "{layer}: NMSE {error:.1e}");
    }
}
