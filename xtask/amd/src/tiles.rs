//! Candidates for the tiles of products, convolutions and attention, compiled and ranked by their
//! predicted time on a family's first card: what `Caps`' choices are made from.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use nino_dtype::DType;
use nino_gpu::ops::act::ActCode;
use nino_gpu::ops::attention::{Attention, AttentionTile};
use nino_gpu::ops::gemm::{Conv3Tile, ConvShape, CoopTile, Gemm, Int8Tile, PlainTile};
use nino_gpu::{Caps, GpuError, Launch, Tier, View};

use crate::chip::Chip;
use crate::isa::Code;
use crate::predict::{Shot, Work};
use crate::radv::Radv;

/// A product as networks have it: rows, columns, depth; or a convolution, or attention.
#[derive(Clone, Copy, Debug)]
enum Scene {
    Product([u32; 3]),
    /// The same with weights in `Q8_0`.
    Bytes([u32; 3]),
    /// Side of the picture, channels in and out.
    Conv([u32; 3]),
    /// Tokens, heads and their size.
    Attention([u32; 3]),
}

const SCENES: [(&str, Scene); 18] = [
    ("sdxl 8192x640x640", Scene::Product([8192, 640, 640])),
    ("sdxl 8192x5120x640", Scene::Product([8192, 5120, 640])),
    ("sdxl 2048x1280x1280", Scene::Product([2048, 1280, 1280])),
    ("sdxl 2048x10240x1280", Scene::Product([2048, 10_240, 1280])),
    ("flux 4608x12288x3072", Scene::Product([4608, 12_288, 3072])),
    ("sd15 512x1280x1280", Scene::Product([512, 1280, 1280])),
    ("int8 4608x12288x3072", Scene::Bytes([4608, 12_288, 3072])),
    ("int8 2048x1280x1280", Scene::Bytes([2048, 1280, 1280])),
    ("conv 128 320", Scene::Conv([128, 320, 320])),
    ("conv 64 640", Scene::Conv([64, 640, 640])),
    ("conv 32 1280", Scene::Conv([32, 1280, 1280])),
    ("vae conv 512 128", Scene::Conv([512, 128, 128])),
    ("vae conv 256 256", Scene::Conv([256, 256, 256])),
    ("sd15 attention 40", Scene::Attention([4096, 16, 40])),
    ("sdxl attention 64", Scene::Attention([4096, 20, 64])),
    ("flux attention 128", Scene::Attention([4608, 24, 128])),
    ("sd15 attention 160", Scene::Attention([256, 16, 160])),
    ("vae attention 512", Scene::Attention([4096, 1, 512])),
];

/// The table of candidates as text, for scenes whose name contains `wanted`.
pub fn rank(family: &str, wanted: &str) -> Result<String> {
    let chip = Chip::named(family).with_context(|| format!("no constants for {family}"))?;
    let card = chip.cards().next().context("no card")?;
    let radv = Radv::open(family)?;
    let mut text = String::new();
    for (name, scene) in SCENES.iter().filter(|(name, _)| name.contains(wanted)) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{name} on {}", card.name);
        let mut lines = Vec::new();
        for (tile, launch) in candidates(*scene, &radv.caps) {
            let launch = launch?;
            let key = launch.shader().context("a shader")?;
            let (stats, assembly) = match radv.compile(key) {
                Ok(made) => made,
                Err(e) => {
                    lines.push((f64::MAX, format!("{tile}: {e:#}")));
                    continue;
                }
            };
            let (vgprs, lds) = (stats.vgprs as u32, stats.lds as u32);
            let fits = chip.occupancy(vgprs, lds, stats.lanes, stats.group_lanes);
            let work = Work::new(key, &Code::parse(&assembly), &chip, stats.lanes);
            let shot = Shot {
                key,
                params: &launch.params,
                groups: launch.groups,
                bytes: scene.bytes(),
            };
            let seconds = work.seconds(&shot, &chip, &card, fits);
            lines.push((
                seconds,
                format!(
                    "{:8.3} ms {:6.1} TFLOP/s vgprs {vgprs:3} lds {lds:5} waves {:2} groups {:2} \
                     spills {:3} busy {:3.0}%  {tile}",
                    seconds * 1e3,
                    scene.flops() / seconds * 1e-12,
                    fits.waves,
                    fits.groups,
                    stats.spilled_vgprs,
                    100.0 * work.product_share
                ),
            ));
        }
        lines.sort_by(|a, b| a.0.total_cmp(&b.0));
        lines.iter().for_each(|(_, line)| {
            text += line;
            text += "\n";
        });
    }
    Ok(text)
}

