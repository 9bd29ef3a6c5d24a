//! Text encoders and diffusion models.

use crate::golden::{Golden, cpu, on};
use nino_dtype::DType;
use nino_gpu::{Adapters, Gpu, GpuDevice, Tier};
use nino_graph::{Act, Graph, Node, ParamError, ParamSource, ParamSpec, Shape};
use nino_models::{
    Denoiser, FileParams, Network, Params, clip, describe, flux, flux2, llm, qwen_image,
    qwen_vision, t5, unet, z_image,
};
use nino_suite::{Difference, Tensor, reference};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An input with the golden's values.
fn input(
    g: &mut Graph,
    inputs: &mut BTreeMap<Node, Tensor>,
    golden: &Golden,
    name: &str,
    dtype: DType,
) -> Node {
    let value = golden.tensor(name);
    let node = g.input(name, value.shape, dtype);
    inputs.insert(node, value);
    node
}

/// A graph of a golden's model, its inputs, and its output with the golden's name for it.
struct Recorded {
    graph: Graph,
    inputs: BTreeMap<Node, Tensor>,
    out: Vec<(Node, &'static str)>,
}

fn clip(golden: &Golden, skip: usize, norm: bool, out: &'static str) -> Recorded {
    let detected = clip::Config::detect(&golden.find("")).unwrap();
    // The activation is detected from the width, which a tiny model does not have.
    let act = if golden.name == "clip_l" {
        Act::QuickGelu
    } else {
        Act::Gelu
    };
    let c = clip::Config { act, ..detected };
    // SD 2.x keeps no projection of the pooled vector.
    let (mlp, n_layers, projection) = if golden.name == "clip_h" {
        (96, 4, None)
    } else {
        (160, 3, Some(24))
    };
    let want = clip::Config {
        vocab: 120,
        max_tokens: 16,
        width: 128,
        mlp,
        heads: 2,
        n_layers,
        act,
        projection,
    };
    assert_eq!(c, want);
    let mut g = Graph::new();
    let mut inputs = BTreeMap::new();
    let ids = input(&mut g, &mut inputs, golden, "in.ids", DType::I32);
    let end = input(&mut g, &mut inputs, golden, "in.end", DType::F32);
    let p = golden.params();
    let pooled = match skip {
        1 => clip::Pooled::Projected,
        _ => clip::Pooled::No,
    };
    let x = clip::embed(&mut g, &p, &c, ids, DType::F32);
    let encoded = clip::encoder(&mut g, &p, &c, x, end, clip::Want { skip, norm, pooled });
    let mut out = vec![(encoded.hidden, out)];
    out.extend(encoded.pooled.map(|p| (p, "out.pooled")));
    out.iter().for_each(|&(node, _)| g.output(node));
    Recorded {
        graph: g.finish().unwrap(),
        inputs,
        out,
    }
}

#[test]
fn clip_text_encoders() {
    for name in ["clip_l", "clip_h", "clip_g"] {
        let golden = Golden::open(name);
        for (skip, norm, expected) in [
            (1, true, "out.last"),
            (2, false, "out.penultimate"),
            (2, true, "out.penultimate_normed"),
        ] {
            let r = clip(&golden, skip, norm, expected);
            let values = golden.run(&r.graph, &r.inputs, skip == 1);
            for (node, name) in r.out {
                golden.close(name, &values[&node], &golden.tensor(name));
            }
        }
    }
}

/// As [`clip()`], of T5, with a storage type between and inside of layers. The mask is UMT5's
/// alone.
fn t5(golden: &Golden, skip: usize, out: &'static str, [between, layers]: [DType; 2]) -> Recorded {
    let multilingual = golden.name == "umt5";
    let c = t5::Config::detect(&golden.find("")).unwrap();
    let want = t5::Config {
        vocab: 120,
        width: 64,
        mlp: 96,
        heads: 4,
        head: 16,
        n_layers: 3,
        buckets: 32,
        position_bias: if multilingual {
            t5::PositionBias::PerLayer
        } else {
            t5::PositionBias::Shared
        },
    };
    assert_eq!(c, want);
    let mut g = Graph::new();
    let mut inputs = BTreeMap::new();
    let ids = input(&mut g, &mut inputs, golden, "in.ids", DType::I32);
    let mask = multilingual.then(|| input(&mut g, &mut inputs, golden, "in.mask", DType::F32));
    let p = golden.params();
    let x = t5::embed(&mut g, &p, &c, ids, between);
    let hidden = t5::encoder(&mut g, &p, &c, x, t5::Want { skip, mask, layers });
    g.output(hidden);
    Recorded {
        graph: g.finish().unwrap(),
        inputs,
        out: vec![(hidden, out)],
    }
}

#[test]
fn t5_text_encoders() {
    for name in ["t5", "umt5"] {
        let golden = Golden::open(name);
        for (skip, expected) in [(1, "out.last"), (2, "out.penultimate")] {
            let r = t5(&golden, skip, expected, [DType::F32; 2]);
            let values = golden.run(&r.graph, &r.inputs, skip == 1);
            for (node, name) in r.out {
                golden.close(name, &values[&node], &golden.tensor(name));
            }
        }
    }
}

/// A golden's weights, those of the MLP so large that what it adds is beyond f16's range.
struct Loud(FileParams);

impl ParamSource for Loud {
    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        self.0.read(param, dst)?;
        if param.name.contains("DenseReluDense.w") && !param.name.contains("wi_0") {
            let mut weight = Tensor::decode(param.dtype, param.shape, dst).unwrap();
            weight.values.iter_mut().for_each(|v| *v *= 500.0);
            dst.copy_from_slice(&weight.encode(param.dtype).unwrap());
        }
        Ok(())
    }
}

