//! The tensors of real models, by name and shape: each is detected, and its graph asks for exactly
//! what the file has.

use crate::golden::root;
use nino_dtype::DType;
use nino_graph::{Graph, Shape};
use nino_models::{Chunk, Frames, Params, Storage, Vae, clip, kl, layout, unet};
use nino_weights::{Entry, Format, Index, Span, names};
use std::collections::BTreeMap;

/// The tensors that `goldens/weights/names` lists, under canonical names.
fn canonical(list: &str) -> BTreeMap<String, Vec<usize>> {
    let path = root().join(format!("goldens/weights/names/{list}.txt"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut entries = Vec::new();
    for line in text.lines() {
        let (name, shape) = line.rsplit_once(' ').unwrap();
        let shape: Vec<usize> = shape.split('x').map(|d| d.parse().unwrap()).collect();
        for name in expand(name) {
            let (file, offset) = (0, 0);
            let len = 2 * shape.iter().product::<usize>() as u64;
            let span = Span { file, offset, len };
            entries.push(Entry::plain(name, DType::F16, shape.clone(), span));
        }
    }
    let index = Index::new(Format::Safetensors, Vec::new(), entries);
    let (parts, rest) = names::canonical(&index).unwrap();
    assert!(rest.is_empty() && parts.len() == 1, "{list}");
    let entries = parts[0].index.entries().iter();
    entries.map(|e| (e.name.clone(), e.shape.clone())).collect()
}

/// `{a-b}` stands for every number from a to b.
fn expand(name: &str) -> Vec<String> {
    let Some((head, rest)) = name.split_once('{') else {
        return vec![name.to_owned()];
    };
    let (range, tail) = rest.split_once('}').unwrap();
    let (a, b) = range.split_once('-').unwrap();
    (a.parse::<usize>().unwrap()..=b.parse().unwrap())
        .flat_map(|n| expand(&format!("{head}{n}{tail}")))
        .collect()
}

fn check(list: &str, graphs: &[Graph], file: &BTreeMap<String, Vec<usize>>) {
    let mut asked = BTreeMap::new();
    for (_, p) in graphs.iter().flat_map(Graph::params) {
        if p.inline.is_none() {
            asked.insert(p.name.clone(), p.shape);
        }
    }
    for (name, &wanted) in &asked {
        let stored = file.get(name).unwrap_or_else(|| panic!("{list}: {name}"));
        assert!(
            layout(stored, wanted).is_some(),
            "{list}: {name} is {stored:?}, the graph wants {wanted}"
        );
    }
    let unused: Vec<_> = file.keys().filter(|n| !asked.contains_key(*n)).collect();
    assert!(unused.is_empty(), "{list}: not used: {unused:?}");
}

fn find(file: &BTreeMap<String, Vec<usize>>) -> impl Fn(&str) -> Option<(Shape, DType)> {
    |name| file.get(name).map(|s| (Shape::new(s), DType::F16))
}

#[test]
fn autoencoders() {
    for (list, spec) in [
        ("sd_vae", "sd-vae"),
        ("flux_vae", "flux-vae"),
        ("wan21_vae", "wan21-vae"),
        ("wan22_vae", "wan22-vae"),
        ("taesd", "taesd"),
        ("taef1", "taef1"),
    ] {
        let file = canonical(list);
        let vae = Vae::detect(&find(&file)).unwrap();
        match (&vae, Vae::spec(spec).unwrap()) {
            // Where its halves are is the file's matter.
            (Vae::Taesd(a), Vae::Taesd(b)) => assert_eq!(a.config, b.config, "{list}"),
            (a, b) => assert_eq!(*a, b, "{list}"),
        }
        let storage = Storage {
            activations: DType::F16,
            weights: &|_| DType::F16,
            scale: kl::Scale { shift: 5 },
        };
        let video = vae.time_scale().is_some();
        let chunk = |frames, size| Chunk {
            batch: 1,
            frames,
            height: size,
            width: size,
            first: !video,
            at_once: Frames::Apart,
        };
        let decode = vae.decode(chunk(1, 1), &storage).unwrap();
        let frames = vae.time_scale().unwrap_or(1);
        let encode = vae.encode(chunk(frames, vae.scale()), &storage).unwrap();
        check(list, &[decode.graph, encode.graph], &file);
    }
}

#[test]
fn unets() {
    for (list, built_in) in [
        ("sd1", Some(unet::Config::sd15())),
        ("sd2", Some(unet::Config::sd21())),
        ("sdxl", Some(unet::Config::sdxl())),
        ("sdxl_refiner", None),
        ("bk_sdm_base", None),
        ("bk_sdm_small", None),
        ("bk_sdm_tiny", None),
    ] {
        let file = canonical(list);
        let c = unet::Config::detect(&find(&file)).unwrap();
        if let Some(want) = built_in {
            assert_eq!(c, want, "{list}");
        }
        let mut g = Graph::new();
        let inputs = unet::Inputs {
            x: g.input("x", [1, 24, 24, c.in_channels], DType::F16),
            t: g.input("t", [1], DType::F32),
            context: g.input("context", [1, 77, c.context_dim], DType::F16),
            y: c.adm_in.map(|n| g.input("y", [1, n], DType::F16)),
            guidance: None,
        };
        let out = unet::unet(&mut g, &Params::uniform(DType::F16), &c, inputs);
        assert_eq!(*g.shape(out), [1, 24, 24, 4], "{list}");
        check(list, &[g.finish().unwrap()], &file);
    }
}

#[test]
fn text_encoders() {
    for (list, built_in) in [
        ("clip_l", clip::Config::clip_l()),
        ("clip_g", clip::Config::clip_g()),
    ] {
        let file = canonical(list);
        let c = clip::Config::detect(&find(&file)).unwrap();
        let projection = c.projection;
        assert_eq!(
            c,
            clip::Config {
                projection,
                ..built_in
            },
            "{list}"
        );
        let mut g = Graph::new();
        let p = Params::uniform(DType::F16);
        let ids = g.input("ids", [1, 77], DType::I32);
        let end = g.input("end", [1, 1, 77], DType::F32);
        let x = clip::embed(&mut g, &p, &c, ids, DType::F32);
        let want = clip::Want {
            skip: 2,
            norm: false,
            pooled: true,
        };
        clip::encoder(&mut g, &p, &c, x, end, want);
        check(list, &[g.finish().unwrap()], &file);
    }
}
