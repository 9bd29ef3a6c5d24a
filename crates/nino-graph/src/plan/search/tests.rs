//! What is found fits, brings in and takes out every byte it must, and the least budget that an
//! error tells is the least that does.

use super::super::{order, stream};
use crate::{
    ArenaSize, Budget, Graph, Home, Limits, Memory, Node, Plan, PlanError, Rates, Search, Shared,
    Turn, UpsampleMode,
};
use nino_dtype::DType;
use proptest::prelude::*;
use std::ops::Range;

fn search(budget: Budget) -> Search {
    Search {
        limits: Limits::default(),
        budget,
        rates: Rates::cpu(),
        allow_host: true,
    }
}

/// Convolutions over large images between small ones: for each level whether the image grows.
fn pyramid([h, w, c]: [usize; 3], levels: &[bool]) -> Graph {
    let mut g = Graph::new();
    let mut x = g.input("x", [1, h, w, c], DType::F32);
    let mut skip = x;
    for (i, &grows) in levels.iter().enumerate() {
        if grows {
            x = g.upsample(x, 2, UpsampleMode::Nearest);
        } else {
            x = g.silu(x);
        }
        let w = g.param(&format!("w{i}"), [c, 3, 3, c], DType::F32);
        x = g.conv2d(x, w, None, 1);
        if g.shape(skip) == g.shape(x) {
            x = g.add(x, skip);
        }
        skip = x;
    }
    g.output(x);
    g.finish().unwrap()
}

/// Linears of the given widths, one after the other; gated by those of an input that stays, if
/// asked.
fn chain(rows: usize, widths: &[usize], gated: bool) -> Graph {
    let mut g = Graph::new();
    let mut x = g.input("x", [rows, widths[0]], DType::F32);
    let gate = gated.then(|| g.input("gate", [rows, 128], DType::F32));
    gate.into_iter().for_each(|gate| g.keep(gate));
    for (i, pair) in widths.windows(2).enumerate() {
        let w = g.param(&format!("{i}.weight"), [pair[1], pair[0]], DType::F32);
        x = g.linear(x, w, None);
        if let Some(gate) = gate {
            let w = g.param(&format!("{i}.gate"), [pair[1], 128], DType::F32);
            let gate = g.linear(gate, w, None);
            x = g.mul(x, gate);
        }
    }
    g.output(x);
    g.finish().unwrap()
}

/// A clip's first chunk and the others: each layer keeps a frame for the next run, and both graphs
/// have the same weights and find the frames at the same places.
fn clip([h, w, c]: [usize; 3], depth: usize) -> Vec<Turn> {
    let frame = [1, 1, h, w, c];
    let bytes = h * w * c * 4;
    let graph = |first: bool| {
        let mut g = Graph::new();
        let mut x = g.input("x", frame, DType::F32);
        let mut shared = Vec::new();
        for i in 0..depth {
            let weight = g.param(&format!("{i}.weight"), [c, 2, 3, 3, c], DType::F32);
            let kept = g.silu(x);
            let before = if first {
                g.affine(kept, 0.0, 0.0)
            } else {
                g.input(&format!("{i}.cache"), frame, DType::F32)
            };
            let window = g.concat(&[before, kept], 1);
            x = g.causal_conv(window, weight, None, [1; 3], [1; 4]);
            if first {
                g.output(kept);
            } else {
                g.carry(before, kept);
            }
            let value = Some(if first { kept } else { before });
            shared.push(Shared { bytes, value });
        }
        g.output(x);
        g.share(shared);
        g.finish().unwrap()
    };
    vec![Turn::new(graph(true), 1), Turn::new(graph(false), 3)]
}

/// Bytes that a step's uses cover are brought in before it or taken out after it, through windows
/// that lie apart from each other and from what the step finds in the arena itself.
fn check_transfers(plan: &Plan) {
    let graph = plan.graph();
    let mut written: Vec<Vec<Range<usize>>> = vec![Vec::new(); graph.len()];
    for step in plan.steps() {
        let uses = graph.uses(step.node, &step.rows);
        let (bring, take) = plan.transfers(step);
        let mut moved = bring.iter().chain(&take);
        let (mut windows, mut direct): (Vec<Range<usize>>, Vec<Range<usize>>) = Default::default();
        for used in &uses {
            let Some((home, span)) = plan.place(used.node).home() else {
                direct.extend(plan.span(used.node).map(|s| s.offset..s.offset + s.bytes));
                continue;
            };
            let t = moved.next().expect("a transfer for each use");
            assert_eq!(t.home, home);
            assert_eq!(t.bytes.len(), used.bytes.len());
            assert_eq!(t.bytes.start - span.offset, used.bytes.start);
            let window = t.arena..t.arena + t.bytes.len();
            assert!(window.end <= plan.direct_bytes());
            windows.push(window);
        }
        assert!(moved.next().is_none());
        for (i, a) in windows.iter().enumerate() {
            let mut others = windows[..i].iter().chain(&direct);
            assert!(others.all(|b| a.end <= b.start || b.end <= a.start));
        }
        written[step.node.index()].extend(uses.last().map(|u| u.bytes.clone()));
    }
    for (node, _) in graph.ops() {
        if plan.place(node).home().is_none() || graph.root(node) != node {
            continue;
        }
        let mut end = 0;
        for rows in &written[node.index()] {
            assert!(rows.start <= end, "a gap in {}", graph.op_label(node));
            end = end.max(rows.end);
        }
        assert_eq!(end, graph.bytes(node), "{}", graph.op_label(node));
    }
}

fn check_plans(plans: &[Plan], budget: Budget) {
    let total = budget.total.unwrap();
    let memory = Memory::of(plans);
    assert!(memory.bytes() + budget.outside_plans() <= total);
    assert_eq!(memory.arena, ArenaSize::of(plans));
    for plan in plans {
        check_transfers(plan);
        stream::tests::check(plan);
    }
}

