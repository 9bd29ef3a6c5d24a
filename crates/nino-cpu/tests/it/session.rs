//! What a session promises beside right results: sizes checked, runs cancelled, times told, the
//! same bits from any number of threads, values outside the arena.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nino_cpu::{Cpu, CpuError, CpuOptions, Level};
use nino_dtype::DType;
use nino_graph::{
    Act, Device, Epilogue, ExecError, Graph, Linear, Node, ParamError, ParamSource, ParamSpec,
    Plan, RunOptions, Session, rewrite,
};

/// Every weight is a fixed pattern of its name and place.
struct Pattern;

impl ParamSource for Pattern {
    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        let values: Vec<f32> = pattern(param.shape.numel(), param.name.len());
        nino_dtype::encode(param.dtype, &values, dst).map_err(|e| ParamError {
            name: param.name.clone(),
            what: e.to_string(),
        })
    }
}

fn pattern(n: usize, seed: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 37 + seed * 11) % 101) as f32 / 101.0 - 0.5)
        .collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Norm, convolution with residual, attention over pixels, linear in Q8_0.
fn graph() -> (Graph, Node, Node) {
    let (mut g, f) = (Graph::new(), DType::F32);
    let x = g.input("x", [1, 24, 20, 64], f);
    let (gain, shift) = (
        g.param("norm.weight", [64], f),
        g.param("norm.bias", [64], f),
    );
    let h = g.group_norm(x, 8, gain, shift, 1e-5);
    let w = g.param("conv.weight", [64, 3, 3, 64], f);
    let h = g.conv2d(h, w, None, 1);
    let h = g.add(h, x);
    let tokens = g.reshape(h, [1, 480, 4, 16]);
    let h = g.attention(tokens, tokens, tokens, None);
    let h = g.reshape(h, [1, 480, 64]);
    let w = g.param("proj.weight", [96, 64], DType::Q8_0);
    let out = g.linear(h, w, None);
    g.output(out);
    (g.finish().unwrap(), x, out)
}

fn cpu(threads: usize) -> Cpu {
    Cpu::new(CpuOptions {
        threads: Some(threads),
        ..CpuOptions::default()
    })
    .unwrap()
}

fn open(cpu: &Cpu, plan: &Arc<Plan>) -> Box<dyn Session> {
    let weights = cpu.load(&[plan], Arc::new(Pattern)).unwrap();
    cpu.session(plan.clone(), &weights).unwrap()
}

fn run(cpu: &Cpu, plan: &Arc<Plan>, x: Node, out: Node) -> Vec<u8> {
    let mut session = open(cpu, plan);
    session.poison().unwrap();
    session.write(x, &bytes(&pattern(24 * 20 * 64, 3))).unwrap();
    session.run(RunOptions::default()).unwrap();
    let mut found = vec![0; plan.graph().bytes(out)];
    session.read(out, &mut found).unwrap();
    found
}

fn plan(cpu: &Cpu, graph: &Graph) -> Arc<Plan> {
    Arc::new(Plan::new(rewrite(graph, cpu.rewrites()), &cpu.limits()).unwrap())
}

#[test]
fn threads_do_not_change_a_bit() {
    let (graph, x, out) = graph();
    let one = cpu(1);
    let expected = run(&one, &plan(&one, &graph), x, out);
    for threads in [2, 3, 7] {
        let cpu = cpu(threads);
        assert_eq!(
            run(&cpu, &plan(&cpu, &graph), x, out),
            expected,
            "{threads} threads"
        );
    }
}

