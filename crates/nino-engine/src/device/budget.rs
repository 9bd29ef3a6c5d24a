//! How much memory plans may use: the least of everything that limits it, each kept with its name.
//!
//! Sources disagree, most of all where a GPU shares the system's memory, so no single one is
//! believed.

use super::HostMemory;
use nino_gpu::{AdapterKind, MemoryReading, MemorySource};

/// The most bytes that plans may use: the least of the terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    pub bytes: u64,
    /// Every limit that is known, for people who ask why.
    pub terms: Vec<BudgetTerm>,
}

/// One limit and what it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetTerm {
    pub limit: Limit,
    pub bytes: u64,
}

/// What limits memory. `of` is the figure that a share is taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// What the user allows.
    Cap,
    /// [`Budget::FRACTION`] of the device-local Vulkan heaps.
    VulkanHeaps { of: u64 },
    /// What the driver says is free, by `VK_EXT_memory_budget`, less a reserve for the driver.
    VulkanFree { reserve: u64 },
    /// [`Budget::FRACTION`] of the memory that amdgpu shows: VRAM, with GTT where the GPU shares
    /// the system's memory.
    Amdgpu { of: u64, with_gtt: bool },
    /// What amdgpu says is free.
    AmdgpuFree { with_gtt: bool },
    /// What the system has available, less a reserve for everything else.
    Available { reserve: u64 },
    /// [`Budget::FRACTION`] of the machine's memory, where nobody says what is available.
    Machine { of: u64 },
    /// [`Budget::FRACTION`] of the control group's limit.
    ControlGroup { of: u64 },
}

/// The reserve is at least this, or a twentieth of the machine's memory.
const LEAST_RESERVE: u64 = 1 << 30;

/// What a driver takes of a card for a program besides its buffers: 0.23 GiB on an H200 with
/// driver 580.159. The driver is asked before the device is opened, when this is not taken yet.
const DRIVER_RESERVE: u64 = 256 << 20;

impl Budget {
    /// The share of a memory to use; the rest is for the desktop and the driver.
    pub const FRACTION: f64 = 0.9;

    /// The budget of plans that run on the CPU; `None` when nothing is known.
    pub fn host(memory: &HostMemory, cap: Option<u64>) -> Option<Budget> {
        let mut terms = Terms::new(cap);
        terms.host(memory);
        terms.least()
    }

    /// The budget of plans that run on an adapter; `None` when nothing is known.
    pub fn adapter(
        kind: AdapterKind,
        readings: &[MemoryReading],
        memory: &HostMemory,
        cap: Option<u64>,
    ) -> Option<Budget> {
        let reading = |source| readings.iter().find(|r| r.source == source);
        let mut terms = Terms::new(cap);
        let shared = matches!(kind, AdapterKind::Integrated | AdapterKind::Software);
        for source in [MemorySource::VulkanHeaps, MemorySource::VulkanBudget] {
            let Some(reading) = reading(source) else {
                continue;
            };
            let of = reading.total;
            terms.share(of, Limit::VulkanHeaps { of });
            let free = reading.free.unwrap_or(0);
            // Where the memory is the system's, its own reserve is enough for both.
            let reserve = if shared {
                0
            } else {
                DRIVER_RESERVE.min(free / 2)
            };
            let left = reading.free.map(|free| free - reserve);
            terms.push(left, Limit::VulkanFree { reserve });
        }
        let gtt = reading(MemorySource::AmdGtt).filter(|_| shared);
        if let Some(vram) = reading(MemorySource::AmdVram) {
            let with_gtt = gtt.is_some();
            let of = vram.total + gtt.map_or(0, |g| g.total);
            terms.share(of, Limit::Amdgpu { of, with_gtt });
            let gtt_free = gtt.and_then(|g| g.free).unwrap_or(0);
            let free = vram.free.map(|free| free + gtt_free);
            terms.push(free, Limit::AmdgpuFree { with_gtt });
        }
        if shared {
            terms.host(memory);
        }
        terms.least()
    }
}

struct Terms(Vec<BudgetTerm>);

impl Terms {
    fn new(cap: Option<u64>) -> Terms {
        let mut terms = Terms(Vec::new());
        terms.push(cap, Limit::Cap);
        terms
    }

    fn push(&mut self, bytes: Option<u64>, limit: Limit) {
        self.0
            .extend(bytes.map(|bytes| BudgetTerm { limit, bytes }));
    }

    fn share(&mut self, of: u64, limit: Limit) {
        self.push(Some((of as f64 * Budget::FRACTION) as u64), limit);
    }

    fn host(&mut self, memory: &HostMemory) {
        match (memory.available, memory.total) {
            (Some(available), total) => {
                let reserve = LEAST_RESERVE.max(total.unwrap_or(0) / 20);
                // Small machines keep half of what they have left for work.
                let reserve = reserve.min(available / 2);
                self.push(Some(available - reserve), Limit::Available { reserve });
            }
            (None, Some(of)) => self.share(of, Limit::Machine { of }),
            (None, None) => {}
        }
        if let Some(limit) = &memory.limit {
            let of = limit.bytes;
            self.share(of, Limit::ControlGroup { of });
        }
    }

    fn least(self) -> Option<Budget> {
        let bytes = self.0.iter().map(|t| t.bytes).min()?;
        Some(Budget {
            bytes,
            terms: self.0,
        })
    }
}
