//! Full tensor lists of known models, from their configurations.

pub(super) mod clip;
pub(super) mod flux;
pub(super) mod kl_vae;
pub(super) mod t5;
pub(super) mod tiny;
pub(super) mod unet;
pub(super) mod wan;
pub(super) mod wan_vae;

/// Whether a model file must have a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Always,
    Optional,
    /// Needed when any tensor of that half of an autoencoder is there.
    Encoder,
    Decoder,
}

#[derive(Clone, Debug)]
pub struct Tensor {
    pub name: String,
    pub shape: Vec<usize>,
    pub need: Need,
}

/// All tensors of a model, in the order of its modules.
#[derive(Clone, Debug)]
pub struct Spec {
    pub tensors: Vec<Tensor>,
    need: Need,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            tensors: Vec::new(),
            need: Need::Always,
        }
    }
}

impl Spec {
    /// What the following tensors are needed for.
    pub(super) fn need(&mut self, need: Need) {
        self.need = need;
    }

    pub(super) fn raw(&mut self, name: impl Into<String>, shape: &[usize]) {
        self.tensors.push(Tensor {
            name: name.into(),
            shape: shape.to_vec(),
            need: self.need,
        });
    }

    /// A layer with weight and bias.
    pub(super) fn layer(&mut self, name: &str, weight: &[usize]) {
        self.raw(format!("{name}.weight"), weight);
        self.raw(format!("{name}.bias"), &weight[..1]);
    }

    pub(super) fn weight(&mut self, name: &str, weight: &[usize]) {
        self.raw(format!("{name}.weight"), weight);
    }

    pub(super) fn conv2d(&mut self, name: &str, out: usize, input: usize, k: usize) {
        self.layer(name, &[out, input, k, k]);
    }

    pub(super) fn linear(&mut self, name: &str, out: usize, input: usize) {
        self.layer(name, &[out, input]);
    }

    pub(super) fn norm(&mut self, name: &str, c: usize) {
        self.layer(name, &[c]);
    }
}
