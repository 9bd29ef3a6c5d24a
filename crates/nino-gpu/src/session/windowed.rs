//! Values that pass through windows of the arena: in host memory, or on the device over several
//! buffers of their own where they are larger than one can be.

use std::ops::Range;

use nino_graph::{ArenaSize, Home, Transfer};

use crate::block::{Block, HOST_PAGE, Window};
use crate::memory::ask_host;
use crate::{Gpu, GpuError};

#[derive(Debug)]
pub(super) struct Kept {
    host: Blocks,
    pages: Blocks,
}

impl Kept {
    pub(super) fn new(gpu: &Gpu, size: ArenaSize, page: usize) -> Result<Kept, GpuError> {
        ask_host(size.host)?;
        let host_page = page.min(HOST_PAGE);
        let blocks = |total, page, make: fn(&Gpu, usize) -> Result<Block, GpuError>| {
            let sizes = pieces(&(0..total), page).map(|p| make(gpu, p.bytes.len()));
            let blocks = sizes.collect::<Result<_, _>>()?;
            Ok(Blocks { blocks, page })
        };
        Ok(Kept {
            host: blocks(size.host, host_page, Block::on_host)?,
            pages: blocks(size.pages, page, Block::on_device)?,
        })
    }

    pub(super) fn bring(&self, gpu: &Gpu, t: &Transfer, to: Window<'_>) -> Result<(), GpuError> {
        let Blocks { blocks, page } = self.blocks(t.home);
        for p in pieces(&t.bytes, *page) {
            blocks[p.block].bring(gpu, &p.bytes, to.further(p.ahead))?;
        }
        Ok(())
    }

    /// Brings what shares a word with bytes that a step will make and [`Kept::take`] takes back.
    pub(super) fn bring_edges(
        &self,
        gpu: &Gpu,
        t: &Transfer,
        to: Window<'_>,
    ) -> Result<(), GpuError> {
        let Blocks { blocks, page } = self.blocks(t.home);
        for p in pieces(&t.bytes, *page) {
            blocks[p.block].bring_edges(gpu, &p.bytes, to.further(p.ahead))?;
        }
        Ok(())
    }

    pub(super) fn take(
        &mut self,
        gpu: &Gpu,
        t: &Transfer,
        from: Window<'_>,
    ) -> Result<(), GpuError> {
        let Blocks { blocks, page } = self.blocks_mut(t.home);
        for p in pieces(&t.bytes, *page) {
            blocks[p.block].take(gpu, &p.bytes, from.further(p.ahead))?;
        }
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        gpu: &Gpu,
        home: Home,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), GpuError> {
        let Blocks { blocks, page } = self.blocks_mut(home);
        for p in pieces(&(at..at + bytes.len()), *page) {
            let bytes = &bytes[p.ahead..p.ahead + p.bytes.len()];
            blocks[p.block].write(gpu, p.bytes.start, bytes)?;
        }
        Ok(())
    }

    pub(super) fn read(
        &self,
        gpu: &Gpu,
        home: Home,
        at: usize,
        dst: &mut [u8],
    ) -> Result<(), GpuError> {
        let Blocks { blocks, page } = self.blocks(home);
        for p in pieces(&(at..at + dst.len()), *page) {
            let dst = &mut dst[p.ahead..p.ahead + p.bytes.len()];
            blocks[p.block].read(gpu, p.bytes.start, dst)?;
        }
        Ok(())
    }

    /// Puts `nan` everywhere.
    pub(super) fn poison(&mut self, gpu: &Gpu, nan: &[u8]) -> Result<(), GpuError> {
        for block in [&mut self.host, &mut self.pages]
            .into_iter()
            .flat_map(|b| &mut b.blocks)
        {
            for p in pieces(&(0..block.len()), nan.len()) {
                block.write(gpu, p.ahead, &nan[..p.bytes.len()])?;
            }
        }
        Ok(())
    }

    fn blocks(&self, home: Home) -> &Blocks {
        match home {
            Home::Host => &self.host,
            Home::Pages => &self.pages,
        }
    }

    fn blocks_mut(&mut self, home: Home) -> &mut Blocks {
        match home {
            Home::Host => &mut self.host,
            Home::Pages => &mut self.pages,
        }
    }
}

/// One range of bytes in blocks of `page`; only the last is smaller.
#[derive(Debug)]
struct Blocks {
    blocks: Vec<Block>,
    page: usize,
}

/// Some bytes of a range, all in one block.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    block: usize,
    /// The bytes of the block.
    bytes: Range<usize>,
    /// How far they are from the range's start.
    ahead: usize,
}

/// A range cut where blocks of `page` bytes end.
fn pieces(range: &Range<usize>, page: usize) -> impl Iterator<Item = Piece> + use<> {
    let Range { start, end } = *range;
    (start / page..end.div_ceil(page)).map(move |block| {
        let first = block * page;
        let (from, to) = (start.max(first), end.min(first + page));
        Piece {
            block,
            bytes: from - first..to - first,
            ahead: from - start,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_where_blocks_end() {
        let cut = |start, end| pieces(&(start..end), 100).collect::<Vec<_>>();
        let piece = |block, bytes, ahead| Piece {
            block,
            bytes,
            ahead,
        };
        assert_eq!(cut(0, 100), [piece(0, 0..100, 0)]);
        assert_eq!(cut(50, 60), [piece(0, 50..60, 0)]);
        let three = [
            piece(0, 50..100, 0),
            piece(1, 0..100, 50),
            piece(2, 0..50, 150),
        ];
        assert_eq!(cut(50, 250), three);
        assert_eq!(cut(100, 101), [piece(1, 0..1, 0)]);
        assert!(cut(0, 0).is_empty());
    }
}
