//! Planning: lifetimes, packing and cutting.

use crate::{
    Act, ArenaSize, Budget, Graph, Home, Limits, Node, Op, PadMode, Place, Plan, PlanError, Rates,
    Rewrites, Search, Shared, Span, Step, Turn, UpsampleMode, rewrite,
};
use nino_dtype::DType;
use proptest::prelude::*;

/// The quickest plan in so many bytes.
fn within(graph: &Graph, limits: &Limits, budget: usize) -> Result<Plan, PlanError> {
    search(limits, budget).plan(graph.clone(), 1)
}

fn search(limits: &Limits, budget: usize) -> Search {
    Search {
        limits: *limits,
        budget: Budget::of(budget),
        rates: Rates::cpu(),
        allow_host: true,
    }
}

/// A residual block at `[1, h, w, c]`.
fn block(h: usize, w: usize, c: usize) -> (Graph, Node) {
    let mut g = Graph::new();
    let x = g.input("x", [1, h, w, c], DType::F32);
    let (gamma, beta) = (
        g.param("norm.weight", [c], DType::F32),
        g.param("norm.bias", [c], DType::F32),
    );
    let w = g.param("conv.weight", [c, 3, 3, c], DType::F16);
    let norm = g.group_norm(x, 4, gamma, beta, 1e-6);
    let act = g.silu(norm);
    let conv = g.conv2d(act, w, None, 1);
    let out = g.add(conv, x);
    g.output(out);
    (g, out)
}

/// Every pair of values that is alive at the same op lies apart, or is the same buffer by design.
fn check_no_overlap(plan: &Plan) {
    let g = plan.graph();
    let mut last = vec![0; g.len()];
    for (n, op) in g.ops() {
        op.operands()
            .iter()
            .for_each(|o| last[o.index()] = n.index());
    }
    g.outputs().iter().for_each(|o| last[o.index()] = g.len());
    for (node, op) in g.ops() {
        let Some(out) = plan.span(node) else { continue };
        // What is read later must not be under this op's result.
        for (other, _) in g.values() {
            let Some(span) = plan.span(other) else {
                continue;
            };
            let alive = other < node && last[other.index()] > node.index();
            let view = g.root(other) == g.root(node);
            let apart =
                span.offset + span.bytes <= out.offset || out.offset + out.bytes <= span.offset;
            assert!(
                !alive || view || apart,
                "{} overwrites {}",
                g.op_label(node),
                g.op_label(other)
            );
        }
        let scratch = plan.scratch(node);
        for operand in op
            .operands()
            .into_iter()
            .chain([node])
            .filter(|_| scratch.bytes > 0)
        {
            if let Place::Arena(span) = plan.place(operand) {
                let apart = span.offset + span.bytes <= scratch.offset
                    || scratch.offset + scratch.bytes <= span.offset;
                assert!(apart, "scratch of {} lies on an operand", g.op_label(node));
            }
        }
        assert!(out.offset + out.bytes <= plan.arena_bytes());
        assert!(out.offset.is_multiple_of(plan.limits().align));
    }
}

#[test]
fn fusing_a_residual_block_leaves_statistics_and_one_conv() {
    let (g, _) = block(16, 16, 32);
    let fused = rewrite(&g, Rewrites::ALL);
    let names: Vec<_> = fused.ops().map(|(_, op)| op.name()).collect();
    assert_eq!(names, ["stats", "conv"]);
    let Some((_, Op::Conv(conv))) = fused.ops().nth(1) else {
        panic!("a conv")
    };
    assert_eq!(conv.pre.and_then(|p| p.act), Some(Act::Silu));
    assert!(conv.epi.residual.is_some());
    assert_eq!(rewrite(&g, Rewrites::NONE).ops().count(), 5);
}