#[test]
fn t5_layers_in_f16_take_values_beyond_its_range() {
    let golden = Golden::open("t5");
    let source = || Loud(golden.source());
    let run = |layers: DType| {
        let r = t5(&golden, 1, "out.last", [DType::F32, layers]);
        let values = cpu(&r.graph, &r.inputs, Arc::new(source()));
        values[&r.out[0].0].values.clone()
    };
    let difference = Difference::between(&run(DType::F16), &run(DType::F32));
    assert!(
        difference.nmse < 1e-5 && difference.not_finite == 0,
        "{difference}"
    );
    let exact = t5(&golden, 1, "out.last", [DType::F32; 2]);
    let values = reference::eval(&exact.graph, &exact.inputs, &source()).unwrap();
    let all = values.values().flat_map(|v| &v.values);
    assert!(all.fold(0.0f64, |most, v| most.max(v.abs())) > 65504.0);
}

fn flux(golden: &Golden, c: &flux::Config, dtype: DType) -> Recorded {
    let mut g = Graph::new();
    let mut inputs = BTreeMap::new();
    let mut get = |g: &mut Graph, n: &str, dtype| input(g, &mut inputs, golden, n, dtype);
    let nodes = flux::Inputs {
        style: None,
        x: get(&mut g, "in.x", dtype),
        t: get(&mut g, "in.t", DType::F32),
        context: get(&mut g, "in.context", dtype),
        y: c.vec_in().map(|_| get(&mut g, "in.y", dtype)),
        guidance: c
            .takes_guidance()
            .then(|| get(&mut g, "in.guidance", DType::F32)),
        references: &[],
        reference_method: flux::ReferenceMethod::default(),
        bias: None,
    };
    let out = flux::flux(&mut g, &golden.params(), c, nodes, &[]);
    g.output(out);
    Recorded {
        graph: g.finish().unwrap(),
        inputs,
        out: vec![(out, "out.x")],
    }
}

