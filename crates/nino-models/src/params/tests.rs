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
        (DType::Q4_K, 1, DType::F16),
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