/// Kernels write rows as wide as the weights: with a gate they would write past the result.
#[test]
fn a_gate_inside_a_linear_is_refused() {
    let (mut g, f) = (Graph::new(), DType::F32);
    let out = Linear {
        x: g.input("x", [3, 64], f),
        w: g.param("w", [48, 64], f),
        rows: None,
        pre: None,
        epi: Epilogue::default(),
        gate: Some(Act::Gelu),
    };
    let out = g.push(out);
    g.output(out);
    let cpu = cpu(1);
    let plan = plan(&cpu, &g.finish().unwrap());
    let weights = cpu.load(&[&plan], Arc::new(Pattern)).unwrap();
    let Err(error) = cpu.session(plan, &weights) else {
        panic!("a session that would ignore the gate");
    };
    assert!(matches!(error, ExecError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("gate"), "{error}");
}

#[test]
fn values_on_the_host_give_the_same() {
    let (graph, x, out) = graph();
    let cpu = cpu(2);
    let whole = plan(&cpu, &graph);
    let expected = run(&cpu, &whole, x, out);
    let mut limits = cpu.limits();
    limits.host_above = 64 * 1024;
    limits.residual_in_place = false;
    let fused = rewrite(&graph, cpu.rewrites());
    // Attention reads all keys and values: its window is as large as they are.
    let spilled = (1..8).find_map(|i| {
        limits.window = i * 96 * 1024;
        Plan::new(fused.clone(), &limits).ok()
    });
    let spilled = Arc::new(spilled.expect("some window is large enough"));
    assert!(spilled.host_bytes() > 0);
    assert_eq!(run(&cpu, &spilled, x, out), expected);
}

#[test]
fn sizes_are_checked() {
    let (graph, x, out) = graph();
    let cpu = cpu(1);
    let plan = plan(&cpu, &graph);
    let mut session = open(&cpu, &plan);
    assert_eq!(session.arena_bytes(), plan.arena_bytes());
    let short = session.write(x, &[0; 12]).unwrap_err();
    assert!(
        matches!(short, ExecError::WrongSize { found: 12, .. }),
        "{short}"
    );
    let short = session.read(out, &mut [0; 4]).unwrap_err();
    assert!(
        matches!(short, ExecError::WrongSize { found: 4, .. }),
        "{short}"
    );
}

#[test]
fn a_run_stops_when_told_and_can_start_again() {
    let (graph, x, _) = graph();
    let cpu = cpu(2);
    let mut session = open(&cpu, &plan(&cpu, &graph));
    session.write(x, &bytes(&pattern(24 * 20 * 64, 3))).unwrap();
    let stop = AtomicBool::new(true);
    let options = RunOptions {
        cancel: Some(&stop),
        ..RunOptions::default()
    };
    assert!(matches!(session.run(options), Err(ExecError::Cancelled)));
    session.run(RunOptions::default()).unwrap();
}

#[test]
fn a_profile_has_a_time_for_each_op() {
    let (graph, x, _) = graph();
    let cpu = cpu(2);
    let plan = plan(&cpu, &graph);
    let mut session = open(&cpu, &plan);
    session.write(x, &bytes(&pattern(24 * 20 * 64, 3))).unwrap();
    assert!(session.profile().is_empty());
    session
        .run(RunOptions {
            cancel: None,
            profile: true,
            ..RunOptions::default()
        })
        .unwrap();
    let timed: Vec<Node> = session.profile().iter().map(|t| t.node).collect();
    let ops: Vec<Node> = plan.steps().iter().map(|s| s.node).collect();
    assert_eq!(timed, ops);
}

#[test]
fn a_missing_level_or_no_threads_is_an_error() {
    let missing = [Level::Neon, Level::Avx512]
        .into_iter()
        .find(|l| !Level::available().contains(l));
    if let Some(level) = missing {
        let options = CpuOptions {
            threads: Some(1),
            level: Some(level),
            ..CpuOptions::default()
        };
        assert!(matches!(Cpu::new(options), Err(CpuError::NoLevel { .. })));
    }
    let none = CpuOptions {
        threads: Some(0),
        ..CpuOptions::default()
    };
    assert!(matches!(Cpu::new(none), Err(CpuError::NoThreads)));
}

#[test]
fn a_weight_that_was_not_loaded_is_named() {
    let (graph, _, _) = graph();
    let cpu = cpu(1);
    let weights = cpu.load(&[], Arc::new(Pattern)).unwrap();
    let Err(error) = cpu.session(plan(&cpu, &graph), &weights) else {
        panic!("a session without weights");
    };
    assert!(error.to_string().contains("weight"), "{error}");
}
