//! What an error says would do does, and so does everything above it.

use crate::{Graph, Plan, PlanError, PlanOptions, UpsampleMode};
use nino_dtype::DType;

/// Convolutions over large images between small ones.
fn pyramid() -> Graph {
    let mut g = Graph::new();
    let mut x = g.input("x", [1, 16, 24, 16], DType::F32);
    for (i, upsample) in [false, true, true, false].into_iter().enumerate() {
        if upsample {
            x = g.upsample(x, 2, UpsampleMode::Nearest);
        }
        let w = g.param(&format!("w{i}"), [16, 3, 3, 16], DType::F32);
        x = g.conv2d(x, w, None, 1);
    }
    g.output(x);
    g.finish().unwrap()
}

#[test]
fn the_least_that_would_do_is_told_and_does() {
    let g = pyramid();
    let options = PlanOptions::default();
    let whole = Plan::new(g.clone(), options).unwrap().arena_bytes();
    let mut told = None;
    for too_little in [0, 1000, whole / 100] {
        let Err(PlanError::OverBudget { arena, .. }) = Plan::fit(&g, options, too_little) else {
            panic!("{too_little} of {whole} bytes are not enough");
        };
        assert!(arena < whole / 4, "{arena} of {whole}");
        assert_eq!(*told.get_or_insert(arena), arena);
    }
    let least = told.unwrap();
    for arena in (least..whole).step_by((whole - least) / 16) {
        let plan = Plan::fit(&g, options, arena).unwrap();
        assert!(plan.arena_bytes() <= arena);
    }
    let within = |budget| {
        let options = PlanOptions {
            budget: Some(budget),
            reserve: 5000,
            ..options
        };
        Plan::within(&g, options)
    };
    let Err(PlanError::OverBudget { need, budget, .. }) = within(6000) else {
        panic!("6000 bytes are not enough");
    };
    assert_eq!(budget, 6000);
    assert!(within(need).unwrap().device_bytes() + 5000 <= need);
}
