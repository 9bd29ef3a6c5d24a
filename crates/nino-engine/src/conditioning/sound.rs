//! What a sound-to-video model is given beside the prompt: audio, a clip to follow, the frames
//! before the video. ComfyUI's `WanSoundImageToVideo` and `WanSoundImageToVideoExtend` put these
//! into the conditioning.

use crate::sample::LatentShape;
use crate::{DiffusionModel, EngineError, Latent, LatentSize};
use nino_models::SoundShape;
use nino_models::wan_transformer::{AUDIO_FRAMES, MOTION_FRAMES, audio_latent_frames};
use std::sync::Arc;

/// All that a prompt gives a sound-to-video model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SoundHints {
    /// Four frames of audio for every latent frame, from the first on.
    pub audio: Option<Arc<AudioStates>>,
    /// A clip to follow, in the VAE's units.
    pub control: Option<Arc<Latent>>,
    /// The latent frames before the video, in the VAE's units: the last 19 count.
    pub motion: Option<Arc<Latent>>,
}

/// Hidden states of an audio encoder, frame by frame. ComfyUI's `AUDIO_ENCODER_OUTPUT`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AudioStates {
    /// `[states, frames, width]`
    pub values: Vec<f32>,
    pub states: usize,
    pub width: usize,
}

/// Frames a second of the audio encoder's hidden states.
const ENCODED: f64 = 50.0;
/// Frames a second that they are brought to before those of the video are chosen.
const BETWEEN: f64 = 30.0;
/// Frames a second of the video.
const VIDEO: f64 = 16.0;
/// Latent pixels along one side of the largest patch of motion latents.
const LEAST_SIDE: usize = 8;

impl AudioStates {
    pub fn frames(&self) -> usize {
        self.values.len() / (self.states * self.width).max(1)
    }

    /// The same without a sound.
    #[must_use]
    pub fn silenced(&self) -> AudioStates {
        AudioStates {
            values: vec![0.0; self.values.len()],
            ..*self
        }
    }

    /// Of 50 frames a second, those of the video's frames, 16 a second, from `offset` on, for as
    /// many as `latent_frames` are for; zeros after the last. `None` where there are none: ComfyUI
    /// fills the audio up to a multiple of the video's length.
    pub fn of_video(&self, latent_frames: usize, offset: usize) -> Option<AudioStates> {
        let length = latent_frames * AUDIO_FRAMES;
        let frames = self.frames();
        let between = (frames as f64 / ENCODED * BETWEEN) as usize;
        let times = (between as f64 / (length as f64 * (BETWEEN / VIDEO))) as usize + 1;
        let end = (offset + length).min(times * length);
        if between == 0 || offset >= end {
            return None;
        }
        // In f32, as PyTorch interpolates.
        let step = match between {
            1 => 0.0,
            n => (frames - 1) as f32 / (n - 1) as f32,
        };
        let n = end - offset;
        let mut values = vec![0.0; self.states * n * self.width];
        for (i, out) in values.chunks_exact_mut(self.width).enumerate() {
            let (state, frame) = (i / n, offset + i % n);
            let place = (frame as f64 / VIDEO * BETWEEN).round_ties_even() as usize;
            if place >= between {
                continue;
            }
            let at = place as f32 * step;
            let first = (at as usize).min(frames - 1);
            let share = (at - first as f32).clamp(0.0, 1.0);
            let row = |frame: usize| {
                let start = (state * frames + frame.min(frames - 1)) * self.width;
                &self.values[start..start + self.width]
            };
            let pairs = row(first).iter().zip(row(first + 1));
            for (out, (a, b)) in out.iter_mut().zip(pairs) {
                *out = a * (1.0 - share) + b * share;
            }
        }
        Some(AudioStates {
            values,
            states: self.states,
            width: self.width,
        })
    }

    /// The first `n` frames, `[states, n, width]`.
    fn first(&self, n: usize) -> Vec<f32> {
        let states = self.values.chunks_exact(self.frames() * self.width);
        states.flat_map(|s| &s[..n * self.width]).copied().collect()
    }
}

impl SoundHints {
    /// These, and where there is none, the others.
    #[must_use]
    pub fn over(self, others: &SoundHints) -> SoundHints {
        let others = others.clone();
        SoundHints {
            audio: self.audio.or(others.audio),
            control: self.control.or(others.control),
            motion: self.motion.or(others.motion),
        }
    }

