//! The list itself: every op has a problem, and its reference can be computed.

use nino_graph::Op;
use nino_suite::{PROBLEMS, Problem, reference};
use std::collections::BTreeSet;

#[test]
fn every_op_has_a_problem() {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for problem in PROBLEMS.iter() {
        let cases = problem.cases();
        let used: BTreeSet<&str> = cases
            .iter()
            .flat_map(|c| c.graph.ops().map(|(_, op)| op.name()).collect::<Vec<_>>())
            .collect();
        for op in problem.ops {
            assert!(used.contains(op), "{} says it covers {op}", problem.name);
        }
        seen.extend(problem.ops);
    }
    let missing: Vec<&&str> = Op::NAMES
        .iter()
        .filter(|name| !seen.contains(**name))
        .collect();
    assert!(missing.is_empty(), "no problem for {missing:?}");
}

#[test]
fn references_are_finite() {
    for case in PROBLEMS.iter().flat_map(Problem::cases) {
        let values = reference::eval(&case.graph, &case.inputs, &case.params).unwrap();
        for out in case.graph.outputs() {
            assert!(
                values[out].values.iter().all(|v| v.is_finite()),
                "{}",
                case.name
            );
        }
    }
}
