//! Streamed parameters: nothing over budget, nothing missing, and more memory never costs traffic.

use super::super::ring::{SLOTS, spread};
use crate::{Budget, Graph, Limits, Memory, Plan, PlanError, Rates, Search};
use nino_dtype::DType;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Linears of the given widths, one after the other; gated by those of an input that stays, if
/// wanted.
fn chain(widths: &[usize], gated: bool) -> Graph {
    let mut g = Graph::new();
    let mut x = g.input("x", [4, widths[0]], DType::F32);
    let gate = gated.then(|| g.input("gate", [4, 128], DType::F32));
    gate.into_iter().for_each(|gate| g.keep(gate));
    for (i, pair) in widths.windows(2).enumerate() {
        let w = g.param(&format!("{i}.weight"), [pair[1], pair[0]], DType::F32);
        let b = g.param(&format!("{i}.bias"), [pair[1]], DType::F32);
        x = g.linear(x, w, Some(b));
        if let Some(gate) = gate {
            let w = g.param(&format!("{i}.gate"), [pair[1], 128], DType::F32);
            let gate = g.linear(gate, w, None);
            x = g.mul(x, gate);
        }
    }
    g.output(x);
    g.finish().unwrap()
}

/// As many runs as a sampling has steps.
const RUNS: usize = 20;

fn within(graph: &Graph, budget: usize) -> Result<Plan, PlanError> {
    with(graph, &Limits::default(), budget)
}

fn with(graph: &Graph, limits: &Limits, budget: usize) -> Result<Plan, PlanError> {
    let search = Search {
        limits: *limits,
        budget: Budget::of(budget),
        rates: Rates::cpu(),
        allow_host: true,
    };
    search.plan(graph.clone(), RUNS)
}

/// Every parameter is either there all the time or fetched for its op, in slots that are free.
pub(crate) fn check(plan: &Plan) {
    let mut fetched = BTreeSet::new();
    for (k, fetch) in plan.fetches().iter().enumerate() {
        assert_eq!(fetch.slot, k % SLOTS);
        let ran: Vec<_> = plan.steps()[fetch.steps.clone()].iter().collect();
        assert!(!ran.is_empty() && ran.iter().all(|s| s.node == fetch.node));
        if let Some(before) = k.checked_sub(SLOTS) {
            assert!(plan.fetches()[before].steps.end <= fetch.steps.start);
        }
        let mut end = 0;
        for (param, span) in &fetch.params {
            assert!(span.offset >= end && span.offset.is_multiple_of(plan.limits().align));
            assert_eq!(span.bytes, plan.graph().bytes(*param));
            end = span.offset + span.bytes;
            assert!(fetched.insert(*param), "fetched twice");
        }
        assert!(end <= plan.slot_bytes());
    }
    let bytes: usize = fetched.iter().map(|&p| plan.graph().bytes(p)).sum();
    assert_eq!(bytes, plan.streamed().in_runs(1));
    let limits = plan.limits();
    let stay = plan.graph().params().filter(|(n, _)| !fetched.contains(n));
    let stay: usize = stay.map(|(_, p)| limits.resident_bytes(p.bytes())).sum();
    assert_eq!(plan.resident_bytes(), stay);
    if !limits.packs_params {
        assert_eq!(bytes + stay, plan.weight_bytes());
    }
    let later = &plan.fetches()[plan.first_fetch(plan.steady_steps())..];
    let again = later.iter().flat_map(|f| &f.params);
    let again: usize = again.map(|(p, _)| plan.graph().bytes(*p)).sum();
    assert_eq!(again, plan.streamed().each_run);
    assert_eq!(bytes + again, plan.streamed().in_runs(2));
}

#[test]
fn what_does_not_fit_streams_through_two_slots() {
    let g = chain(&[256; 17], false);
    let whole = within(&g, usize::MAX).unwrap();
    assert!(whole.fetches().is_empty() && whole.slot_bytes() == 0);
    let budget = whole.device_bytes() / 4;
    let plan = within(&g, budget).unwrap();
    check(&plan);
    assert!(plan.device_bytes() <= budget);
    assert_eq!(plan.host_bytes(), 0, "activations are small and stay");
    let weights = 256 * 256 * 4;
    assert!(plan.streamed().each_run < whole.weight_bytes());
    assert!(plan.slot_bytes() < weights + 1024);
    let error = within(&g, weights).unwrap_err();
    assert!(
        matches!(error, PlanError::OverBudget { need, .. } if need > weights),
        "{error}"
    );
}

