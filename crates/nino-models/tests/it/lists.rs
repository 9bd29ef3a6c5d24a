//! Lists of tensors, of real models and of ours, and files that would hold them.

use crate::golden::root;
use nino_dtype::DType;
use nino_models::describe::{self, TensorSpec};
use nino_models::{Network, detect::Kind};
use nino_weights::names::{self, Component};
use nino_weights::{Entry, Format, Index, Span};
use std::path::PathBuf;

/// Names and shapes.
pub(crate) type List = Vec<(String, Vec<usize>)>;

/// The tensors of a real model that `goldens/weights/names` lists.
pub(crate) fn golden(model: &str) -> List {
    let path = root().join(format!("goldens/weights/names/{model}.txt"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut list = List::new();
    for line in text.lines() {
        let (name, shape) = line.rsplit_once(' ').unwrap();
        let sizes = shape.split('x').filter(|d| *d != "scalar");
        let shape: Vec<usize> = sizes.map(|d| d.parse().unwrap()).collect();
        list.extend(expand(name).into_iter().map(|n| (n, shape.clone())));
    }
    list
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

/// The tensors of a known model, with `prefix` before their names.
pub(crate) fn kind(kind: Kind, prefix: &str) -> List {
    named(kind.tensors(), prefix)
}

/// The tensors of a network of any size.
pub(crate) fn network(network: &Network, prefix: &str) -> List {
    named(describe::tensors(network).unwrap(), prefix)
}

fn named(tensors: Vec<TensorSpec>, prefix: &str) -> List {
    let tensors = tensors.into_iter();
    tensors
        .map(|t| (format!("{prefix}{}", t.name), t.shape))
        .collect()
}

/// A file of these tensors in f16.
pub(crate) fn index(file: &str, list: &[(String, Vec<usize>)]) -> Index {
    let mut offset = 0;
    let entries = list.iter().map(|(name, shape)| {
        let len = 2 * shape.iter().product::<usize>() as u64;
        offset += len;
        let span = Span {
            file: 0,
            offset: offset - len,
            len,
        };
        Entry::plain(name.clone(), DType::F16, shape.clone(), span)
    });
    let files = vec![PathBuf::from(file)];
    Index::new(Format::Safetensors, files, entries.collect())
}

/// The only network of a file.
#[track_caller]
pub(crate) fn component(list: &[(String, Vec<usize>)]) -> Component {
    let (mut components, rest) = names::canonical(&index("model.safetensors", list)).unwrap();
    assert!(rest.is_empty() && components.len() == 1, "{rest:?}");
    components.remove(0)
}