impl Scene {
    fn flops(self) -> f64 {
        match self {
            Scene::Product(sizes) | Scene::Bytes(sizes) => 2.0 * product(&sizes),
            Scene::Conv([side, c, n]) => 18.0 * product(&[side, side, c, n]),
            Scene::Attention([tokens, heads, hd]) => 4.0 * product(&[tokens, tokens, heads, hd]),
        }
    }

    /// Each operand once.
    fn bytes(self) -> f64 {
        2.0 * match self {
            Scene::Product([m, n, k]) => product(&[m, k]) + product(&[n, k]) + product(&[m, n]),
            Scene::Bytes([m, n, k]) => {
                0.53 * (product(&[m, k]) + product(&[n, k])) + product(&[m, n])
            }
            Scene::Conv([side, c, n]) => product(&[side, side, c + n]) + product(&[9, c, n]),
            Scene::Attention([tokens, heads, hd]) => 4.0 * product(&[tokens, heads, hd]),
        }
    }
}

fn product(sizes: &[u32]) -> f64 {
    sizes.iter().map(|&s| f64::from(s)).product()
}

fn view(dtype: DType) -> View<'static> {
    View {
        buffer: None,
        offset: 0,
        bytes: 0,
        dtype,
        first: 0,
    }
}

type Candidate = (String, Result<Launch<'static>, GpuError>);

fn candidates(scene: Scene, caps: &Caps) -> Vec<Candidate> {
    let coop = caps.tier >= Tier::Coop;
    match scene {
        Scene::Product([m, n, k]) => {
            let gemm = gemm([m, n, k], None);
            if coop {
                let made = |t: CoopTile| (format!("{t:?}"), gemm.coop(caps, t));
                return coop_tiles().into_iter().map(made).collect();
            }
            let made = |t: PlainTile| (format!("{t:?}"), gemm.plain(caps, t));
            plain_tiles().into_iter().map(made).collect()
        }
        Scene::Bytes(sizes) => {
            let bytes = Gemm {
                x: view(DType::I8),
                w: view(DType::Q8_0),
                ..gemm(sizes, None)
            };
            let made = |t: Int8Tile| (format!("{t:?}"), bytes.int8(caps, t, view(DType::F32)));
            let halves = |t: PlainTile| (format!("f32: {t:?}"), gemm(sizes, None).plain(caps, t));
            let plain = plain_tiles().into_iter().map(halves);
            int8_tiles().into_iter().map(made).chain(plain).collect()
        }
        Scene::Conv([side, c, n]) => {
            let shape = ConvShape {
                input: [1, side, side],
                c,
                output: [1, side, side],
                kernel: [1, 3, 3],
                stride: [1; 3],
                dilation: [1; 3],
                pad: [0, 1, 1],
                upsample: 1,
            };
            let gemm = gemm([side * side, n, 9 * c], Some(shape));
            if coop {
                let whole = |t: Conv3Tile| gemm.conv3(caps, t, [0, 1], (0, side));
                let made = |t: Conv3Tile| (format!("{t:?}"), whole(t));
                let tiles = conv3_tiles().into_iter().map(made);
                // Winograd's is among no tiles.
                let chosen = gemm.best_conv(caps, &(0..side)).unwrap_or_default();
                let chosen = chosen.into_iter().map(|l| ("as chosen".to_owned(), Ok(l)));
                return tiles.chain(chosen).collect();
            }
            let made = |t: PlainTile| (format!("{t:?}"), gemm.plain(caps, t));
            plain_tiles().into_iter().map(made).collect()
        }
        Scene::Attention([tokens, heads, hd]) => {
            let op = attention(tokens, heads, hd);
            if !coop {
                return vec![
                    ("plain".to_owned(), op.plain(caps)),
                    ("block".to_owned(), op.block(caps)),
                ];
            }
            if hd > 160 {
                return vec![
                    ("wide".to_owned(), op.wide(caps)),
                    ("block".to_owned(), op.block(caps)),
                ];
            }
            let made = |t: AttentionTile| (format!("{t:?}"), op.coop(caps, t));
            attention_tiles().into_iter().map(made).collect()
        }
    }
}

fn gemm([m, n, k]: [u32; 3], conv: Option<ConvShape>) -> Gemm<'static> {
    Gemm {
        m,
        n,
        k,
        batch: 1,
        first: 0,
        w_first: 0,
        x: view(DType::F16),
        w: view(DType::F16),
        out: view(DType::F16),
        scale: None,
        factor: None,

        bias: Some(view(DType::F32)),
        beside: None,
        prologue: None,
        act: ActCode::default(),
        post: ActCode::default(),
        halves: None,
        gate: None,
        alpha: 1.0,
        w_kn: false,
        w_packed: conv.is_some(),
        conv,
    }
}

