//! Small models steered by T2I adapters against ComfyUI: see `goldens/generate/adapter.py`.

use super::comfy::{Case, PROMPT};
use crate::generate::{GenerateRequest, Prompts};
use crate::tests::{lists, made};
use crate::{ControlNetFile, EngineError, Family, Hint, HintImage, Image};
use nino_cpu::{Cpu, CpuOptions};
use nino_dtype::DType;
use nino_graph::{Device, Graph, Plan, RunOptions, rewrite};
use nino_models::{ControlNet, Network, Params, t2i_adapter};
use nino_sample::{Sampler, Scheduler};
use nino_weights::names;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file of a network of that list.
fn write(folder: &Path, list: &str) -> PathBuf {
    let path = folder.join(format!("{list}.safetensors"));
    made::write_list(&made::list(list), &path);
    path
}

fn image() -> Image {
    let golden = nino_weights::open(made::goldens().join("control.safetensors")).unwrap();
    let mut values = vec![0.0; 40 * 56 * 3];
    let entry = golden.entry("image").unwrap();
    golden.read_f32(entry, &mut values).unwrap();
    Image {
        width: 56,
        height: 40,
        values,
    }
}

fn both(prompts: &Prompts, net: &ControlNetFile, strength: f32, percent: (f64, f64)) -> Prompts {
    both_of(prompts, net, image(), strength, percent)
}

fn both_of(
    prompts: &Prompts,
    net: &ControlNetFile,
    image: Image,
    strength: f32,
    percent: (f64, f64),
) -> Prompts {
    let hint = Arc::new(Hint {
        net: net.clone(),
        seen: HintImage::Pixels {
            images: Arc::new(vec![image]),
            vae: None,
            paint: None,
        },
        strength,
        percent,
        both_sides: false,
    });
    Prompts {
        positive: prompts.positive.with_hint(Arc::clone(&hint)),
        negative: prompts.negative.with_hint(hint),
    }
}

/// A narrow model with all blocks, whose golden is that of the adapters.
fn case(whole: &str, small: &str, family: Family) -> Case {
    Case::of("adapter", family, &lists::narrow_list(whole, small))
}

fn request(case: &Case) -> GenerateRequest {
    GenerateRequest {
        sampler: Sampler::find("euler").unwrap(),
        scheduler: Scheduler::find("normal").unwrap(),
        steps: 3,
        width: 72,
        height: 56,
        ..case.request(PROMPT)
    }
}

#[test]
fn sd1_under_adapters_makes_what_comfyui_makes() {
    let (case, folder) = (
        case("sd15", "tiny_sd1", Family::Sd1),
        tempfile::tempdir().unwrap(),
    );
    let (prompts, _) = case.text(&case.request(PROMPT));
    let check = |key: &str, prompts: &Prompts| {
        case.close(key, &case.sampled(&case.model, &request(&case), prompts));
    };
    let open = |list: &str| ControlNetFile::open(&write(folder.path(), list)).unwrap();
    let net = open("adapter_sd1");
    assert!(!net.needs_vae());
    check("sd1/plain", &both(&prompts, &net, 0.8, (0.0, 1.0)));
    check("sd1/range", &both(&prompts, &net, 0.8, (0.2, 0.7)));
    let mut other = image();
    other.values.iter_mut().for_each(|v| *v = 1.0 - *v);
    let other = both_of(&prompts, &net, other, 0.6, (0.0, 1.0));
    check("sd1/twice", &both(&other, &net, 0.8, (0.0, 1.0)));
    let light = open("adapter_light");
    check("light/plain", &both(&prompts, &light, 0.8, (0.0, 1.0)));
    // SDXL's does not fit.
    let other = open("adapter_xl");
    let refused = other.check(&case.model.diffusion);
    assert!(matches!(refused, Err(EngineError::ControlNetFamily { .. })));
}

#[test]
fn sdxl_under_an_adapter_makes_what_comfyui_makes() {
    let (case, folder) = (
        case("sdxl", "tiny_sdxl", Family::Sdxl),
        tempfile::tempdir().unwrap(),
    );
    let (prompts, _) = case.text(&case.request(PROMPT));
    let net = ControlNetFile::open(&write(folder.path(), "adapter_xl")).unwrap();
    let steered = both(&prompts, &net, 0.8, (0.0, 1.0));
    let found = case.sampled(&case.model, &request(&case), &steered);
    case.close("xl/plain", &found);
}

/// What an adapter adds at every level.
#[test]
fn levels_of_adapters_are_comfyuis() {
    let (case, folder) = (
        case("sd15", "tiny_sd1", Family::Sd1),
        tempfile::tempdir().unwrap(),
    );
    let cpu = Cpu::new(CpuOptions::default()).unwrap();
    for net in ["sd1", "light", "xl"] {
        let path = write(folder.path(), &format!("adapter_{net}"));
        let reader = Arc::new(nino_weights::open(path).unwrap());
        let (mut found, _) = names::canonical(reader.index()).unwrap();
        let opened = nino_models::open(&reader, found.remove(0))
            .unwrap()
            .unwrap();
        let Network::ControlNet(ControlNet::Adapter(config)) = &opened.network else {
            panic!("{net}: {:?}", opened.network)
        };
        let mut g = Graph::new();
        let hint = g.input("hint", [1, 48, 80, config.channels], DType::F32);
        let params = Params::new(|name| opened.params.dtype(name));
        let added = t2i_adapter::adapter(&mut g, &params, config, hint);
        let outs = added.down.iter().map(|(_, node)| *node).chain(added.middle);
        let outs: Vec<_> = outs.collect();
        assert_eq!(outs.len(), 4);
        outs.iter().for_each(|&out| g.output(out));
        let graph = rewrite(&g.finish().unwrap(), cpu.rewrites());
        let plan = Arc::new(Plan::new(graph, &cpu.limits()).unwrap());
        let weights = cpu.load(&[&plan], Arc::new(opened.params.clone())).unwrap();
        let mut session = cpu.session(Arc::clone(&plan), &weights).unwrap();
        let given = case.golden(&format!("inside/{net}/x"));
        let bytes: Vec<u8> = given.iter().flat_map(|v| v.to_le_bytes()).collect();
        session.write(hint, &bytes).unwrap();
        session.run(RunOptions::default()).unwrap();
        for (i, out) in outs.into_iter().enumerate() {
            let mut bytes = vec![0; plan.graph().bytes(out)];
            session.read(out, &mut bytes).unwrap();
            let values = bytes.as_chunks::<4>().0.iter().step_by(7);
            let values: Vec<f32> = values.map(|b| f32::from_le_bytes(*b)).collect();
            case.close(&format!("inside/{net}/{i}"), &values);
        }
    }
}
