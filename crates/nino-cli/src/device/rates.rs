//! How long work takes on a device, about: each kind of op at the rate a typical one of it has.

use super::Opened;
use anyhow::Result;
use nino_dtype::DType;
use nino_graph::{Kind, Work};
use nino_suite::bench::{Shape, measure, outside_rate};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Rates a second, of the kinds of op that some work has.
pub(crate) struct Rates {
    /// Reads plus writes.
    copy_bytes: f64,
    /// A multiply-add is two.
    flops: BTreeMap<Kind, f64>,
    /// Of values that wait outside; none where nothing does.
    outside_bytes: Option<f64>,
}

/// Runs a rate is the median of.
const RUNS: usize = 5;

/// Where the shapes of real networks take milliseconds, smaller ones would measure how long a start takes.
const FAST_FLOPS: f64 = 3e12;

impl Rates {
    /// Measures for about a second; also how values come from `outside`, if any do.
    pub(crate) fn measure<'a>(
        opened: &Opened,
        works: impl IntoIterator<Item = &'a Work>,
        outside: bool,
    ) -> Result<Rates> {
        let ceiling = opened.ceiling()?;
        let fast = ceiling.flops > FAST_FLOPS;
        let kinds = works.into_iter().flat_map(Work::kinds);
        let kinds: BTreeSet<Kind> = kinds.map(|(kind, _)| kind).collect();
        let mut flops = BTreeMap::new();
        for kind in kinds {
            if let Some((shape, dtype)) = typical(kind, fast) {
                let row = measure(&*opened.device, &shape, dtype, RUNS, Duration::ZERO)?;
                flops.insert(kind, row.gflops() * 1e9);
            }
        }
        Ok(Rates {
            copy_bytes: ceiling.copy_bytes,
            flops,
            outside_bytes: outside.then(|| outside_rate(&*opened.device)).transpose()?,
        })
    }

    /// `moved` bytes come from outside and go there, which no computation hides.
    pub(crate) fn seconds(&self, work: &Work, moved: usize) -> f64 {
        let moving = self.outside_bytes.map_or(0.0, |rate| moved as f64 / rate);
        let each = work.kinds().map(|(kind, cost)| {
            let moved = cost.bytes / self.copy_bytes;
            let rate = self.flops.get(&kind);
            rate.map_or(moved, |rate| moved.max(cost.flops / rate))
        });
        each.sum::<f64>() + moving
    }
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
