//! What stays between runs: which values do, that nothing is laid over them, and that they give way
//! where memory is short.

use crate::{Budget, Graph, Limits, Node, Op, Place, Plan, Rates, Rewrites, Search, rewrite};
use nino_dtype::DType;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Cross-attention over `depth` layers: keys and values come from the context alone.
fn layers(depth: usize, kept: bool) -> (Graph, Node, Node) {
    let (mut g, f) = (Graph::new(), DType::F32);
    let x = g.input("x", [1, 32, 64], f);
    let context = g.input("context", [1, 12, 48], f);
    if kept {
        g.keep(context);
    }
    let mut h = x;
    for i in 0..depth {
        let mut projected = |name: &str, from: Node, width: usize| {
            let w = g.param(&format!("{i}.{name}"), [64, width], f);
            let y = g.linear(from, w, None);
            let n = g.shape(from)[1];
            g.reshape(y, [1, n, 4, 16])
        };
        let (q, k, v) = (
            projected("q", h, 64),
            projected("k", context, 48),
            projected("v", context, 48),
        );
        let y = g.attention(q, k, v, None);
        let y = g.reshape(y, [1, 32, 64]);
        h = g.add(h, y);
    }
    g.output(h);
    (g.finish().unwrap(), x, context)
}

/// What lies where, told by the value whose bytes were last put there.
struct Memory<'a> {
    plan: &'a Plan,
    owner: BTreeMap<usize, Node>,
}

impl Memory<'_> {
    fn blocks(&self, node: Node) -> impl Iterator<Item = usize> + use<> {
        let align = self.plan.limits().align;
        let (offset, bytes) = match self.plan.place(node) {
            Place::Arena(span) => (span.offset, span.bytes),
            // Apart from the arena.
            Place::Host(span) => (span.offset + (1 << 40), span.bytes),
            _ => (0, 0),
        };
        (offset..offset + bytes).step_by(align)
    }

    fn put(&mut self, node: Node) {
        let root = self.plan.graph().root(node);
        for block in self.blocks(node) {
            self.owner.insert(block, root);
        }
    }

    fn check(&self, node: Node, reader: Node) {
        let (g, root) = (self.plan.graph(), self.plan.graph().root(node));
        for block in self.blocks(node) {
            let found = self.owner.get(&block);
            assert_eq!(
                found,
                Some(&root),
                "{} does not find {}",
                g.op_label(reader),
                g.op_label(node)
            );
        }
    }

    /// Writes the inputs that `written` says and runs from step `first`.
    fn run(&mut self, written: impl Fn(Node) -> bool, first: usize) {
        let g = self.plan.graph();
        g.inputs()
            .filter(|(n, _)| written(*n))
            .for_each(|(n, _)| self.put(n));
        for step in &self.plan.steps()[first..] {
            let op = g.op(step.node).unwrap();
            op.operands().iter().for_each(|&n| self.check(n, step.node));
            let scratch = self.plan.scratch(step.node);
            let align = self.plan.limits().align;
            for block in (scratch.offset..scratch.offset + scratch.bytes).step_by(align) {
                self.owner.remove(&block);
            }
            let (bring, take) = self.plan.transfers(step);
            for t in bring.iter().chain(&take) {
                let start = t.arena - t.arena % align;
                for block in (start..t.arena + t.bytes.len()).step_by(align) {
                    self.owner.remove(&block);
                }
            }
            // In place: operands that lie there are gone after the last rows.
            if step.last {
                self.put(step.node);
            }
        }
        g.outputs().iter().for_each(|&n| self.check(n, n));
    }
}

/// A full run, runs behind the steady steps, and a full run after one kept input was written.
pub(crate) fn check_runs(plan: &Plan) {
    let mut memory = Memory {
        plan,
        owner: BTreeMap::new(),
    };
    memory.run(|_| true, 0);
    for _ in 0..2 {
        memory.run(|n| !plan.keeps(n), plan.steady_steps());
    }
    memory.run(
        |n| !plan.keeps(n) || Some(&n) == plan.graph().kept().first(),
        0,
    );
    memory.run(|n| !plan.keeps(n), plan.steady_steps());
}

#[test]
fn keys_and_values_of_a_kept_context_come_first_and_stay() {
    let (g, x, context) = layers(5, true);
    let plan = Plan::new(rewrite(&g, Rewrites::ALL), &Limits::default()).unwrap();
    assert_eq!(plan.steady_steps(), 10, "keys and values of five layers");
    assert!(plan.keeps(context) && !plan.keeps(x));
    for step in &plan.steps()[..10] {
        let Some(Op::Linear(linear)) = plan.graph().op(step.node) else {
            panic!("a projection")
        };
        assert_eq!(linear.x, context);
    }
    check_runs(&plan);
    let (plain, ..) = layers(5, false);
    let plain = Plan::new(rewrite(&plain, Rewrites::ALL), &Limits::default()).unwrap();
    assert_eq!(plain.steady_steps(), 0);
    assert_eq!(plain.steps().len(), plan.steps().len());
    let stay = 5 * 2 * 12 * 64 * 4 + 12 * 48 * 4;
    assert!(plan.arena_bytes() <= plain.arena_bytes() + stay);
}

