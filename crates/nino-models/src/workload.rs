//! Networks as they run in inference, recorded without weights: for compiling and measuring kernels
//! without a model's file.

use crate::{Chunk, Frames, Params, Storage, Vae, VaeError, kl, unet};
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node};

/// A network at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    pub name: &'static str,
    /// Description of one run.
    pub what: &'static str,
    /// Number of runs: a network of equal blocks is represented by one block.
    pub times: u32,
    record: Record,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    Unet { xl: bool, side: usize },
    VaeDecode { side: usize },
    Blocks(Transformer),
}

/// Sizes of a transformer block: self-attention over all tokens and a feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transformer {
    tokens: usize,
    width: usize,
    heads: usize,
    hidden: usize,
    /// Storage of activations and weights where it is fixed; else the device's own and f16.
    stored: Option<DType>,
}

/// Every workload. Flux, Wan and Qwen-Image are represented by one block each, since all of theirs
/// are alike.
pub const WORKLOADS: [Workload; 7] = [
    Workload {
        name: "sd15",
        what: "SD 1.5, 512 x 512, one step with guidance",
        times: 1,
        record: Record::Unet {
            xl: false,
            side: 512,
        },
    },
    Workload {
        name: "sdxl",
        what: "SDXL, 1024 x 1024, one step with guidance",
        times: 1,
        record: Record::Unet {
            xl: true,
            side: 1024,
        },
    },
    Workload {
        name: "sd-vae",
        what: "SD's VAE, decoding 512 x 512",
        times: 1,
        record: Record::VaeDecode { side: 512 },
    },
    Workload {
        name: "sd-vae-1024",
        what: "SD's VAE, decoding 1024 x 1024",
        times: 1,
        record: Record::VaeDecode { side: 1024 },
    },
    Workload {
        name: "flux",
        what: "Flux's blocks, 1024 x 1024 and 512 words, one step without guidance",
        times: 57,
        record: Record::Blocks(Transformer {
            tokens: 4608,
            width: 3072,
            heads: 24,
            hidden: 12288,
            stored: None,
        }),
    },
    Workload {
        name: "wan",
        what: "Wan 1.3B's blocks, 832 x 480, 81 frames, one forward pass",
        times: 30,
        record: Record::Blocks(Transformer {
            tokens: 32_760,
            width: 1536,
            heads: 12,
            hidden: 8960,
            stored: None,
        }),
    },
    Workload {
        name: "qwen-image",
        what: "Qwen-Image's blocks in bf16, 1024 x 1024 and 512 words, one forward pass",
        times: 60,
        record: Record::Blocks(Transformer {
            tokens: 4608,
            width: 3072,
            heads: 24,
            hidden: 12288,
            stored: Some(DType::BF16),
        }),
    },
];

impl Workload {
    /// The workload of this name; the error lists all names.
    pub fn named(name: &str) -> Result<Workload, String> {
        let found = WORKLOADS.into_iter().find(|w| w.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = WORKLOADS.iter().map(|w| w.name).collect();
            format!("no workload {name:?}; there are {}", known.join(", "))
        })
    }

    /// The network's graph with activations of `dtype` and weights in f16, where the network says
    /// nothing else.
    pub fn record(&self, dtype: DType) -> Result<Graph, VaeError> {
        match self.record {
            Record::Unet { xl, side } => record_unet(xl, side, dtype),
            Record::VaeDecode { side } => record_vae(side, dtype),
            Record::Blocks(sizes) => sizes.record(dtype),
        }
    }
}

fn record_unet(xl: bool, side: usize, dtype: DType) -> Result<Graph, VaeError> {
    let config = if xl {
        unet::Config::sdxl()
    } else {
        unet::Config::sd15()
    };
    let (height, width) = (side / 8, side / 8);
    let mut g = Graph::new();
    let p = Params::uniform(DType::F16);
    let inputs = unet::Inputs {
        x: g.input("x", [2, height, width, config.in_channels], dtype),
        t: g.input("t", [2], DType::F32),
        context: g.input("context", [2, 77, config.context_dim], dtype),
        y: config.adm_in.map(|n| g.input("y", [2, n], dtype)),
        guidance: None,
        perturbed: false,
    };
    // As in sampling: the conditioning is the same in every step.
    let fixed = [Some(inputs.context), inputs.y];
    fixed.into_iter().flatten().for_each(|n| g.keep(n));
    let out = unet::unet(&mut g, &p, &config, inputs, &[]);
    g.output(out);
    Ok(g.finish()?)
}

fn record_vae(side: usize, dtype: DType) -> Result<Graph, VaeError> {
    let vae = Vae::spec("sd-vae").ok_or(VaeError::NoPart { part: "decoder" })?;
    let storage = Storage {
        activations: dtype,
        weights: &|_| DType::F16,
        scale: kl::Scale::default(),
    };
    let chunk = Chunk {
        batch: 1,
        frames: 1,
        height: side / vae.scale(),
        width: side / vae.scale(),
        first: true,
        at_once: Frames::Together,
    };
    Ok(vae.decode(chunk, &storage)?.graph)
}

impl Transformer {
    fn record(self, dtype: DType) -> Result<Graph, VaeError> {
        let Transformer {
            tokens: n,
            width: d,
            heads,
            hidden,
            stored,
        } = self;
        let (dtype, weights) = match stored {
            Some(stored) => (stored, stored),
            None => (dtype, DType::F16),
        };
        let mut g = Graph::new();
        let x = g.input("x", [1, n, d], dtype);
        let linear = |g: &mut Graph, name: &str, from: Node, [out, cols]: [usize; 2]| {
            let w = g.param(&format!("{name}.weight"), [out, cols], weights);
            let b = g.param(&format!("{name}.bias"), [out], DType::F32);
            g.linear(from, w, Some(b))
        };
        let normed = g.layer_norm(x, None, None, 1e-6);
        let [q, k, v] = ["q", "k", "v"].map(|name| {
            let y = linear(&mut g, name, normed, [d, d]);
            g.reshape(y, [1, n, heads, d / heads])
        });
        let y = g.attention(q, k, v, None);
        let y = g.reshape(y, [1, n, d]);
        let y = linear(&mut g, "o", y, [d, d]);
        let x = g.add(x, y);
        let normed = g.layer_norm(x, None, None, 1e-6);
        let y = linear(&mut g, "up", normed, [hidden, d]);
        let y = g.act(y, Act::GeluTanh);
        let y = linear(&mut g, "down", y, [d, hidden]);
        let out = g.add(x, y);
        g.output(out);
        Ok(g.finish()?)
    }
}