#[test]
fn an_activation_goes_into_the_row_norm_that_nothing_else_reads() {
    let fused = |read_twice: bool, on: Rewrites| {
        let mut g = Graph::new();
        let x = g.input("x", [1, 4, 5, 48], DType::F16);
        let norm = g.rms_norm(x, None, 1e-6);
        let mut out = g.silu(norm);
        if read_twice {
            out = g.add(out, norm);
        }
        let w = g.param("w", [8, 3, 3, 48], DType::F16);
        out = g.conv2d(out, w, None, 1);
        g.output(out);
        let g = rewrite(&g.finish().unwrap(), on);
        let act = g.ops().find_map(|(_, op)| match op {
            Op::RowNorm(o) => Some(o.act),
            _ => None,
        });
        (act.unwrap(), g.total_cost())
    };
    let (act, cost) = fused(false, Rewrites::ALL);
    assert_eq!(act, Some(Act::Silu));
    let (act, apart) = fused(false, Rewrites::NONE);
    assert_eq!(act, None);
    assert!((cost.flops - apart.flops).abs() < 0.5);
    // The pass that is not made: written and read.
    let saved = 2.0 * 2.0 * (4 * 5 * 48) as f64;
    assert!((apart.bytes - cost.bytes - saved).abs() < 0.5);
    assert_eq!(fused(true, Rewrites::ALL).0, None);
}

#[test]
fn in_place_needs_the_operand_to_die() {
    let mut g = Graph::new();
    let x = g.input("x", [4, 64], DType::F32);
    let a = g.silu(x);
    let b = g.act(a, Act::Relu);
    let sum = g.add(a, b);
    g.output(sum);
    let plan = Plan::new(g.finish().unwrap(), &Limits::default()).unwrap();
    let offset = |n: Node| plan.span(n).unwrap().offset;
    assert_eq!(offset(a), offset(x), "x dies at silu");
    assert_ne!(offset(b), offset(a), "a is read again");
    assert_eq!(plan.arena_bytes(), 2 * 1024);
    check_no_overlap(&plan);
}

#[test]
fn a_reshape_keeps_its_operand_alive() {
    let mut g = Graph::new();
    let x = g.input("x", [4, 64], DType::F32);
    let view = g.reshape(x, [64, 4]);
    let a = g.silu(x);
    let t = g.permute(view, &[1, 0]);
    let out = g.add(a, t);
    g.output(out);
    let plan = Plan::new(g.finish().unwrap(), &Limits::default()).unwrap();
    assert_eq!(
        plan.span(view).unwrap().offset,
        plan.span(x).unwrap().offset
    );
    assert_ne!(plan.span(a).unwrap().offset, plan.span(x).unwrap().offset);
}

#[test]
fn a_conv_over_the_binding_limit_is_cut_by_rows() {
    let (g, out) = block(64, 64, 32);
    let limit = 200 * 1024;
    let options = Limits {
        max_binding: limit,
        ..Limits::default()
    };
    let plan = Plan::new(rewrite(&g, Rewrites::ALL), &options).unwrap();
    let steps: Vec<&Step> = plan.steps().iter().filter(|s| s.node == out).collect();
    assert!(
        steps.len() > 2,
        "{} bytes in {} steps",
        g.bytes(out),
        steps.len()
    );
    assert!(plan.largest_binding() <= limit);
    let rows: Vec<usize> = steps.iter().flat_map(|s| s.rows.clone()).collect();
    assert_eq!(rows, (0..64).collect::<Vec<_>>());
    assert_eq!(
        steps.iter().map(|s| s.last).collect::<Vec<_>>().last(),
        Some(&true)
    );
    check_no_overlap(&plan);
}

#[test]
fn what_cannot_fit_is_said_with_numbers() {
    let (g, _) = block(64, 64, 32);
    let tiny = Limits {
        max_binding: 4096,
        ..Limits::default()
    };
    let error = Plan::new(g.clone(), &tiny).unwrap_err();
    assert!(
        matches!(&error, PlanError::BindingTooLarge { op, bytes, limit: 4096 }
            if op.contains("stats") && *bytes > 4096),
        "{error}"
    );
    let error = within(&g, &Limits::default(), 1000).unwrap_err();
    assert!(
        matches!(error, PlanError::OverBudget { budget: 1000, .. }),
        "{error}"
    );
    let paged = Limits {
        page: 100 * 1024,
        ..Limits::default()
    };
    let error = Plan::new(g, &paged).unwrap_err();
    assert!(
        matches!(error, PlanError::ValueTooLarge { bytes: 524_288, .. }),
        "{error}"
    );
}

