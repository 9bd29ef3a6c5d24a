//! `nino plan encode`: what a picture or a clip would need to become a latent.

use super::stages::{About, Report};
use super::{Site, fitted};
use crate::args::PlanEncodeArgs;
use crate::decode::{latent_format, picture_limits, precision_of, vae_of};
use crate::env::Env;
use crate::failure::Usage;
use crate::interrupt;
use crate::plural::count;
use crate::printer::Printer;
use anyhow::Result;
use nino_engine::device::Card;
use nino_engine::media::{FrameSource, MediaError, ReadOptions, open_video, picture_info};
use nino_engine::{Control, EncodeOptions, Picture, Store, VaeFile, plan_work};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What is encoded.
struct Clip {
    width: usize,
    height: usize,
    /// More than one are a clip.
    frames: usize,
}

pub(super) fn run(
    args: &PlanEncodeArgs,
    card: Option<&'static Card>,
    env: &Env,
    printer: Printer,
) -> Result<()> {
    let site = Site::new(card, &args.device, &args.profile, env)?;
    let vae = vae_of(args.vae.as_deref(), args.spec.as_deref(), env)?;
    let options = EncodeOptions {
        precision: precision_of(args.precision, &site.choice.settings)?,
        format: latent_format(args.latent_format.as_deref())?,
        beside: 0,
    };
    let clip = clip(args, &vae)?;
    let opened = site.open()?;
    let never = AtomicBool::new(false);
    let plan = plan_work(&Store::keeping_nothing(opened.device.clone()), |store| {
        let mut control = Control {
            cancel: &never,
            on_event: &mut |_| {},
        };
        let picture = Picture::new(clip.width, clip.height);
        if clip.frames == 1 {
            return nino_engine::encode(store, &vae, &picture, &options, &mut control).map(drop);
        }
        let mut open = || -> Result<Option<Box<dyn FrameSource>>, MediaError> {
            Ok(Some(Box::new(Blank {
                left: clip.frames,
                all: clip.frames,
                picture: picture.clone(),
            })))
        };
        nino_engine::encode_video(store, &vae, &mut open, &options, &mut control).map(drop)
    });
    let plan = fitted(plan, &opened)?;
    let frames = match clip.frames {
        1 => String::new(),
        n => format!(", {}", count(n, "frame")),
    };
    let about = About {
        title: format!("{} {}x{}{frames}", vae.name, clip.width, clip.height),
        facts: json!({
            "vae": vae.name,
            "width": clip.width,
            "height": clip.height,
            "frames": clip.frames,
        }),
        count: 1,
        weights: None,
    };
    let report = Report::new(&plan, about, &opened, None);
    printer.text(&report)?;
    printer.document(&report)
}

/// The size of the file that is named, or as the flags say.
fn clip(args: &PlanEncodeArgs, vae: &VaeFile) -> Result<Clip> {
    let clip = match (&args.picture, args.size) {
        (_, Some(size)) => Clip {
            width: size.width,
            height: size.height,
            frames: args.frames.unwrap_or(1),
        },
        (Some(path), None) => clip_of(path, args.frames)?,
        (None, None) => {
            let text = "give the image or the video, or its --size";
            return Err(Usage(text.to_owned()).into());
        }
    };
    if clip.frames > 1 && vae.kind.time_scale().is_none() {
        let text = format!(
            "{} encodes single images, not {}",
            vae.name,
            count(clip.frames, "frame")
        );
        return Err(Usage(text).into());
    }
    Ok(clip)
}

fn clip_of(path: &Path, frames: Option<usize>) -> Result<Clip> {
    let reading = ReadOptions {
        limits: picture_limits(None),
        stop: interrupt::stop(),
    };
    if let Some(mut video) = open_video(path, &reading)? {
        let Some(first) = video.next_frame()? else {
            let text = format!("{} has no frames", path.display());
            return Err(Usage(text).into());
        };
        let frames = if let Some(frames) = video.n_frames().or(frames) {
            frames
        } else {
            // A clip that does not say how long it is has to be read to its end.
            let mut frames = 1;
            while video.next_frame()?.is_some() {
                frames += 1;
            }
            frames
        };
        return Ok(Clip {
            width: first.width,
            height: first.height,
            frames,
        });
    }
    let Some(info) = picture_info(path, &reading.limits)? else {
        let text = format!("{} is neither an image nor a video", path.display());
        return Err(Usage(text).into());
    };
    Ok(Clip {
        width: info.width as usize,
        height: info.height as usize,
        frames: 1,
    })
}

/// Frames without a picture on them.
struct Blank {
    left: usize,
    all: usize,
    picture: Picture,
}

impl FrameSource for Blank {
    fn next_frame(&mut self) -> Result<Option<Picture>, MediaError> {
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        Ok(is_left.then(|| self.picture.clone()))
    }

    fn n_frames(&self) -> Option<usize> {
        Some(self.all)
    }
}