    /// Which of these a model takes for latents of a shape.
    pub(crate) fn shape(&self, model: &DiffusionModel, latent: LatentShape) -> SoundShape {
        if model.net().wants().audio.is_none() {
            return SoundShape::default();
        }
        let most = latent.frames * AUDIO_FRAMES;
        SoundShape {
            audio_frames: self.audio.as_ref().map_or(0, |a| a.frames().min(most)),
            control: self.control.is_some(),
            motion: self.motion.is_some(),
        }
    }

    /// An error where it does not fit the model or the latent.
    pub(crate) fn check(&self, model: &DiffusionModel, latent: &Latent) -> Result<(), EngineError> {
        let Some(wanted) = model.net().wants().audio else {
            return Ok(());
        };
        let shape = LatentShape::of(latent);
        if let Some(audio) = &self.audio {
            if (audio.states, audio.width) != (wanted.states, wanted.width) {
                return Err(EngineError::AudioStates {
                    model: model.name.clone(),
                    expected: (wanted.states, wanted.width),
                    found: (audio.states, audio.width),
                });
            }
            let frames = audio_latent_frames(self.shape(model, shape).audio_frames);
            let tokens = shape.frames * shape.height.div_ceil(2) * shape.width.div_ceil(2);
            if frames == 0 || !tokens.is_multiple_of(frames) {
                return Err(EngineError::AudioFrames {
                    expected: shape.frames,
                    found: frames,
                });
            }
        }
        let differs = |what, expected: LatentSize, found: &Latent| EngineError::SeenSize {
            what,
            expected,
            found: found.size(),
        };
        let sides = |latent: &Latent| (latent.height, latent.width, latent.channels);
        if let Some(control) = &self.control
            && (control.frames, sides(control)) != (latent.frames, sides(latent))
        {
            return Err(differs("the control video", latent.size(), control));
        }
        if let Some(motion) = &self.motion {
            if sides(motion) != sides(latent) {
                let expected = LatentSize {
                    frames: motion.frames,
                    ..latent.size()
                };
                return Err(differs("the motion latent", expected, motion));
            }
            if motion.height.min(motion.width) < LEAST_SIDE {
                return Err(EngineError::MotionSize {
                    least: LEAST_SIDE,
                    found: motion.size(),
                });
            }
        }
        Ok(())
    }

    /// The audio of one row, `[states, n, width]`.
    pub(crate) fn audio_values(&self, n: usize) -> Vec<f32> {
        let audio = self.audio.as_ref();
        audio.map_or_else(Vec::new, |audio| audio.first(n))
    }

    /// The clip to follow, `[b, t, h, w, c]` in the model's units.
    pub(crate) fn control_values(&self, model: &DiffusionModel, batch: usize) -> Vec<f32> {
        let Some(control) = &self.control else {
            return Vec::new();
        };
        let control = scaled(control, model);
        let rows = (0..batch).map(|i| control.item(i % control.batch));
        rows.flatten().copied().collect()
    }

    /// The frames before the video, `[b, 19, h, w, c]` in the model's units, with zeros before
    /// those that there are.
    pub(crate) fn motion_values(&self, model: &DiffusionModel, batch: usize) -> Vec<f32> {
        let Some(motion) = &self.motion else {
            return Vec::new();
        };
        let motion = scaled(motion, model);
        let each = motion.height * motion.width * motion.channels;
        let n = motion.frames.min(MOTION_FRAMES);
        let mut out = Vec::with_capacity(batch * MOTION_FRAMES * each);
        for i in 0..batch {
            let item = motion.item(i % motion.batch);
            out.resize(out.len() + (MOTION_FRAMES - n) * each, 0.0);
            out.extend_from_slice(&item[(motion.frames - n) * each..]);
        }
        out
    }

    /// Bytes that hold these in memory while a run begins: as numbers, and as they go to a device.
    pub(crate) fn bytes(&self, batch: usize) -> usize {
        let audio = self.audio.as_ref().map_or(0, |a| a.values.len());
        let latents = self.control.iter().chain(&self.motion);
        let latents: usize = latents.map(|l| l.values.len()).sum();
        2 * batch * (audio + latents) * size_of::<f32>()
    }
}

/// A latent in the model's units, an empty one, too.
fn scaled(latent: &Latent, model: &DiffusionModel) -> Latent {
    let mut scaled = latent.clone();
    if let Some(format) = model.latent_format() {
        scaled.scale_to_model(format);
    }
    scaled
}

#[cfg(test)]
mod tests;
