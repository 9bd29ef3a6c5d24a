//! The GPU executor on every adapter of this machine; each test says so and passes where there is
//! none.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside test functions

mod large;
mod open;
mod record;
mod spill;
mod stream;
mod suite;
mod waves;

use nino_gpu::{Adapters, Gpu, GpuDevice, OpenOptions, Tier};

/// Opens every adapter found, with its best tier or a lower one.
fn devices(tier: Option<Tier>) -> Vec<GpuDevice> {
    let adapters = Adapters::enumerate();
    if let Some(reason) = &adapters.reason {
        println!("skipped: no GPU adapter ({reason})");
    }
    let open = |index: usize| {
        let options = OpenOptions {
            adapter: index.to_string(),
            tier,
            ..OpenOptions::default()
        };
        GpuDevice::new(Gpu::open_in(&adapters, &options).unwrap())
    };
    (0..adapters.infos.len()).map(open).collect()
}
