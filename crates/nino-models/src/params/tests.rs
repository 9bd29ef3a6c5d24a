//! Names, dtypes and sharing of declared parameters.

use super::*;

fn declared(stored: DType, k: usize) -> (String, DType) {
    let mut g = Graph::new();
    let p = Params::uniform(stored).at("decoder").at("mid");
    let x = g.input("x", [1, 4, 4, 64], DType::F32);
    p.conv(&mut g, "conv1", x, 32, k);
    let g = g.finish().unwrap();
    let (_, spec) = g.params().next().unwrap();
    (spec.name.clone(), spec.dtype)
}

#[test]
fn names_are_paths_and_dtypes_are_the_files() {
    for (stored, k, want) in [
        (DType::F16, 3, DType::F16),
        (DType::BF16, 1, DType::BF16),
        (DType::F64, 3, DType::F32),
        (DType::Q8_0, 1, DType::Q8_0),
        (DType::Q8_0, 3, DType::Q8_0),
        (DType::Q4_K, 1, DType::Q8_0),
    ] {
        let (name, dtype) = declared(stored, k);
        assert_eq!(name, "decoder.mid.conv1.weight");
        assert_eq!(dtype, want, "{stored} with a {k}x{k} kernel");
    }
}

#[test]
fn a_name_is_declared_once() {
    let mut g = Graph::new();
    let p = Params::uniform(DType::F32);
    let x = g.input("x", [1, 4, 4, 8], DType::F32);
    let y = p.conv(&mut g, "conv", x, 8, 3);
    let y = p.conv(&mut g, "conv", y, 8, 3);
    g.output(y);
    assert_eq!(g.finish().unwrap().params().count(), 2);
}

#[test]
fn branches_are_added_to_the_layers_they_are_named_for() {
    let mut g = Graph::new();
    let branch = |name: &str, dtype: DType| {
        assert_eq!(dtype, DType::F16);
        let one = Branch {
            name: format!("{name}.0"),
            rank: 4,
            dtype: DType::F32,
        };
        if name.starts_with("a.") {
            vec![one]
        } else {
            Vec::new()
        }
    };
    let p = Params::uniform(DType::F16).with_branches(branch);
    let x = g.input("x", [1, 4, 4, 8], DType::F32);
    let y = p.at("a").conv(&mut g, "conv", x, 16, 3);
    let y = p.at("a").linear(&mut g, "proj", y, 8);
    let y = p.linear(&mut g, "out", y, 8);
    g.output(y);
    let g = g.finish().unwrap();
    let found: Vec<(&str, &[usize])> = g
        .params()
        .filter(|(_, p)| p.name.ends_with("down") || p.name.ends_with("up"))
        .map(|(_, p)| (p.name.as_str(), &p.shape[..]))
        .collect();
    assert_eq!(
        found,
        [
            ("a.conv.weight.0.down", &[4, 3, 3, 8][..]),
            ("a.conv.weight.0.up", &[16, 4]),
            ("a.proj.weight.0.down", &[4, 16]),
            ("a.proj.weight.0.up", &[8, 4]),
        ]
    );
}
