//! Tiles that were measured best on the owner's device (`nino tune`), in place of the ones that the
//! tables for its architecture give.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::ops::attention::AttentionTile;
use crate::ops::gemm::{Conv3Tile, CoopTile, PlainTile};
use crate::{AdapterInfo, Caps};

/// Kernels whose tiles are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TiledKernel {
    /// Products without matrix units.
    Plain,
    /// Products on matrix units.
    Coop,
    /// 3x3 convolutions on matrix units.
    Conv3,
    /// Attention on matrix units.
    Attention,
}

/// Problems that get the same tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Problem {
    pub kernel: TiledKernel,
    /// Rows (of a convolution: pixels) up to the next power of two, since plans cut by rows. Then a
    /// product's columns and depth, a convolution's channels out and in, or attention's keys up to
    /// the next power of two and columns of a head.
    pub size: [u32; 3],
}

impl TiledKernel {
    const ALL: [TiledKernel; 4] = [
        TiledKernel::Plain,
        TiledKernel::Coop,
        TiledKernel::Conv3,
        TiledKernel::Attention,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            TiledKernel::Plain => "product",
            TiledKernel::Coop => "matrix-product",
            TiledKernel::Conv3 => "convolution",
            TiledKernel::Attention => "attention",
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [rows, second, third] = self.size;
        write!(f, "{} {rows}x{second}x{third}", self.kernel.name())
    }
}

/// The numbers of a tile, in the order of its fields.
pub type Numbers = [u32; 8];

/// A kind of tile as numbers.
pub(crate) trait Tile: Copy {
    fn numbers(self) -> Numbers;
    fn from_numbers(numbers: Numbers) -> Self;
}

impl Tile for PlainTile {
    fn numbers(self) -> Numbers {
        [self.bm, self.bn, self.bk, self.um, self.un, 0, 0, 0]
    }

    fn from_numbers([bm, bn, bk, um, un, ..]: Numbers) -> PlainTile {
        PlainTile { bm, bn, bk, um, un }
    }
}

impl Tile for CoopTile {
    fn numbers(self) -> Numbers {
        let swap = u32::from(self.swap);
        let CoopTile { bm, bn, bk, .. } = self;
        // The last was once another choice; files that were kept have it.
        [bm, bn, bk, self.wm, self.wn, self.pad, swap, 1]
    }

    fn from_numbers([bm, bn, bk, wm, wn, pad, swap, _]: Numbers) -> CoopTile {
        CoopTile {
            bm,
            bn,
            bk,
            wm,
            wn,
            pad,
            swap: swap == 1,
        }
    }
}

impl Tile for Conv3Tile {
    fn numbers(self) -> Numbers {
        let packed = u32::from(self.packed);
        let Conv3Tile { ty, tx, bn, bk, .. } = self;
        [ty, tx, bn, bk, self.wm, self.wn, self.taps, packed]
    }

    fn from_numbers([ty, tx, bn, bk, wm, wn, taps, packed]: Numbers) -> Conv3Tile {
        Conv3Tile {
            ty,
            tx,
            bn,
            bk,
            wm,
            wn,
            taps,
            packed: packed == 1,
        }
    }
}

impl Tile for AttentionTile {
    fn numbers(self) -> Numbers {
        let flags = [self.by_columns, self.queries_shared].map(u32::from);
        [self.bq, self.bkv, self.wq, flags[0], flags[1], 0, 0, 0]
    }

    fn from_numbers([bq, bkv, wq, by_columns, queries_shared, ..]: Numbers) -> AttentionTile {
        AttentionTile {
            bq,
            bkv,
            wq,
            by_columns: by_columns == 1,
            queries_shared: queries_shared == 1,
        }
    }
}

