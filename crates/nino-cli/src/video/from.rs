//! `--from` of a clip: the flags that made it, below those of the command line.

use crate::args::{self, Verb, VideoArgs};
use crate::failure::UsageWithHint;
use crate::generate::{Flags, Repeated};
use crate::printer;
use anyhow::Result;
use nino_engine::media::{Limits, read_text};
use std::ffi::OsString;
use std::path::Path;

/// Flags that say what the clip is.
pub(super) const VIDEO: Repeated = Repeated {
    verb: "video",
    flags: &[
        "prompt",
        "negative",
        "image",
        "last-image",
        "video",
        "video-mask",
        "reference",
        "video-strength",
        "camera",
        "camera-speed",
        "audio",
        "then",
        "frames",
        "size",
        "fps",
        "precision",
        "model",
        "low-noise",
        "one-expert",
        "vae",
        "clip",
        "clip-vision",
        "audio-encoder",
        "lora",
        "lora-low",
        "quantize",
        "seed",
        "steps",
        "switch",
        "cfg",
        "cfg-zero-star",
        "skip-layers",
        "skip-scale",
        "skip-start",
        "skip-end",
        "step-cache",
        "shift",
        "sampler",
        "scheduler",
    ],
};

/// What is to be made: `args` is the command line with the clip's flags, where it names one.
pub(super) struct Wanted {
    pub(super) args: Option<Box<VideoArgs>>,
    pub(super) flags: Flags,
}

pub(super) fn wanted(args: &VideoArgs, line: &[OsString]) -> Result<Wanted> {
    let given = Flags::given_to(&VIDEO, line)?;
    let Some(path) = &args.from_file else {
        return Ok(Wanted {
            args: None,
            flags: given,
        });
    };
    let recorded = read(path)?;
    let note = |note: &String| printer::note(&format!("{}: {note}", path.display()));
    recorded.notes.iter().for_each(note);
    let merged = recorded.below(&given);
    let args = match args::parse(&merged.line(line))?.verb {
        Verb::Video(args) => Some(args),
        _ => None,
    };
    Ok(Wanted {
        args,
        flags: merged,
    })
}

/// The flags that a clip records.
fn read(path: &Path) -> Result<Flags> {
    let text = read_text(path, &["nino", "prompt"], &Limits::default())?;
    let of = |keyword: &str| text.found.iter().find(|(k, _)| k == keyword);
    let shown = path.display();
    if let Some((_, nino)) = of("nino") {
        let flags = Flags::from_json(&VIDEO, nino);
        let hint = "it was not written by nino, or was changed since".to_owned();
        return flags.map_err(|what| {
            let sentence = format!("{shown}: its nino metadata cannot be read: {what}");
            UsageWithHint { sentence, hint }.into()
        });
    }
    let hint = if of("prompt").is_some() {
        format!("it contains a ComfyUI graph, which `nino generate --from {shown}` runs")
    } else {
        "videos that nino writes as mp4, webp or apng contain their settings".to_owned()
    };
    let sentence = format!("{shown}: contains no settings of nino");
    Err(UsageWithHint { sentence, hint }.into())
}
