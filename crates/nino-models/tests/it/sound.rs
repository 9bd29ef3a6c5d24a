//! Models that hear: Wan's sound-to-video transformer and wav2vec 2.0.

use crate::golden::{Golden, on};
use nino_dtype::DType;
use nino_gpu::{Adapters, Gpu, GpuDevice, Tier};
use nino_graph::{Graph, Node};
use nino_models::wan_transformer::{Audio, Config, Inputs, SoundInputs, transformer};
use nino_models::{Denoiser, Network, describe, wav2vec2};
use nino_suite::{Difference, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

const EVERYTHING: [&str; 4] = [
    "audio_embed",
    "reference_latent",
    "control_video",
    "reference_motion",
];

/// What a golden's outputs were given, and the size.
const CASES: [(&str, &str, &[&str]); 5] = [
    ("all", "in", &EVERYTHING),
    ("image", "in", &["audio_embed", "reference_latent"]),
    ("motion", "in", &["audio_embed", "reference_motion"]),
    ("plain", "in", &[]),
    // Fewer motion tokens than the timesteps of frames reckon with.
    ("odd", "odd", &EVERYTHING),
];

struct Recorded {
    graph: Graph,
    inputs: BTreeMap<Node, Tensor>,
    out: Node,
}

fn config(golden: &Golden) -> Config {
    let found = Config::detect(&golden.find("")).unwrap();
    let expected = Config {
        hidden: 24,
        heads: 1,
        mlp: 32,
        n_layers: 5,
        context_dim: 24,
        freq_dim: 32,
        audio: Some(Audio {
            width: 12,
            states: 25,
            tokens: 4,
        }),
        ..Config::t2v_1_3b()
    };
    assert_eq!(found, expected);
    // Real ones are wider.
    Config { heads: 2, ..found }
}

fn recorded(golden: &Golden, dtype: DType, (size, given): (&str, &[&str])) -> Recorded {
    let c = config(golden);
    let mut g = Graph::new();
    let mut inputs = BTreeMap::new();
    let mut get = |name: &str, dtype| {
        let value = golden.tensor(&format!("{size}.{name}"));
        let node = g.input(name, value.shape, dtype);
        inputs.insert(node, value);
        node
    };
    let [x, t] = [get("x", dtype), get("t", DType::F32)];
    let context = get("context", dtype);
    let mut optional = |name: &str| given.contains(&name).then(|| get(name, dtype));
    let nodes = Inputs {
        x,
        t,
        context,
        clip_fea: None,
        reference: optional("reference_latent"),
        controls: &[],
        camera: None,
        sound: SoundInputs {
            audio: optional("audio_embed"),
            control: optional("control_video"),
            motion: optional("reference_motion"),
        },
        skipped: &[],
    };
    let out = transformer(&mut g, &golden.params(), &c, nodes);
    g.output(out);
    Recorded {
        graph: g.finish().unwrap(),
        inputs,
        out,
    }
}

#[test]
fn wan_sound_to_video() {
    let golden = Golden::open("wan_s2v");
    for (name, size, given) in CASES {
        let r = recorded(&golden, DType::F32, (size, given));
        let values = golden.run(&r.graph, &r.inputs, name == "all");
        let expected = golden.tensor(&format!("out.{name}"));
        golden.close(name, &values[&r.out], &expected);
    }
}

/// Every adapter of this machine, software ones too, at 16-bit storage and at its best tier.
#[test]
fn gpu_wan_sound_to_video_at_f16() {
    let adapters = Adapters::enumerate();
    nino_testing::gpu_or_skip(adapters.reason.as_deref());
    let golden = Golden::open("wan_s2v");
    let opened = [Some(Tier::F16), None].map(|tier| Gpu::open_all(&adapters, tier).unwrap());
    for device in opened.into_iter().flatten().map(GpuDevice::new) {
        for (name, size, given) in CASES {
            let r = recorded(&golden, DType::F16, (size, given));
            let values = on(&device, &r.graph, &r.inputs, Arc::new(golden.source()));
            let expected = golden.tensor(&format!("out.{name}"));
            let d = Difference::between(&values[&r.out].values, &expected.values);
            let decibels = -10.0 * d.nmse.log10();
            println!("{name} at {}: {decibels:.1} dB", device.gpu().caps.tier);
            assert!(decibels >= 45.0, "{name}: {decibels:.1} dB");
        }
    }
}

/// A golden's encoder of audio and its inputs.
fn hearing(golden: &Golden) -> (Graph, BTreeMap<Node, Tensor>, Vec<Node>) {
    let large = golden.name == "wav2vec2_large";
    let found = wav2vec2::Config::detect(&golden.find("")).unwrap();
    let expected = wav2vec2::Config {
        conv: 16,
        width: 32,
        mlp: 128,
        heads: 1,
        n_layers: 2,
        ..if large {
            wav2vec2::Config::large()
        } else {
            wav2vec2::Config::base()
        }
    };
    assert_eq!(found, expected);
    // Real ones are wider.
    let c = wav2vec2::Config { heads: 2, ..found };
    let channels = golden.tensor("in.samples");
    let n = channels.shape[1];
    let (left, right) = channels.values.split_at(n);
    let mean = left.iter().zip(right).map(|(l, r)| ((l + r) / 2.0) as f32);
    let samples = c.normalized(mean.collect());
    let mut g = Graph::new();
    let node = g.input("samples", [1, 1, n, 1], DType::F32);
    let states = wav2vec2::encoder(&mut g, &golden.params(), &c, node);
    states.iter().for_each(|&n| g.output(n));
    assert_eq!(g.shape(states[0])[1], c.frames(n));
    let samples = samples.into_iter().map(f64::from).collect();
    let inputs = BTreeMap::from([(node, Tensor::new([1, 1, n, 1], samples))]);
    (g.finish().unwrap(), inputs, states)
}

#[test]
fn wav2vec2_hears() {
    for name in ["wav2vec2_large", "wav2vec2_base"] {
        let golden = Golden::open(name);
        let (graph, inputs, states) = hearing(&golden);
        let source = Arc::new(wav2vec2::Folded(golden.source()));
        let values = golden.run_with(&graph, &inputs, true, source);
        for (i, state) in states.iter().enumerate() {
            let expected = golden.tensor(&format!("out.{i}"));
            golden.close(&format!("states {i}"), &values[state], &expected);
        }
    }
}

/// Every adapter of this machine, software ones too: audio is encoded in f32.
#[test]
fn gpu_wav2vec2_hears() {
    let adapters = Adapters::enumerate();
    nino_testing::gpu_or_skip(adapters.reason.as_deref());
    for device in Gpu::open_all(&adapters, None).unwrap() {
        let device = GpuDevice::new(device);
        for name in ["wav2vec2_large", "wav2vec2_base"] {
            let golden = Golden::open(name);
            let (graph, inputs, states) = hearing(&golden);
            let source = Arc::new(wav2vec2::Folded(golden.source()));
            let values = on(&device, &graph, &inputs, source);
            let last = states.last().unwrap();
            let expected = golden.tensor(&format!("out.{}", states.len() - 1));
            golden.close("on the GPU", &values[last], &expected);
        }
    }
}

#[test]
fn built_in_models_that_hear_have_the_published_sizes() {
    let wan = Network::Denoiser(Denoiser::Wan(Config::t2v_14b().with_audio()));
    for (network, expected) in [
        (wan, 16_295_755_609),
        // Without `masked_spec_embed`, which is not used.
        (Network::Wav2Vec2(wav2vec2::Config::large()), 315_437_696),
        (Network::Wav2Vec2(wav2vec2::Config::base()), 94_370_944),
    ] {
        let tensors = describe::tensors(&network).unwrap();
        let n: usize = tensors
            .iter()
            .map(|t| t.shape.iter().product::<usize>())
            .sum();
        assert_eq!(n, expected, "{network:?}");
    }
}
