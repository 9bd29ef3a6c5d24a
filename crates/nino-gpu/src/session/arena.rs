//! The memory of sessions that run by turns: pages that kernels see, the slots of streamed weights,
//! and what passes through both.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nino_graph::{ArenaSize, Place, Plan, Transfer};

use super::windowed::Kept;
use crate::block::Window;
use crate::{Gpu, GpuError};

/// Bytes of one upload.
const PIECE: usize = 16 << 20;

/// What kernels see is written, and read back where words are written in part.
const USAGE: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE
    .union(wgpu::BufferUsages::COPY_DST)
    .union(wgpu::BufferUsages::COPY_SRC);

#[derive(Debug)]
pub(super) struct Arena {
    pub(super) pages: Vec<wgpu::Buffer>,
    page: usize,
    /// Streamed parameters pass through these.
    pub(super) slots: Vec<wgpu::Buffer>,
    /// Values that pass through the pages.
    kept: Mutex<Kept>,
    size: ArenaSize,
}

impl Arena {
    /// An arena for plans of one page size.
    pub(super) fn new(gpu: &Gpu, plans: &[Arc<Plan>]) -> Result<Arena, GpuError> {
        let page = plans.first().map_or(1, |p| p.limits().page);
        let size = ArenaSize::of(plans.iter().map(|p| &**p));
        Ok(Arena {
            kept: Mutex::new(Kept::new(gpu, size, page)?),
            pages: pages(gpu, size.direct.max(1), page)?,
            page,
            slots: slots(gpu, plans)?,
            size,
        })
    }

    /// Values that pass through the pages; free whenever one of the sessions asks, since they take
    /// turns.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes on the device.
    pub(super) fn bytes(&self) -> usize {
        self.size.bytes()
    }

    /// The page a byte is on, and its offset there.
    fn at(&self, offset: usize) -> Window<'_> {
        Window {
            buffer: &self.pages[offset / self.page],
            offset: (offset % self.page) as u64,
        }
    }

    pub(super) fn bring(&self, gpu: &Gpu, t: &Transfer) -> Result<(), GpuError> {
        self.kept().bring(gpu, t, self.at(t.arena))
    }

    pub(super) fn bring_edges(&self, gpu: &Gpu, t: &Transfer) -> Result<(), GpuError> {
        self.kept().bring_edges(gpu, t, self.at(t.arena))
    }

    pub(super) fn take(&self, gpu: &Gpu, t: &Transfer) -> Result<(), GpuError> {
        self.kept().take(gpu, t, self.at(t.arena))
    }

    /// Writes to a value from byte `at` on; nothing where it has no place.
    pub(super) fn write(
        &self,
        gpu: &Gpu,
        place: Place,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), GpuError> {
        if let Place::Arena(span) = place {
            let to = self.at(span.offset + at);
            gpu.write_within(to.buffer, to.offset, bytes)
        } else if let Some((home, span)) = place.home() {
            let mut kept = self.kept();
            kept.write(gpu, home, span.offset + at, bytes)
        } else {
            Ok(())
        }
    }

    pub(super) fn read(
        &self,
        gpu: &Gpu,
        place: Place,
        at: usize,
        dst: &mut [u8],
    ) -> Result<(), GpuError> {
        if let Place::Arena(span) = place {
            let from = self.at(span.offset + at);
            gpu.read_within(from.buffer, from.offset, dst)
        } else if let Some((home, span)) = place.home() {
            let kept = self.kept();
            kept.read(gpu, home, span.offset + at, dst)
        } else {
            Ok(())
        }
    }

    /// Writes zeros to a value.
    pub(super) fn clear(&self, gpu: &Gpu, place: Place) -> Result<(), GpuError> {
        if let Place::Arena(span) = place {
            let to = self.at(span.offset);
            return gpu.clear(to.buffer, to.offset, span.bytes as u64);
        }
        let Some((_, span)) = place.home() else {
            return Ok(());
        };
        let zeros = vec![0; PIECE.min(span.bytes)];
        for at in (0..span.bytes).step_by(PIECE) {
            self.write(gpu, place, at, &zeros[..PIECE.min(span.bytes - at)])?;
        }
        Ok(())
    }

    /// Puts NaN everywhere.
    pub(super) fn poison(&self, gpu: &Gpu) -> Result<(), GpuError> {
        let nan = vec![0xffu8; PIECE];
        for page in &self.pages {
            for offset in (0..page.size()).step_by(nan.len()) {
                let len = (page.size() - offset).min(nan.len() as u64) as usize;
                gpu.write(page, offset, &nan[..len])?;
            }
        }
        self.kept().poison(gpu, &nan)
    }
}

/// Memory for values, in as many buffers as it has pages; only the last is smaller.
fn pages(gpu: &Gpu, total: usize, page: usize) -> Result<Vec<wgpu::Buffer>, GpuError> {
    let size = |start: usize| (total - start).min(page).next_multiple_of(16) as u64;
    (0..total)
        .step_by(page)
        .map(|start| gpu.raw_buffer("arena", size(start), USAGE))
        .collect()
}

/// The ring of plans that stream parameters.
fn slots(gpu: &Gpu, plans: &[Arc<Plan>]) -> Result<Vec<wgpu::Buffer>, GpuError> {
    let used = plans.iter().flat_map(|p| p.fetches()).map(|f| f.slot + 1);
    let bytes = plans.iter().map(|p| p.slot_bytes()).max().unwrap_or(0);
    // What kernels may read behind a parameter is part of its place.
    (0..used.max().unwrap_or(0))
        .map(|_| gpu.raw_buffer("streamed weights", bytes as u64, USAGE))
        .collect()
}