#[test]
fn flux_and_chroma() {
    let per_block = |guidance| flux::Modulation::PerBlock {
        vec_in: 20,
        guidance,
    };
    let approximated = flux::Modulation::Approximated {
        hidden: 48,
        n_layers: 2,
    };
    for (name, modulation, depth, in_channels) in [
        ("flux_dev", per_block(true), (1, 2), 16),
        ("flux_schnell", per_block(false), (2, 1), 16),
        ("flux_control", per_block(true), (1, 1), 32),
        ("chroma", approximated, (2, 2), 16),
    ] {
        let golden = Golden::open(name);
        let c = flux::Config::detect(&golden.find("")).unwrap();
        let want = flux::Config {
            in_channels,
            hidden: 64,
            head: 32,
            mlp: 256,
            context_dim: 24,
            depth: depth.0,
            depth_single: depth.1,
            modulation,
            ..flux::Config::dev()
        };
        assert_eq!(c, want, "{name}");
        let r = flux(&golden, &c, DType::F32);
        let values = golden.run(&r.graph, &r.inputs, true);
        golden.close("out.x", &values[&r.out[0].0], &golden.tensor("out.x"));
    }
}

/// Neither heads nor groups of the tiny models are those of the real ones.
fn unet(golden: &Golden, c: unet::Config, dtype: DType) -> Recorded {
    let c = unet::Config {
        heads: heads(&golden.name),
        groups: 4,
        ..c
    };
    let mut g = Graph::new();
    let mut inputs = BTreeMap::new();
    let mut get = |g: &mut Graph, n: &str, dtype| input(g, &mut inputs, golden, n, dtype);
    let nodes = unet::Inputs {
        x: get(&mut g, "in.x", dtype),
        t: get(&mut g, "in.t", DType::F32),
        context: get(&mut g, "in.context", dtype),
        y: c.adm_in.map(|_| get(&mut g, "in.y", dtype)),
        guidance: c.guidance.map(|_| get(&mut g, "in.guidance", dtype)),
        perturbed: false,
    };
    let out = unet::unet(&mut g, &golden.params(), &c, nodes, &[]);
    g.output(out);
    Recorded {
        graph: g.finish().unwrap(),
        inputs,
        out: vec![(out, "out.x")],
    }
}

#[test]
fn stable_diffusion_unet() {
    for (name, depth) in [
        ("unet_sd", &[1, 1, 0, 0, 0][..]),
        ("unet_sdxl", &[0, 0, 0, 2, 2]),
        ("unet_bk", &[1, 0, 0]),
    ] {
        let golden = Golden::open(name);
        let xl = name == "unet_sdxl";
        let c = unet::Config::detect(&golden.find("")).unwrap();
        assert_eq!(c.heads == unet::Heads::Width(64), xl);
        assert_eq!(c.adm_in, xl.then_some(58));
        assert_eq!(c.context_dim, 20);
        let depths: Vec<usize> = c.input_blocks.iter().map(|b| b.depth).collect();
        assert_eq!(depths, depth, "{name}");
        assert_eq!(c.middle.is_none(), name == "unet_bk");
        let r = unet(&golden, c, DType::F32);
        let values = golden.run(&r.graph, &r.inputs, true);
        golden.close("out.x", &values[&r.out[0].0], &golden.tensor("out.x"));
    }
}

/// Heads of the tiny UNets.
fn heads(name: &str) -> unet::Heads {
    match name {
        "unet_sd" | "unet_bk" | "unet_bk_base" | "unet_inpaint" | "unet_lcm" => {
            unet::Heads::Count(2)
        }
        "unet_sdxl" => unet::Heads::Width(6),
        _ => unet::Heads::Width(8),
    }
}

/// File name, transformer blocks of the input blocks, middle block, width of `y`.
type Variant = (
    &'static str,
    &'static [usize],
    Option<(usize, bool)>,
    Option<usize>,
);

