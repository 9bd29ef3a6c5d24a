//! Text encoders of full width by themselves against ComfyUI: see `goldens/generate/encoders.py`.

use crate::tests::made;
use crate::tests::stored::nmse;
use crate::values::{read, write};
use nino_cpu::{Cpu, CpuOptions};
use nino_dtype::DType;
use nino_graph::{Device, Graph, Node, Plan, RunOptions, rewrite};
use nino_models::{FileParams, Network, Params, llm, qwen3_vision};
use nino_weights::{TensorReader, names};
use std::sync::Arc;

/// Goldens hold every so manyth number.
const EVERY: usize = 31;

struct Goldens(TensorReader);

impl Goldens {
    fn open() -> Goldens {
        let path = made::goldens().join("wide_encoders.safetensors");
        Goldens(nino_weights::open(path).unwrap())
    }

    fn values(&self, key: &str) -> Vec<f32> {
        let entry = self.0.entry(key).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        self.0.read_f32(entry, &mut values).unwrap();
        values
    }

    fn close(&self, key: &str, found: &[f32]) {
        let found: Vec<f32> = found.iter().copied().step_by(EVERY).collect();
        let expected = self.values(key);
        assert_eq!(found.len(), expected.len(), "{key}");
        let nmse = nmse(&found, &expected);
        println!("{key}: NMSE {nmse:.1e}");
        assert!(nmse <= 1e-8, "{key}: NMSE {nmse:.1e}");
    }
}

/// The only network of a file with the weights of a list.
fn made_network(name: &str) -> (Network, FileParams, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("encoder.safetensors");
    made::write_list(&made::list(name), &path);
    let reader = Arc::new(nino_weights::open(&path).unwrap());
    let (mut components, _) = names::canonical(reader.index()).unwrap();
    assert_eq!(components.len(), 1, "{name}");
    let opened = nino_models::open(&reader, components.remove(0))
        .unwrap()
        .unwrap();
    (opened.network, opened.params, folder)
}

/// What a graph gives for the values of its only input.
fn run(graph: &Graph, weights: FileParams, input: Node, values: &[f32]) -> Vec<Vec<f32>> {
    let cpu = Cpu::new(CpuOptions::default()).unwrap();
    let fused = rewrite(graph, cpu.rewrites());
    let plan = Arc::new(Plan::new(fused, &cpu.limits()).unwrap());
    let held = cpu.load(&[&plan], Arc::new(weights)).unwrap();
    let mut session = cpu.session(Arc::clone(&plan), &held).unwrap();
    match graph.dtype(input) {
        DType::I32 => {
            let bytes = values.iter().flat_map(|&v| (v as i32).to_le_bytes());
            session.write(input, &bytes.collect::<Vec<u8>>()).unwrap();
        }
        _ => write(session.as_mut(), graph, input, values).unwrap(),
    }
    session.run(RunOptions::default()).unwrap();
    let outputs = graph.outputs().iter();
    outputs
        .map(|&node| read(session.as_mut(), graph, node).unwrap())
        .collect()
}

fn language(goldens: &Goldens, name: &str, published: &llm::Config) {
    let (network, weights, _folder) = made_network(name);
    let Network::Llm(config) = network else {
        panic!("{name} is {network:?}")
    };
    let few = llm::Config {
        vocab: 512,
        n_layers: 2,
        ..published.clone()
    };
    assert_eq!(config, few);
    let given = goldens.values(&format!("{name}/ids"));
    let n = given.len();
    let mut g = Graph::new();
    let p = Params::new(|name| weights.dtype(name));
    let ids = g.input("ids", [1, n], DType::I32);
    let mask = g.constant("all is seen", [1, 1, 1, n], &vec![0.0; n]);
    let x = llm::embed(&mut g, &p, &config, ids, DType::F32);
    let mut states = |tap: usize| {
        let want = llm::Want {
            taps: &[tap],
            mask,
            positions: None,
            deepstack: &[],
            layers: DType::F32,
        };
        llm::encoder(&mut g, &p, &config, x, &want)
    };
    let (first, last) = (states(1), states(2));
    let last = llm::final_norm(&mut g, &p, &config, last);
    g.output(first);
    g.output(last);
    let found = run(&g.finish().unwrap(), weights.clone(), ids, &given);
    goldens.close(&format!("{name}/first"), &found[0]);
    goldens.close(&format!("{name}/last"), &found[1]);
}

#[test]
#[ignore = "makes 3 GB of weights and takes a minute"]
fn wide_encoders_give_comfyuis_states() {
    let goldens = Goldens::open();
    language(&goldens, "wide_qwen3_8b", &llm::Config::qwen3_8b());
    language(&goldens, "wide_mistral3", &llm::Config::mistral3_24b());
}

/// All layers of Qwen3-VL 4B's half that sees.
#[test]
#[ignore = "makes 1 GB of weights and takes a minute"]
fn wide_encoders_see_what_comfyuis_see() {
    let goldens = Goldens::open();
    let (network, weights, _folder) = made_network("wide_qwen3_vl");
    let Network::Qwen3Vision(config) = network else {
        panic!("{network:?}")
    };
    assert_eq!(config, qwen3_vision::Config::published_4b());
    let pixels = goldens.values("sight/pixels");
    let values: Vec<f32> = pixels.iter().map(|v| (v - 0.5) / 0.5).collect();
    let mut g = Graph::new();
    let p = Params::new(|name| weights.dtype(name));
    let input = g.input("pixels", [1, 96, 160, 3], DType::F32);
    let seen = qwen3_vision::encoder(&mut g, &p, &config, input);
    g.output(seen.tokens);
    seen.deepstack.iter().for_each(|&node| g.output(node));
    let found = run(&g.finish().unwrap(), weights.clone(), input, &values);
    goldens.close("sight/tokens", &found[0]);
    for (i, found) in found[1..].iter().enumerate() {
        goldens.close(&format!("sight/deep/{i}"), found);
    }
    assert_eq!(found.len(), 4);
}
