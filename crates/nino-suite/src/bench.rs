//! The shapes that decide how fast a diffusion model is, measured on a device.
//!
//! A row is honest only with its error beside it: some output values are computed again in f64.

mod sample;

use crate::run::RunError;
use crate::{Case, CaseBuilder, Class, Difference, Rng, Tensor};
use nino_dtype::DType;
use nino_graph::{Cost, Device, RunOptions, Search, rewrite};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One shape of one op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// 3×3, padding 1, c → c channels on h × h pixels.
    Conv3x3 {
        c: usize,
        h: usize,
    },
    /// `[m, k] · [n, k]ᵀ`
    Linear {
        m: usize,
        k: usize,
        n: usize,
        weights: Option<DType>,
    },
    Attention {
        heads: usize,
        n: usize,
        hd: usize,
    },
    /// Group norm of 32 groups and SiLU over h × h pixels.
    GroupNormSilu {
        c: usize,
        h: usize,
    },
    /// RMS norm over the channels of each of h × h pixels, and SiLU.
    RmsNormSilu {
        c: usize,
        h: usize,
    },
}

/// The shapes that `nino bench ops` measures. `weights: None` means the device's own activation
/// type.
pub const SHAPES: &[Shape] = &[
    Shape::Conv3x3 { c: 512, h: 32 },
    Shape::Conv3x3 { c: 512, h: 64 },
    Shape::Conv3x3 { c: 256, h: 128 },
    Shape::Conv3x3 { c: 128, h: 256 },
    Shape::Conv3x3 { c: 512, h: 128 },
    Shape::Conv3x3 { c: 256, h: 512 },
    Shape::Conv3x3 { c: 128, h: 512 },
    Shape::Linear {
        m: 2048,
        k: 2048,
        n: 2048,
        weights: None,
    },
    Shape::Linear {
        m: 4096,
        k: 320,
        n: 1280,
        weights: None,
    },
    Shape::Attention {
        heads: 8,
        n: 4096,
        hd: 40,
    },
    Shape::Attention {
        heads: 24,
        n: 4608,
        hd: 128,
    },
    Shape::Attention {
        heads: 1,
        n: 4096,
        hd: 512,
    },
    Shape::GroupNormSilu { c: 256, h: 512 },
    // The widths of the Wan VAE.
    Shape::RmsNormSilu { c: 96, h: 512 },
    Shape::RmsNormSilu { c: 192, h: 512 },
    Shape::RmsNormSilu { c: 384, h: 256 },
    // The linears of Stable Diffusion 1.5's attention blocks.
    Shape::Linear {
        m: 4096,
        k: 320,
        n: 2560,
        weights: None,
    },
    Shape::Linear {
        m: 4096,
        k: 320,
        n: 2560,
        weights: Some(DType::Q8_0),
    },
    Shape::Linear {
        m: 1024,
        k: 640,
        n: 5120,
        weights: Some(DType::Q8_0),
    },
    Shape::Linear {
        m: 256,
        k: 1280,
        n: 10_240,
        weights: None,
    },
    Shape::Linear {
        m: 256,
        k: 1280,
        n: 10_240,
        weights: Some(DType::Q8_0),
    },
    Shape::Linear {
        m: 256,
        k: 1280,
        n: 10_240,
        weights: Some(DType::Q4_K),
    },
    Shape::Linear {
        m: 256,
        k: 5120,
        n: 1280,
        weights: Some(DType::Q8_0),
    },
    Shape::Linear {
        m: 256,
        k: 5120,
        n: 1280,
        weights: Some(DType::Q4_K),
    },
];

/// One measured row.
#[derive(Clone, Debug)]
pub struct Row {
    pub op: &'static str,
    pub shape: String,
    /// The activations' type, and the weights' where it differs.
    pub dtype: String,
    pub runs: usize,
    pub median: Duration,
    pub fastest: Duration,
    pub slowest: Duration,
    pub cost: Cost,
    /// The difference of some outputs from the same values in f64.
    pub difference: Difference,
    pub arena_bytes: usize,
}

impl Row {
    pub fn gflops(&self) -> f64 {
        self.cost.flops / self.median.as_secs_f64() / 1e9
    }

    pub fn gbytes(&self) -> f64 {
        self.cost.bytes / self.median.as_secs_f64() / 1e9
    }

    /// (slowest − fastest) / median
    pub fn spread(&self) -> f64 {
        (self.slowest.as_secs_f64() - self.fastest.as_secs_f64()) / self.median.as_secs_f64()
    }
}

