//! The rows of the bench, and the latents they decode.

use crate::args::BenchDecodeArgs;
use crate::env::Env;
use crate::failure::Usage;
use crate::plural::count;
use anyhow::Result;
use nino_engine::{EngineError, Latent, ModelKind, Precision, VaeFile};
use std::path::Path;
use std::sync::Arc;

/// How much of the memory that a whole decode wants it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Whole,
    /// A quarter of the activations.
    Quarter,
}

/// One row: sizes in pixels and frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) batch: usize,
    pub(super) width: usize,
    pub(super) height: usize,
    /// `None`: pictures.
    pub(super) frames: Option<usize>,
    /// `None`: what the command line says.
    pub(super) precision: Option<Precision>,
    pub(super) memory: Memory,
    /// Latent frames at a time; `None`: as many as the plan likes.
    pub(super) chunk: Option<usize>,
}

const fn picture(batch: usize, side: usize) -> Case {
    Case {
        batch,
        width: side,
        height: side,
        frames: None,
        precision: None,
        memory: Memory::Whole,
        chunk: None,
    }
}

const fn clip(batch: usize, width: usize, height: usize, frames: usize) -> Case {
    Case {
        width,
        height,
        frames: Some(frames),
        ..picture(batch, 0)
    }
}

pub(super) const CASES: &[Case] = &[
    picture(1, 256),
    picture(1, 512),
    picture(1, 1024),
    picture(4, 256),
    Case {
        precision: Some(Precision::F16),
        ..picture(1, 512)
    },
    Case {
        memory: Memory::Quarter,
        ..picture(1, 1024)
    },
    clip(1, 320, 320, 1),
    clip(1, 320, 320, 5),
    clip(1, 320, 320, 17),
    clip(1, 320, 320, 33),
    clip(1, 720, 480, 33),
    clip(1, 256, 256, 16),
    clip(4, 512, 512, 8),
];

/// A clip that is decoded so many latent frames at a time.
const fn cut(chunk: usize) -> Case {
    Case {
        chunk: Some(chunk),
        ..clip(1, 320, 320, 17)
    }
}

const fn stored(precision: Precision, case: Case) -> Case {
    Case {
        precision: Some(precision),
        ..case
    }
}

/// What the suite varies beyond [`CASES`], one thing at a time.
const SWEEPS: &[Case] = &[
    stored(Precision::F32, picture(1, 512)),
    stored(Precision::Bf16, picture(1, 512)),
    stored(Precision::F16, clip(1, 320, 320, 17)),
    stored(Precision::Bf16, clip(1, 320, 320, 17)),
    cut(1),
    cut(2),
    cut(4),
    cut(8),
    Case {
        memory: Memory::Quarter,
        ..picture(1, 512)
    },
    picture(2, 256),
    picture(8, 256),
];

impl Case {
    /// What a filter matches: `image 4x 256x256`, `video 320x320 17 frames`.
    pub(super) fn name(&self) -> String {
        let kind = if self.frames.is_some() {
            "video"
        } else {
            "image"
        };
        let size = format!("{}x{}", self.width, self.height);
        let mut words = vec![kind.to_owned()];
        if self.batch > 1 {
            words.push(format!("{} of", self.batch));
        }
        words.push(size);
        words.extend(self.frames.map(|n| count(n, "frame")));
        words.extend(match self.precision {
            Some(Precision::F32) => Some("fp32".to_owned()),
            Some(Precision::F16) => Some("fp16".to_owned()),
            Some(Precision::Bf16) => Some("bf16".to_owned()),
            Some(Precision::Auto) | None => None,
        });
        words.extend(self.chunk.map(|n| format!("{n} at a time")));
        if self.memory == Memory::Quarter {
            words.push("low memory".to_owned());
        }
        words.join(" ")
    }

    /// A seeded latent of about the size a VAE's latents have; as many latent frames as hold the
    /// frames asked for.
    pub(super) fn latent(&self, vae: &VaeFile) -> Result<Latent, EngineError> {
        let (scale, c) = (vae.kind.scale(), vae.kind.latent_channels());
        let t = match (vae.kind.time_scale(), self.frames) {
            (Some(time), Some(n)) => (n - 1).div_ceil(time) + 1,
            _ => 1,
        };
        let shape = [self.batch, c, t, self.height / scale, self.width / scale];
        let mut state = 1u32;
        let values: Vec<f32> = (0..shape.iter().product::<usize>())
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * 2.0
            })
            .collect();
        Latent::from_planes(&shape, &values, Path::new("bench"))
    }
}

/// The cases that the arguments ask for, each with its VAE; with `sweeps`, those of the suite.
pub(super) fn chosen(
    args: &BenchDecodeArgs,
    sweeps: bool,
    env: &Env,
) -> Result<Vec<(&'static Case, Arc<VaeFile>)>> {
    let one = match (&args.vae, &args.spec) {
        (Some(path), _) => Some(Arc::new(VaeFile::open(
            &env.library().resolve(&[ModelKind::Vae], path)?,
        )?)),
        (None, Some(name)) => Some(Arc::new(VaeFile::synthetic(name, SEED)?)),
        (None, None) => None,
    };
    let vaes = match one {
        Some(vae) => vec![vae],
        None => vec![
            Arc::new(VaeFile::synthetic("sd-vae", SEED)?),
            Arc::new(VaeFile::synthetic("wan21-vae", SEED)?),
        ],
    };
    let filter = args.filter.as_deref().unwrap_or_default();
    let mut work = Vec::new();
    let more = SWEEPS.iter().filter(|_| sweeps);
    let cases = CASES.iter().chain(more);
    for case in cases.clone().filter(|c| c.name().contains(filter)) {
        let fits = |vae: &&Arc<VaeFile>| vae.kind.time_scale().is_some() == case.frames.is_some();
        work.extend(vaes.iter().filter(fits).map(|vae| (case, vae.clone())));
    }
    if work.is_empty() {
        let names: Vec<String> = cases.map(Case::name).collect();
        let text = format!(
            "no row of this VAE matches --filter {filter:?}; there are: {}",
            names.join("; ")
        );
        return Err(Usage(text).into());
    }
    Ok(work)
}

const SEED: u64 = 1;
