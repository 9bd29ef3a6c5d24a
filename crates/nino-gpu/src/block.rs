//! Memory that kernels do not see: what is in it passes through windows of the arena or slots of
//! weights.

use std::ops::Range;

use crate::{Gpu, GpuError};

/// Copies between buffers are of whole words.
const WORD: usize = 4;

/// Bytes of a block on the host, at most: memory that the device reaches is easier to get in small
/// pieces.
pub(crate) const HOST_PAGE: usize = 256 << 20;

/// Bytes in a buffer, on the device or in host memory that it copies from and to by itself; or in
/// ordinary host memory where there is no more of that.
#[derive(Debug)]
pub(crate) enum Block {
    Buffer(wgpu::Buffer),
    Bytes(Vec<u8>),
}

/// A place in a buffer that kernels see.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a> {
    pub(crate) buffer: &'a wgpu::Buffer,
    pub(crate) offset: u64,
}

impl<'a> Window<'a> {
    pub(crate) fn further(self, bytes: usize) -> Window<'a> {
        let offset = self.offset + bytes as u64;
        Window { offset, ..self }
    }
}

impl Block {
    pub(crate) fn on_device(gpu: &Gpu, bytes: usize) -> Result<Block, GpuError> {
        let usage = wgpu::BufferUsages::STORAGE | COPIES;
        let size = bytes.next_multiple_of(16) as u64;
        Ok(Block::Buffer(gpu.raw_buffer("arena", size, usage)?))
    }

    pub(crate) fn on_host(gpu: &Gpu, bytes: usize) -> Result<Block, GpuError> {
        // To be mapped for reading is what puts a buffer into the host's memory, and not behind a
        // window to the device's; it never is.
        let usage = wgpu::BufferUsages::MAP_READ | COPIES;
        let size = bytes.next_multiple_of(16) as u64;
        if gpu.has_host_buffers() {
            match gpu.raw_buffer("host memory", size, usage) {
                Ok(buffer) => return Ok(Block::Buffer(buffer)),
                Err(GpuError::OutOfMemory { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(Block::Bytes(vec![0; bytes]))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Block::Buffer(buffer) => buffer.size() as usize,
            Block::Bytes(all) => all.len(),
        }
    }

    /// Copies `bytes` of it to a window.
    pub(crate) fn bring(
        &self,
        gpu: &Gpu,
        bytes: &Range<usize>,
        to: Window<'_>,
    ) -> Result<(), GpuError> {
        match self {
            Block::Buffer(buffer) => copy(gpu, bytes, to, |encoder, at, inside, size| {
                encoder.copy_buffer_to_buffer(buffer, at, to.buffer, inside, size);
            }),
            Block::Bytes(all) => gpu.write_within(to.buffer, to.offset, &all[bytes.clone()]),
        }
    }

    /// Copies what shares a word with the first and the last of `bytes`: [`Block::take`] brings it
    /// back.
    pub(crate) fn bring_edges(
        &self,
        gpu: &Gpu,
        bytes: &Range<usize>,
        to: Window<'_>,
    ) -> Result<(), GpuError> {
        if let Block::Bytes(_) = self {
            return Ok(());
        }
        for edge in [bytes.start, bytes.end] {
            if !edge.is_multiple_of(WORD) {
                let word = edge / WORD * WORD;
                let offset = to.offset + word as u64 - bytes.start as u64;
                self.bring(gpu, &(word..word + WORD), Window { offset, ..to })?;
            }
        }
        Ok(())
    }

    /// Copies `bytes` of it from a window, and what shares words with them.
    pub(crate) fn take(
        &mut self,
        gpu: &Gpu,
        bytes: &Range<usize>,
        from: Window<'_>,
    ) -> Result<(), GpuError> {
        match self {
            Block::Buffer(buffer) => copy(gpu, bytes, from, |encoder, at, inside, size| {
                encoder.copy_buffer_to_buffer(from.buffer, inside, buffer, at, size);
            }),
            Block::Bytes(all) => gpu.read_within(from.buffer, from.offset, &mut all[bytes.clone()]),
        }
    }

    pub(crate) fn write(&mut self, gpu: &Gpu, at: usize, bytes: &[u8]) -> Result<(), GpuError> {
        match self {
            Block::Buffer(buffer) => gpu.write_within(buffer, at as u64, bytes),
            Block::Bytes(all) => {
                all[at..at + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    pub(crate) fn read(&self, gpu: &Gpu, at: usize, dst: &mut [u8]) -> Result<(), GpuError> {
        match self {
            Block::Buffer(buffer) => gpu.read_within(buffer, at as u64, dst),
            Block::Bytes(all) => {
                dst.copy_from_slice(&all[at..at + dst.len()]);
                Ok(())
            }
        }
    }
}

const COPIES: wgpu::BufferUsages = wgpu::BufferUsages::COPY_SRC.union(wgpu::BufferUsages::COPY_DST);

/// Submits the copy of every word that has some of `bytes`: from where in the block, to where in
/// the window, how many bytes. A byte lies at the same place of a word in both (`Plan::locate`).
fn copy(
    gpu: &Gpu,
    bytes: &Range<usize>,
    window: Window<'_>,
    record: impl FnOnce(&mut wgpu::CommandEncoder, u64, u64, u64),
) -> Result<(), GpuError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let start = bytes.start / WORD * WORD;
    let end = bytes.end.next_multiple_of(WORD);
    let inside = window.offset - (bytes.start - start) as u64;
    let size = (end - start) as u64;
    gpu.scoped("a copy", size, || {
        let mut encoder = gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        record(&mut encoder, start as u64, inside, size);
        gpu.queue.submit([encoder.finish()]);
    })
}

#[cfg(test)]
mod tests;
