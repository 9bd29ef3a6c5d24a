//! One network with its inputs, loaded on a device and run again and again.

use crate::interrupt;
use anyhow::{Context, Result};
use nino_dtype::DType;
use nino_graph::{
    Device, Graph, Node, OpTime, ParamSource, Plan, RunOptions, Search, Session, Turn, rewrite,
};
use nino_models::{Chunk, Denoiser, DenoiserShape, Frames, Params, Storage, Vae, clip, kl, t5};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What to record.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "a benchmark has a few of them")]
pub(super) enum Kind {
    Text {
        config: clip::Config,
        want: clip::Want,
    },
    T5(T5),
    /// One step.
    Denoiser {
        net: Denoiser,
        shape: DenoiserShape,
    },
    /// One latent of `side` pixels.
    Vae {
        vae: Vae,
        side: usize,
    },
}

/// A T5 encoder with a prompt of so many tokens.
#[derive(Clone)]
pub(super) struct T5 {
    pub(super) config: t5::Config,
    pub(super) tokens: usize,
    /// Whether activations are in f32, as `generate` has them on a CPU, or those inside of layers
    /// in the device's own type, as on a GPU.
    pub(super) exact: bool,
}

/// Where weights come from, and how each is held.
#[derive(Clone)]
pub(super) struct Origin {
    pub(super) source: Arc<dyn ParamSource>,
    pub(super) dtype: Arc<dyn Fn(&str) -> DType>,
}

#[derive(Clone)]
pub(super) struct Network {
    /// Says everything but how weights are held.
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) origin: Origin,
}

/// Tokens of a prompt that CLIP reads.
pub(super) const TOKENS: usize = 77;

/// Runs that a plan reckons with.
const STEPS: usize = 20;

pub(super) struct Recorded {
    graph: Graph,
    inputs: Vec<(Node, Vec<u8>)>,
    output: Node,
}

impl Network {
    pub(super) fn with_weights(&self, dtype: DType) -> Network {
        let mut changed = self.clone();
        changed.origin.dtype = Arc::new(move |_| dtype);
        changed
    }

    pub(super) fn record(&self, activations: DType) -> Result<Recorded> {
        let params = Params::new(|name: &str| (self.origin.dtype)(name));
        let mut g = Graph::new();
        let output = match &self.kind {
            Kind::Text { config, want } => {
                let n = config.max_tokens.min(TOKENS);
                let ids = g.input("ids", [1, n], DType::I32);
                let end = g.input("end", [1, 1, n], DType::F32);
                let x = clip::embed(&mut g, &params, config, ids, DType::F32);
                clip::encoder(&mut g, &params, config, x, end, *want).hidden
            }
            Kind::T5(T5 {
                config,
                tokens,
                exact,
            }) => {
                let ids = g.input("ids", [1, *tokens], DType::I32);
                let x = t5::embed(&mut g, &params, config, ids, DType::F32);
                let want = t5::Want {
                    skip: 1,
                    mask: None,
                    layers: if *exact { DType::F32 } else { activations },
                };
                t5::encoder(&mut g, &params, config, x, want)
            }
            Kind::Denoiser { net, shape } => {
                // As in sampling: the prompt is the same at every step.
                let keep = true;
                let recorded = net.record(&params, shape, activations, keep)?;
                g = recorded.graph;
                recorded.out
            }
            Kind::Vae { vae, side } => {
                let chunk = Chunk {
                    batch: 1,
                    frames: 1,
                    height: *side,
                    width: *side,
                    first: true,
                    at_once: Frames::Together,
                };
                let storage = Storage {
                    activations,
                    weights: &*self.origin.dtype,
                    scale: kl::Scale { shift: 0 },
                };
                let recording = vae.decode(chunk, &storage)?;
                let output = recording.output;
                g = recording.graph;
                output
            }
        };
        if g.outputs().is_empty() {
            g.output(output);
        }
        let graph = g.finish()?;
        let timestep = match &self.kind {
            Kind::Denoiser {
                net:
                    Denoiser::Anima(_)
                    | Denoiser::Flux(_)
                    | Denoiser::Flux2(_)
                    | Denoiser::Krea2(_)
                    | Denoiser::QwenImage(_)
                    | Denoiser::ZImage(_),
                ..
            } => 0.5,
            _ => 500.0,
        };
        let inputs = graph
            .inputs()
            .map(|(node, name)| (node, input(&graph, node, name, timestep)))
            .collect();
        Ok(Recorded {
            graph,
            inputs,
            output,
        })
    }
}

