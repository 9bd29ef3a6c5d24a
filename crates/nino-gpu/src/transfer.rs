//! Bytes between the host and buffers.

use crate::{Gpu, GpuError};

/// The largest buffer kept for the next read.
const KEPT_READBACK: u64 = 8 << 20;

impl Gpu {
    pub fn write(&self, buffer: &wgpu::Buffer, offset: u64, bytes: &[u8]) -> Result<(), GpuError> {
        // wgpu wants whole words; buffers have slack at the end.
        let whole = bytes.len() / 4 * 4;
        self.scoped("upload", bytes.len() as u64, || {
            self.queue.write_buffer(buffer, offset, &bytes[..whole]);
            if whole < bytes.len() {
                let mut tail = [0u8; 4];
                tail[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
                self.queue
                    .write_buffer(buffer, offset + whole as u64, &tail);
            }
        })
    }

    /// Writes zeros from `offset`, a multiple of 4, on; to the end of the last word.
    pub(crate) fn clear(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        bytes: u64,
    ) -> Result<(), GpuError> {
        let size = bytes.next_multiple_of(4);
        self.scoped("zeros", size, || {
            let mut encoder = self
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            encoder.clear_buffer(buffer, offset, Some(size));
            self.queue.submit([encoder.finish()]);
        })
    }

    /// Copies `bytes` from `offset` (a multiple of 4) back to the host and waits for them.
    pub fn read(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, GpuError> {
        let mut read = vec![0; bytes];
        self.read_within(buffer, offset, &mut read)?;
        Ok(read)
    }

    /// A buffer to read back through: the last one where it is large enough, since making and
    /// mapping one takes longer than the copy.
    fn readback(&self, size: u64) -> Result<wgpu::Buffer, GpuError> {
        let kept = self.readback.lock().ok().and_then(|mut kept| kept.take());
        if let Some(kept) = kept.filter(|kept| kept.size() >= size) {
            return Ok(kept);
        }
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        self.raw_buffer("readback", size.next_multiple_of(1 << 16), usage)
    }

    /// Writes any byte range of a buffer; words only partly covered keep their other bytes.
    pub(crate) fn write_within(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), GpuError> {
        let (head, tail) = ((offset % 4) as usize, (offset + bytes.len() as u64) % 4);
        if head == 0 && tail == 0 {
            return self.write(buffer, offset, bytes);
        }
        let start = offset - head as u64;
        let whole = (head + bytes.len()).next_multiple_of(4);
        let mut words = vec![0; whole];
        words[..4].copy_from_slice(&self.read(buffer, start, 4)?);
        let last = whole - 4;
        words[last..].copy_from_slice(&self.read(buffer, start + last as u64, 4)?);
        words[head..head + bytes.len()].copy_from_slice(bytes);
        self.write(buffer, start, &words)
    }

    /// Reads any byte range of a buffer.
    pub(crate) fn read_within(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        dst: &mut [u8],
    ) -> Result<(), GpuError> {
        if dst.is_empty() {
            return Ok(());
        }
        let head = (offset % 4) as usize;
        let size = ((head + dst.len()) as u64).next_multiple_of(4);
        let staging = self.readback(size)?;
        self.scoped("readback", size, || {
            let mut encoder = self
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            encoder.copy_buffer_to_buffer(buffer, offset - head as u64, &staging, 0, size);
            self.queue.submit([encoder.finish()]);
            staging.slice(..size).map_async(wgpu::MapMode::Read, |_| {});
        })?;
        self.wait()?;
        let mapped = staging.slice(..size).get_mapped_range();
        let view = mapped.map_err(|e| GpuError::Validation {
            what: "readback".to_owned(),
            reason: e.to_string(),
        })?;
        dst.copy_from_slice(&view[head..head + dst.len()]);
        drop(view);
        staging.unmap();
        if staging.size() <= KEPT_READBACK
            && let Ok(mut kept) = self.readback.lock()
        {
            *kept = Some(staging);
        }
        Ok(())
    }
}