/// Weights that only steady steps read are fetched once: that is worth keeping what they make.
#[test]
fn what_is_fetched_once_goes_first() {
    let g = chain(&[256; 13], true);
    let whole = Plan::new(g.clone(), &Limits::default()).unwrap();
    let budget = whole.device_bytes() / 2;
    let plan = within(&g, budget).unwrap();
    check(&plan);
    assert!(plan.steady_steps() > 0 && plan.device_bytes() <= budget);
    let (once, other) = plan
        .fetches()
        .split_at(plan.first_fetch(plan.steady_steps()));
    assert_eq!(once.len(), 12, "all of the gates");
    assert!(!other.is_empty());
    let plain = Limits {
        keep_steady: false,
        ..Limits::default()
    };
    let without = with(&g, &plain, budget).unwrap();
    assert!(plan.streamed().each_run < without.streamed().each_run);
    // One load of weights serves both when one streams what the other does.
    let names = |p: &Plan| -> BTreeSet<String> {
        let params = p.fetches().iter().flat_map(|f| &f.params);
        params
            .map(|(n, _)| format!("{:?}", p.graph().value(*n).def))
            .collect()
    };
    assert_ne!(names(&plan), names(&without));
    let alike = without.streaming_like(&plan);
    check(&alike);
    assert_eq!(names(&plan), names(&alike));
}

#[test]
fn a_parameter_that_two_ops_read_stays() {
    let mut g = Graph::new();
    let x = g.input("x", [4, 256], DType::F32);
    let w = g.param("w", [256, 256], DType::F32);
    let y = g.linear(x, w, None);
    let y = g.linear(y, w, None);
    g.output(y);
    let plan = Plan::new(g.finish().unwrap(), &Limits::default()).unwrap();
    assert!(plan.streaming(0).fetches().is_empty());
}

/// Parameters in pages take a little more than their bytes, and no budget is exceeded for it.
#[test]
fn what_parameters_take_in_pages_is_counted() {
    let g = chain(&[256; 17], false);
    let limits = Limits {
        packs_params: true,
        ..Limits::default()
    };
    assert_eq!(limits.resident_bytes(0), 256);
    assert_eq!(limits.resident_bytes(240), 256);
    assert_eq!(limits.resident_bytes(241), 512);
    let (plain, paged) = (Limits::default(), limits);
    let [plain, paged] = [plain, paged].map(|limits| Plan::new(g.clone(), &limits).unwrap());
    // All of these parameters are of whole alignments: the slack is one more.
    assert_eq!(paged.resident_bytes(), plain.resident_bytes() + 32 * 256);
    assert_eq!(paged.weight_bytes(), plain.weight_bytes());
    assert_eq!(Memory::of([&paged]).bytes(), paged.device_bytes());
    assert_eq!(Memory::of([&paged, &paged]), Memory::of([&paged]));
    let whole = paged.device_bytes();
    let found = with(&g, &limits, whole).unwrap();
    assert!(found.fetches().is_empty());
    let tight = with(&g, &limits, whole - 1).unwrap();
    assert!(!tight.fetches().is_empty() && tight.device_bytes() < whole);
    check(&tight);
}

#[test]
fn any_beginning_of_the_order_is_spread() {
    for n in [0, 1, 2, 3, 7, 8, 100] {
        let order = spread(n);
        assert_eq!(
            order.iter().copied().collect::<BTreeSet<_>>(),
            (0..n).collect()
        );
    }
    assert_eq!(spread(8)[..4], [0, 4, 2, 6]);
}

proptest! {
    #[test]
    fn never_over_budget_and_monotone(widths in prop::collection::vec(prop::sample::select(vec![64usize, 128, 200, 256, 384]), 3..24), gated: bool, packs_params: bool, share in 0.0f64..1.2) {
        let g = chain(&widths, gated);
        let limits = Limits { packs_params, ..Limits::default() };
        let whole = Plan::new(g.clone(), &limits).unwrap();
        let all = whole.device_bytes();
        let mut last: Option<usize> = None;
        for step in 0..6 {
            let budget = (all as f64 * share) as usize + step * all / 8;
            match with(&g, &limits, budget) {
                Ok(plan) => {
                    prop_assert!(plan.device_bytes() <= budget);
                    check(&plan);
                    prop_assert!(last.is_none_or(|l| plan.streamed().each_run <= l), "more memory, more traffic");
                    last = Some(plan.streamed().each_run);
                }
                Err(e) => {
                    prop_assert!(last.is_none(), "fitted in less: {e}");
                    prop_assert!(budget < all);
                }
            }
        }
    }
}
