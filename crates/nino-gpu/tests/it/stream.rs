//! Weights that stream through the ring give what resident ones give, bit for bit, run after run.

use crate::devices;
use nino_dtype::DType;
use nino_graph::{
    Device, Graph, Node, ParamError, ParamSource, ParamSpec, Plan, RunOptions, rewrite,
};
use std::sync::Arc;

struct Waves;

impl ParamSource for Waves {
    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        let seed: usize = param.name.bytes().map(usize::from).sum();
        let values: Vec<f32> = (0..param.shape.numel())
            .map(|i| ((i * 13 + seed * 7) as f32 * 0.37).sin() * 0.05)
            .collect();
        nino_dtype::encode(param.dtype, &values, dst).map_err(|e| ParamError {
            name: param.name.clone(),
            what: e.to_string(),
        })
    }
}

/// Convolutions and linears in several encodings, one of them packed where kernels want it so.
fn graph(activations: DType) -> (Graph, Node, Node) {
    let mut g = Graph::new();
    let x = g.input("x", [1, 6, 6, 128], activations);
    let mut h = x;
    for (i, dtype) in [DType::F16, DType::Q8_0, DType::F16, DType::Q4_K, DType::F32]
        .into_iter()
        .enumerate()
    {
        let w = g.param(&format!("{i}.up.weight"), [256, 3, 3, 128], DType::F16);
        let b = g.param(&format!("{i}.up.bias"), [256], DType::F32);
        let y = g.conv2d(h, w, Some(b), 1);
        let w = g.param(&format!("{i}.down.weight"), [128, 256], dtype);
        let y = g.linear(y, w, None);
        h = g.add(y, h);
    }
    g.output(h);
    (g.finish().unwrap(), x, h)
}

#[test]
fn gpu_streamed_weights_give_the_same_bits() {
    for device in devices(None) {
        let (graph, x, out) = graph(device.activation_dtype());
        let run = |keep: Option<usize>| {
            let plan = Plan::new(rewrite(&graph, device.rewrites()), device.plan_options());
            let plan = plan.unwrap();
            let plan = Arc::new(keep.map_or(plan.clone(), |bytes| plan.streaming(bytes)));
            let weights = device.load(&[&plan], Arc::new(Waves)).unwrap();
            let mut session = device.session(Arc::clone(&plan), &weights).unwrap();
            let values: Vec<f32> = (0..graph.shape(x).numel())
                .map(|i| (i as f32 * 0.11).cos())
                .collect();
            let mut bytes = vec![0; graph.bytes(x)];
            nino_dtype::encode(graph.dtype(x), &values, &mut bytes).unwrap();
            let once = |_| {
                session.poison().unwrap();
                session.write(x, &bytes).unwrap();
                session.run(RunOptions::default()).unwrap();
                let mut found = vec![0; graph.bytes(out)];
                session.read(out, &mut found).unwrap();
                found
            };
            let found: Vec<Vec<u8>> = (0..2).map(once).collect();
            (found, plan.fetches().len())
        };
        let (resident, none) = run(None);
        let (streamed, fetches) = run(Some(0));
        assert!(none == 0 && fetches >= 5, "{fetches} fetches");
        assert_eq!(resident[0], resident[1]);
        assert!(streamed.iter().all(|found| *found == resident[0]));
    }
}
