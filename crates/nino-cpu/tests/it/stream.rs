//! Weights that pass through memory instead of staying there: the same bits, run after run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nino_cpu::{Cpu, CpuOptions};
use nino_dtype::DType;
use nino_graph::{
    Device, ExecError, Graph, Node, ParamError, ParamSource, ParamSpec, Plan, RunOptions, Session,
    rewrite,
};

/// Fixed values by name and place; counts reads and fails at the one told to.
#[derive(Default)]
struct Waves {
    reads: AtomicUsize,
    fail_at: Option<usize>,
}

impl ParamSource for Waves {
    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        let wrong = |what: &str| ParamError {
            name: param.name.clone(),
            what: what.to_owned(),
        };
        if self.fail_at == Some(read) {
            return Err(wrong("the disk is gone"));
        }
        let seed: usize = param.name.bytes().map(usize::from).sum();
        let values: Vec<f32> = (0..param.shape.numel())
            .map(|i| ((i * 13 + seed * 7) as f32 * 0.37).sin() * 0.1)
            .collect();
        nino_dtype::encode(param.dtype, &values, dst).map_err(|e| wrong(&e.to_string()))
    }
}

/// Convolutions and linears in several encodings, with small vectors between them.
fn graph() -> (Graph, Node, Node) {
    let (mut g, f) = (Graph::new(), DType::F32);
    let x = g.input("x", [1, 8, 8, 256], f);
    let mut h = x;
    for (i, dtype) in [
        DType::F16,
        DType::Q8_0,
        DType::F32,
        DType::Q4_K,
        DType::BF16,
    ]
    .into_iter()
    .enumerate()
    {
        let w = g.param(&format!("{i}.conv.weight"), [256, 3, 3, 256], dtype);
        let b = g.param(&format!("{i}.conv.bias"), [256], f);
        h = g.conv2d(h, w, Some(b), 1);
        let w = g.param(&format!("{i}.proj.weight"), [256, 256], dtype);
        let y = g.linear(h, w, None);
        h = g.add(y, h);
    }
    g.output(h);
    (g.finish().unwrap(), x, h)
}

struct Runner {
    session: Box<dyn Session>,
    plan: Arc<Plan>,
    x: Node,
    out: Node,
}

impl Runner {
    fn new(cpu: &Cpu, source: Arc<Waves>, keep: Option<usize>) -> Runner {
        let (graph, x, out) = graph();
        let mut plan = Plan::new(rewrite(&graph, cpu.rewrites()), &cpu.limits()).unwrap();
        if let Some(bytes) = keep {
            plan = plan.streaming(bytes);
        }
        let plan = Arc::new(plan);
        let weights = cpu.load(&[&plan], source).unwrap();
        let session = cpu.session(plan.clone(), &weights).unwrap();
        Runner {
            session,
            plan,
            x,
            out,
        }
    }

    fn run(&mut self, cancel: Option<&AtomicBool>) -> Result<Vec<u8>, ExecError> {
        self.session.poison()?;
        let values = (0..8 * 8 * 256).map(|i| (i as f32 * 0.11).cos());
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        self.session.write(self.x, &bytes)?;
        self.session.run(RunOptions {
            cancel,
            ..RunOptions::default()
        })?;
        let mut found = vec![0; self.plan.graph().bytes(self.out)];
        self.session.read(self.out, &mut found)?;
        Ok(found)
    }
}

fn cpu() -> Cpu {
    Cpu::new(CpuOptions {
        threads: Some(2),
        ..CpuOptions::default()
    })
    .unwrap()
}

#[test]
fn streamed_weights_give_the_same_bits_every_run() {
    let cpu = cpu();
    let expected = Runner::new(&cpu, Arc::default(), None).run(None).unwrap();
    for keep in [0, 3 << 20] {
        let mut streamed = Runner::new(&cpu, Arc::default(), Some(keep));
        assert!(streamed.plan.streamed().each_run > 0);
        for _ in 0..3 {
            assert_eq!(streamed.run(None).unwrap(), expected, "{keep} bytes kept");
        }
    }
}

#[test]
fn only_what_stays_is_read_at_load() {
    let cpu = cpu();
    let source = Arc::new(Waves::default());
    let (graph, ..) = graph();
    let plan = Plan::new(graph, &cpu.limits()).unwrap().streaming(0);
    let fetched: usize = plan.fetches().iter().map(|f| f.params.len()).sum();
    assert!(fetched > 5, "{fetched}");
    cpu.load(&[&plan], source.clone()).unwrap();
    assert_eq!(source.reads.load(Ordering::Relaxed), 15 - fetched);
}

