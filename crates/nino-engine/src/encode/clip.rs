//! Clips in floats to latents, frame by frame: what video models are shown.

use super::encoder::{Chunks, Encoder, Input};
use super::{EncodeOptions, Encoded, until_done};
use crate::{Control, EngineError, Stage, Store, VaeFile};

/// A clip whose frames are made when they are asked for, so that it is never there as a whole.
pub struct FloatFrames<'a> {
    /// Pixels, multiples of the VAE's scale.
    pub width: usize,
    pub height: usize,
    pub n_frames: usize,
    /// RGB values in 0..1 of a frame, `[height, width, 3]`.
    pub frame: &'a dyn Fn(usize) -> Vec<f32>,
}

/// Encodes a clip in floats. Of Wan's encoders, which take 1 + 4k frames, the last frames that make
/// no four are left out, as in ComfyUI; of others, the last frame stands in for what is missing.
pub fn encode_clip(
    store: &Store,
    vae: &VaeFile,
    clip: &FloatFrames<'_>,
    options: &EncodeOptions,
    control: &mut Control<'_>,
) -> Result<Encoded, EngineError> {
    if vae.kind.time_scale().is_none() {
        return Err(EngineError::VideoFrames {
            vae: vae.name.clone(),
        });
    }
    if clip.n_frames == 0 {
        return Err(EngineError::NoFrames);
    }
    until_done(store, "video", options, control, |options, control| {
        let chunks = Chunks::of(vae);
        let input = Input {
            width: clip.width,
            height: clip.height,
            is_picture: clip.n_frames <= chunks.first,
        };
        let mut encoder = Encoder::load(store, vae, input, options, control)?;
        control.stage(Stage::Encode)?;
        let (mut done, mut wanted) = (0, chunks.first);
        while done < clip.n_frames {
            let left = clip.n_frames - done;
            if left < wanted && !chunks.pads {
                break;
            }
            let last = clip.n_frames - 1;
            let frames = (done..done + wanted).map(|i| (clip.frame)(i.min(last)));
            let values: Vec<f32> = frames.flatten().collect();
            encoder.step(&values, control)?;
            done += wanted;
            wanted = chunks.rest;
            control.progress(done.min(clip.n_frames), clip.n_frames)?;
        }
        encoder.finish(options.format, control)
    })
}
