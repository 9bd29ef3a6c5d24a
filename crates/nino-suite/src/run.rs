//! Runs cases on a device and compares with the reference.

use crate::problems::{PROBLEMS, Problem};
use crate::{Case, Class, Difference, Tensor, reference};
use nino_graph::{
    Device, ExecError, Graph, Limits, Node, Plan, PlanError, Rewrites, RunOptions, Session, rewrite,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a case is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Nothing is fused and nothing is cut.
    Plain,
    /// The device's own fusions are made.
    Fused,
    /// All fusions are made, and every op is cut into several steps where it can be.
    Cut,
    /// All fusions are made, and every value is kept outside the arena where it can be.
    Outside,
    /// All fusions are made, and buffers are so small that the larger values lie across several of
    /// them.
    Across,
    /// The device's own fusions are made, and all inputs but the first stay between runs.
    Steady,
}

impl Variant {
    pub const ALL: [Variant; 6] = [
        Variant::Plain,
        Variant::Fused,
        Variant::Cut,
        Variant::Outside,
        Variant::Across,
        Variant::Steady,
    ];
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Exec(#[from] ExecError),
    #[error("the session allocated {found} bytes for activations, the plan says {planned}")]
    ArenaSize { planned: usize, found: usize },
    #[error("a run with steady results gave other bits than the first, {when}")]
    OtherBits { when: &'static str },
}

/// The result of one problem on one device.
#[derive(Clone, Debug)]
pub struct Report {
    pub problem: &'static str,
    /// The number of runs that gave the right result.
    pub passed: usize,
    /// The runs that the device does not support, with its reason.
    pub unsupported: Vec<String>,
    /// The runs that failed, each with its case, its variant and what was wrong.
    pub failures: Vec<String>,
    /// The worst difference among the runs that passed, for each class.
    pub worst: BTreeMap<Class, Difference>,
}

/// Runs every problem whose name contains `filter`, and calls `progress` with each report.
pub fn verify(device: &dyn Device, filter: &str, mut progress: impl FnMut(&Report)) -> Vec<Report> {
    let chosen = PROBLEMS.iter().filter(|p| p.name.contains(filter));
    chosen
        .map(|problem| {
            let report = verify_problem(device, problem);
            progress(&report);
            report
        })
        .collect()
}

pub fn verify_problem(device: &dyn Device, problem: &Problem) -> Report {
    let mut report = Report {
        problem: problem.name,
        passed: 0,
        unsupported: Vec::new(),
        failures: Vec::new(),
        worst: BTreeMap::new(),
    };
    for case in problem.cases() {
        let expected = reference::eval(&case.graph, &case.inputs, &case.params);
        let expected =
            expected.unwrap_or_else(|e| panic!("{}: the reference failed: {e}", case.name));
        let class = case.class_on(device);
        for variant in variants(device, &case) {
            match compare(device, &case, variant, &expected) {
                Ok(d) if class.accepts(&d) => {
                    report.passed += 1;
                    let worst = report.worst.entry(class).or_default();
                    *worst = worst.worst(d);
                }
                Ok(d) => {
                    let (nmse, max) = class.limits();
                    let limit = format!("{class:?} allows NMSE {nmse:.0e}, max {max:.0e}");
                    report
                        .failures
                        .push(format!("{} ({variant:?}): {d}; {limit}", case.name));
                }
                Err(RunError::Exec(e @ ExecError::Unsupported { .. })) => {
                    report.unsupported.push(format!("{}: {e}", case.name));
                }
                Err(e) => report
                    .failures
                    .push(format!("{} ({variant:?}): {e}", case.name)),
            }
        }
    }
    report
}

/// Lists the ways in which a case can be planned for a device.
pub fn variants(device: &dyn Device, case: &Case) -> Vec<Variant> {
    let applies = |variant: &Variant| match variant {
        Variant::Steady => case.inputs.len() >= 2,
        Variant::Across => across(device, &case.graph).is_some(),
        _ => true,
    };
    Variant::ALL.into_iter().filter(applies).collect()
}

/// Runs one case and gives the distance of its outputs from the expected values.
pub fn compare(
    device: &dyn Device,
    case: &Case,
    variant: Variant,
    expected: &BTreeMap<Node, Tensor>,
) -> Result<Difference, RunError> {
    let plan = Arc::new(plan(device, &case.graph, variant)?);
    let weights = device.load(&[&plan], Arc::new(case.params.clone()))?;
    let mut session = device.session(plan.clone(), &weights)?;
    if session.arena_bytes() != plan.arena_bytes() {
        return Err(RunError::ArenaSize {
            planned: plan.arena_bytes(),
            found: session.arena_bytes(),
        });
    }
    let mut worst = Difference::default();
    let mut run = Run {
        plan: &plan,
        session: &mut *session,
        case,
    };
    // There are two runs, since a second one must not depend on what the first left behind.
    for _ in 0..2 {
        run.session.poison()?;
        run.write(|_| true, false)?;
        for (out, bytes) in run.outputs()? {
            let found = Tensor::decode(plan.graph().dtype(out), plan.graph().shape(out), &bytes)
                .expect("an output has a plain dtype");
            worst = worst.worst(Difference::between(&found.values, &expected[&out].values));
        }
    }
    run.check_steady()?;
    Ok(worst)
}

struct Run<'a> {
    plan: &'a Plan,
    session: &'a mut dyn Session,
    case: &'a Case,
}

impl Run<'_> {
    /// Writes the inputs that are `chosen`: their own values, or with `others` the same values in
    /// reverse.
    fn write(&mut self, chosen: impl Fn(Node) -> bool, others: bool) -> Result<(), ExecError> {
        for (&node, tensor) in self.case.inputs.iter().filter(|(n, _)| chosen(**n)) {
            let mut tensor = tensor.clone();
            if others {
                tensor.values.reverse();
            }
            let bytes = tensor
                .encode(self.plan.graph().dtype(node))
                .expect("inputs have an encoder");
            self.session.write(node, &bytes)?;
        }
        Ok(())
    }