#[test]
fn a_stopped_run_starts_over() {
    let cpu = cpu();
    let expected = Runner::new(&cpu, Arc::default(), None).run(None).unwrap();
    let mut streamed = Runner::new(&cpu, Arc::default(), Some(0));
    let stop = AtomicBool::new(true);
    assert!(matches!(
        streamed.run(Some(&stop)),
        Err(ExecError::Cancelled)
    ));
    assert_eq!(streamed.run(None).unwrap(), expected);
}

#[test]
fn a_read_that_fails_is_told_by_the_run() {
    let source = Arc::new(Waves {
        fail_at: Some(10),
        ..Waves::default()
    });
    let mut streamed = Runner::new(&cpu(), source, Some(0));
    let error = streamed.run(None).unwrap_err().to_string();
    assert!(
        error.contains("the disk is gone") && error.contains("weight"),
        "{error}"
    );
}

/// Products of `y` beside those of `x`; `y` may stay between runs.
fn two_inputs(keep: bool) -> (Graph, [Node; 3]) {
    let (mut g, f) = (Graph::new(), DType::F32);
    let [x, y] = ["x", "y"].map(|name| g.input(name, [4, 256], f));
    if keep {
        g.keep(y);
    }
    let mut h = x;
    for i in 0..5 {
        let [a, b] = [("a", h), ("b", y)].map(|(name, from)| {
            let w = g.param(&format!("{i}.{name}"), [256, 256], f);
            g.linear(from, w, None)
        });
        let product = g.mul(a, b);
        h = g.add(product, x);
    }
    g.output(h);
    (g.finish().unwrap(), [x, y, h])
}

#[test]
fn what_stays_between_runs_is_neither_read_nor_computed_again() {
    let cpu = cpu();
    let wave = |seed: usize| -> Vec<u8> {
        let values = (0..4 * 256).map(|i| ((i * 3 + seed * 17) as f32 * 0.21).sin());
        values.flat_map(f32::to_le_bytes).collect()
    };
    let session = |keep: bool, stream: bool| {
        let source = Arc::new(Waves::default());
        let (graph, [x, y, out]) = two_inputs(keep);
        let mut plan = Plan::new(graph, &cpu.limits()).unwrap();
        if stream {
            plan = plan.streaming(0);
        }
        let plan = Arc::new(plan);
        let weights = cpu.load(&[&plan], source.clone()).unwrap();
        let mut session = cpu.session(plan.clone(), &weights).unwrap();
        let run = move |at: usize, kept: Option<usize>, cancel: bool| {
            session.write(x, &wave(at)).unwrap();
            if let Some(kept) = kept {
                session.write(y, &wave(kept)).unwrap();
            }
            let cancel = AtomicBool::new(cancel);
            let options = RunOptions {
                cancel: Some(&cancel),
                profile: true,
                ..RunOptions::default()
            };
            session.run(options).ok()?;
            let mut found = vec![0; plan.graph().bytes(out)];
            session.read(out, &mut found).unwrap();
            Some((found, session.profile().len()))
        };
        (run, source)
    };
    let fresh = |x: usize, y: usize| session(false, false).0(x, Some(y), false).unwrap().0;
    for stream in [false, true] {
        let (mut run, source) = session(true, stream);
        let mut check = |x: usize, written: Option<usize>, y: usize, ops: usize| {
            let (found, timed) = run(x, written, false).unwrap();
            assert_eq!(timed, ops, "ops of run {x}, streamed: {stream}");
            assert!(found == fresh(x, y), "run {x}, streamed: {stream}");
        };
        check(1, Some(50), 50, 20);
        let after_one = source.reads.load(Ordering::Relaxed);
        check(2, None, 50, 15);
        check(3, None, 50, 15);
        let each = (source.reads.load(Ordering::Relaxed) - after_one) / 2;
        assert!(each <= if stream { 6 } else { 0 }, "{each} reads a run");
        check(4, Some(51), 51, 20);
        check(5, None, 51, 15);
        assert!(run(6, None, true).is_none(), "stopped behind what stays");
        let (found, timed) = run(7, None, false).unwrap();
        assert!(timed == 15 && found == fresh(7, 51));
        assert!(run(8, Some(52), true).is_none(), "stopped before it");
        let (found, timed) = run(9, None, false).unwrap();
        assert!(timed == 20 && found == fresh(9, 52));
    }
}
