//! A file with a latent: its shape, its latent space, and the size of what it decodes to.

use crate::plural::count;
use nino_engine::{LATENT_FORMATS, Latent, LatentFormat};
use nino_weights::Index;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct LatentFacts {
    tensor: String,
    /// `[b, c, h, w]` or `[b, c, t, h, w]`
    shape: Vec<usize>,
    /// The latent space that the file says.
    format: Option<&'static str>,
    /// Latent spaces with as many channels, where the file does not say its own.
    may_be: Vec<&'static str>,
    /// Pixels of the decoded picture, where all spaces that it may be of agree.
    width: Option<usize>,
    height: Option<usize>,
    /// Frames of the decoded clip, likewise.
    frames: Option<usize>,
    /// Of a run that stopped: it also holds the noise to go on from.
    is_unfinished: bool,
}

impl LatentFacts {
    /// `None` where the file holds no latent.
    pub(super) fn of(index: &Index) -> Option<LatentFacts> {
        let entry = Latent::entry(index)?;
        let (channels, time, height, width) = match entry.shape[..] {
            [_, c, h, w] => (c, 1, h, w),
            [_, c, t, h, w] => (c, t, h, w),
            _ => return None,
        };
        let said = Latent::format_of(index);
        let fit = |f: &&LatentFormat| {
            let has_channels = f.channels == channels || f.unpacked_channels() == channels;
            has_channels && (time == 1 || f.time_down > 1)
        };
        let spaces: Vec<&LatentFormat> = match said {
            Some(format) => vec![format],
            None => LATENT_FORMATS.iter().filter(fit).collect(),
        };
        let agreed = |size: &dyn Fn(&LatentFormat) -> usize| {
            let first = size(spaces.first()?);
            spaces.iter().all(|s| size(s) == first).then_some(first)
        };
        Some(LatentFacts {
            tensor: entry.name.clone(),
            shape: entry.shape.clone(),
            format: said.map(|f| f.name),
            width: agreed(&|f| width * f.scale_down),
            height: agreed(&|f| height * f.scale_down),
            frames: agreed(&|f| (time.max(1) - 1) * f.time_down + 1)
                .filter(|_| entry.shape.len() == 5),
            may_be: if said.is_some() {
                Vec::new()
            } else {
                spaces.iter().map(|f| f.name).collect()
            },
            is_unfinished: Latent::is_unfinished(index),
        })
    }

    /// `latent [1, 4, 64, 64] of sd15, for a picture of 512x512`
    pub(super) fn line(&self) -> String {
        let space = match (self.format, &self.may_be[..]) {
            (Some(format), _) => format.to_owned(),
            (None, []) => format!(
                "an unknown latent format with {}",
                count(self.shape[1], "channel")
            ),
            (None, [only]) => format!("{only}, by its channels"),
            (None, several) => format!("one of {}", several.join(", ")),
        };
        let mut parts = vec![format!("latent {:?} of {space}", self.shape)];
        if let (Some(width), Some(height)) = (self.width, self.height) {
            parts.push(match self.frames {
                Some(frames) if frames > 1 => format!("for {frames} frames of {width}x{height}"),
                _ => format!("for an image of {width}x{height}"),
            });
        }
        if self.is_unfinished {
            let text = "with the remaining noise of a stopped run (--latent continues from it)";
            parts.push(text.to_owned());
        }
        parts.join(", ")
    }
}