    fn outputs(&mut self) -> Result<Vec<(Node, Vec<u8>)>, ExecError> {
        self.session.run(RunOptions::default())?;
        let outputs = self.plan.graph().outputs().iter().map(|&out| {
            let mut bytes = vec![0; self.plan.graph().bytes(out)];
            self.session.read(out, &mut bytes)?;
            Ok((out, bytes))
        });
        outputs.collect()
    }

    /// Checks that values which stay between runs are kept while other inputs change, and are
    /// computed again when the inputs that they depend on are written.
    fn check_steady(&mut self) -> Result<(), RunError> {
        let plan = self.plan;
        if plan.graph().kept().is_empty() {
            return Ok(());
        }
        self.session.poison()?;
        self.write(|_| true, false)?;
        let first = self.outputs()?;
        for (when, kept) in [("others written", false), ("kept ones written", true)] {
            self.write(|n| !plan.keeps(n) || kept, true)?;
            self.outputs()?;
            self.write(|n| !plan.keeps(n) || kept, false)?;
            if self.outputs()? != first {
                return Err(RunError::OtherBits { when });
            }
        }
        Ok(())
    }
}

fn plan(device: &dyn Device, graph: &Graph, variant: Variant) -> Result<Plan, PlanError> {
    let limits = device.limits();
    match variant {
        Variant::Plain => Plan::new(rewrite(graph, Rewrites::NONE), &limits),
        Variant::Fused => Plan::new(rewrite(graph, device.rewrites()), &limits),
        Variant::Steady => {
            let mut graph = graph.clone();
            let inputs: Vec<Node> = graph.inputs().map(|(n, _)| n).collect();
            inputs.iter().skip(1).for_each(|&n| graph.keep(n));
            Plan::new(rewrite(&graph, device.rewrites()), &limits)
        }
        Variant::Outside => {
            let fused = Arc::new(rewrite(graph, Rewrites::ALL));
            let whole = Plan::new(fused.clone(), &limits)?;
            let bytes = whole.arena_bytes();
            // Tries smaller windows first: how far ops can be cut is not known before.
            let window = [8, 4, 2, 1].map(|share| bytes / share * 2 + 4096);
            let with = |window| Limits {
                host_above: 1,
                window,
                ..limits
            };
            let found = window
                .into_iter()
                .find_map(|w| Plan::new(fused.clone(), &with(w)).ok());
            Ok(found.unwrap_or(whole))
        }
        Variant::Across => across(device, graph)
            .map_or_else(|| Plan::new(rewrite(graph, Rewrites::ALL), &limits), Ok),
        Variant::Cut => {
            let fused = Arc::new(rewrite(graph, Rewrites::ALL));
            let whole = Plan::new(fused.clone(), &limits)?;
            let mut cut = limits;
            cut.max_binding = limits
                .max_binding
                .min(whole.largest_binding() / 3)
                .max(1024);
            // Where an op needs its operands whole, only its arithmetic is cut.
            Plan::new(fused.clone(), &cut).or_else(|_| {
                let most = fused
                    .ops()
                    .map(|(n, _)| fused.cost(n).flops)
                    .fold(0.0, f64::max);
                cut.max_binding = limits.max_binding;
                cut.max_step_flops = Some((most / 3.0).max(1.0));
                Plan::new(fused, &cut)
            })
        }
    }
}

/// Gives a plan whose larger values lie across pages. `None` where the device has no pages or where
/// an op needs such a value whole.
fn across(device: &dyn Device, graph: &Graph) -> Option<Plan> {
    let limits = device.limits();
    let fused = rewrite(graph, Rewrites::ALL);
    let largest = fused.ops().map(|(n, _)| fused.bytes(n)).max()?;
    let page = (largest / 2).next_multiple_of(limits.align);
    let small = Limits {
        page,
        max_binding: page,
        window: usize::MAX,
        ..limits
    };
    let plan = (limits.page < usize::MAX).then(|| Plan::new(fused, &small).ok())??;
    (plan.pages_bytes() > 0).then_some(plan)
}