/// Checks the least that is told, and budgets from there up to where everything fits.
fn check_budgets(turns: &[Turn], budget: Budget) {
    let with = |total| Budget {
        total: Some(total),
        ..budget
    };
    let best = |total| search(with(total)).best(turns);
    let told = |total| match best(total) {
        Err(PlanError::OverBudget { need, budget, .. }) => {
            assert_eq!(budget, total);
            need
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("{total} bytes are not enough"),
    };
    let least = told(0);
    let plans = best(least).unwrap();
    check_plans(&plans, with(least));
    plans.iter().for_each(order::tests::check_runs);
    for less in [least - 1, least / 2, least / 7] {
        assert_eq!(told(less), least, "told for {less}");
    }
    let whole = search(Budget::default()).best(turns).unwrap();
    let whole = Memory::of(&whole).bytes() + budget.outside_plans();
    for share in [1, 2, 4, 7] {
        let total = least + (whole - least) * share / 8;
        check_plans(&best(total).unwrap(), with(total));
    }
    let plans = best(whole).unwrap();
    assert!(
        plans
            .iter()
            .all(|p| p.host_bytes() == 0 && p.fetches().is_empty())
    );
}

#[test]
fn the_least_counts_all_that_is_not_in_a_plan() {
    let turns = [Turn::new(
        pyramid([16, 24, 16], &[false, true, true, false]),
        1,
    )];
    let least = |budget| {
        let budget = Budget {
            total: Some(1),
            ..budget
        };
        let Err(PlanError::OverBudget { need, .. }) = search(budget).best(&turns) else {
            panic!("one byte is not enough");
        };
        need
    };
    let plain = least(Budget::default());
    let program = Budget {
        reserve: 5000,
        ..Budget::default()
    };
    assert_eq!(least(program), plain + 5000);
    assert_eq!(least(program.with_beside(300)), plain + 5300);
    // A device with memory of its own holds no pictures.
    assert_eq!(least(Budget::default().with_beside(300)), plain);
    let whole = Plan::new(turns[0].graph.clone(), &Limits::default()).unwrap();
    assert!(plain < whole.device_bytes() / 4);
}

#[test]
fn without_the_host_everything_is_on_the_device() {
    let turns = [Turn::new(chain(64, &[256; 9], true), 20)];
    let inside = |total| {
        let search = Search {
            allow_host: false,
            ..search(Budget::of(total))
        };
        search.best(&turns)
    };
    let Err(PlanError::OverBudget { need, .. }) = inside(0) else {
        panic!("nothing is not enough");
    };
    let plans = inside(need).unwrap();
    assert!(plans[0].fetches().is_empty() && plans[0].host_bytes() == 0);
    assert!(inside(need - 1).is_err());
    assert!(search(Budget::of(need - 1)).best(&turns).is_ok());
}

/// The estimate decides: where weights come slowly values go to the host, and the other way round.
#[test]
fn what_is_quicker_to_move_moves() {
    let graph = chain(1024, &[256; 9], false);
    let whole = Plan::new(graph.clone(), &Limits::default()).unwrap();
    let with = |rates: Rates| {
        let search = Search {
            rates,
            ..search(Budget::of(whole.device_bytes() * 3 / 4))
        };
        let plan = search.plan(graph.clone(), 1).unwrap();
        (plan.streamed().each_run, plan.moved(Home::Host).each_run)
    };
    let (streamed, moved) = with(Rates {
        read_bytes: 1e12,
        ..Rates::cpu()
    });
    assert!(streamed > 0 && moved == 0, "{streamed} {moved}");
    let (streamed, moved) = with(Rates {
        host_bytes: 1e12,
        ..Rates::cpu()
    });
    assert!(streamed == 0 && moved > 0, "{streamed} {moved}");
}

fn sides() -> impl Strategy<Value = [usize; 3]> {
    (
        8usize..28,
        8usize..28,
        prop::sample::select(vec![8usize, 16, 32]),
    )
        .prop_map(|(h, w, c)| [h, w, c])
}

fn budget() -> impl Strategy<Value = Budget> {
    (0usize..3, 0usize..5000).prop_map(|(reserve, beside)| {
        Budget {
            total: None,
            reserve: reserve * 1000,
            beside: 0,
        }
        .with_beside(beside)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn pyramids_fit_from_the_told_least_up(sides in sides(), levels in prop::collection::vec(any::<bool>(), 1..5), runs in 1usize..4, budget in budget()) {
        check_budgets(&[Turn::new(pyramid(sides, &levels), runs)], budget);
    }

    #[test]
    fn chains_fit_from_the_told_least_up(rows in prop::sample::select(vec![4usize, 100, 1500]), widths in prop::collection::vec(prop::sample::select(vec![64usize, 128, 200, 256]), 2..12), gated: bool, runs in 1usize..20, budget in budget()) {
        check_budgets(&[Turn::new(chain(rows, &widths, gated), runs)], budget);
    }

    #[test]
    fn clips_fit_from_the_told_least_up(sides in sides(), depth in 1usize..5, budget in budget()) {
        check_budgets(&clip(sides, depth), budget);
    }
}

#[test]
fn a_graph_of_inputs_alone_needs_its_place() {
    let mut g = Graph::new();
    let x: Node = g.input("x", [4, 64], DType::F32);
    g.output(x);
    let turns = [Turn::new(g.finish().unwrap(), 1)];
    assert!(search(Budget::of(1024)).best(&turns).is_ok());
    assert!(search(Budget::of(1023)).best(&turns).is_err());
    assert!(search(Budget::default()).best(&[]).unwrap().is_empty());
}