impl Shape {
    pub fn op(&self) -> &'static str {
        match self {
            Shape::Conv3x3 { .. } => "conv2d",
            Shape::Linear {
                weights: Some(_), ..
            } => "linear",
            Shape::Linear { .. } => "matmul",
            Shape::Attention { .. } => "attention",
            Shape::GroupNormSilu { .. } => "group_norm_silu",
            Shape::RmsNormSilu { .. } => "rms_norm_silu",
        }
    }

    /// Gives the sizes as tables print them, such as `512@128x128`.
    pub fn text(&self) -> String {
        match self {
            Shape::Conv3x3 { c, h } => format!("3x3 {c}@{h}x{h}"),
            Shape::Linear { m, k, n, .. } => format!("{m}x{k}x{n}"),
            Shape::Attention { heads, n, hd } => format!("{heads} heads {n}x{hd}"),
            Shape::GroupNormSilu { c, h } | Shape::RmsNormSilu { c, h } => {
                format!("{c}@{h}x{h}")
            }
        }
    }

    /// Gives the text that a filter is matched with: op, shape and weight type.
    pub fn label(&self) -> String {
        match self {
            Shape::Linear {
                weights: Some(w), ..
            } => format!("{} {} {w}", self.op(), self.text()),
            _ => format!("{} {}", self.op(), self.text()),
        }
    }

    fn case(&self, dtype: DType) -> Case {
        let mut rng = Rng::new(11);
        let mut c = CaseBuilder::new(&mut rng);
        let class = Class::of(dtype);
        let out = match *self {
            Shape::Conv3x3 { c: channels, h } => {
                let x = c.input([1, h, h, channels], dtype);
                let w = c.weight([channels, 3, 3, channels], dtype);
                c.g.conv2d(x, w, None, 1)
            }
            Shape::Linear { m, k, n, weights } => {
                let x = c.input([m, k], dtype);
                let w = c.weight([n, k], weights.unwrap_or(dtype));
                c.g.linear(x, w, None)
            }
            Shape::Attention { heads, n, hd } => {
                let q = c.input([1, n, heads, hd], dtype);
                let k = c.input([1, n, heads, hd], dtype);
                let v = c.input([1, n, heads, hd], dtype);
                c.g.attention(q, k, v, None)
            }
            Shape::GroupNormSilu { c: channels, h } => {
                let x = c.input([1, h, h, channels], dtype);
                let weight = c.param([channels], DType::F32, 1.0, 0.2);
                let bias = c.param([channels], DType::F32, 0.0, 0.2);
                let norm = c.g.group_norm(x, 32, weight, bias, 1e-6);
                c.g.silu(norm)
            }
            Shape::RmsNormSilu { c: channels, h } => {
                let x = c.input([1, h, h, channels], dtype);
                let weight = c.param([channels], DType::F32, 1.0, 0.2);
                let norm = c.g.rms_norm(x, Some(weight), 1e-6);
                c.g.silu(norm)
            }
        };
        c.finish(self.label(), out, class)
    }
}

/// Measures one shape: warms up for `warm_up`, then takes the median of `runs` runs, each the sum
/// of its ops' device times.
pub fn measure(
    device: &dyn Device,
    shape: &Shape,
    dtype: DType,
    runs: usize,
    warm_up: Duration,
) -> Result<Row, RunError> {
    let case = shape.case(dtype);
    let mut graph = rewrite(&case.graph, device.rewrites());
    // Inputs are outputs too, so that they stay in the arena and are written once, before the timed
    // runs.
    case.inputs.keys().for_each(|&n| graph.output(n));
    let cost = nominal_cost(&case);
    // Everything on the device: a rate with values or weights from elsewhere would be another one.
    let search = Search {
        allow_host: false,
        ..Search::on(device)
    };
    let plan = Arc::new(search.plan(graph, 1)?);
    let weights = device.load(&[&plan], Arc::new(case.params.clone()))?;
    let mut session = device.session(plan.clone(), &weights)?;
    for (&node, values) in &case.inputs {
        let bytes = values
            .encode(plan.graph().dtype(node))
            .expect("inputs have an encoder");
        session.write(node, &bytes)?;
    }
    let mut once = || -> Result<Duration, RunError> {
        session.run(RunOptions {
            cancel: None,
            profile: true,
            ..RunOptions::default()
        })?;
        Ok(session.profile().iter().map(|t| t.time).sum())
    };
    let started = Instant::now();
    once()?;
    while started.elapsed() < warm_up {
        once()?;
    }
    let mut times = (0..runs.max(5))
        .map(|_| once())
        .collect::<Result<Vec<_>, _>>()?;
    let out = plan.graph().outputs()[0];
    let mut bytes = vec![0; plan.graph().bytes(out)];
    session.read(out, &mut bytes)?;
    let found =
        Tensor::decode(dtype, plan.graph().shape(out), &bytes).expect("an activation decodes");
    times.sort_unstable();
    let dtype = match shape {
        Shape::Linear {
            weights: Some(w), ..
        } => format!("{dtype}, weights {w}"),
        _ => dtype.to_string(),
    };
    Ok(Row {
        op: shape.op(),
        shape: shape.text(),
        dtype,
        runs: times.len(),
        median: times[times.len() / 2],
        fastest: times[0],
        slowest: times[times.len() - 1],
        cost,
        difference: sample::difference(shape, &case, &found),
        arena_bytes: session.arena_bytes(),
    })
}

/// Counts the arithmetic of the definition, and the least traffic: operands in, result out.
fn nominal_cost(case: &Case) -> Cost {
    let flops = case.graph.total_cost().flops;
    let params: usize = case.graph.params().map(|(_, p)| p.bytes()).sum();
    let inputs: usize = case.inputs.keys().map(|&n| case.graph.bytes(n)).sum();
    let outputs: usize = case
        .graph
        .outputs()
        .iter()
        .map(|&n| case.graph.bytes(n))
        .sum();
    Cost {
        flops,
        bytes: (params + inputs + outputs) as f64,
    }
}