#[test]
fn no_value_crosses_a_page() {
    let (g, _) = block(64, 64, 32);
    let page = 600 * 1024;
    let plan = Plan::new(
        g,
        &Limits {
            page,
            ..Limits::default()
        },
    )
    .unwrap();
    for (n, _) in plan.graph().values() {
        if let Some(s) = plan.span(n) {
            assert_eq!(s.offset / page, (s.offset + s.bytes - 1) / page);
        }
    }
    check_no_overlap(&plan);
}

#[test]
fn mistakes_name_the_op_the_shapes_and_the_caller() {
    let mut g = Graph::new();
    let x = g.input("x", [1, 8, 8, 4], DType::F32);
    let w = g.param("w", [16, 3, 3, 5], DType::F32);
    let bad = g.conv2d(x, w, None, 1);
    // Recording goes on; the first mistake is the one that is told.
    let later = g.slice(bad, 9, 0, 1);
    g.output(later);
    let error = g.finish().unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("conv") && text.contains("[1, 8, 8, 4]") && text.contains("[16, 3, 3, 5]"),
        "{text}"
    );
    assert!(
        error.caller.contains("plan/tests.rs") || error.caller.contains("plan\\tests.rs"),
        "{text}"
    );
}

#[test]
fn conv_rows_bind_exactly_the_input_rows_they_read() {
    for (h, k, stride, pad, up) in [
        (9, 3, 1, 1, 1),
        (9, 3, 2, 0, 1),
        (12, 5, 1, 2, 1),
        (7, 3, 1, 1, 2),
        (5, 1, 1, 0, 1),
    ] {
        let mut g = Graph::new();
        let x = g.input("x", [2, h, 4, 3], DType::F32);
        let w = g.param("w", [2, k, 3, 3], DType::F32);
        let mut conv = crate::Conv::plain(x, w, None, [1, stride, 1], [pad, pad, 1, 1]);
        conv.upsample = up;
        let out = g.push(Op::Conv(conv));
        let rows = g.op_rows(out);
        let h_out = rows / 2;
        for first in 0..rows {
            for end in first + 1..=rows {
                let read: Vec<usize> = (first..end)
                    .flat_map(|r| (0..k).map(move |tap| (r / h_out, (r % h_out) * stride + tap)))
                    .filter_map(|(b, y)| {
                        let y = y.checked_sub(pad)? / up;
                        (y < h).then_some(b * h + y)
                    })
                    .collect();
                let bytes = &g.uses(out, &(first..end))[0].bytes;
                let row = 4 * 3 * 4;
                assert!(bytes.start <= read.iter().min().unwrap() * row);
                assert!(bytes.end >= (read.iter().max().unwrap() + 1) * row);
                assert!(
                    bytes.len()
                        <= (read.iter().max().unwrap() - read.iter().min().unwrap() + 2) * row
                );
            }
        }
    }
}

#[test]
fn permuted_rows_bind_all_they_read_and_halves_bind_halves() {
    for perm in [
        [0, 2, 1, 3],
        [1, 0, 2, 3],
        [3, 1, 0, 2],
        [0, 1, 2, 3],
        [2, 3, 1, 0],
    ] {
        let mut g = Graph::new();
        let x = g.input("x", [2, 3, 4, 5], DType::F32);
        let out = g.permute(x, &perm);
        let (strides, shape) = (g.shape(x).strides(), g.shape(out));
        let source = |i: usize| {
            let mut rest = i;
            let mut at = 0;
            for d in (0..4).rev() {
                at += rest % shape[d] * strides[perm[d]];
                rest /= shape[d];
            }
            at
        };
        let rows = g.op_rows(out);
        let each = shape.numel() / rows;
        for first in 0..rows {
            for end in first + 1..=rows {
                let bytes = &g.uses(out, &(first..end))[0].bytes;
                let read = || (first * each..end * each).map(source);
                assert!(bytes.start <= read().min().unwrap() * 4, "{perm:?}");
                assert!(bytes.end >= (read().max().unwrap() + 1) * 4, "{perm:?}");
            }
        }
    }
    // Frames out of channels: a piece of a frame reads as many times that as there are frames.
    let mut g = Graph::new();
    let x = g.input("x", [1, 4096, 2, 64], DType::F16);
    let out = g.permute(x, &[0, 2, 1, 3]);
    g.output(out);
    let options = Limits {
        max_binding: 64 << 10,
        ..Limits::default()
    };
    let plan = Plan::new(g.finish().unwrap(), &options).unwrap();
    assert_eq!(plan.steps().len(), 32);
    assert_eq!(plan.largest_binding(), 64 << 10);
}

