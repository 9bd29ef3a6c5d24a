//! Lists of networks that this crate has no model of yet, written by hand. When a model is written,
//! its file here is deleted and its rows in `kind.rs` name the model's sizes instead.

pub(super) mod wan;

use crate::describe::{Need, TensorSpec};

/// A list in the making, in the order of the network's modules.
struct List {
    tensors: Vec<TensorSpec>,
    need: Need,
}

impl Default for List {
    fn default() -> Self {
        List {
            tensors: Vec::new(),
            need: Need::Always,
        }
    }
}

impl List {
    /// When files hold the tensors that follow.
    fn need(&mut self, need: Need) {
        self.need = need;
    }

    fn raw(&mut self, name: impl Into<String>, shape: &[usize]) {
        self.tensors.push(TensorSpec {
            name: name.into(),
            shape: shape.to_vec(),
            need: self.need,
        });
    }

    /// A layer with weight and bias.
    fn layer(&mut self, name: &str, weight: &[usize]) {
        self.raw(format!("{name}.weight"), weight);
        self.raw(format!("{name}.bias"), &weight[..1]);
    }

    fn weight(&mut self, name: &str, weight: &[usize]) {
        self.raw(format!("{name}.weight"), weight);
    }

    fn linear(&mut self, name: &str, out: usize, input: usize) {
        self.layer(name, &[out, input]);
    }

    fn norm(&mut self, name: &str, c: usize) {
        self.layer(name, &[c]);
    }
}