/// Seeded values of the size a sampler gives, in the node's type.
fn input(graph: &Graph, node: Node, name: &str, timestep: f32) -> Vec<u8> {
    let n = graph.shape(node).numel();
    let mut state = 1u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let values: Vec<f32> = match name {
        "t" => vec![timestep; n],
        // Every vocabulary has the bytes.
        "ids" => (0..n).map(|i| (i * 13 % 256) as f32).collect(),
        "end" => (0..n).map(|i| f32::from(i + 1 == n)).collect(),
        _ => (0..n).map(|_| 1.7 * noise()).collect(),
    };
    let mut bytes = vec![0; graph.bytes(node)];
    if graph.dtype(node) == DType::I32 {
        for (bytes, value) in bytes.chunks_exact_mut(4).zip(values) {
            bytes.copy_from_slice(&(value as i32).to_le_bytes());
        }
    } else {
        nino_dtype::encode(graph.dtype(node), &values, &mut bytes).expect("inputs are plain");
    }
    bytes
}

/// A network on a device.
pub(super) struct Loaded {
    plan: Arc<Plan>,
    session: Box<dyn Session>,
    inputs: Vec<(Node, Vec<u8>)>,
    ran: bool,
    output: Node,
    out: Vec<u8>,
    /// The arithmetic of the definition.
    flops: f64,
}

impl Loaded {
    pub(super) fn new(device: &dyn Device, network: &Network, dtype: DType) -> Result<Loaded> {
        let recorded = network.record(dtype)?;
        let flops = recorded.graph.total_cost().flops;
        let graph = rewrite(&recorded.graph, device.rewrites());
        // Within the budget, as `generate` plans it: weights stream where they do not fit.
        let mut plans = Search::on(device).best(&[Turn::new(graph, STEPS)])?;
        let plan = Arc::new(plans.remove(0));
        let weights = device
            .load(&[&plan], network.origin.source.clone())
            .with_context(|| format!("loading {}", network.name))?;
        let session = device.session(plan.clone(), &weights)?;
        let out = vec![0; plan.graph().bytes(recorded.output)];
        Ok(Loaded {
            plan,
            session,
            inputs: recorded.inputs,
            ran: false,
            output: recorded.output,
            out,
            flops,
        })
    }

    /// Inputs in that do not stay from the run before, run, output out.
    pub(super) fn once(&mut self) -> Result<Duration> {
        self.run(false)
    }

    fn run(&mut self, profile: bool) -> Result<Duration> {
        let started = Instant::now();
        for (node, bytes) in &self.inputs {
            if !self.ran || !self.plan.keeps(*node) {
                self.session.write(*node, bytes)?;
            }
        }
        self.ran = true;
        self.session.run(RunOptions {
            cancel: Some(interrupt::flag()),
            profile,
            ..RunOptions::default()
        })?;
        self.session.read(self.output, &mut self.out)?;
        Ok(started.elapsed())
    }

    /// The output of the last run.
    pub(super) fn values(&self) -> Result<Vec<f32>> {
        let graph = self.plan.graph();
        let mut values = vec![0.0; graph.shape(self.output).numel()];
        nino_dtype::decode(graph.dtype(self.output), &self.out, &mut values)?;
        Ok(values)
    }

    /// One more run with every op timed.
    pub(super) fn profiled(&mut self) -> Result<Profiled<'_>> {
        let total = self.run(true)?;
        Ok(Profiled {
            graph: self.plan.graph(),
            times: self.session.profile(),
            total,
        })
    }

    pub(super) fn flops(&self) -> f64 {
        self.flops
    }

    pub(super) fn planned_bytes(&self) -> usize {
        self.plan.device_bytes()
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        self.plan.device_weight_bytes() + self.session.arena_bytes()
    }
}

/// Times of the ops of one run, and of the whole of it.
pub(super) struct Profiled<'a> {
    pub(super) graph: &'a Graph,
    pub(super) times: Vec<OpTime>,
    pub(super) total: Duration,
}