/// A picture of 65,536² in what WebGPU promises to bind: every op of a VAE can be cut that far.
/// Nothing is allocated.
#[test]
fn ops_of_the_largest_pictures_fit_the_smallest_bindings() {
    let mut g = Graph::new();
    let (c, side) = (128, 65_536);
    let x = g.input("x", [1, side, side, c], DType::F16);
    let [gamma, beta] = ["g", "b"].map(|name| g.param(name, [c], DType::F32));
    let w = g.param("w", [c, 3, 3, c], DType::F16);
    let h = g.group_norm(x, 32, gamma, beta, 1e-6);
    let h = g.silu(h);
    let h = g.conv2d(h, w, None, 1);
    let h = g.add(h, x);
    g.output(h);
    let tokens = (side / 8) * (side / 8);
    let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, [1, tokens, 1, 512], DType::F16));
    let h = g.attention(q, k, v, None);
    g.output(h);
    let g = rewrite(&g.finish().unwrap(), Rewrites::ALL);
    let limit = Limits {
        max_binding: (128 << 20) - 256,
        ..Limits::default()
    };
    let plan = Plan::new(g, &limit).unwrap();
    assert!(plan.largest_binding() <= limit.max_binding);
}

#[test]
fn attention_whose_keys_are_too_many_is_cut_by_them() {
    let [b, n, m, heads, hd] = [2, 70, 700, 2, 64];
    let mut g = Graph::new();
    let q = g.input("q", [b, n, heads, hd], DType::F32);
    let [k, v] = ["k", "v"].map(|name| g.input(name, [b, m, heads, hd], DType::F32));
    let out = g.attention(q, k, v, None);
    g.output(out);
    let g = g.finish().unwrap();
    let keys = m * heads * hd * 4;
    for (limit, by_keys) in [(keys, false), (keys - 1, true), (keys / 4, true)] {
        let options = Limits {
            max_binding: limit,
            ..Limits::default()
        };
        let plan = Plan::new(g.clone(), &options).unwrap();
        assert!(plan.largest_binding() <= limit);
        let Some(Op::Attention(o)) = plan.graph().op(out) else {
            panic!("no attention");
        };
        assert_eq!(o.by_keys, by_keys, "{limit}");
        if !by_keys {
            continue;
        }
        // Each query meets each key of its batch element once, in order.
        let mut met = vec![0; b * n];
        for step in plan.steps() {
            let piece = crate::KeyBlocks::new(plan.graph(), o).piece(&step.rows);
            for query in piece.queries.clone() {
                assert_eq!(met[query], piece.before);
                let batch = query / n;
                assert!(piece.keys.contains(&(batch * m + piece.before)));
                met[query] += piece.keys.len().min(m);
            }
            assert_eq!(piece.more, met[piece.queries.start] < m);
        }
        assert!(met.iter().all(|&keys| keys == m), "{met:?}");
    }
    let limit = Limits {
        max_binding: 128 * heads * hd * 4 - 1,
        ..Limits::default()
    };
    let error = Plan::new(g, &limit).unwrap_err().to_string();
    assert!(error.contains("attention"), "{error}");
}

