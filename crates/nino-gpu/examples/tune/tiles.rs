//! Kernel shapes to try where none are given: those measured best before.

use half::f16;
use nino_gpu::ops::attention::AttentionTile;
use nino_gpu::ops::gemm::{Conv3Tile, CoopTile};

pub(crate) fn conv3_tiles(small: bool, c: u32, given: &[Vec<u32>]) -> Vec<Conv3Tile> {
    let tile = |ty, tx, bn, bk, wm, wn, taps, packed| Conv3Tile {
        ty,
        tx,
        bn,
        bk,
        wm,
        wn,
        taps,
        packed,
    };
    if !given.is_empty() {
        let made = |t: &Vec<u32>| tile(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7] == 1);
        return given.iter().map(made).collect();
    }
    if small {
        return vec![
            tile(4, 8, 16, 8, 16, 16, 3, false),
            tile(4, 8, 16, 8, 16, 16, 3, true),
        ];
    }
    let mut tiles = vec![
        tile(16, 16, 128, 16, 64, 64, 3, false),
        tile(16, 16, 128, 16, 64, 64, 3, true),
    ];
    if c == 512 {
        tiles.push(tile(8, 16, 128, 32, 64, 32, 1, true));
        tiles.push(tile(16, 16, 128, 32, 64, 64, 1, true));
    }
    tiles
}

/// Channel blocks the weights are packed by, for the tiles that want it.
pub(crate) fn packings(c: u32) -> Vec<u32> {
    [8, 16, 32]
        .into_iter()
        .filter(|bk| c.is_multiple_of(*bk))
        .collect()
}

/// `[cout, tap, cin]` to `[cin / bk, tap, cout, bk]`.
pub(crate) fn pack(w: &[f16], n: u32, c: u32, bk: u32) -> Vec<f16> {
    let mut packed = Vec::with_capacity(w.len());
    for block in 0..c / bk {
        for tap in 0..9 {
            for row in 0..n {
                let at = ((row * 9 + tap) * c + block * bk) as usize;
                packed.extend(&w[at..at + bk as usize]);
            }
        }
    }
    packed
}

pub(crate) fn coop_tiles(small: bool, conv: bool, given: &[Vec<u32>]) -> Vec<CoopTile> {
    let (pad, swap) = (2, false);
    let tile = |bm, bn, bk, wm, wn| CoopTile {
        bm,
        bn,
        bk,
        wm,
        wn,
        pad,
        swap,
    };
    if !given.is_empty() && !conv {
        let given = given.iter();
        return given.map(|t| tile(t[0], t[1], t[2], t[3], t[4])).collect();
    }
    match (small, conv) {
        (true, _) => vec![tile(32, 32, 16, 16, 16), tile(32, 64, 32, 32, 16)],
        (false, true) => Vec::new(),
        (false, false) => vec![tile(128, 128, 32, 64, 32), tile(256, 128, 32, 64, 64)],
    }
}

pub(crate) fn plain_tiles(small: bool) -> Vec<(u32, u32, u32, u32, u32)> {
    if small {
        return vec![(32, 32, 16, 1, 1), (64, 32, 16, 2, 2)];
    }
    vec![(128, 128, 16, 2, 2)]
}

pub(crate) fn attention_tiles(small: bool, given: &[Vec<u32>]) -> Vec<AttentionTile> {
    let made = |bq, bkv, wq, by_columns, queries_shared| AttentionTile {
        bq,
        bkv,
        wq,
        by_columns,
        queries_shared,
    };
    let tile = |bq, bkv, wq| made(bq, bkv, wq, false, false);
    if !given.is_empty() {
        let flag = |t: &Vec<u32>, i: usize| t.get(i) == Some(&1);
        let made = |t: &Vec<u32>| made(t[0], t[1], t[2], flag(t, 3), flag(t, 4));
        return given.iter().map(made).collect();
    }
    if small {
        return vec![tile(32, 16, 8), tile(16, 16, 8)];
    }
    vec![tile(128, 32, 16), tile(64, 32, 16)]
}
