//! What was planned for a store is not planned again when it runs.

use super::models::{made, request};
use crate::tests::made as files;
use crate::{Checkpoint, Store, plan_generate};
use nino_cpu::{Cpu, CpuOptions};
use nino_graph::{Around, Device, Limits};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The CPU, counting how often it is asked for its limits, which is what plans begin with.
struct Counted {
    cpu: Cpu,
    planned: Arc<AtomicUsize>,
}

impl Around for Counted {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &self.cpu as &dyn Device
    }

    fn limits(&self) -> Limits {
        self.planned.fetch_add(1, Ordering::Relaxed);
        self.cpu.limits()
    }
}

#[test]
fn a_planned_request_runs_by_the_plans_it_was_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    files::write_list(&files::list("tiny_sd1"), &path);
    let model = Checkpoint::open(&path, None).unwrap();
    let request = request(&model, "a fox");
    for pictures in [1, 2] {
        let planned = Arc::new(AtomicUsize::new(0));
        let cpu = Cpu::new(CpuOptions::default()).unwrap();
        let device = Arc::new(Counted {
            cpu,
            planned: Arc::clone(&planned),
        });
        let store = Store::for_pictures(device, pictures);
        let plan = plan_generate(&store, &model, &request).unwrap();
        let once = planned.load(Ordering::Relaxed);
        assert!(once >= 3, "text, sampling and decode, not {once}");
        let found = made(&store, &model, &request);
        assert_eq!(planned.load(Ordering::Relaxed), once);
        assert_eq!(store.usage().peak_bytes, plan.peak_bytes());
        assert!(found == made(&Store::new(super::cpu(None)), &model, &request));
    }
}
