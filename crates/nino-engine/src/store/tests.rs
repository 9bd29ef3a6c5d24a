//! Models of one store are never taken for each other, what is in use stays, and threads may share
//! it.

mod models;
mod planned;
mod room;

use crate::{Checkpoint, Conditioning, Decoder, Store};
use nino_cpu::{Cpu, CpuOptions};
use nino_graph::{Around, Budget, Device};
use std::ops::Deref;
use std::sync::Arc;

/// The CPU with memory of its own.
struct Capped {
    cpu: Cpu,
    budget: Option<usize>,
}

impl Around for Capped {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &self.cpu as &dyn Device
    }

    fn budget(&self) -> Budget {
        Budget {
            total: self.budget,
            ..Budget::default()
        }
    }

    /// Like a graphics card.
    fn keeps_every_size(&self) -> bool {
        true
    }
}

fn cpu(budget: Option<usize>) -> Arc<dyn Device> {
    let cpu = Cpu::new(CpuOptions::default()).unwrap();
    Arc::new(Capped { cpu, budget })
}

#[test]
fn everything_can_move_to_another_thread() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Store>();
    is_shared::<Checkpoint>();
    is_shared::<Conditioning>();
    moves::<Decoder>();
}
