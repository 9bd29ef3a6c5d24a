//! Hyperparameters of a Wan VAE, built in or read from tensor names and shapes.

use crate::Find;

/// More than any network has. A damaged file may claim any number, and the size doubles with each
/// level.
const MAX_LEVELS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub z_dim: usize,
    /// Channels of the encoder's levels, full resolution first.
    pub encoder: Vec<usize>,
    /// Channels of the decoder's levels, full resolution first.
    pub decoder: Vec<usize>,
    /// Residual blocks per level of the encoder; the decoder has one more.
    pub n_res_blocks: usize,
    /// Whether the downsampling after each level but the last is temporal too (halves the frames).
    pub time_down: Vec<bool>,
    /// Whether levels have shortcuts around their resampling (Wan 2.2).
    pub residual: bool,
    /// Patch size: pixels along one side that are packed into the channels of one.
    pub patch: usize,
}

impl Config {
    pub fn wan21() -> Config {
        Config {
            z_dim: 16,
            encoder: vec![96, 192, 384, 384],
            decoder: vec![96, 192, 384, 384],
            n_res_blocks: 2,
            time_down: vec![false, true, true],
            residual: false,
            patch: 1,
        }
    }

    pub fn wan22() -> Config {
        Config {
            z_dim: 48,
            encoder: vec![160, 320, 640, 640],
            decoder: vec![256, 512, 1024, 1024],
            residual: true,
            patch: 2,
            ..Config::wan21()
        }
    }

    /// Pixels per latent pixel along one side.
    pub fn scale(&self) -> usize {
        self.patch << (self.encoder.len() - 1)
    }

    /// Frames per latent frame; the first latent frame is one frame.
    pub fn time_scale(&self) -> usize {
        1 << self.time_down.iter().filter(|&&t| t).count()
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not a Wan VAE. Either half is
    /// enough.
    pub fn detect(find: &Find) -> Option<Config> {
        let shape = |name: &str| find(name).map(|(s, _)| s);
        let decoder = Half::detect(find, "decoder.upsamples", "upsamples", 1);
        let encoder = Half::detect(find, "encoder.downsamples", "downsamples", 0);
        let (z_dim, rgb) = if decoder.is_some() {
            (
                *shape("decoder.conv1.weight")?.get(1)?,
                shape("decoder.head.2.weight")?[0],
            )
        } else {
            (
                shape("encoder.head.2.weight")?[0] / 2,
                *shape("encoder.conv1.weight")?.get(1)?,
            )
        };
        let patch = (1..=8).find(|p| p * p * 3 == rgb)?;
        let decoder = decoder.map(Half::reversed);
        // If encoder or decoder is missing, or they contradict each other, one is assumed to mirror
        // the other.
        let (encoder, decoder) = match (encoder, decoder) {
            (Some(e), Some(d)) if e.time == d.time => (e, d),
            (_, Some(one)) | (Some(one), None) => (one.clone(), one),
            (None, None) => return None,
        };
        Some(Config {
            z_dim,
            encoder: encoder.widths,
            decoder: decoder.widths,
            n_res_blocks: encoder.n_res_blocks,
            time_down: encoder.time,
            residual: encoder.residual,
            patch,
        })
    }
}

/// The levels of the encoder or the decoder, in the order of its names.
#[derive(Clone)]
struct Half {
    widths: Vec<usize>,
    time: Vec<bool>,
    n_res_blocks: usize,
    residual: bool,
}

impl Half {
    fn reversed(mut self) -> Half {
        self.widths.reverse();
        self.time.reverse();
        self
    }

    /// `extra`: blocks a level has beyond `n_res_blocks`.
    fn detect(find: &Find, at: &str, inner: &str, extra: usize) -> Option<Half> {
        let residual = find(&format!("{at}.0.{inner}.0.residual.2.weight")).is_some();
        let width = |block: &str| match **find(&format!("{at}.{block}.residual.2.weight"))
            .as_ref()
            .map(|(s, _)| s)?
        {
            [cout, _, 3, 3, 3] => Some(cout),
            _ => None,
        };
        let name = |level: usize, start: usize, i: usize| {
            if residual {
                format!("{level}.{inner}.{i}")
            } else {
                format!("{}", start + i)
            }
        };
        let (mut widths, mut time, mut blocks, mut start) = (Vec::new(), Vec::new(), 0, 0);
        for level in 0..MAX_LEVELS {
            let Some(w) = width(&name(level, start, 0)) else {
                break;
            };
            widths.push(w);
            blocks = (0..64)
                .take_while(|&i| width(&name(level, start, i)).is_some())
                .count();
            let resample = name(level, start, blocks);
            if find(&format!("{at}.{resample}.resample.1.weight")).is_none() {
                break;
            }
            time.push(find(&format!("{at}.{resample}.time_conv.weight")).is_some());
            start += blocks + 1;
        }
        (widths.len() == time.len() + 1).then_some(Half {
            widths,
            time,
            n_res_blocks: blocks.checked_sub(extra)?,
            residual,
        })
    }
}
