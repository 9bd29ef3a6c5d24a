//! Weights that stream through the ring, or lie in pages of another size, give what resident ones
//! give, bit for bit, run after run.

use crate::devices;
use crate::waves::Waves;
use nino_dtype::DType;
use nino_graph::{Device, Graph, Limits, Node, Plan, RunOptions, rewrite};
use std::sync::Arc;

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
        let run = |keep: Option<usize>, page: usize| {
            let limits = device.limits();
            let page = page.min(limits.page);
            let limits = Limits { page, ..limits };
            let plan = Plan::new(rewrite(&graph, device.rewrites()), &limits);
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
        // All parameters in one buffer; a few in each; the large ones in buffers of their own.
        let (resident, none) = run(None, usize::MAX);
        assert_eq!(resident[0], resident[1]);
        for page in [usize::MAX, 1 << 20, 1 << 16] {
            let (paged, none_of_them) = run(None, page);
            assert_eq!((none, none_of_them), (0, 0));
            assert_eq!(paged, resident, "pages of {page} bytes");
        }
        for page in [usize::MAX, 1 << 20] {
            let (streamed, fetches) = run(Some(0), page);
            assert!(fetches >= 5, "{fetches} fetches");
            assert_eq!(streamed, resident, "streamed, pages of {page} bytes");
        }
    }
}

/// Keys and values of a context that stays are sent and computed once, also when they are streamed
/// or kept outside the arena.
#[test]
fn gpu_what_stays_between_runs_gives_the_same_bits() {
    for device in devices(None) {
        let dtype = device.activation_dtype();
        let graph = |keep: bool| {
            let mut g = Graph::new();
            let (x, context) = (
                g.input("x", [1, 12, 128], dtype),
                g.input("context", [1, 7, 256], dtype),
            );
            if keep {
                g.keep(context);
            }
            let mut h = x;
            for i in 0..3 {
                let [q, k, v] = [("q", h), ("k", context), ("v", context)].map(|(name, from)| {
                    let shape = [128, g.shape(from).last_dim()];
                    let w = g.param(&format!("{i}.{name}"), shape, DType::F32);
                    let y = g.linear(from, w, None);
                    g.reshape(y, [1, g.shape(from)[1], 4, 32])
                });
                let y = g.attention(q, k, v, None);
                let y = g.reshape(y, [1, 12, 128]);
                h = g.add(h, y);
            }
            g.output(h);
            (
                rewrite(&g.finish().unwrap(), device.rewrites()),
                [x, context, h],
            )
        };
        let wave = |graph: &Graph, node: Node, seed: usize| {
            let values: Vec<f32> = (0..graph.shape(node).numel())
                .map(|i| ((i * 3 + seed * 17) as f32 * 0.21).sin())
                .collect();
            let mut bytes = vec![0; graph.bytes(node)];
            nino_dtype::encode(graph.dtype(node), &values, &mut bytes).unwrap();
            bytes
        };
        // Each run's x, and its context where that is written.
        let runs = [
            (1, Some(50)),
            (2, None),
            (3, None),
            (4, Some(51)),
            (5, None),
        ];
        let found = |keep: bool, change: &dyn Fn(Limits) -> Limits, stream: bool| {
            let (graph, [x, context, out]) = graph(keep);
            let mut plan = Plan::new(graph.clone(), &change(device.limits())).unwrap();
            if stream {
                plan = plan.streaming(0);
                assert!(plan.fetches().len() > 5);
            }
            assert_eq!(plan.steady_steps() > 0, keep);
            let plan = Arc::new(plan);
            let weights = device.load(&[&plan], Arc::new(Waves)).unwrap();
            let mut session = device.session(Arc::clone(&plan), &weights).unwrap();
            session.poison().unwrap();
            let mut told = 0;
            runs.map(|(seed, written)| {
                session.write(x, &wave(&graph, x, seed)).unwrap();
                told = written.unwrap_or(told);
                if written.is_some() || !keep {
                    session
                        .write(context, &wave(&graph, context, told))
                        .unwrap();
                }
                session.run(RunOptions::default()).unwrap();
                let mut found = vec![0; graph.bytes(out)];
                session.read(out, &mut found).unwrap();
                found
            })
        };
        let same = |limits| limits;
        let on_host = |limits| Limits {
            host_above: 1,
            window: 1 << 20,
            ..limits
        };
        let expected = found(false, &same, false);
        assert_ne!(expected[0], expected[1]);
        assert!(found(true, &same, false) == expected, "in the arena");
        assert!(found(true, &same, true) == expected, "streamed");
        assert!(found(true, &on_host, false) == expected, "on the host");
    }
}