/// The tiles that are worth a try on some device: those that the tables choose for any
/// architecture, by measurement or by a compiler's numbers. No other tile is ever taken from a
/// file.
pub(crate) fn candidates(kernel: TiledKernel, caps: &Caps) -> Vec<Numbers> {
    let small = caps.coop_size == Some(8);
    match kernel {
        TiledKernel::Plain => [
            [128, 128, 16, 2, 2],
            [128, 128, 8, 2, 2],
            [64, 64, 16, 1, 1],
            [32, 32, 16, 1, 1],
        ]
        .map(|[bm, bn, bk, um, un]| [bm, bn, bk, um, un, 0, 0, 0])
        .to_vec(),
        TiledKernel::Coop if small => {
            vec![[32, 32, 16, 16, 16, 2, 0, 1], [32, 64, 32, 32, 16, 2, 0, 1]]
        }
        TiledKernel::Coop => [
            [128, 128, 64, 64, 32],
            [128, 128, 32, 64, 32],
            [128, 64, 64, 64, 32],
            [64, 64, 32, 32, 32],
            [32, 64, 64, 16, 32],
            [32, 32, 128, 16, 16],
            [32, 32, 64, 16, 16],
        ]
        .map(|[bm, bn, bk, wm, wn]| [bm, bn, bk, wm, wn, 2, 0, 1])
        .to_vec(),
        TiledKernel::Conv3 if small => vec![[4, 8, 16, 8, 16, 16, 3, 0]],
        TiledKernel::Conv3 => vec![
            [16, 16, 128, 16, 64, 64, 3, 0],
            [8, 16, 128, 16, 32, 64, 3, 0],
            [8, 16, 64, 16, 64, 32, 3, 0],
            [8, 16, 64, 16, 32, 32, 3, 0],
            [8, 16, 32, 16, 32, 32, 3, 0],
            [8, 16, 64, 16, 64, 32, 9, 0],
            [8, 16, 16, 16, 32, 16, 9, 0],
        ],
        TiledKernel::Attention if small => {
            vec![[32, 16, 8, 0, 0, 0, 0, 0], [16, 16, 8, 0, 0, 0, 0, 0]]
        }
        TiledKernel::Attention => [
            [128, 16, 32, 0, 0],
            [128, 32, 16, 0, 0],
            [64, 32, 16, 0, 0],
            [128, 32, 16, 1, 0],
            [64, 32, 16, 1, 1],
            [64, 16, 16, 1, 1],
        ]
        .map(|[bq, bkv, wq, columns, shared]| [bq, bkv, wq, columns, shared, 0, 0, 0])
        .to_vec(),
    }
}

/// The measured tiles of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices(BTreeMap<Problem, Numbers>);

impl Choices {
    pub fn set(&mut self, problem: Problem, tile: Numbers) {
        self.0.insert(problem, tile);
    }

    /// The usual tile is best.
    pub fn clear(&mut self, problem: Problem) {
        self.0.remove(&problem);
    }

    pub fn get(&self, problem: Problem) -> Option<Numbers> {
        self.0.get(&problem).copied()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The file that keeps an adapter's choices in a folder.
    fn path(folder: &Path, info: &AdapterInfo) -> PathBuf {
        folder.join(format!("tiles_{:x}_{:x}", info.vendor_id, info.device_id))
    }

    /// What was kept for this adapter with this driver and this build; nothing where there is no
    /// such file, or it is another's.
    pub fn read(folder: &Path, info: &AdapterInfo) -> Option<Choices> {
        /// A line is a hundred bytes at most.
        const MOST_BYTES: u64 = 1 << 20;
        let bytes = nino_files::read_own(&Choices::path(folder, info), MOST_BYTES)?;
        let text = String::from_utf8(bytes).ok()?;
        let (head, lines) = text.split_once('\n')?;
        (head == heading(info)).then(|| Choices(lines.lines().filter_map(parse).collect()))
    }

    /// Keeps the choices for the next time.
    pub fn keep(&self, folder: &Path, info: &AdapterInfo) {
        let mut text = heading(info) + "\n";
        for (problem, tile) in &self.0 {
            let [a, b, c] = problem.size;
            let tile = tile.map(|n| n.to_string()).join(" ");
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} {a} {b} {c} {tile}", problem.kernel.name());
        }
        crate::pipeline::replace(&Choices::path(folder, info), text.as_bytes());
    }
}

/// Another driver, or another build of ours, is measured anew.
fn heading(info: &AdapterInfo) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("{version} {} {}", info.driver, info.driver_info).replace('\n', " ")
}

fn parse(line: &str) -> Option<(Problem, Numbers)> {
    let (name, numbers) = line.split_once(' ')?;
    let kernel = TiledKernel::ALL.into_iter().find(|k| k.name() == name)?;
    let numbers: Vec<u32> = numbers
        .split(' ')
        .map(|n| n.parse().ok())
        .collect::<Option<_>>()?;
    let (size, tile) = numbers.split_first_chunk::<3>()?;
    let size = *size;
    Some((Problem { kernel, size }, tile.try_into().ok()?))
}

/// Where tiles are looked up.
#[derive(Clone, Debug, Default)]
pub struct Tiles {
    /// Those measured on the device.
    pub(crate) choices: Option<Arc<Choices>>,
    /// Where problems are noted whose tiles are asked for.
    pub(crate) asked: Option<Arc<Mutex<BTreeSet<Problem>>>>,
}

impl Tiles {
    /// What was measured on the device, if anything was.
    pub fn choices(&self) -> Option<&Choices> {
        self.choices.as_deref()
    }
}

impl Caps {
    /// The tile of a problem: as measured on this device, else the usual one.
    pub(crate) fn tile<T: Tile>(&self, problem: Problem, usual: T) -> T {
        if let Some(asked) = &self.tiles.asked {
            let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.insert(problem);
        }
        let measured = self.tiles.choices().and_then(|c| c.get(problem));
        let known = |tile: &Numbers| candidates(problem.kernel, self).contains(tile);
        measured.filter(known).map_or(usual, T::from_numbers)
    }
}

#[cfg(test)]
mod tests;