fn attention(tokens: u32, heads: u32, hd: u32) -> Attention<'static> {
    Attention {
        batch_idx: 0,
        batch: 1,
        rows: tokens,
        first: 0,
        n: tokens,
        m: tokens,
        first_key: 0,
        all_keys: tokens,
        heads,
        hd,
        q: view(DType::F16),
        k: view(DType::F16),
        v: view(DType::F16),
        out: view(DType::F16),
        mask: None,
        scale: 1.0,
        log: None,
        factors: None,
    }
}

fn coop_tiles() -> Vec<CoopTile> {
    let shapes = [
        (128, 128, 64, 64, 32),
        (128, 128, 32, 64, 32),
        (128, 128, 32, 32, 64),
        (128, 128, 32, 64, 64),
        (128, 128, 16, 64, 32),
        (128, 64, 64, 64, 32),
        (128, 64, 32, 64, 32),
        (128, 64, 32, 32, 32),
        (64, 128, 32, 32, 64),
        (64, 64, 64, 32, 32),
        (64, 64, 32, 32, 32),
        (64, 64, 32, 32, 64),
        (32, 64, 64, 16, 32),
        (32, 64, 32, 16, 32),
        (32, 32, 128, 16, 16),
        (32, 32, 64, 16, 16),
    ];
    let made = |(bm, bn, bk, wm, wn)| CoopTile {
        bm,
        bn,
        bk,
        wm,
        wn,
        pad: 2,
        swap: false,
    };
    shapes.into_iter().map(made).collect()
}

fn conv3_tiles() -> Vec<Conv3Tile> {
    let shapes = [
        (16, 16, 128, 16, 64, 64, 3),
        (16, 16, 64, 16, 64, 32, 3),
        (16, 16, 64, 16, 64, 64, 3),
        (8, 16, 128, 16, 64, 32, 3),
        (8, 16, 128, 16, 32, 64, 3),
        (8, 16, 64, 16, 64, 32, 3),
        (8, 16, 64, 16, 32, 32, 3),
        (8, 16, 64, 16, 32, 64, 3),
        (8, 16, 64, 16, 64, 32, 1),
        (8, 16, 64, 16, 64, 32, 9),
        (8, 16, 64, 16, 32, 32, 9),
        (8, 16, 32, 16, 32, 32, 3),
        (8, 16, 32, 16, 32, 32, 9),
        (8, 16, 32, 16, 64, 16, 9),
        (8, 16, 16, 16, 32, 16, 9),
        (8, 16, 16, 16, 32, 16, 3),
    ];
    let made = |(ty, tx, bn, bk, wm, wn, taps)| Conv3Tile {
        ty,
        tx,
        bn,
        bk,
        wm,
        wn,
        taps,
        packed: true,
    };
    shapes.into_iter().map(made).collect()
}

fn plain_tiles() -> Vec<PlainTile> {
    let shapes = [
        (128, 128, 16, 2, 2),
        (128, 128, 8, 2, 2),
        (64, 128, 16, 1, 2),
        (128, 64, 16, 2, 1),
        (64, 64, 16, 1, 1),
        (64, 64, 16, 2, 2),
        (64, 64, 32, 2, 2),
        (64, 64, 16, 2, 1),
        (64, 64, 8, 2, 2),
        (32, 64, 16, 1, 2),
        (32, 32, 16, 1, 1),
    ];
    let made = |(bm, bn, bk, um, un)| PlainTile { bm, bn, bk, um, un };
    shapes.into_iter().map(made).collect()
}

fn int8_tiles() -> Vec<Int8Tile> {
    let shapes = [
        (128, 128, 2, 2),
        (64, 64, 2, 2),
        (64, 64, 1, 2),
        (64, 64, 2, 1),
        (32, 32, 1, 1),
    ];
    let made = |(bm, bn, um, un)| Int8Tile { bm, bn, um, un };
    shapes.into_iter().map(made).collect()
}

fn attention_tiles() -> Vec<AttentionTile> {
    let shapes = [
        (128, 32, 16),
        (64, 32, 16),
        (128, 16, 32),
        (64, 16, 32),
        (64, 16, 16),
        (64, 64, 16),
    ];
    let mut tiles = Vec::new();
    for (bq, bkv, wq) in shapes {
        for (by_columns, queries_shared) in [(false, false), (true, false), (true, true)] {
            tiles.push(AttentionTile {
                bq,
                bkv,
                wq,
                by_columns,
                queries_shared,
            });
        }
    }
    tiles
}
