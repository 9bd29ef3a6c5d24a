//! Every int8 kernel that this CPU has against plain arithmetic of the same blocks, bit by bit.

use super::{
    BLOCK, Int8Block, Int8Panel, PANEL, PANEL_BLOCK, block, exists, quantize, starts, unpack,
};
use crate::simd::Level;
use crate::testing::Random;
use half::f16;

const BLOCKS: usize = 5;
const K: usize = BLOCKS * BLOCK;

/// A panel with scales and bytes of every size, the extremes among them.
fn panel() -> Vec<u8> {
    let mut panel = vec![0; BLOCKS * PANEL_BLOCK];
    let values = Random::new(3).values(panel.len());
    for (i, stored) in panel.chunks_exact_mut(PANEL_BLOCK).enumerate() {
        let (scales, bytes) = stored.split_at_mut(2 * PANEL);
        for (j, scale) in scales.chunks_exact_mut(2).enumerate() {
            let value = f16::from_f32(values[i * PANEL + j].abs() * 0.1);
            scale.copy_from_slice(&value.to_le_bytes());
        }
        for (byte, value) in bytes.iter_mut().zip(&values) {
            *byte = ((value * 90.0) as i32).clamp(-128, 127) as i8 as u8;
        }
        bytes[i] = 0x80;
        bytes[i + 40] = 0x7f;
    }
    panel
}

fn weight(panel: &[u8], k: usize, column: usize) -> i32 {
    let at = 2 * PANEL + ((k % BLOCK) / 4 * PANEL + column) * 4 + k % 4;
    i32::from(panel[k / BLOCK * PANEL_BLOCK + at] as i8)
}

fn scale(panel: &[u8], block: usize, column: usize) -> f32 {
    let at = block * PANEL_BLOCK + 2 * column;
    f16::from_le_bytes([panel[at], panel[at + 1]]).to_f32()
}

/// The panel as it is multiplied: packed blocks where they lie, or words in shorter groups, each
/// with a scale of its own.
struct Operand {
    panel: Vec<u8>,
    words: Vec<u8>,
    scales: Vec<f32>,
    group: usize,
}

impl Operand {
    /// Blocks of 32 values.
    fn blocks(level: Level) -> Operand {
        let panel = panel();
        let mut scales = vec![0.0f32; BLOCKS * PANEL];
        // SAFETY: there are so many blocks and scales.
        unsafe { super::scales(level, panel.as_ptr(), BLOCKS, scales.as_mut_ptr()) };
        Operand {
            words: Vec::new(),
            scales,
            group: BLOCK,
            panel,
        }
    }

    /// Groups of 16 values.
    fn short_groups() -> Operand {
        let panel = panel();
        let words = |block: &[u8]| block[2 * PANEL..].to_vec();
        Operand {
            words: panel.chunks_exact(PANEL_BLOCK).flat_map(words).collect(),
            scales: Random::new(7).values(2 * BLOCKS * PANEL),
            group: 16,
            panel,
        }
    }

    fn as_panel(&self) -> Int8Panel {
        if self.words.is_empty() {
            // SAFETY: the panel has so many blocks.
            return unsafe { Int8Panel::of_q8(self.panel.as_ptr(), BLOCKS) };
        }
        Int8Panel {
            words: self.words.as_ptr(),
            stride: self.group * PANEL,
            group: self.group / 4,
            groups: K / self.group,
        }
    }
}

fn check(level: Level, operand: &Operand, rows: usize, accumulate: bool) {
    let x = Random::new(rows).values(rows * K);
    let (mut a, mut a_scales) = (vec![0u8; rows * K], vec![0.0f32; rows * BLOCKS]);
    let mut b_start = vec![0; operand.scales.len()];
    let mut c = vec![0.5f32; rows * PANEL];
    // SAFETY: the vectors have these sizes, and the CPU has the kernel.
    unsafe {
        for row in 0..rows {
            let (to, scales) = (a.as_mut_ptr(), a_scales.as_mut_ptr());
            let from = x.as_ptr().add(row * K);
            quantize(level, from, K, to.add(row * K), scales.add(row * BLOCKS));
        }
        let b = operand.as_panel();
        starts(level, &b, b_start.as_mut_ptr());
        let product = Int8Block {
            a: a.as_ptr(),
            a_scales: a_scales.as_ptr(),
            lda: K,
            b,
            b_scales: operand.scales.as_ptr(),
            b_start: b_start.as_ptr(),
            c: c.as_mut_ptr(),
            ldc: PANEL,
            rows,
            accumulate,
        };
        block(level, &product);
    }
    for row in 0..rows {
        let quantized = |b: usize| {
            let values = &x[row * K + b * BLOCK..][..BLOCK];
            let largest = values.iter().fold(0.0f32, |most, v| most.max(v.abs()));
            let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
            let rounded = |v: &f32| (v * inverse).round_ties_even() as i32;
            (
                largest / 127.0,
                values.iter().map(rounded).collect::<Vec<_>>(),
            )
        };
        for column in 0..PANEL {
            let mut wanted = if accumulate { 0.5 } else { 0.0 };
            for g in 0..K / operand.group {
                let first = g * operand.group;
                let (s, values) = quantized(first / BLOCK);
                let values = &values[first % BLOCK..][..operand.group];
                let products = values.iter().enumerate();
                let products = products.map(|(k, v)| v * weight(&operand.panel, first + k, column));
                let sum = products.sum::<i32>() as f32 * operand.scales[g * PANEL + column];
                wanted = sum.mul_add(s, wanted);
            }
            let found = c[row * PANEL + column];
            assert_eq!(
                found.to_bits(),
                f32::to_bits(wanted),
                "{level} {} {row} {column}",
                operand.group
            );
        }
    }
}

#[test]
fn every_kernel_gives_the_same_bits_as_plain_arithmetic() {
    let mut seen = 0;
    for level in Level::available()
        .into_iter()
        .filter(|&level| exists(level))
    {
        for operand in [Operand::blocks(level), Operand::short_groups()] {
            for rows in [1, 2, 3, 4, 5, 6, 7, 14] {
                check(level, &operand, rows, false);
                check(level, &operand, rows, true);
            }
        }
        seen += 1;
    }
    println!("{seen} levels have int8 products");
}

#[test]
fn every_kernel_decodes_a_panel() {
    let panel = panel();
    for level in Level::available()
        .into_iter()
        .filter(|&level| exists(level))
    {
        let mut found = vec![f32::NAN; K * PANEL];
        // SAFETY: there is room for all of the panel.
        unsafe { unpack(level, &panel, K, 0, 0, K, found.as_mut_ptr()) };
        for (at, found) in found.iter().enumerate() {
            let (k, column) = (at / PANEL, at % PANEL);
            let wanted = weight(&panel, k, column) as f32 * scale(&panel, k / BLOCK, column);
            assert_eq!(found.to_bits(), wanted.to_bits(), "{level} {k} {column}");
        }
    }
}
