//! Values that pass through windows of the arena: in host memory, or on the device across buffers of
//! their own where they are larger than one can be.

use std::ops::Range;

use nino_graph::{Outside, Plan, Transfer};

use crate::{Gpu, GpuError};

/// Copies between buffers are of whole words.
const WORD: usize = 4;

#[derive(Debug)]
pub(super) struct Kept {
    host: Vec<u8>,
    across: Vec<wgpu::Buffer>,
    /// Bytes of each of `across` but the last.
    page: usize,
}

/// A place in a window.
#[derive(Clone, Copy)]
pub(super) struct Window<'a> {
    pub(super) buffer: &'a wgpu::Buffer,
    pub(super) offset: u64,
}

impl Kept {
    pub(super) fn new(gpu: &Gpu, plan: &Plan) -> Result<Kept, GpuError> {
        let page = plan.options().page;
        Ok(Kept {
            host: vec![0; plan.host_bytes()],
            across: super::build::pages(gpu, plan.across_bytes(), page)?,
            page,
        })
    }

    pub(super) fn buffers(&self) -> &[wgpu::Buffer] {
        &self.across
    }

    pub(super) fn forget(&mut self) {
        self.host.fill(0xff);
    }

    pub(super) fn bring(&self, gpu: &Gpu, t: &Transfer, to: Window<'_>) -> Result<(), GpuError> {
        match t.outside {
            Outside::Host => gpu.write_within(to.buffer, to.offset, &self.host[t.bytes.clone()]),
            Outside::Across => self.copy(gpu, &t.bytes, to, Way::In),
        }
    }

    /// Brings what shares a word with the first and the last byte that a step will make: words go back
    /// whole.
    pub(super) fn bring_edges(
        &self,
        gpu: &Gpu,
        t: &Transfer,
        to: Window<'_>,
    ) -> Result<(), GpuError> {
        if t.outside == Outside::Host {
            return Ok(());
        }
        for edge in [t.bytes.start, t.bytes.end] {
            if !edge.is_multiple_of(WORD) {
                let offset = to.offset + edge as u64 - t.bytes.start as u64;
                self.copy(gpu, &(edge..edge), Window { offset, ..to }, Way::In)?;
            }
        }
        Ok(())
    }

    pub(super) fn take(
        &mut self,
        gpu: &Gpu,
        t: &Transfer,
        from: Window<'_>,
    ) -> Result<(), GpuError> {
        match t.outside {
            Outside::Host => {
                gpu.read_within(from.buffer, from.offset, &mut self.host[t.bytes.clone()])
            }
            Outside::Across => self.copy(gpu, &t.bytes, from, Way::Out),
        }
    }

    pub(super) fn write(
        &mut self,
        gpu: &Gpu,
        outside: Outside,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), GpuError> {
        if outside == Outside::Host {
            self.host[at..at + bytes.len()].copy_from_slice(bytes);
            return Ok(());
        }
        for (buffer, offset, part) in self.pieces(&(at..at + bytes.len())) {
            gpu.write_within(buffer, offset, &bytes[part.start - at..part.end - at])?;
        }
        Ok(())
    }

    pub(super) fn read(
        &self,
        gpu: &Gpu,
        outside: Outside,
        at: usize,
        dst: &mut [u8],
    ) -> Result<(), GpuError> {
        if outside == Outside::Host {
            dst.copy_from_slice(&self.host[at..at + dst.len()]);
            return Ok(());
        }
        for (buffer, offset, part) in self.pieces(&(at..at + dst.len())) {
            gpu.read_within(buffer, offset, &mut dst[part.start - at..part.end - at])?;
        }
        Ok(())
    }

    /// Every word that has some of `bytes` (one that has their start, if they are none). A byte lies in
    /// the window at the same place of a word as here (`Plan::locate`).
    fn copy(
        &self,
        gpu: &Gpu,
        bytes: &Range<usize>,
        window: Window<'_>,
        way: Way,
    ) -> Result<(), GpuError> {
        let start = bytes.start / WORD * WORD;
        let end = bytes.end.max(start + 1).next_multiple_of(WORD);
        let first = window.offset - (bytes.start - start) as u64;
        gpu.scoped("copies across buffers", (end - start) as u64, || {
            let mut encoder = gpu
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            for (buffer, offset, part) in self.pieces(&(start..end)) {
                let inside = first + (part.start - start) as u64;
                let ((src, src_at), (dst, dst_at)) = match way {
                    Way::In => ((buffer, offset), (window.buffer, inside)),
                    Way::Out => ((window.buffer, inside), (buffer, offset)),
                };
                encoder.copy_buffer_to_buffer(src, src_at, dst, dst_at, part.len() as u64);
            }
            gpu.queue.submit([encoder.finish()]);
        })
    }

    /// The buffers a range lies in, where it starts in each, and which part of it that is.
    fn pieces(
        &self,
        range: &Range<usize>,
    ) -> impl Iterator<Item = (&wgpu::Buffer, u64, Range<usize>)> {
        pieces(range, self.page).map(|part| {
            (
                &self.across[part.start / self.page],
                (part.start % self.page) as u64,
                part,
            )
        })
    }
}

#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

/// A range cut where pages end.
fn pieces(range: &Range<usize>, page: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let Range { start, end } = *range;
    let first = start / page;
    (first..end.div_ceil(page)).map(move |i| start.max(i * page)..end.min((i + 1) * page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_where_pages_end() {
        let cut = |start, end| {
            let parts = pieces(&(start..end), 100).map(|p| (p.start, p.end));
            parts.collect::<Vec<_>>()
        };
        assert_eq!(cut(0, 100), [(0, 100)]);
        assert_eq!(cut(50, 60), [(50, 60)]);
        assert_eq!(cut(50, 250), [(50, 100), (100, 200), (200, 250)]);
        assert_eq!(cut(100, 101), [(100, 101)]);
        assert!(cut(0, 0).is_empty());
    }
}
