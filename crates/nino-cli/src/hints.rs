//! What a person can type to get around an error of the engine. The engine itself knows no flags.

use nino_engine::{Encoder, EngineError, LATENT_FORMATS, encoder_names};
use nino_graph::{ExecError, PlanError};

const GIB: f64 = (1u64 << 30) as f64;
const MIB: usize = 1 << 20;

/// What the user can do about an error; `None` where the sentence says it all.
pub(crate) fn of(error: &EngineError) -> Option<String> {
    match error {
            EngineError::Plan(PlanError::OverBudget { need, .. }) => {
                Some(format!("give --budget {}MiB or more", need.div_ceil(MIB)))
            }
            EngineError::Exec(ExecError::OutOfMemory { free, .. }) => {
                let free = free.map(|f| format!("{:.1}GiB", f as f64 / GIB));
                Some(format!("plan for less: --budget {}", free.unwrap_or_else(|| "2GiB".to_owned())))
            }
            EngineError::Exec(ExecError::HostMemory { .. }) => {
                Some("raise --budget if the device has more, or decode in pieces: --tile fast".to_owned())
            }
            EngineError::Exec(ExecError::Disk { .. }) => {
                Some("set TMPDIR to a folder with more room, raise --budget, or decode in pieces: --tile fast".to_owned())
            }
            EngineError::Exec(ExecError::Unsupported { .. })
            | EngineError::Plan(PlanError::BindingTooLarge { .. } | PlanError::ValueTooLarge { .. }) => {
                Some("--tile fast decodes in pieces, and --device cpu has no such limit".to_owned())
            }
            EngineError::Channels { found: 128, .. } => Some("128 channels are Flux.2: use that model's VAE".to_owned()),
            EngineError::Channels { found: 16, .. } => Some("16 channels are Flux, SD3 or Wan: use that model's VAE".to_owned()),
            EngineError::Channels { found: 4, .. } => Some("4 channels are SD 1.x, 2.x or XL: use that model's VAE".to_owned()),
            EngineError::FormatChannels { channels, .. } => {
                let fits = LATENT_FORMATS.iter().filter(|f| f.unpacked_channels() == *channels);
                let fits: Vec<&str> = fits.map(|f| f.name).collect();
                (!fits.is_empty()).then(|| format!("give --latent-format {}", fits.join(" or ")))
            }
            EngineError::Encoders { wanted, found, .. } => {
                let missing: Vec<Encoder> = wanted.iter().filter(|w| !found.contains(w)).copied().collect();
                Some(match &missing[..] {
                    [] => "leave out the --clip that does not belong".to_owned(),
                    _ => format!("give --clip FILE for {}", encoder_names(&missing)),
                })
            }
            EngineError::NotAnEncoder { .. } => Some("--clip takes CLIP-L, OpenCLIP-H, OpenCLIP-G or T5; `nino inspect` says what a file is".to_owned()),
            EngineError::MissingVae { family, .. } => Some(format!("give --vae FILE, a VAE of {family} or its TAESD")),
            EngineError::Misfits(_) => Some(
            "the file is damaged or of a model that is not supported; `nino inspect` says all that differs"
                .to_owned(),
        ),
        EngineError::NoUnet { .. } => Some("`nino inspect` says what a file is; generate runs SD 1.x, 2.x and XL, Flux.1 and Chroma".to_owned()),
            EngineError::NoPart { part, .. } => {
                Some(format!("give --vae a file that holds one, such as taesd_{part}.safetensors"))
            }
            EngineError::LatentNotFinite { .. } => {
                Some("the sampling that made it failed; sample again, with --precision fp32 if it was f16".to_owned())
            }
            _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::of;
    use nino_engine::EngineError;
    use nino_graph::{ExecError, PlanError};

    #[test]
    fn what_a_gpu_cannot_do_at_once_has_another_way() {
        let device = "a card".to_owned();
        let unsupported = ExecError::Unsupported {
            op: "conv".to_owned(),
            device,
            why: "4294967296 values".to_owned(),
        };
        let too_large = PlanError::BindingTooLarge {
            op: "attention".to_owned(),
            bytes: 2,
            limit: 1,
        };
        for error in [EngineError::Exec(unsupported), EngineError::Plan(too_large)] {
            let hint = of(&error).unwrap();
            assert!(
                hint.contains("--tile fast") && hint.contains("--device cpu"),
                "{hint}"
            );
        }
    }
}
