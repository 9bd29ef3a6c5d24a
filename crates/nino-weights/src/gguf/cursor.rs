//! Sequential reading over positioned reads, with every length checked against what is left before
//! anything is allocated.

use super::Problem;
use crate::Source;

const WINDOW: usize = 1 << 16;

pub(super) struct Cursor<'a, S: ?Sized> {
    source: &'a S,
    window: Vec<u8>,
    window_start: u64,
    pos: u64,
}

impl<'a, S: Source + ?Sized> Cursor<'a, S> {
    pub(super) fn new(source: &'a S) -> Self {
        Cursor {
            source,
            window: Vec::new(),
            window_start: 0,
            pos: 0,
        }
    }

    pub(super) fn pos(&self) -> u64 {
        self.pos
    }

    pub(super) fn left(&self) -> u64 {
        self.source.size() - self.pos
    }

    /// Fails unless `count` items of `size` bytes are still in the file.
    pub(super) fn expect(
        &self,
        what: &'static str,
        count: u64,
        size: u64,
    ) -> Result<usize, Problem> {
        let needed = count.saturating_mul(size);
        if needed > self.left() {
            return Err(Problem::Truncated {
                what,
                offset: self.pos,
                needed,
                left: self.left(),
            });
        }
        usize::try_from(count).map_err(|_| Problem::Truncated {
            what,
            offset: self.pos,
            needed,
            left: self.left(),
        })
    }

    pub(super) fn fill(&mut self, what: &'static str, buf: &mut [u8]) -> Result<(), Problem> {
        self.expect(what, buf.len() as u64, 1)?;
        if buf.len() > WINDOW {
            self.read_at(buf, self.pos)?;
            self.pos += buf.len() as u64;
            return Ok(());
        }
        let inside = self.pos >= self.window_start
            && self.pos + buf.len() as u64 <= self.window_start + self.window.len() as u64;
        if !inside {
            let len = self.left().min(WINDOW as u64) as usize;
            let mut window = std::mem::take(&mut self.window);
            window.resize(len, 0);
            self.read_at(&mut window, self.pos)?;
            self.window = window;
            self.window_start = self.pos;
        }
        let start = (self.pos - self.window_start) as usize;
        buf.copy_from_slice(&self.window[start..start + buf.len()]);
        self.pos += buf.len() as u64;
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), Problem> {
        let len = buf.len() as u64;
        self.source
            .read_exact_at(buf, offset)
            .map_err(|reason| Problem::Read {
                offset,
                len,
                reason,
            })
    }

    pub(super) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Problem> {
        let mut buf = [0; N];
        self.fill(what, &mut buf)?;
        Ok(buf)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, Problem> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, Problem> {
        self.array(what).map(u64::from_le_bytes)
    }

    pub(super) fn string(&mut self, what: &'static str) -> Result<String, Problem> {
        let len = self.u64(what)?;
        let len = self.expect(what, len, 1)?;
        let offset = self.pos;
        let mut bytes = vec![0; len];
        self.fill(what, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| Problem::Utf8 { what, offset })
    }
}
