//! Measures rates for estimates: typical ops on a device that is held to no budget, each in a few
//! MiB.

use super::{Ceiling, DeviceError};
use crate::SyntheticParams;
use nino_graph::{
    Act, Budget, Device, Graph, Home, Kind, Load, Node, Plan, Rates, RunOptions, Search, rewrite,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// A rate is the median of this many runs.
const RUNS: usize = 5;

/// Devices above this are measured with larger shapes: theirs take milliseconds, and smaller ones
/// would measure how long a start takes.
const FAST_FLOPS: f64 = 3e12;

/// Rates of the kinds of op in `loads`, and of values on the host, where there are any. An op that
/// cannot be measured is taken to run as fast as the device's arithmetic can.
pub(super) fn rates(
    device: &dyn Device,
    ceiling: Ceiling,
    loads: &[&Load],
) -> Result<Rates, DeviceError> {
    let kinds = loads.iter().flat_map(|load| load.work.kinds());
    let kinds: BTreeSet<Kind> = kinds.map(|(kind, _)| kind).collect();
    let mut rates = device.rates();
    rates.copy_bytes = ceiling.copy_bytes;
    for kind in kinds.into_iter().filter(|kind| *kind != Kind::Other) {
        let rate = op_rate(device, kind, ceiling.flops > FAST_FLOPS).unwrap_or_else(|e| {
            tracing::debug!(?kind, "could not be measured: {e}");
            ceiling.flops
        });
        rates.flops.insert(kind, rate);
    }
    if loads.iter().any(|load| load.host_bytes > 0) {
        rates.host_bytes = outside_rate(device)?;
    }
    Ok(rates)
}

/// Arithmetic a second of an op of this kind, as UNets and VAEs have them.
fn op_rate(device: &dyn Device, kind: Kind, fast: bool) -> Result<f64, DeviceError> {
    let mut g = Graph::new();
    let inputs = record(&mut g, kind, fast);
    let graph = g.finish()?;
    let flops = graph.total_cost().flops;
    let mut graph = rewrite(&graph, device.rewrites());
    // Kept to the end, so that they are written once and nothing lies between the timed runs.
    inputs.iter().for_each(|&input| graph.output(input));
    let plan = Arc::new(Plan::new(graph, &device.limits())?);
    let weights = device.load(&[&plan], Arc::new(SyntheticParams { seed: 1 }))?;
    let mut session = device.session(plan.clone(), &weights)?;
    for &input in &inputs {
        session.write(input, &values(&plan, input)?)?;
    }
    let mut once = || -> Result<f64, DeviceError> {
        session.run(RunOptions {
            profile: true,
            ..RunOptions::default()
        })?;
        Ok(session.profile().iter().map(|t| t.time.as_secs_f64()).sum())
    };
    once()?;
    let seconds = (0..RUNS).map(|_| once()).collect::<Result<Vec<_>, _>>()?;
    Ok(flops / median(seconds))
}

/// Records a typical op of a kind; gives its inputs.
fn record(g: &mut Graph, kind: Kind, fast: bool) -> Vec<Node> {
    let size = |slow: usize, quick: usize| if fast { quick } else { slow };
    match kind {
        Kind::Conv3x3 { x } => {
            let (channels, h) = (320, size(32, 64));
            let input = g.input("x", [1, h, h, channels], x);
            let w = g.param("weight", [channels, 3, 3, channels], x);
            let y = g.conv2d(input, w, None, 1);
            g.output(y);
            vec![input]
        }
        Kind::Linear { x, w } => {
            let (m, k, n) = (size(512, 4096), 1280, 640);
            let input = g.input("x", [m, k], x);
            let w = g.param("weight", [n, k], w);
            let y = g.linear(input, w, None);
            g.output(y);
            vec![input]
        }
        Kind::Attention { x } => {
            let shape = [1, size(1024, 4096), 8, 40];
            let inputs = ["q", "k", "v"].map(|name| g.input(name, shape, x));
            let y = g.attention(inputs[0], inputs[1], inputs[2], None);
            g.output(y);
            inputs.to_vec()
        }
        Kind::Other => Vec::new(),
    }
}

/// Made-up values of an input: the power a GPU takes, and with it its clock, depends on them.
fn values(plan: &Plan, input: Node) -> Result<Vec<u8>, DeviceError> {
    let graph = plan.graph();
    let values: Vec<f32> = (0..graph.shape(input).numel())
        .map(|i| ((i * 7919) % 2003) as f32 / 1001.5 - 1.0)
        .collect();
    let mut bytes = vec![0; graph.bytes(input)];
    nino_dtype::encode(graph.dtype(input), &values, &mut bytes)?;
    Ok(bytes)
}

/// Bytes a second that values outside a device come and go at, in and out together: of an op that
/// does next to nothing with what passes.
fn outside_rate(device: &dyn Device) -> Result<f64, DeviceError> {
    /// The value that passes, in all and by step: a good deal at a time, as in real plans.
    const BYTES: usize = 24 << 20;
    const STEPS: usize = 8;
    let dtype = device.activation_dtype();
    let columns = 4096;
    let rows = BYTES / (columns * dtype.block_bytes());
    let mut g = Graph::new();
    let x = g.input("x", [rows, columns], dtype);
    let y = g.act(x, Act::Relu);
    g.output(y);
    let graph = g.finish()?;
    let arena = graph.bytes(y) * 2 / STEPS;
    let search = Search {
        budget: Budget::of(arena),
        ..Search::on(device)
    };
    let plan = Arc::new(search.plan(graph, 1)?);
    let weights = device.load(&[&plan], Arc::new(SyntheticParams { seed: 1 }))?;
    let mut session = device.session(plan.clone(), &weights)?;
    session.clear(x)?;
    // The first run finds pages nobody has touched.
    session.run(RunOptions::default())?;
    let mut seconds = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        session.run(RunOptions::default())?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    Ok(plan.moved(Home::Host).in_runs(1) as f64 / median(seconds))
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
