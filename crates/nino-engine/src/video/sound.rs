//! What a sound-to-video model is given: audio, a picture of who makes the sound, a clip to
//! follow, the frames before the video. ComfyUI's `WanSoundImageToVideo` and
//! `WanSoundImageToVideoExtend`.

use super::given::{Given, blank_frame};
use crate::{
    AudioStates, ClipHints, Conditioning, Control, EngineError, Image, Latent, SoundHints,
};
use nino_models::wan_transformer::{AUDIO_FRAMES, MOTION_FRAMES};
use std::sync::Arc;

/// Frames under the latent frames that the model sees before the video.
const MOTION: usize = (MOTION_FRAMES - 1) * AUDIO_FRAMES + 1;

/// What is given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sounding<'a> {
    pub audio: Option<&'a AudioStates>,
    /// The frame of the audio that the video begins with, of 16 a second.
    pub offset: usize,
    pub reference: Option<&'a Image>,
    /// A clip to follow; nothing is followed where it is empty.
    pub follow: &'a [Image],
    pub before: Before<'a>,
}

/// What comes before the video.
#[derive(Clone, Copy, Debug, Default)]
pub enum Before<'a> {
    #[default]
    Nothing,
    /// Frames, of which the last 73 count. Gray frames stand before them.
    Frames(&'a [Image]),
    /// Latents of a video, of whose frames the last 19 count.
    Latent(&'a Latent),
}

/// What prompts are given.
#[derive(Clone, Debug)]
pub struct Sounded {
    pub positive: SoundHints,
    /// The same without a sound.
    pub negative: SoundHints,
    /// The encoded picture.
    pub reference: Option<Arc<Latent>>,
}

impl Sounded {
    /// A prompt that is given this.
    #[must_use]
    pub fn given_to(&self, prompt: &Conditioning, sound: &SoundHints) -> Conditioning {
        let given = prompt.with_clip(ClipHints {
            sound: sound.clone().over(&prompt.clip.sound),
            ..prompt.clip.clone()
        });
        match &self.reference {
            Some(latent) => given.with_reference(Arc::clone(latent)),
            None => given,
        }
    }
}

impl Given<'_> {
    /// Encodes what a sound-to-video model is given.
    pub fn sounded(
        &self,
        given: &Sounding<'_>,
        control: &mut Control<'_>,
    ) -> Result<Sounded, EngineError> {
        let frames = self.size.latent(self.vae).frames;
        let audio = given.audio.and_then(|a| a.of_video(frames, given.offset));
        let reference = match given.reference {
            Some(image) => Some(self.encode(1, &|_| self.fitted(image), control)?),
            None => None,
        };
        let motion = match given.before {
            Before::Nothing | Before::Frames([]) => None,
            Before::Frames(images) => {
                let images = &images[images.len().saturating_sub(MOTION)..];
                let blank = MOTION - images.len();
                let frame = |i: usize| match i.checked_sub(blank) {
                    Some(i) => self.fitted(&images[i]),
                    None => blank_frame(self.size),
                };
                Some(self.encode(MOTION, &frame, control)?)
            }
            Before::Latent(latent) => {
                Some(latent.without_first(latent.frames.saturating_sub(MOTION_FRAMES)))
            }
        };
        let follow = self.alone(given.follow, control)?;
        let negative = audio.as_ref().map(|a| Arc::new(a.silenced()));
        let positive = SoundHints {
            audio: audio.map(Arc::new),
            control: Some(Arc::new(follow)),
            motion: motion.map(Arc::new),
        };
        Ok(Sounded {
            negative: SoundHints {
                audio: negative,
                ..positive.clone()
            },
            positive,
            reference: reference.map(Arc::new),
        })
    }
}
