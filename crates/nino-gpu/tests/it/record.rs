//! Recorded dispatches give what wgpu's passes give, bit for bit: run after run, cut or whole, and
//! when every step is timed.

use crate::adapters;
use crate::waves::Waves;
use nino_dtype::DType;
use nino_gpu::{Gpu, GpuDevice, OpenOptions};
use nino_graph::{Device, Graph, Node, Plan, RunOptions, rewrite};
use std::sync::Arc;

/// Branches that need not wait for each other, and joins that must wait for all of them.
fn graph(activations: DType) -> (Graph, Node, Node) {
    let mut g = Graph::new();
    let x = g.input("x", [1, 70, 64], activations);
    let mut h = x;
    for layer in 0..3 {
        let branch = |g: &mut Graph, name: &str| {
            let w = g.param(&format!("{layer}.{name}"), [64, 64], DType::F16);
            g.linear(h, w, None)
        };
        let [a, b, c] = ["q", "k", "v"].map(|name| branch(&mut g, name));
        let ab = g.add(a, b);
        let c = g.silu(c);
        let joined = g.add(ab, c);
        h = g.add(joined, h);
    }
    g.output(h);
    (g.finish().unwrap(), x, h)
}

/// How the same plan is made.
#[derive(Clone, Copy, Debug)]
enum How {
    Whole,
    Cut,
    /// Values in host memory.
    Host,
    /// Values over several buffers.
    Pages,
}

fn results(device: &GpuDevice, how: How) -> Vec<Vec<u8>> {
    let (graph, x, out) = graph(device.activation_dtype());
    let mut limits = device.limits();
    match how {
        How::Whole => {}
        How::Cut => limits.max_step_flops = Some(1e5),
        How::Host => limits.host_above = 1,
        How::Pages => (limits.page, limits.max_binding) = (8192, 8192),
    }
    let plan = Arc::new(Plan::new(rewrite(&graph, device.rewrites()), &limits).unwrap());
    assert_eq!(plan.host_bytes() > 0, matches!(how, How::Host));
    assert_eq!(plan.pages_bytes() > 0, matches!(how, How::Pages));
    let weights = device.load(&[&plan], Arc::new(Waves)).unwrap();
    let mut session = device.session(Arc::clone(&plan), &weights).unwrap();
    let values: Vec<f32> = (0..graph.shape(x).numel())
        .map(|i| (i as f32 * 0.13).cos())
        .collect();
    let mut bytes = vec![0; graph.bytes(x)];
    nino_dtype::encode(graph.dtype(x), &values, &mut bytes).unwrap();
    let once = |profile| {
        session.poison().unwrap();
        session.write(x, &bytes).unwrap();
        let options = RunOptions {
            profile,
            ..RunOptions::default()
        };
        session.run(options).unwrap();
        let timed = if profile { plan.steps().len() } else { 0 };
        assert_eq!(session.profile().len(), timed);
        let mut found = vec![0; graph.bytes(out)];
        session.read(out, &mut found).unwrap();
        found
    };
    [false, false, true, false].map(once).to_vec()
}

#[test]
fn gpu_recorded_dispatches_give_the_bits_of_passes() {
    let adapters = adapters();
    for info in &adapters.infos {
        let open = |record| {
            let options = OpenOptions {
                adapter: info.index.to_string(),
                record,
                ..OpenOptions::default()
            };
            GpuDevice::new(Gpu::open_in(&adapters, &options).unwrap())
        };
        let (passes, recorded) = (open(false), open(true));
        assert!(!passes.gpu().records());
        assert_eq!(recorded.gpu().records(), info.backend == "vulkan");
        let expected = results(&passes, How::Whole);
        assert!(expected[0].iter().any(|&byte| byte != expected[0][0]));
        for how in [How::Whole, How::Cut, How::Host, How::Pages] {
            for device in [&recorded, &passes] {
                for found in results(device, how) {
                    assert!(found == expected[0], "{}, {how:?}", info.name);
                }
            }
        }
    }
}
