//! How fast a device is: each kind of op at the rate that a typical one of it has.

use super::Opened;
use anyhow::Result;
use nino_dtype::DType;
use nino_graph::{Kind, Load, Rates};
use nino_suite::bench::{Shape, measure, outside_rate};
use std::collections::BTreeSet;
use std::time::Duration;

/// Runs a rate is the median of.
const RUNS: usize = 5;

/// Where the shapes of real networks take milliseconds, smaller ones would measure how long a start takes.
const FAST_FLOPS: f64 = 3e12;

/// Measures for about a second what `loads` do: their kinds of op, and values on the host where there
/// are any. The other rates are those of any device of the kind.
pub(crate) fn measured(opened: &Opened, loads: &[Load]) -> Result<Rates> {
    let ceiling = opened.ceiling()?;
    let fast = ceiling.flops > FAST_FLOPS;
    let kinds = loads.iter().flat_map(|load| load.work.kinds());
    let kinds: BTreeSet<Kind> = kinds.map(|(kind, _)| kind).collect();
    let mut rates = opened.device.rates();
    rates.copy_bytes = ceiling.copy_bytes;
    for kind in kinds {
        if let Some((shape, dtype)) = typical(kind, fast) {
            let row = measure(&*opened.device, &shape, dtype, RUNS, Duration::ZERO)?;
            rates.flops.insert(kind, row.gflops() * 1e9);
        }
    }
    if loads.iter().any(|load| load.host_bytes > 0) {
        rates.host_bytes = outside_rate(&*opened.device)?;
    }
    Ok(rates)
}

/// An op of a kind as UNets and VAEs have them, and the type of its activations.
fn typical(kind: Kind, fast: bool) -> Option<(Shape, DType)> {
    let size = |slow: usize, quick: usize| if fast { quick } else { slow };
    Some(match kind {
        Kind::Conv3x3 { x } => {
            let h = size(32, 64);
            (Shape::Conv3x3 { c: 320, h }, x)
        }
        Kind::Linear { x, w } => {
            let (m, k, n) = (size(512, 4096), 1280, 640);
            let weights = Some(w);
            (Shape::Linear { m, k, n, weights }, x)
        }
        Kind::Attention { x } => {
            let n = size(1024, 4096);
            (
                Shape::Attention {
                    heads: 8,
                    n,
                    hd: 40,
                },
                x,
            )
        }
        Kind::Other => return None,
    })
}
