//! Problems to time: their buffers, samples of the right answer, and a job for each kernel shape.

use half::f16;
use nino_dtype::DType;
use nino_gpu::ops::act::ActCode;
use nino_gpu::ops::attention::Attention;
use nino_gpu::ops::gemm::{ConvShape, Gemm, PlainTile};
use nino_gpu::{Gpu, GpuError, Launch, View};

use super::Job;
use super::reference::{reference, values};
use super::tiles::{attention_tiles, conv3_tiles, coop_tiles, pack, packings, plain_tiles};

/// Buffers and expected samples of one problem.
pub(crate) struct Scene {
    name: String,
    kind: Kind,
    buffers: Vec<wgpu::Buffer>,
    samples: Vec<(u64, f32)>,
    /// Tiles to try; those measured best before where none are given.
    tiles: Vec<Vec<u32>>,
}

pub(crate) enum Kind {
    Product {
        m: u32,
        n: u32,
        k: u32,
        conv: Option<ConvShape>,
    },
    Attention {
        heads: u32,
        n: u32,
        hd: u32,
    },
}

pub(crate) fn scenes(gpu: &Gpu, small: bool, filter: &str) -> Vec<Scene> {
    let mut kinds = Vec::new();
    let mut conv = |c: u32, n: u32, side: u32| {
        kinds.push((format!("conv {c}@{side}"), Kind::conv(c, n, side)));
    };
    if small {
        conv(24, 40, 9);
    } else {
        conv(512, 512, 128);
        conv(256, 256, 512);
        conv(128, 128, 512);
    }
    let attentions: &[(u32, u32, u32)] = if small {
        &[(2, 37, 24)]
    } else {
        &[(24, 4608, 128), (8, 4096, 40)]
    };
    for &(heads, n, hd) in attentions {
        kinds.push((
            format!("attention {heads},{n},{hd}"),
            Kind::Attention { heads, n, hd },
        ));
    }
    let (m, n, k) = if small {
        (70, 72, 104)
    } else {
        (4096, 4096, 4096)
    };
    kinds.push((
        format!("matmul {m}x{n}x{k}"),
        Kind::Product {
            m,
            n,
            k,
            conv: None,
        },
    ));
    kinds.retain(|(name, _)| name.contains(filter));
    kinds
        .into_iter()
        .map(|(name, kind)| Scene::new(gpu, name, kind))
        .collect()
}

impl Kind {
    fn conv(c: u32, n: u32, side: u32) -> Kind {
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
        Kind::Product {
            m: side * side,
            n,
            k: c * 9,
            conv: Some(shape),
        }
    }
}

impl Scene {
    pub(crate) fn parse(gpu: &Gpu, word: &str) -> Scene {
        let mut parts = word.split(':');
        let (name, sizes) = (parts.next().unwrap(), parts.next().unwrap());
        let numbers =
            |text: &str| -> Vec<u32> { text.split(',').map(|n| n.parse().unwrap()).collect() };
        let size = numbers(sizes);
        let kind = match name {
            "gemm" => Kind::Product {
                m: size[0],
                n: size[1],
                k: size[2],
                conv: None,
            },
            "conv" => Kind::conv(size[0], size[1], size[2]),
            _ => Kind::Attention {
                heads: size[0],
                n: size[1],
                hd: size[2],
            },
        };
        let tiles = match parts.next() {
            Some("wide") => vec![vec![]],
            Some(tiles) => tiles.split('/').map(numbers).collect(),
            None => Vec::new(),
        };
        let scene = Scene::new(gpu, format!("{name} {sizes}"), kind);
        Scene { tiles, ..scene }
    }

    fn new(gpu: &Gpu, name: String, kind: Kind) -> Scene {
        let (sizes, out) = match &kind {
            Kind::Product { m, n, k, conv } => {
                let x = conv.map_or(m * k, |c| c.input.iter().product::<u32>() * c.c);
                (vec![x, n * k, *n], m * n)
            }
            Kind::Attention { heads, n, hd } => (vec![heads * n * hd; 3], heads * n * hd),
        };
        let inputs: Vec<Vec<f16>> = sizes
            .iter()
            .enumerate()
            .map(|(i, &len)| values(len as usize, i as u32 + 1))
            .collect();
        let upload = |v: &Vec<f16>| {
            let buffer = gpu.buffer("tune", v.len() as u64 * 2).unwrap();
            gpu.write(&buffer, 0, bytemuck::cast_slice(v)).unwrap();
            buffer
        };
        let mut buffers: Vec<wgpu::Buffer> = inputs.iter().map(upload).collect();
        if let Kind::Product {
            n, conv: Some(c), ..
        } = &kind
        {
            for bk in packings(c.c) {
                buffers.push(upload(&pack(&inputs[1], *n, c.c, bk)));
            }
        }
        buffers.push(gpu.buffer("tune", u64::from(out) * 2).unwrap());
        let samples = (0..24u32).map(|i| {
            let at = i.wrapping_mul(2_654_435_761) % out;
            (u64::from(at), reference(&kind, &inputs, at))
        });
        Scene {
            samples: samples.collect(),
            tiles: Vec::new(),
            name,
            kind,
            buffers,
        }
    }

