//! How much memory to plan with: the least of all that limit it, each kept with its name.
//!
//! Sources disagree, most of all where a GPU shares the system's memory, so no single one is
//! believed.

use super::facts::{Adapter, Budget, Kind, Memory, Source, Term};
use crate::bytes::Bytes;

/// Share of a device's memory to use; the rest is for the desktop and the driver.
const MEMORY_FRACTION: f64 = 0.9;
const LEAST_RESERVE: u64 = 1 << 30;

/// For plans that run on the CPU.
pub(super) fn host(memory: &Memory, cap: Option<Bytes>) -> Option<Budget> {
    let mut terms = Vec::new();
    push_cap(&mut terms, cap);
    push_available(&mut terms, memory);
    if let Some((limit, _)) = &memory.limit {
        push_fraction(&mut terms, "the control group's limit", *limit);
    }
    least(terms)
}

/// For plans that run on this adapter.
pub(super) fn adapter(adapter: &Adapter, memory: &Memory, cap: Option<Bytes>) -> Option<Budget> {
    let mut terms = Vec::new();
    push_cap(&mut terms, cap);
    let shared = matches!(adapter.kind, Kind::Integrated | Kind::Software);
    let vram = adapter.reading(Source::AmdVram);
    let gtt = adapter.reading(Source::AmdGtt).filter(|_| shared);
    for source in [Source::VulkanHeaps, Source::VulkanBudget] {
        if let Some(reading) = adapter.reading(source) {
            push_fraction(&mut terms, "the Vulkan heaps", reading.total);
            if let Some(free) = reading.free {
                terms.push(Term {
                    what: "free by VK_EXT_memory_budget".to_owned(),
                    bytes: free,
                });
            }
        }
    }
    if let Some(vram) = vram {
        let gtt_total = gtt.map_or(0, |g| g.total);
        let (what, free_what) = if gtt.is_some() {
            ("amdgpu's VRAM + GTT", "free VRAM + GTT by amdgpu")
        } else {
            ("amdgpu's VRAM", "free VRAM by amdgpu")
        };
        push_fraction(&mut terms, what, vram.total + gtt_total);
        if let Some(free) = vram.free {
            terms.push(Term {
                what: free_what.to_owned(),
                bytes: free + gtt.and_then(|g| g.free).unwrap_or(0),
            });
        }
    }
    if shared {
        push_available(&mut terms, memory);
        if let Some((limit, _)) = &memory.limit {
            push_fraction(&mut terms, "the control group's limit", *limit);
        }
    }
    least(terms)
}

fn push_cap(terms: &mut Vec<Term>, cap: Option<Bytes>) {
    if let Some(Bytes(bytes)) = cap {
        terms.push(Term {
            what: "--budget".to_owned(),
            bytes,
        });
    }
}

fn push_fraction(terms: &mut Vec<Term>, of: &str, bytes: u64) {
    terms.push(Term {
        what: format!("{:.0} % of {of}, {}", MEMORY_FRACTION * 100.0, Bytes(bytes)),
        bytes: (bytes as f64 * MEMORY_FRACTION) as u64,
    });
}

fn push_available(terms: &mut Vec<Term>, memory: &Memory) {
    if let Some(available) = memory.available {
        let reserve = LEAST_RESERVE.max(memory.total.unwrap_or(0) / 20);
        terms.push(Term {
            what: format!("MemAvailable less a reserve of {}", Bytes(reserve)),
            bytes: available.saturating_sub(reserve),
        });
    }
}

/// `None` when nothing is known.
fn least(terms: Vec<Term>) -> Option<Budget> {
    let bytes = terms.iter().map(|t| t.bytes).min()?;
    Some(Budget { bytes, terms })
}