#[test]
fn a_product_that_stays_takes_in_nothing_that_changes() {
    let (mut g, f) = (Graph::new(), DType::F32);
    let (x, y) = (g.input("x", [2, 64], f), g.input("y", [2, 64], f));
    g.keep(y);
    let [a, b] = [("a", x), ("b", y)].map(|(name, from)| {
        let w = g.param(name, [64, 64], f);
        g.linear(from, w, None)
    });
    let sum = g.add(a, b);
    g.output(sum);
    let plan = Plan::new(rewrite(&g, Rewrites::ALL), &Limits::default()).unwrap();
    assert_eq!((plan.steps().len(), plan.steady_steps()), (2, 1));
    assert_eq!(plan.steps()[0].node, b);
    check_runs(&plan);
}

/// Memory that only saves time goes before anything is streamed or kept on the host.
#[test]
fn what_stays_gives_way_to_a_budget() {
    let (g, _, context) = layers(8, true);
    let (large, plain) = (
        Plan::new(g.clone(), &Limits::default()).unwrap(),
        Plan::new(layers(8, false).0, &Limits::default()).unwrap(),
    );
    assert!(large.arena_bytes() > plain.arena_bytes());
    let within = |budget| {
        let search = Search {
            limits: Limits::default(),
            budget: Budget::of(budget),
            rates: Rates::cpu(),
            allow_host: true,
        };
        search.plan(g.clone(), 20).unwrap()
    };
    assert_eq!(within(large.device_bytes()).steady_steps(), 16);
    for plan in [
        within(large.device_bytes() - 1),
        within(plain.device_bytes()),
    ] {
        assert_eq!(plan.arena_bytes(), plain.arena_bytes());
        assert!(plan.steady_steps() == 0 && !plan.keeps(context));
        assert!(plan.fetches().is_empty() && plan.host_bytes() == 0);
    }
}

#[test]
fn a_run_that_begins_later_begins_with_its_own_fetch() {
    let (mut g, f) = (Graph::new(), DType::F32);
    let (x, y) = (g.input("x", [2, 256], f), g.input("y", [2, 256], f));
    g.keep(y);
    let mut h = x;
    for i in 0..6 {
        let mut linear = |name: String, from: Node| {
            let w = g.param(&name, [256, 256], f);
            g.linear(from, w, None)
        };
        let (a, b) = (linear(format!("{i}.x"), h), linear(format!("{i}.y"), y));
        h = g.mul(a, b);
    }
    g.output(h);
    let plan = Plan::new(g, &Limits::default()).unwrap().streaming(0);
    assert_eq!(plan.fetches().len(), 12);
    let starts: Vec<usize> = plan.fetches().iter().map(|f| f.steps.start).collect();
    assert!(starts.is_sorted(), "{starts:?}");
    let later = plan.first_fetch(plan.steady_steps());
    assert_eq!((plan.steady_steps(), later), (6, 6));
    check_runs(&plan);
}

proptest! {
    /// Two inputs, one of them steady; ops of any mix of both.
    #[test]
    fn nothing_is_laid_over_what_stays(choices in prop::collection::vec(any::<(u8, u8, u8)>(), 1..40), fuse: bool, on_host: bool, outputs: bool) {
        let (mut g, f) = (Graph::new(), DType::F32);
        let (x, y, z) = (
            g.input("x", [1, 12, 8, 8], f),
            g.input("y", [1, 12, 8, 8], f),
            g.input("z", [1, 12, 8, 8], f),
        );
        g.keep(y);
        g.keep(z);
        let w = g.param("w", [8, 3, 3, 8], f);
        let (gamma, beta) = (g.param("g", [8], f), g.param("b", [8], f));
        let (mut steady, mut other) = (vec![y, z], vec![x]);
        for (op, a, b) in choices {
            // Half of the ops read only what stays.
            let among = |at: u8, mixed: bool| {
                let all: Vec<Node> = if mixed { steady.iter().chain(&other).copied().collect() } else { steady.clone() };
                all[at as usize % all.len()]
            };
            let mixed = op >= 128;
            let (a, b) = (among(a, mixed), among(b, mixed));
            let next = match op % 5 {
                0 => g.conv2d(a, w, None, 1),
                1 => g.silu(a),
                2 => g.group_norm(a, 2, gamma, beta, 1e-5),
                3 => g.add(a, b),
                _ => {
                    let flat = g.reshape(a, [1, 96, 8]);
                    let norm = g.layer_norm(flat, Some(gamma), None, 1e-5);
                    g.reshape(norm, [1, 12, 8, 8])
                }
            };
            if [a, b].iter().any(|n| other.contains(n)) { other.push(next) } else { steady.push(next) }
        }
        let sum = g.add(*other.last().unwrap(), *steady.last().unwrap());
        g.output(sum);
        // Sometimes a value that stays is read from outside too.
        if outputs { g.output(*steady.last().unwrap()); }
        let g = g.finish().unwrap();
        let g = if fuse { rewrite(&g, Rewrites::ALL) } else { g };
        let limits = Limits { host_above: if on_host { 1 } else { usize::MAX }, ..Limits::default() };
        let plan = Plan::new(g, &limits).unwrap();
        let stay = plan.graph().steady();
        let first = plan.steps().iter().take_while(|s| stay[s.node.index()]).count();
        prop_assert_eq!(first, plan.steady_steps());
        prop_assert_eq!(first, plan.steps().iter().filter(|s| stay[s.node.index()]).count());
        check_runs(&plan);
    }
}
