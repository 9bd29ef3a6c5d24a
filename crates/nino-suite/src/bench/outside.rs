//! How fast values that wait outside a device come and go.

use crate::MapSource;
use crate::run::RunError;
use nino_graph::{Act, Budget, Device, ExecError, Graph, Home, RunOptions, Search};
use std::sync::Arc;
use std::time::Instant;

/// Values of the tensor that passes through: well beyond any cache.
const N: [usize; 2] = [4096, 8192];
/// Each step brings a good deal, as real plans do.
const STEPS: usize = 8;

/// Bytes a second, in and out together: of an op that does next to nothing with what passes.
pub fn outside_rate(device: &dyn Device) -> Result<f64, RunError> {
    let mut g = Graph::new();
    let x = g.input("x", N, device.activation_dtype());
    let y = g.act(x, Act::Relu);
    g.output(y);
    let graph = g.finish().map_err(|e| ExecError::Device {
        message: e.to_string(),
    })?;
    let arena = graph.bytes(y) * 2 / STEPS;
    let search = Search {
        budget: Budget::of(arena),
        ..Search::on(device)
    };
    let plan = Arc::new(search.plan(graph, 1)?);
    let weights = device.load(&[&plan], Arc::new(MapSource::default()))?;
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
    seconds.sort_by(f64::total_cmp);
    Ok(plan.moved(Home::Host).in_runs(1) as f64 / seconds[1])
}