/// A graph of random image ops that all keep the shape.
fn random_graph(choices: &[(u8, u8)]) -> Graph {
    let mut g = Graph::new();
    let x = g.input("x", [1, 12, 8, 8], DType::F32);
    let (gamma, beta) = (g.param("g", [8], DType::F32), g.param("b", [8], DType::F32));
    let w = g.param("w", [8, 3, 3, 8], DType::F32);
    let mut alive = vec![x];
    for &(op, at) in choices {
        let x = alive[at as usize % alive.len()];
        let y = alive[alive.len() - 1];
        let next = match op % 8 {
            0 => g.conv2d(x, w, None, 1),
            1 => g.silu(x),
            2 => g.group_norm(x, 2, gamma, beta, 1e-5),
            3 => g.add(x, y),
            4 => g.mul(y, x),
            5 => {
                let flat = g.reshape(x, [1, 96, 8]);
                let norm = g.layer_norm(flat, Some(gamma), None, 1e-5);
                g.reshape(norm, [1, 12, 8, 8])
            }
            6 => {
                let up = g.upsample(x, 2, UpsampleMode::Nearest);
                let conv = g.conv2d(up, w, None, 1);
                g.avg_pool(conv, 2)
            }
            _ => {
                let halves = g.split(x, 3, 2);
                g.concat(&halves, 3)
            }
        };
        alive.push(next);
    }
    g.output(alive[alive.len() - 1]);
    g.finish().unwrap()
}

#[test]
fn carried_frames_share_one_place_that_lasts() {
    let mut g = Graph::new();
    let cache = g.input("cache", [1, 2, 4, 4, 8], DType::F32);
    let x = g.input("x", [1, 1, 4, 4, 8], DType::F32);
    let w = g.param("w", [8, 3, 3, 3, 8], DType::F32);
    let window = g.concat(&[cache, x], 1);
    let out = g.causal_conv(window, w, None, [1; 3], [1; 4]);
    let kept = g.slice(window, 1, 1, 3);
    let more = g.silu(out);
    g.output(more);
    g.carry(cache, kept);
    let plan = Plan::new(g.finish().unwrap(), &Limits::default()).unwrap();
    let cache = plan.span(cache).unwrap();
    assert_eq!(plan.span(kept).unwrap(), cache);
    for n in [window, out, more, x] {
        let other = plan.span(n).unwrap();
        assert!(
            other.offset >= cache.offset + cache.bytes
                || cache.offset >= other.offset + other.bytes
        );
    }
}

/// Two graphs of one arena: what the first makes is where the second finds it, in the arena, over
/// pages and on the host, and so is what the first knows nothing of.
#[test]
fn graphs_that_run_by_turns_agree_on_what_they_share() {
    let bytes = 2 * 32 * 32 * 16 * 4;
    let share = |values: [Option<Node>; 2]| values.map(|value| Shared { bytes, value }).to_vec();
    let mut g = Graph::new();
    let x = g.input("x", [1, 1, 32, 32, 16], DType::F32);
    let wide = g.concat(&[x, x, x], 4);
    let narrow = g.slice(wide, 4, 16, 32);
    let made = g.pad(narrow, 1, 1, 0, PadMode::Constant(0.0));
    g.output(made);
    g.share(share([None, Some(made)]));
    let first = g.finish().unwrap();
    let mut g = Graph::new();
    let late = g.input("late", [1, 2, 32, 32, 16], DType::F32);
    let cache = g.input("cache", [1, 2, 32, 32, 16], DType::F32);
    let x = g.input("x", [1, 1, 32, 32, 16], DType::F32);
    let window = g.concat(&[cache, x], 1);
    let kept = g.slice(window, 1, 1, 3);
    let both = g.concat(&[late, kept], 1);
    let last = g.slice(both, 1, 1, 3);
    g.carry(cache, kept);
    g.carry(late, last);
    g.share(share([Some(late), Some(cache)]));
    let then = g.finish().unwrap();
    let graphs = [first, then];
    let pages = Limits {
        page: bytes / 2,
        window: bytes / 8,
        ..Limits::default()
    };
    let turns = graphs.map(|graph| Turn::new(graph, 1));
    let best = |limits: &Limits, budget| search(limits, budget).best(&turns).unwrap();
    let whole = best(&Limits::default(), usize::MAX);
    let arena = ArenaSize::of(&whole).bytes();
    let over_pages = best(&pages, usize::MAX);
    let on_host = best(&Limits::default(), arena / 2);
    for (plans, place) in [
        (&whole, Place::Arena as fn(Span) -> Place),
        (&over_pages, Place::Pages),
        (&on_host, Place::Host),
    ] {
        let [first, then] = &plans[..] else {
            panic!("two graphs, two plans")
        };
        let at = |offset| place(Span { offset, bytes });
        assert_eq!(first.place(made), at(bytes));
        for (node, offset) in [(late, 0), (cache, bytes), (kept, bytes), (last, 0)] {
            assert_eq!(then.place(node), at(offset));
        }
        // The first graph leaves the other's frames alone.
        for (n, _) in first.graph().values() {
            if let Place::Arena(span) | Place::Pages(span) | Place::Host(span) = first.place(n) {
                let same = place(span) == first.place(n);
                assert!(!same || span.offset >= bytes, "{n:?} is where {late:?} is");
            }
        }
    }
    assert!(ArenaSize::of(&on_host).bytes() <= arena / 2);
    assert!(ArenaSize::of(&on_host).host >= 2 * bytes);
}

