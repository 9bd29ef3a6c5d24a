//! Wan's transformers and CLIP vision.

use crate::golden::{Golden, on};
use nino_dtype::DType;
use nino_gpu::{Adapters, Gpu, GpuDevice, Tier};
use nino_graph::{Act, Graph, Node};
use nino_models::wan_transformer::{
    Config, Control, ImageEmbedding, Inputs, SoundInputs, Vace, transformer,
};
use nino_models::{Denoiser, Network, clip_vision, describe, redux};
use nino_suite::{Difference, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Recorded {
    graph: Graph,
    inputs: BTreeMap<Node, Tensor>,
    out: Node,
}

/// The golden's model and inputs; without CLIP vision embeddings when `no_image`.
fn recorded(golden: &Golden, c: &Config, dtype: DType, no_image: bool) -> Recorded {
    recorded_without(golden, c, dtype, no_image, &[])
}

/// The same without some blocks.
fn recorded_without(
    golden: &Golden,
    c: &Config,
    dtype: DType,
    no_image: bool,
    skipped: &[usize],
) -> Recorded {
    let mut g = Graph::new();
    let mut inputs = BTreeMap::new();
    let mut get = |g: &mut Graph, name: &str, dtype| {
        let value = golden.tensor(&format!("in.{name}"));
        let node = g.input(name, value.shape, dtype);
        inputs.insert(node, value);
        node
    };
    let n_controls = if c.vace.is_some() { 2 } else { 0 };
    let controls: Vec<Control> = (0..n_controls)
        .map(|i| Control {
            frames: get(&mut g, &format!("control{i}"), dtype),
            strength: get(&mut g, &format!("strength{i}"), dtype),
        })
        .collect();
    let image = c.image.filter(|_| !no_image);
    let nodes = Inputs {
        x: get(&mut g, "x", dtype),
        t: get(&mut g, "t", DType::F32),
        context: get(&mut g, "context", dtype),
        clip_fea: image.map(|_| get(&mut g, "image", dtype)),
        reference: c.reference.map(|_| get(&mut g, "reference", dtype)),
        controls: &controls,
        camera: c.camera.map(|_| get(&mut g, "camera", dtype)),
        sound: SoundInputs::default(),
        skipped,
    };
    let out = transformer(&mut g, &golden.params(), c, nodes);
    g.output(out);
    Recorded {
        graph: g.finish().unwrap(),
        inputs,
        out,
    }
}

/// The golden's sizes, which `detect` finds but for the heads: real ones are wider.
fn config(golden: &Golden) -> Config {
    let found = Config::detect(&golden.find("")).unwrap();
    let tiny = Config {
        hidden: 64,
        heads: 1,
        mlp: 96,
        n_layers: 2,
        context_dim: 24,
        freq_dim: 32,
        ..Config::t2v_1_3b()
    };
    let image = |emb_pos| Some(ImageEmbedding { width: 40, emb_pos });
    let vace = Some(Vace {
        in_channels: 20,
        n_layers: 2,
    });
    let expected = match golden.name.as_str() {
        "wan_t2v" => tiny,
        "wan_i2v" => Config {
            image: image(None),
            ..tiny.with_in_channels(36)
        },
        "wan_flf" => Config {
            image: image(Some(6)),
            ..tiny.with_in_channels(36)
        },
        "wan_5b" => Config {
            out_channels: 48,
            ..tiny.with_in_channels(48)
        },
        "wan_vace" => Config {
            vace,
            n_layers: 4,
            ..tiny
        },
        "wan_camera" => Config {
            camera: Some(3 * 64),
            ..tiny.with_in_channels(36)
        },
        _ => Config {
            reference: Some(16),
            ..tiny.with_in_channels(52)
        },
    };
    assert_eq!(found, expected, "{}", golden.name);
    Config { heads: 2, ..found }
}

const GOLDENS: [&str; 7] = [
    "wan_t2v",
    "wan_i2v",
    "wan_flf",
    "wan_5b",
    "wan_vace",
    "wan_camera",
    "wan_fun",
];

#[test]
fn wan_transformers() {
    for name in GOLDENS {
        let golden = Golden::open(name);
        let c = config(&golden);
        assert_eq!(c.has_frame_timesteps(), name == "wan_5b");
        let r = recorded(&golden, &c, DType::F32, false);
        let values = golden.run(&r.graph, &r.inputs, true);
        golden.close("out.x", &values[&r.out], &golden.tensor("out.x"));
        if name == "wan_t2v" {
            // There is no eighth block to leave out.
            let r = recorded_without(&golden, &c, DType::F32, false, &[1, 7]);
            let values = golden.run(&r.graph, &r.inputs, false);
            let expected = golden.tensor("out.skipped");
            golden.close("out.skipped", &values[&r.out], &expected);
            assert!(r.graph.params().all(|(_, p)| !p.name.contains("blocks.1.")));
        }
        if c.image.is_some() {
            let r = recorded(&golden, &c, DType::F32, true);
            let values = golden.run(&r.graph, &r.inputs, false);
            let expected = golden.tensor("out.no_image");
            golden.close("out.no_image", &values[&r.out], &expected);
        }
    }
}

fn vision(golden: &Golden, skip: usize) -> Recorded {
    let found = clip_vision::Config::detect(&golden.find("")).unwrap();
    let expected = clip_vision::Config {
        tower: clip_vision::Tower::Clip,
        image: 12,
        patch: 4,
        width: 64,
        mlp: 96,
        heads: 1,
        n_layers: 3,
        act: Act::QuickGelu,
        projection: Some(24),
    };
    assert_eq!(found, expected);
    // Heads and activation are detected from the width, which a tiny model does not have.
    let c = clip_vision::Config {
        heads: 4,
        act: Act::Gelu,
        ..found
    };
    let mut g = Graph::new();
    let pixels = golden.tensor("in.pixels");
    let node = g.input("pixels", pixels.shape, DType::F32);
    let out = clip_vision::encoder(&mut g, &golden.params(), &c, node, skip);
    g.output(out);
    Recorded {
        graph: g.finish().unwrap(),
        inputs: BTreeMap::from([(node, pixels)]),
        out,
    }
}

#[test]
fn clip_vision_encoder() {
    let golden = Golden::open("clip_vision");
    for (skip, name) in [(1, "out.last"), (2, "out.penultimate")] {
        let r = vision(&golden, skip);
        let values = golden.run(&r.graph, &r.inputs, true);
        golden.close(name, &values[&r.out], &golden.tensor(name));
    }
}

/// Every adapter of this machine, software ones too, at 16-bit storage and at its best tier.
#[test]
fn gpu_wan_transformers_at_f16() {
    let adapters = Adapters::enumerate();
    nino_testing::gpu_or_skip(adapters.reason.as_deref());
    let opened = [Some(Tier::F16), None].map(|tier| Gpu::open_all(&adapters, tier).unwrap());
    for device in opened.into_iter().flatten().map(GpuDevice::new) {
        for name in GOLDENS {
            let golden = Golden::open(name);
            let r = recorded(&golden, &config(&golden), DType::F16, false);
            let values = on(&device, &r.graph, &r.inputs, Arc::new(golden.source()));
            let expected = golden.tensor("out.x");
            let d = Difference::between(&values[&r.out].values, &expected.values);
            let decibels = -10.0 * d.nmse.log10();
            println!("{name} at {}: {decibels:.1} dB", device.gpu().caps.tier);
            assert!(decibels >= 45.0, "{name}: {decibels:.1} dB");
        }
    }
}

#[test]
fn built_in_wans_have_the_published_sizes() {
    let wan = |config| Network::Denoiser(Denoiser::Wan(config));
    for (network, expected) in [
        (wan(Config::t2v_1_3b()), 1_418_996_800),
        (wan(Config::t2v_14b()), 14_288_491_584),
        (
            wan(Config::t2v_14b().with_in_channels(36).with_image(None)),
            16_394_878_784,
        ),
        (wan(Config::ti2v_5b()), 4_999_787_712),
        (
            Network::ClipVision(clip_vision::Config::clip_h()),
            630_763_520,
        ),
        (
            Network::ClipVision(clip_vision::Config::siglip()),
            412_987_248,
        ),
        (Network::Redux(redux::Config::dev()), 64_503_808),
    ] {
        let tensors = describe::tensors(&network).unwrap();
        let n: usize = tensors
            .iter()
            .map(|t| t.shape.iter().product::<usize>())
            .sum();
        assert_eq!(n, expected, "{network:?}");
    }
}
