//! Plans of clips: cached frames have one place in all of them, and it is counted.

use crate::decode::{Chunking, DecodeOptions, DecodePlan, LatentSize, plan_decode};
use crate::{Precision, Store, VaeFile};
use nino_cpu::{Cpu, CpuOptions};
use nino_graph::Place;
use std::sync::Arc;

fn plan(spec: &str, chunk: usize, budget: Option<usize>) -> DecodePlan {
    let vae = VaeFile::spec(spec).unwrap();
    let options = DecodeOptions {
        precision: Precision::F16,
        chunking: Chunking::Frames(chunk),
        budget,
        ..DecodeOptions::default()
    };
    let size = LatentSize {
        frames: 6,
        height: 8,
        width: 6,
    };
    let cpu = Cpu::new(CpuOptions::default()).unwrap();
    let store = Store::keeping_nothing(Arc::new(cpu));
    plan_decode(&store, &vae, size, &options).unwrap()
}

/// Bytes of the frames that runs of part `to` find where those of part `from` left them, and of
/// those that have to be moved.
fn carried(plan: &DecodePlan, from: usize, to: usize) -> (usize, usize) {
    let (from, to) = (&plan.parts[from], &plan.parts[to]);
    let (mut stay, mut move_) = (0, 0);
    for cache in &to.caches {
        let input = cache.input.unwrap();
        let bytes = to.plan.graph().bytes(input);
        let Some(before) = from.caches.iter().find(|c| c.name == cache.name) else {
            continue;
        };
        if from.plan.place(before.output) == to.plan.place(input) {
            stay += bytes;
        } else {
            move_ += bytes;
        }
    }
    (stay, move_)
}

#[test]
fn frames_stay_where_they_are_from_graph_to_graph() {
    for spec in ["wan21-vae", "wan22-vae", "taehv", "taew2_2"] {
        let whole = plan(spec, 4, None);
        assert_eq!(whole.parts.len(), 2, "a chunk of four and one of two");
        let arena = whole.peak_bytes() - whole.weight_bytes();
        let budgets = [None, Some(whole.weight_bytes() + arena / 2)];
        for (chunk, budget) in [1, 4].into_iter().flat_map(|c| budgets.map(|b| (c, b))) {
            let plan = plan(spec, chunk, budget);
            let mut pairs = vec![(0, 1)];
            pairs.extend((plan.parts[1].runs > 1).then_some((1, 1)));
            for (from, to) in pairs {
                let (stay, move_) = carried(&plan, from, to);
                let at = format!("{spec} in {chunk}s, {budget:?}, {from} to {to}");
                assert_eq!(move_, 0, "{at}: {stay} stay");
                assert!(plan.peak_bytes() - plan.weight_bytes() + plan.host_bytes() > stay);
            }
            let inputs = plan.parts[1].caches.iter().filter_map(|c| c.input);
            let mut places = inputs.map(|n| plan.parts[1].plan.place(n));
            if budget.is_some() && chunk == 4 && spec == "wan21-vae" {
                assert!(
                    places.any(|p| matches!(p, Place::Host(_))),
                    "{spec}: none outside"
                );
            } else if budget.is_none() {
                assert!(places.all(|p| matches!(p, Place::Arena(_))));
            }
        }
    }
}