#[test]
fn variants_of_the_unet_are_detected_by_their_blocks() {
    let variants: [Variant; 6] = [
        ("unet_sd2", &[1, 1, 0, 0, 0], Some((1, true)), None),
        (
            "unet_refiner",
            &[0, 0, 0, 2, 2, 0, 0, 0],
            Some((1, true)),
            Some(50),
        ),
        ("unet_inpaint", &[1, 1, 0, 0, 0], Some((1, true)), None),
        ("unet_lcm", &[1, 1, 0, 0, 0], Some((1, true)), None),
        ("unet_bk_base", &[1, 0, 1], Some((1, true)), None),
        ("unet_ssd", &[0, 0, 0, 2, 2], Some((0, false)), Some(58)),
    ];
    for (name, depths, middle, adm_in) in variants {
        let golden = Golden::open(name);
        let c = unet::Config::detect(&golden.find("")).unwrap();
        assert_eq!(c.in_channels, if name == "unet_inpaint" { 9 } else { 4 });
        let found: Vec<usize> = c.input_blocks.iter().map(|b| b.depth).collect();
        assert_eq!(found, depths, "{name}");
        assert_eq!(c.middle.map(|m| (m.depth, m.second)), middle, "{name}");
        assert_eq!(c.adm_in, adm_in, "{name}");
        assert_eq!(c.guidance, (name == "unet_lcm").then_some(12));
        let r = unet(&golden, c, DType::F32);
        let values = golden.run(&r.graph, &r.inputs, true);
        golden.close("out.x", &values[&r.out[0].0], &golden.tensor("out.x"));
    }
}

/// Every adapter of this machine, software ones too, at 16-bit storage and at its best tier.
#[test]
fn gpu_text_encoders_and_unets_at_f16() {
    let adapters = Adapters::enumerate();
    nino_testing::gpu_or_skip(adapters.reason.as_deref());
    let opened = [Some(Tier::F16), None].map(|tier| Gpu::open_all(&adapters, tier).unwrap());
    for device in opened.into_iter().flatten().map(GpuDevice::new) {
        for name in [
            "clip_l",
            "clip_h",
            "clip_g",
            "unet_sd",
            "unet_sd2",
            "unet_sdxl",
            "unet_refiner",
            "unet_inpaint",
            "unet_lcm",
            "t5",
            "umt5",
            "flux_dev",
            "flux_schnell",
            "chroma",
        ] {
            let golden = Golden::open(name);
            let r = match name {
                "t5" | "umt5" => t5(&golden, 1, "out.last", [DType::F32, DType::F16]),
                "flux_dev" | "flux_schnell" | "chroma" => {
                    let c = flux::Config::detect(&golden.find("")).unwrap();
                    flux(&golden, &c, DType::F16)
                }
                _ if name.starts_with("clip") => clip(&golden, 1, true, "out.last"),
                _ => {
                    let c = unet::Config::detect(&golden.find("")).unwrap();
                    unet(&golden, c, DType::F16)
                }
            };
            let values = on(&device, &r.graph, &r.inputs, Arc::new(golden.source()));
            for (node, name) in &r.out {
                let expected = golden.tensor(name);
                let d = Difference::between(&values[node].values, &expected.values);
                let decibels = -10.0 * d.nmse.log10();
                let tier = device.gpu().caps.tier;
                println!("{}: {name} at {tier}: {decibels:.1} dB", golden.name);
                assert!(
                    decibels >= 45.0,
                    "{}: {name}: {decibels:.1} dB",
                    golden.name
                );
            }
        }
    }
}

#[test]
fn built_in_unets_have_the_published_sizes() {
    for (c, want) in [
        (unet::Config::sd15(), 859_520_964),
        (unet::Config::sd21(), 865_910_724),
        (unet::Config::sdxl(), 2_567_463_684),
    ] {
        let mut g = Graph::new();
        let nodes = unet::Inputs {
            x: g.input("x", [2, 16, 16, 4], DType::F16),
            t: g.input("t", [2], DType::F32),
            context: g.input("context", [2, 77, c.context_dim], DType::F16),
            y: c.adm_in.map(|n| g.input("y", [2, n], DType::F16)),
            guidance: None,
            perturbed: false,
        };
        let out = unet::unet(&mut g, &Params::uniform(DType::F16), &c, nodes, &[]);
        assert_eq!(*g.shape(out), [2, 16, 16, 4]);
        let g = g.finish().unwrap();
        let n: usize = g.params().map(|(_, p)| p.shape.numel()).sum();
        assert_eq!(n, want);
        let find = |name: &str| {
            let (_, p) = g.params().find(|(_, p)| p.name == name)?;
            let shape = match *p.shape {
                // SD 1.x projects with 1×1 convolutions.
                [cout, cin] if c.heads == unet::Heads::Count(8) && name.contains("proj_") => {
                    Shape::from([cout, cin, 1, 1])
                }
                [cout, kh, kw, cin] => Shape::from([cout, cin, kh, kw]),
                _ => p.shape,
            };
            Some((shape, p.dtype))
        };
        assert_eq!(unet::Config::detect(&find).as_ref(), Some(&c));
    }
}