    pub(crate) fn jobs<'s>(&'s self, gpu: &Gpu, small: bool) -> Vec<Job<'s>> {
        let view = |i: usize| View::whole(&self.buffers[i], DType::F16);
        let mut jobs = Vec::new();
        let mut add = |label: String, launch: Result<Launch<'s>, GpuError>, flops: f64| {
            let launch = launch.unwrap();
            let label = format!("{} {label}", self.name);
            let out = self.buffers.last().unwrap();
            jobs.push(Job {
                label,
                launch,
                out,
                samples: &self.samples,
                flops,
            });
        };
        match self.kind {
            Kind::Product { m, n, k, conv } => {
                let gemm = Gemm {
                    m,
                    n,
                    k,
                    batch: 1,
                    first: 0,
                    w_first: 0,
                    x: view(0),
                    w: view(1),
                    out: View::whole(self.buffers.last().unwrap(), DType::F16),
                    scale: None,
                    factor: None,

                    bias: Some(view(2)),
                    beside: None,
                    prologue: None,
                    act: ActCode::default(),
                    post: ActCode::default(),
                    halves: None,
                    gate: None,
                    alpha: 1.0,
                    w_kn: false,
                    w_packed: false,
                    conv,
                };
                let flops = 2.0 * f64::from(m) * f64::from(n) * f64::from(k);
                if let Some(c) = conv {
                    for t in conv3_tiles(small, c.c, &self.tiles) {
                        let mut gemm = gemm.clone();
                        if t.packed {
                            let at = packings(c.c).iter().position(|bk| *bk == t.bk).unwrap();
                            gemm.w = view(3 + at);
                        }
                        let label = format!(
                            "conv3 {}x{}x{} k{} sub {}x{} taps {} packed {}",
                            t.ty,
                            t.tx,
                            t.bn,
                            t.bk,
                            t.wm,
                            t.wn,
                            t.taps,
                            u8::from(t.packed)
                        );
                        add(
                            label,
                            gemm.conv3(&gpu.caps, t, [0, 1], (0, c.output[1])),
                            flops,
                        );
                    }
                }
                for t in coop_tiles(small, conv.is_some(), &self.tiles) {
                    let label = format!("coop {}x{}x{} sub {}x{}", t.bm, t.bn, t.bk, t.wm, t.wn);
                    add(label, gemm.coop(&gpu.caps, t), flops);
                }
                let plain = if self.tiles.is_empty() {
                    plain_tiles(small)
                } else {
                    Vec::new()
                };
                for (bm, bn, bk, um, un) in plain {
                    let tile = PlainTile { bm, bn, bk, um, un };
                    add(
                        format!("plain {bm}x{bn}x{bk}"),
                        gemm.plain(&gpu.caps, tile),
                        flops,
                    );
                }
            }
            Kind::Attention { heads, n, hd } => {
                let op = Attention {
                    batch_idx: 0,
                    batch: 1,
                    rows: n,
                    first: 0,
                    n,
                    m: n,
                    first_key: 0,
                    all_keys: n,
                    heads,
                    hd,
                    q: view(0),
                    k: view(1),
                    v: view(2),
                    out: view(3),
                    mask: None,
                    scale: 1.0,
                    log: None,
                    factors: None,
                };
                let flops = 4.0 * f64::from(heads) * f64::from(n).powi(2) * f64::from(hd);
                if self.tiles.first().is_some_and(Vec::is_empty) {
                    add("wide".to_owned(), op.wide(&gpu.caps), flops);
                    return jobs;
                }
                for t in attention_tiles(small, &self.tiles) {
                    let flags = [t.by_columns, t.queries_shared].map(u8::from);
                    let label = format!("coop {}x{} sub {} {flags:?}", t.bq, t.bkv, t.wq);
                    add(label, op.coop(&gpu.caps, t), flops);
                }
            }
        }
        jobs
    }
}
