//! Measures how fast values outside a device's arena are moved in and out.

use crate::MapSource;
use crate::run::RunError;
use nino_graph::{Act, Device, ExecError, Graph, Outside, Plan, RunOptions};
use std::sync::Arc;
use std::time::Instant;

/// The shape of the tensor that passes through; it is much larger than any cache.
const N: [usize; 2] = [4096, 8192];
/// The number of steps: each then moves megabytes, as in real plans.
const STEPS: usize = 8;

/// Gives the bytes per second that an op moves in and out together. The op does next to no
/// arithmetic.
pub fn outside_rate(device: &dyn Device) -> Result<f64, RunError> {
    let mut g = Graph::new();
    let x = g.input("x", N, device.activation_dtype());
    let y = g.act(x, Act::Relu);
    g.output(y);
    let graph = g.finish().map_err(|e| ExecError::Device {
        message: e.to_string(),
    })?;
    let arena = graph.bytes(y) * 2 / STEPS;
    let plan = Arc::new(Plan::fit(&graph, device.plan_options(), arena)?);
    let weights = device.load(&[&plan], Arc::new(MapSource::default()))?;
    let mut session = device.session(plan.clone(), &weights)?;
    session.clear(x)?;
    // The first run touches fresh pages and is slower, so it is not timed.
    session.run(RunOptions::default())?;
    let mut seconds = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        session.run(RunOptions::default())?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(plan.moved_bytes(Outside::Host) as f64 / seconds[1])
}