/// Every byte a step reads or writes on the host is brought in or taken out, in windows of its own.
#[test]
fn what_does_not_fit_passes_through_windows() {
    let (g, out) = block(64, 64, 32);
    let g = rewrite(&g, Rewrites::ALL);
    let whole = Plan::new(g.clone(), &Limits::default()).unwrap();
    let value = g.bytes(out);
    assert!(whole.arena_bytes() >= value && whole.host_bytes() == 0);
    let budget = whole.weight_bytes() + value / 4;
    let plan = within(&g, &Limits::default(), budget).unwrap();
    assert!(plan.device_bytes() <= budget, "{}", plan.device_bytes());
    assert!(plan.host_bytes() >= value);
    let mut written = 0;
    for step in plan.steps().iter().filter(|s| s.node == out) {
        let (loads, store) = plan.transfers(step);
        assert_eq!(loads.len(), 2, "the conv's input and its residual");
        let store = store.unwrap();
        written += store.bytes.len();
        let mut spans: Vec<_> = loads
            .iter()
            .chain([&store])
            .map(|t| (t.arena, t.arena + t.bytes.len()))
            .collect();
        spans.sort_unstable();
        assert!(spans.windows(2).all(|w| w[0].1 <= w[1].0), "{spans:?}");
        assert!(spans.iter().all(|s| s.1 <= plan.arena_bytes()));
    }
    assert_eq!(written, value);
    let error = within(&g, &Limits::default(), 4096).unwrap_err();
    assert!(
        matches!(error, PlanError::OverBudget { need, budget: 4096, .. } if need > 4096),
        "{error}"
    );
}

/// What no page holds lies over pages of its own, which count as the arena's; where the budget is
/// less than that, it goes to the host.
#[test]
fn values_larger_than_a_page_lie_over_pages() {
    let (g, out) = block(64, 64, 32);
    let g = rewrite(&g, Rewrites::ALL);
    let value = g.bytes(out);
    let pages = Limits {
        page: value / 4,
        max_binding: value / 8,
        ..Limits::default()
    };
    let plan = Plan::new(g.clone(), &pages).unwrap();
    assert!(matches!(plan.place(out), Place::Pages(_)));
    assert_eq!(plan.host_bytes(), 0);
    assert!(plan.pages_bytes() >= value);
    assert_eq!(plan.arena_bytes(), plan.direct_bytes() + plan.pages_bytes());
    assert_eq!(
        plan.device_bytes(),
        plan.arena_bytes() + plan.weight_bytes()
    );
    for step in plan.steps().iter().filter(|s| s.node == out) {
        let (loads, store) = plan.transfers(step);
        for t in loads.iter().chain(&store) {
            assert_eq!(t.home, Home::Pages);
            let (first, last) = (t.arena, t.arena + t.bytes.len() - 1);
            assert!(first / pages.page == last / pages.page && last < plan.direct_bytes());
            assert!(t.bytes.end <= plan.pages_bytes());
        }
    }
    let on_host = within(&g, &pages, plan.device_bytes() - 1).unwrap();
    assert!(on_host.host_bytes() > 0 && on_host.device_bytes() < plan.device_bytes());
    assert!(plan.moved(Home::Pages).each_run > 0 && plan.moved(Home::Host).each_run == 0);
}

