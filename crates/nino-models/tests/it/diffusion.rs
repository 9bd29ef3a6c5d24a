//! Text encoders and the UNet.

use crate::golden::Golden;
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node, Shape};
use nino_models::{Params, clip, unet};
use nino_suite::Tensor;
use std::collections::BTreeMap;

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

#[test]
fn clip_text_encoders() {
    for (name, act) in [("clip_l", Act::QuickGelu), ("clip_g", Act::Gelu)] {
        let golden = Golden::open(name);
        let detected = clip::Config::detect(&golden.find("")).unwrap();
        // The activation is told by the width, which a tiny model has not.
        let c = clip::Config { act, ..detected };
        let want = clip::Config {
            vocab: 120,
            max_tokens: 16,
            width: 128,
            mlp: 160,
            heads: 2,
            n_layers: 3,
            act,
            projection: Some(24),
        };
        assert_eq!(c, want);
        for (skip, norm, expected) in [
            (1, true, "out.last"),
            (2, false, "out.penultimate"),
            (2, true, "out.penultimate_normed"),
        ] {
            let mut g = Graph::new();
            let mut inputs = BTreeMap::new();
            let ids = input(&mut g, &mut inputs, &golden, "in.ids", DType::I32);
            let end = input(&mut g, &mut inputs, &golden, "in.end", DType::F32);
            let p = golden.params();
            let pooled = skip == 1;
            let x = clip::embed(&mut g, &p, &c, ids, DType::F32);
            let want = clip::Want { skip, norm, pooled };
            let out = clip::encoder(&mut g, &p, &c, x, end, want);
            g.output(out.hidden);
            out.pooled.inspect(|&p| g.output(p));
            let g = g.finish().unwrap();
            let values = golden.run(&g, &inputs, skip == 1);
            golden.close(expected, &values[&out.hidden], &golden.tensor(expected));
            if let Some(pooled) = out.pooled {
                golden.close("pooled", &values[&pooled], &golden.tensor("out.pooled"));
            }
        }
    }
}

#[test]
fn stable_diffusion_unet() {
    for (name, heads, depth) in [
        ("unet_sd", unet::Heads::Count(2), &[1, 1, 0, 0, 0][..]),
        ("unet_sdxl", unet::Heads::Width(6), &[0, 0, 0, 2, 2]),
        ("unet_bk", unet::Heads::Count(2), &[1, 0, 0]),
    ] {
        let golden = Golden::open(name);
        let xl = name == "unet_sdxl";
        let detected = unet::Config::detect(&golden.find("")).unwrap();
        assert_eq!(detected.heads == unet::Heads::Width(64), xl);
        assert_eq!(detected.adm_in, xl.then_some(58));
        assert_eq!(detected.context_dim, 20);
        let depths: Vec<usize> = detected.input_blocks.iter().map(|b| b.depth).collect();
        assert_eq!(depths, depth, "{name}");
        assert_eq!(detected.middle.is_none(), name == "unet_bk");
        // Neither heads nor groups of the tiny model are those of the real ones.
        let c = unet::Config {
            heads,
            groups: 4,
            ..detected
        };
        let mut g = Graph::new();
        let mut inputs = BTreeMap::new();
        let mut get = |g: &mut Graph, n: &str| input(g, &mut inputs, &golden, n, DType::F32);
        let nodes = unet::Inputs {
            x: get(&mut g, "in.x"),
            t: get(&mut g, "in.t"),
            context: get(&mut g, "in.context"),
            y: xl.then(|| get(&mut g, "in.y")),
        };
        let out = unet::unet(&mut g, &golden.params(), &c, nodes);
        g.output(out);
        let g = g.finish().unwrap();
        let values = golden.run(&g, &inputs, true);
        golden.close("out.x", &values[&out], &golden.tensor("out.x"));
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
        };
        let out = unet::unet(&mut g, &Params::uniform(DType::F16), &c, nodes);
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
            pooled: true,
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
