//! The clip that a model is to follow.

use crate::args::VideoArgs;
use crate::env::Env;
use crate::failure::{Usage, UsageWithHint};
use crate::interrupt;
use anyhow::Result;
use nino_engine::media::{Limits, Picture, ReadOptions, load_mask, load_picture, open_video};
use nino_engine::{Follow, Follows, Image, Mask, VideoModel};
use std::path::Path;

/// What the flags say, of the first `n_frames` frames.
pub(super) fn wanted(
    args: &VideoArgs,
    model: &VideoModel,
    n_frames: usize,
    limits: &Limits,
    env: &Env,
) -> Result<Option<Follow>> {
    let follows = model.high.follows();
    if args.video.is_none() && args.reference.is_none() {
        return match follows {
            // VACE makes clips of words alone, too.
            None | Some(Follows::Vace) => Ok(None),
            Some(Follows::Frames { .. }) => Err(UsageWithHint {
                sentence: format!("{} needs a control video", model.high.name),
                hint: "give one with --video".to_owned(),
            }
            .into()),
        };
    }
    let of_vace = [
        ("--video-mask", args.video_mask.is_some()),
        ("--reference", args.reference.is_some()),
        ("--video-strength", args.video_strength.is_some()),
    ];
    if let (Some(Follows::Frames { .. }), Some((flag, _))) =
        (follows, of_vace.iter().find(|(_, given)| *given))
    {
        let name = &model.high.name;
        return Err(Usage(format!("{flag} is for VACE, and {name} is another model")).into());
    }
    let reading = ReadOptions {
        limits: *limits,
        stop: interrupt::stop(),
    };
    let frames = match &args.video {
        Some(path) => {
            let path = env.library().find_input(path);
            match read(&path, n_frames, &reading)? {
                Some(frames) => frames,
                // A picture is a clip of one frame.
                None => vec![load_picture(&path, limits)?],
            }
        }
        None => Vec::new(),
    };
    let masks = match &args.video_mask {
        Some(path) => masks(&env.library().find_input(path), frames.len(), &reading)?,
        None => Vec::new(),
    };
    let reference = args.reference.as_ref().map(|path| {
        let path = env.library().find_input(path);
        load_picture(&path, limits).map(|picture| Image::from(&picture))
    });
    Ok(Some(Follow {
        frames: frames.iter().map(Image::from).collect(),
        masks,
        reference: reference.transpose()?,
        strength: args.video_strength.unwrap_or(1.0) as f32,
    }))
}

/// The first frames of a clip; `None` of a picture.
fn read(path: &Path, n_frames: usize, reading: &ReadOptions) -> Result<Option<Vec<Picture>>> {
    let Some(mut video) = open_video(path, reading)? else {
        return Ok(None);
    };
    let mut frames = Vec::new();
    while frames.len() < n_frames {
        match video.next_frame()? {
            Some(frame) => frames.push(frame),
            None => break,
        }
    }
    Ok(Some(frames))
}

/// The masks of a clip's frames; a picture is the mask of all of them.
fn masks(path: &Path, n_frames: usize, reading: &ReadOptions) -> Result<Vec<Mask>> {
    let Some(frames) = read(path, n_frames, reading)? else {
        return Ok(vec![load_mask(path, &reading.limits)?; n_frames]);
    };
    Ok(frames.iter().map(Picture::bright).collect())
}