#[test]
fn what_is_on_the_host_is_moved_once_where_it_is_read_once() {
    let mut g = Graph::new();
    let x = g.input("x", [1024, 64], DType::F32);
    let y = g.act(x, crate::Act::Relu);
    g.output(y);
    let bytes = g.bytes(x);
    let plan = within(&g, &Limits::default(), bytes).unwrap();
    assert_eq!(plan.moved(Home::Host).each_run, 0, "in place");
    let plan = within(&g, &Limits::default(), bytes - 1).unwrap();
    assert!(plan.steps().len() > 1);
    assert_eq!(plan.moved(Home::Host).each_run, 2 * bytes);
}

proptest! {
    #[test]
    fn random_plans_never_overlap(choices in prop::collection::vec(any::<(u8, u8)>(), 1..40), limit in 2048usize..40_000, fuse: bool) {
        let g = random_graph(&choices);
        let g = if fuse { rewrite(&g, Rewrites::ALL) } else { g };
        let options = Limits { max_binding: limit, ..Limits::default() };
        if let Ok(plan) = Plan::new(g.clone(), &options) {
            prop_assert!(plan.largest_binding() <= limit);
            check_no_overlap(&plan);
        }
        let whole = Plan::new(g, &Limits::default()).unwrap();
        check_no_overlap(&whole);
        prop_assert_eq!(whole.steps().len(), whole.graph().ops().filter(|(_, op)| !matches!(op, Op::Reshape(_))).count());
    }
}

/// Expanded weights are scratch that goes before anything else does.
#[test]
fn expanded_weights_give_way_to_a_budget() {
    let mut g = Graph::new();
    let x = g.input("x", [1, 256, 256], DType::F16);
    let w = g.param("w", [256, 256], DType::Q8_0);
    let out = g.linear(x, w, None);
    g.output(out);
    let g = g.finish().unwrap();
    let quick = Limits {
        expand_rows: Some(256),
        ..Limits::default()
    };
    let (plain, large) = (
        Plan::new(g.clone(), &Limits::default()).unwrap(),
        Plan::new(g.clone(), &quick).unwrap(),
    );
    assert_eq!(
        large.arena_bytes(),
        plain.arena_bytes() + 2 * 256 * 256,
        "scratch for the weights in f16"
    );
    let rounding = Limits {
        int8: true,
        ..quick
    };
    let rounded = Plan::new(g.clone(), &rounding).unwrap();
    assert_eq!(
        rounded.arena_bytes(),
        plain.arena_bytes() + 256 * 256 + 4 * 256 * 8,
        "scratch for the rows in 8 bits, with a factor for each 32"
    );
    // bf16 rows and weights as f16, with a factor for each row of both.
    let mut b = Graph::new();
    let x = b.input("x", [1, 256, 256], DType::BF16);
    let w = b.param("w", [256, 256], DType::Q8_0);
    let out = b.linear(x, w, None);
    b.output(out);
    let b = b.finish().unwrap();
    let halving = Limits {
        halves: true,
        ..quick
    };
    let scratch = |limits| Plan::new(b.clone(), limits).unwrap().arena_bytes();
    assert_eq!(
        scratch(&halving),
        scratch(&quick) + 2 * (2 * 256 * 256 + 4 * 256)
    );
    for limits in [&quick, &rounding] {
        let tight = within(&g, limits, plain.device_bytes()).unwrap();
        assert_eq!(tight.device_bytes(), plain.device_bytes());
        assert_eq!(tight.host_bytes(), 0);
    }
    let tight = within(&b, &halving, plain.device_bytes()).unwrap();
    assert_eq!(tight.device_bytes(), plain.device_bytes());
}
