//! Small Anima checkpoints against ComfyUI: conditioning, modules of the network, then whole paths.

use super::comfy::{Case, NEGATIVE, PROMPT};
use crate::Family;
use crate::generate::GenerateRequest;
use crate::tests::lists;
use nino_cpu::{Cpu, CpuOptions};
use nino_dtype::DType;
use nino_graph::{Device, Plan, RunOptions, rewrite};
use nino_models::DenoiserShape;
use nino_sample::{Sampler, Scheduler};
use std::sync::Arc;

#[test]
fn anima_makes_what_comfyui_makes() {
    let case = Case::new("tiny_anima", Family::Anima);
    let defaults = case.model.defaults();
    assert_eq!((defaults.steps, defaults.sampler), (30, "er_sde"));
    check_all(&case);
}

/// The published widths with few blocks: see `goldens/generate/anima.py`.
#[test]
#[ignore = "makes 1 GB of weights and takes a minute"]
fn wide_anima_makes_what_comfyui_makes() {
    let list = lists::list_with_vae("wide_anima", "tiny_anima");
    let case = Case::of("wide_anima", Family::Anima, &list);
    check_all(&case);
}

fn check_all(case: &Case) {
    let long = "a red fox, ".repeat(60);
    case.check_text([("prompt", PROMPT), ("negative", NEGATIVE)], None);
    case.check_text([("long", &long), ("empty", "")], None);
    for (name, prompt) in [("prompt", PROMPT), ("negative", NEGATIVE), ("empty", "")] {
        let found = case.model.text.queries(prompt).unwrap();
        let (ids, weights): (Vec<f32>, Vec<f32>) =
            found.iter().map(|&(id, w)| (id as f32, w)).unzip();
        assert_eq!(ids, case.golden(&format!("text/{name}/queries")), "{name}");
        case.close(&format!("text/{name}/weights"), &weights);
    }
    check_inside(case);
    check_paths(case);
}

/// What modules of the network give in one run.
fn check_inside(case: &Case) {
    let (prompts, _) = case.text(&case.request(PROMPT));
    let prompt = &prompts.positive;
    let (height, width, channels) = (6, 8, 16);
    let shape = DenoiserShape {
        style_tokens: 0,
        kv_cache: nino_models::KvCache::Off,
        rows: 1,
        frames: 1,
        height,
        width,
        tokens: prompt.tokens(),
        t5_tokens: prompt.queries.len(),
        references: Vec::new(),
        control_nets: Vec::new(),
        image_tokens: 0,
        controls: 0,
        biased_spans: Vec::new(),
        disable_guidance: false,
        reference_method: None,
        camera: false,
        sound: nino_models::SoundShape::default(),
        skipped: Vec::new(),
        shrinks: Vec::new(),
        watched: false,
    };
    let model = &case.model.diffusion;
    let source = model.source();
    let params = source.params(|stored| stored);
    let nodes = model
        .net()
        .record(&params, &shape, DType::F32, false)
        .unwrap();
    let mut graph = nodes.graph.clone();
    let labels = graph.values().filter_map(|(node, value)| {
        let key = format!("inside/{}", value.label.as_ref()?);
        case.keys(&key).contains(&key).then_some((node, key))
    });
    let labels: Vec<_> = labels.collect();
    assert_eq!(labels.len(), 7);
    labels.iter().for_each(|&(node, _)| graph.output(node));
    let cpu = Cpu::new(CpuOptions::default()).unwrap();
    let plan = Plan::new(rewrite(&graph, cpu.rewrites()), &cpu.limits()).unwrap();
    let plan = Arc::new(plan);
    let weights = cpu.load(&[&plan], Arc::new(model.source())).unwrap();
    let mut session = cpu.session(Arc::clone(&plan), &weights).unwrap();
    let mut write = |node, values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        session.write(node, &bytes).unwrap();
    };
    let planes = case.golden("inside/x");
    let at = |i: usize| planes[i % channels * height * width + i / channels];
    let x: Vec<f32> = (0..planes.len()).map(at).collect();
    write(nodes.x, &x);
    write(nodes.t, &[0.5]);
    write(nodes.context, &prompt.context);
    let queries = nodes.t5_tokens.unwrap();
    let told: Vec<f32> = prompt.queries.iter().map(|q| q.1).collect();
    write(queries.weights, &told);
    let ids = prompt
        .queries
        .iter()
        .flat_map(|q| (q.0 as i32).to_le_bytes());
    session
        .write(queries.ids, &ids.collect::<Vec<u8>>())
        .unwrap();
    session.run(RunOptions::default()).unwrap();
    for (node, key) in labels {
        let mut bytes = vec![0; graph.bytes(node)];
        session.read(node, &mut bytes).unwrap();
        let values = bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|b| f32::from_le_bytes(*b));
        case.close(&key, &case.thin(&values.collect::<Vec<f32>>()));
    }
}

/// Every path of a golden file, which says in its name how it came about.
fn check_paths(case: &Case) {
    let (prompts, _) = case.text(&case.request(PROMPT));
    let keys = case.keys("latent/");
    assert!(!keys.is_empty());
    for key in keys {
        let parts: Vec<&str> = key.split('/').collect();
        let [_, width, cfg, sampler, scheduler] = parts[..] else {
            panic!("{key}")
        };
        let request = GenerateRequest {
            sampler: Sampler::find(sampler).unwrap(),
            scheduler: Scheduler::find(scheduler).unwrap(),
            width: width.parse().unwrap(),
            cfg: cfg.parse().unwrap(),
            ..case.request(PROMPT)
        };
        case.close(&key, &case.sampled(&case.model, &request, &prompts));
    }
}
