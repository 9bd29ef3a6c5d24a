//! Flags that change nothing in the run at hand: told, so that nobody waits for their effect.

use crate::args::GenerateArgs;
use nino_engine::{Checkpoint, Family};

/// A sentence for each such flag. `previews` says whether anybody sees previews.
pub(super) fn notes(args: &GenerateArgs, model: &Checkpoint, previews: bool) -> Vec<String> {
    let takes_sizes = matches!(model.family(), Family::Sdxl | Family::SdxlRefiner);
    let family = model.family().name();
    let mut notes = Vec::new();
    for (flag, given) in [
        ("--original-size", args.original_size.is_some()),
        ("--crop", args.crop.is_some()),
        ("--target-size", args.target_size.is_some()),
    ] {
        if given && !takes_sizes {
            notes.push(format!(
                "{flag} has no effect: it is for SDXL, and {family} has no size conditioning"
            ));
        }
    }
    for (flag, given) in [
        ("--preview-every", args.preview.preview_every.is_some()),
        ("--preview-vae", args.preview.preview_vae.is_some()),
    ] {
        if given && !previews {
            notes.push(format!(
                "{flag} has no effect: no previews are shown here, and there is no --preview FILE"
            ));
        }
    }
    notes
}
