//! What unit tests share.

use crate::{AdapterInfo, Adapters, Gpu, OpenOptions, Tier};

/// Every adapter of this machine, opened with its best tier or a lower one; says so where there is none.
#[allow(clippy::print_stdout)] // why a test did nothing
pub(crate) fn gpus(tier: Option<Tier>) -> Vec<Gpu> {
    let adapters = Adapters::enumerate();
    if let Some(reason) = &adapters.reason {
        println!("skipped: no GPU adapter ({reason})");
    }
    let open = |info: &AdapterInfo| {
        let options = OpenOptions {
            adapter: info.index.to_string(),
            tier,
            ..OpenOptions::default()
        };
        Gpu::open_in(&adapters, &options).unwrap()
    };
    adapters.infos.iter().map(open).collect()
}