#[test]
fn built_in_transformers_have_the_published_sizes() {
    for (network, want) in [
        (flux_network(flux::Config::dev()), 11_901_408_320),
        (flux_network(flux::Config::schnell()), 11_891_178_560),
        (flux_network(flux::Config::chroma()), 8_899_983_424),
        (
            Network::Denoiser(Denoiser::ZImage(z_image::Config::published())),
            6_154_908_736,
        ),
        (
            Network::Denoiser(Denoiser::Flux2(flux2::Config::klein_4b())),
            3_875_544_576,
        ),
        (
            Network::Denoiser(Denoiser::Flux2(flux2::Config::klein_9b())),
            9_078_581_248,
        ),
        (
            Network::Denoiser(Denoiser::Flux2(flux2::Config::dev())),
            32_223_281_152,
        ),
        (
            Network::Denoiser(Denoiser::QwenImage(qwen_image::Config::published())),
            20_430_401_088,
        ),
        (Network::Llm(llm::Config::qwen25_vl_7b()), 7_070_619_136),
        (
            Network::QwenVision(qwen_vision::Config::published()),
            676_550_144,
        ),
        (Network::Llm(llm::Config::mistral3_24b()), 22_901_314_560),
        (Network::Llm(llm::Config::qwen3_06b()), 596_049_920),
        (Network::Llm(llm::Config::qwen3_4b()), 4_022_468_096),
        (Network::T5(t5::Config::xxl()), 4_762_310_656),
        (Network::T5(t5::Config::xxl().multilingual()), 5_680_910_336),
    ] {
        let tensors = describe::tensors(&network).unwrap();
        let n: usize = tensors
            .iter()
            .map(|t| t.shape.iter().product::<usize>())
            .sum();
        assert_eq!(n, want, "{network:?}");
    }
}

fn flux_network(config: flux::Config) -> Network {
    Network::Denoiser(Denoiser::Flux(config))
}

#[test]
fn built_in_text_encoders_have_the_published_sizes() {
    let no_projection = |c: clip::Config| clip::Config {
        projection: None,
        ..c
    };
    for (c, want) in [
        (no_projection(clip::Config::clip_l()), 123_060_480),
        (no_projection(clip::Config::clip_h()), 352_984_064),
        (clip::Config::clip_g(), 694_659_840),
    ] {
        let mut g = Graph::new();
        let p = Params::uniform(DType::F16);
        let ids = g.input("ids", [1, 77], DType::I32);
        let end = g.input("end", [1, 1, 77], DType::F32);
        let x = clip::embed(&mut g, &p, &c, ids, DType::F32);
        let all = clip::Want {
            skip: 1,
            norm: true,
            pooled: clip::Pooled::Projected,
        };
        let out = clip::encoder(&mut g, &p, &c, x, end, all);
        assert_eq!(*g.shape(out.hidden), [1, 77, c.width]);
        let g = g.finish().unwrap();
        let stored = g.params().filter(|(_, p)| p.inline.is_none());
        let n: usize = stored.map(|(_, p)| p.shape.numel()).sum();
        assert_eq!(n, want);
        let find = |name: &str| {
            let (_, p) = g.params().find(|(_, p)| p.name == name)?;
            Some((p.shape, p.dtype))
        };
        assert_eq!(clip::Config::detect(&find), Some(c));
    }
}
