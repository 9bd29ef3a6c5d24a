//! Between the latents of files and what a VAE's network takes and gives.
//!
//! Files hold the full VAE's units. A tiny autoencoder works on the model's, so scale and shift are
//! applied. Flux.2's files hold squares of 2×2 latent pixels packed into channels and normalized by
//! statistics that lie beside the VAE's weights (`bn`); its tiny autoencoder takes them packed, not
//! normalized back.

use crate::{Control, EngineError, Latent, VaeFile};
use nino_models::latent::LatentFormat;

/// How a VAE's latents are packed in files.
pub(crate) struct Packing {
    /// Side of the squares that became channels.
    pub(crate) side: usize,
    /// Mean and deviation of each packed channel.
    pub(crate) stats: Option<(Vec<f32>, Vec<f32>)>,
}

/// A file's latent as the decoder takes it, or why it cannot be.
pub(crate) fn to_decoder(
    vae: &VaeFile,
    latent: &Latent,
    format: Option<&'static LatentFormat>,
    control: &mut Control<'_>,
) -> Result<Latent, EngineError> {
    format.map_or(Ok(()), |f| fits(vae, f))?;
    let expected = vae.kind.latent_channels();
    let packing = vae.packing()?;
    let mut latent = match &packing {
        Some(p) if latent.channels == expected * p.side * p.side => p.unpacked(latent),
        // Unpacked already, as the network itself has it.
        _ if latent.channels == expected => latent.clone(),
        _ => {
            return Err(EngineError::Channels {
                expected: packing.map_or(expected, |p| expected * p.side * p.side),
                found: latent.channels,
            });
        }
    };
    if latent.frames > 1 && vae.kind.time_scale().is_none() {
        return Err(EngineError::VideoLatent {
            frames: latent.frames,
            vae: vae.name.clone(),
        });
    }
    if vae.kind.in_model_units() {
        let format = chosen(vae, format.or(latent.format), control)?;
        latent.scale_to_model(format);
    }
    Ok(latent)
}

/// What the encoder gave as files hold it.
pub(crate) fn from_encoder(
    vae: &VaeFile,
    mut latent: Latent,
    format: Option<&'static LatentFormat>,
    control: &mut Control<'_>,
) -> Result<Latent, EngineError> {
    if vae.kind.in_model_units() {
        let format = chosen(vae, format, control)?;
        latent.scale_to_vae(format);
    }
    match vae.packing()? {
        Some(p) => p.packed(&latent, vae),
        None => Ok(latent),
    }
}

/// The format to use: `known` (what was asked for, or what the file says), else what the VAE's name
/// and channels suggest, which is told.
fn chosen(
    vae: &VaeFile,
    known: Option<&'static LatentFormat>,
    control: &mut Control<'_>,
) -> Result<&'static LatentFormat, EngineError> {
    let (format, assumed) = match (known, vae.assumed_format()) {
        (Some(format), _) => (format, false),
        (None, Some(format)) => (format, true),
        (None, None) => {
            return Err(EngineError::NoFormat {
                vae: vae.name.clone(),
            });
        }
    };
    fits(vae, format)?;
    if assumed {
        control.note(format!(
            "{} works on scaled latents: assuming the {} latent format, going by the VAE's name and channels",
            vae.name, format.name
        ));
    }
    Ok(format)
}

/// An error unless the VAE's latents can be of that format.
pub(crate) fn fits(vae: &VaeFile, format: &'static LatentFormat) -> Result<(), EngineError> {
    let channels = vae.kind.latent_channels();
    if channels == format.unpacked_channels() {
        return Ok(());
    }
    Err(EngineError::FormatChannels {
        format,
        vae: vae.name.clone(),
        channels,
    })
}

impl Packing {
    fn unpacked(&self, latent: &Latent) -> Latent {
        let mut packed = latent.clone();
        if let Some((mean, std)) = &self.stats {
            packed.for_channels(|c, v| v * std[c] + mean[c]);
        }
        let n = self.side;
        let (h, w, c) = (
            latent.height * n,
            latent.width * n,
            latent.channels / (n * n),
        );
        let mut values = vec![0.0; packed.values.len()];
        self.pairs(h, w, c, values.len(), |from, to| {
            values[to] = packed.values[from];
        });
        Latent {
            height: h,
            width: w,
            channels: c,
            values,
            ..*latent
        }
    }

    fn packed(&self, latent: &Latent, vae: &VaeFile) -> Result<Latent, EngineError> {
        let n = self.side;
        let (h, w, c) = (latent.height, latent.width, latent.channels);
        for (what, side) in [("height", h), ("width", w)] {
            if !side.is_multiple_of(n) {
                return Err(EngineError::Vae(nino_models::VaeError::Size {
                    what,
                    found: side * vae.kind.scale(),
                    multiple: n * vae.kind.scale(),
                }));
            }
        }
        let mut values = vec![0.0; latent.values.len()];
        self.pairs(h, w, c, values.len(), |packed, plain| {
            values[packed] = latent.values[plain];
        });
        let mut latent = Latent {
            height: h / n,
            width: w / n,
            channels: c * n * n,
            values,
            ..*latent
        };
        if let Some((mean, std)) = &self.stats {
            latent.for_channels(|c, v| (v - mean[c]) / std[c]);
        }
        Ok(latent)
    }

    /// The places of one value in `[.., h/n, w/n, c·n·n]` and in `[.., h, w, c]`. A packed channel
    /// is `(c, row, column)`.
    fn pairs(&self, h: usize, w: usize, c: usize, all: usize, mut f: impl FnMut(usize, usize)) {
        let n = self.side;
        for plain in 0..all {
            let (channel, x, row) = (plain % c, plain / c % w, plain / c / w);
            let (y, frame) = (row % h, row / h);
            let square = (frame * (h / n) + y / n) * (w / n) + x / n;
            let packed = square * c * n * n + (channel * n + y % n) * n + x % n;
            f(packed, plain);
        }
    }
}
