//! Frames that are given to a video model: a picture to begin with, one to end with, a clip to
//! follow. Each function does what ComfyUI's node of that purpose does.

use crate::encode::{FloatFrames, encode_clip};
use crate::{
    Control, EncodeOptions, EngineError, Followed, Image, Latent, LatentSize, Mask, Precision,
    SeenFrames, Store, VaeFile,
};

/// The size of a clip in pixels and frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClipSize {
    pub width: usize,
    pub height: usize,
    pub frames: usize,
}

/// Frames under one latent frame; the first frame of a clip has a latent frame of its own.
const TIME: usize = 4;
/// The value of frames that are not given.
const GRAY: f32 = 0.5;
/// Pixels along one side of a latent pixel whose mask VACE takes.
const SIDE: usize = 8;

impl ClipSize {
    /// The size of its latent.
    pub fn latent(self, vae: &VaeFile) -> LatentSize {
        let scale = vae.kind.scale();
        LatentSize {
            frames: self.frames.saturating_sub(1) / TIME + 1,
            height: self.height / scale,
            width: self.width / scale,
        }
    }
}

/// A frame of nothing, as models were trained to see it.
pub fn blank_frame(size: ClipSize) -> Vec<f32> {
    vec![GRAY; size.width * size.height * 3]
}

/// What frames are encoded with.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    pub store: &'a Store,
    pub vae: &'a VaeFile,
    pub size: ClipSize,
    pub precision: Precision,
    /// Bytes of host memory that the caller holds meanwhile.
    pub beside: usize,
}

impl Given<'_> {
    /// Frames at the beginning of the clip. ComfyUI's `WanImageToVideo`: a latent frame is given
    /// when any frame under it is.
    pub fn first_frames(
        &self,
        start: &[Image],
        control: &mut Control<'_>,
    ) -> Result<SeenFrames, EngineError> {
        let latent = self.encode_between(start, &[], control)?;
        let n = start.len().min(self.size.frames);
        let known = n.saturating_sub(1) / TIME + 1;
        let mask = self.mask(1, |frame, _| frame < known);
        Ok(SeenFrames {
            latent,
            mask: Some(mask),
            mask_at: 0,
        })
    }

    /// Frames at the beginning and at the end. ComfyUI's `WanFirstLastFrameToVideo`.
    pub fn first_and_last(
        &self,
        start: &[Image],
        end: &[Image],
        control: &mut Control<'_>,
    ) -> Result<SeenFrames, EngineError> {
        let latent = self.encode_between(start, end, control)?;
        let all = self.size.latent(self.vae).frames * TIME;
        let (first, last) = (
            start.len().min(self.size.frames),
            end.len().min(self.size.frames),
        );
        // The first frame stands for the four places of its latent frame.
        let first = if first == 0 { 0 } else { first + TIME - 1 };
        let mask = self.mask(TIME, |frame, sub| {
            let at = frame * TIME + sub;
            at < first || at + last >= all
        });
        Ok(SeenFrames {
            latent,
            mask: Some(mask),
            mask_at: 0,
        })
    }

    /// A clip to follow beside frames at the beginning. ComfyUI's `WanFunControlToVideo`, and with
    /// `masked` its `Wan22FunControlToVideo`.
    pub fn controlled(
        &self,
        clip: &[Image],
        start: &[Image],
        masked: bool,
        control: &mut Control<'_>,
    ) -> Result<SeenFrames, EngineError> {
        let latents = [self.alone(clip, control)?, self.alone(start, control)?];
        let channels = self.vae.kind.latent_channels();
        Ok(SeenFrames {
            latent: beside(&latents[0], &latents[1]),
            mask: masked.then(|| self.mask_of_first(start)),
            mask_at: if masked { channels } else { 0 },
        })
    }

    /// Frames at the beginning of a clip whose camera's path is given. ComfyUI's
    /// `WanCameraImageToVideo`.
    pub fn before_camera(
        &self,
        start: &[Image],
        control: &mut Control<'_>,
    ) -> Result<SeenFrames, EngineError> {
        Ok(SeenFrames {
            latent: self.alone(start, control)?,
            mask: Some(self.mask_of_first(start)),
            mask_at: 0,
        })
    }

    /// The clip with nothing after the frames that are given.
    pub(super) fn alone(
        &self,
        images: &[Image],
        control: &mut Control<'_>,
    ) -> Result<Latent, EngineError> {
        let channels = self.vae.kind.latent_channels();
        let mut latent = self.zero(channels, self.size.latent(self.vae));
        if !images.is_empty() {
            let n = images.len().min(self.size.frames);
            let made = self.encode(n, &|i| self.fitted(&images[i]), control)?;
            let len = made.values.len().min(latent.values.len());
            latent.values[..len].copy_from_slice(&made.values[..len]);
        }
        Ok(latent)
    }

    /// A mask of every frame that is 0 in the first ones.
    fn mask_of_first(&self, start: &[Image]) -> Latent {
        // The first frame stands for the four places of its latent frame.
        let known = match start.len().min(self.size.frames) {
            0 => 0,
            n => n + TIME - 1,
        };
        self.mask(TIME, |frame, sub| frame * TIME + sub < known)
    }

    /// A clip for VACE: frames, where they are to be changed, and a picture to look at, which takes
    /// latent frames before the clip's own. ComfyUI's `WanVaceToVideo`; the number is how many
    /// latent frames to leave out of what is sampled.
    pub fn followed(
        &self,
        clip: &[Image],
        masks: &[Mask],
        reference: Option<&Image>,
        strength: f32,
        control: &mut Control<'_>,
    ) -> Result<(Followed, usize), EngineError> {
        let ClipSize {
            width,
            height,
            frames,
        } = self.size;
        let mask = |i: usize| match masks.get(i) {
            Some(mask) => mask.fitted(width, height).values,
            None => vec![1.0; width * height],
        };
        let frame = |i: usize| match clip.get(i) {
            Some(image) => self.fitted(image),
            None => blank_frame(self.size),
        };
        let part = |i: usize, inside: bool| -> Vec<f32> {
            let (frame, mask) = (frame(i), mask(i));
            let pixels = frame.chunks_exact(3).zip(mask);
            let shown = |v: f32, m: f32| {
                let share = if inside { m } else { 1.0 - m };
                (v - GRAY) * share + GRAY
            };
            pixels
                .flat_map(|(p, m)| [p[0], p[1], p[2]].map(|v| shown(v, m)))
                .collect()
        };
        let kept = self.encode(frames, &|i| part(i, false), control)?;
        let changed = self.encode(frames, &|i| part(i, true), control)?;
        let mut latent = beside(&kept, &changed);
        let mut mask = self.pixel_mask(&mask, latent.frames);
        let mut trim = 0;
        if let Some(reference) = reference {
            let made = self.encode(1, &|_| self.fitted(reference), control)?;
            let nothing = self.zero(made.channels, made.size());
            trim = made.frames;
            latent = joined(&beside(&made, &nothing), &latent);
            let unmasked = Latent::empty(1, mask.channels, made.size());
            mask = joined(&unmasked, &mask);
        }
        let followed = Followed {
            frames: latent,
            mask,
            strength,
        };
        Ok((followed, trim))
    }

    /// Frames at the beginning as a latent to start from, and how much each latent frame is to be
    /// made. ComfyUI's `Wan22ImageToVideoLatent`.
    pub fn fixed_frames(
        &self,
        start: &[Image],
        control: &mut Control<'_>,
    ) -> Result<(Latent, Vec<f32>), EngineError> {
        let size = self.size.latent(self.vae);
        let n = start.len().min(self.size.frames);
        let made = self.encode(n, &|i| self.fitted(&start[i]), control)?;
        let mut latent = self.zero(made.channels, size);
        let len = made.values.len().min(latent.values.len());
        latent.values[..len].copy_from_slice(&made.values[..len]);
        let known = |frame: usize| if frame < made.frames { 0.0 } else { 1.0 };
        Ok((latent, (0..size.frames).map(known).collect()))
    }

    /// The clip with gray frames between those that are given.
    pub(super) fn encode_between(
        &self,
        start: &[Image],
        end: &[Image],
        control: &mut Control<'_>,
    ) -> Result<Latent, EngineError> {
        let all = self.size.frames;
        let end = &end[end.len().saturating_sub(all)..];
        let frame = |i: usize| {
            let last = (i + end.len()).checked_sub(all).and_then(|at| end.get(at));
            match last.or(start.get(i)) {
                Some(image) => self.fitted(image),
                None => blank_frame(self.size),
            }
        };
        self.encode(all, &frame, control)
    }

    pub(super) fn encode(
        &self,
        n_frames: usize,
        frame: &dyn Fn(usize) -> Vec<f32>,
        control: &mut Control<'_>,
    ) -> Result<Latent, EngineError> {
        let clip = FloatFrames {
            width: self.size.width,
            height: self.size.height,
            n_frames,
            frame,
        };
        let options = EncodeOptions {
            precision: self.precision,
            format: self.vae.assumed_format(),
            beside: self.beside,
        };
        Ok(encode_clip(self.store, self.vae, &clip, &options, control)?.latent)
    }

    pub(super) fn fitted(&self, image: &Image) -> Vec<f32> {
        image.fitted(self.size.width, self.size.height).values
    }

    /// The latent that is zero in the model's units.
    fn zero(&self, channels: usize, size: LatentSize) -> Latent {
        let mut latent = Latent::empty(1, channels, size);
        latent.is_video = true;
        if let Some(format) = self.vae.assumed_format() {
            latent.scale_to_vae(format);
        }
        latent
    }

    /// A mask of latent frames that is 0 where frame and channel are given.
    fn mask(&self, channels: usize, is_given: impl Fn(usize, usize) -> bool) -> Latent {
        let size = self.size.latent(self.vae);
        let mut mask = Latent::empty(1, channels, size);
        let pixels = size.height * size.width;
        for (i, pixel) in mask.values.chunks_exact_mut(channels).enumerate() {
            for (c, v) in pixel.iter_mut().enumerate() {
                *v = f32::from(u8::from(!is_given(i / pixels, c)));
            }
        }
        mask
    }

    /// The mask of the 8×8 pixels under every latent pixel; of the frames under a latent frame,
    /// the one in the middle counts.
    fn pixel_mask(&self, mask: &dyn Fn(usize) -> Vec<f32>, latent_frames: usize) -> Latent {
        let ClipSize {
            width,
            height,
            frames,
        } = self.size;
        let size = LatentSize {
            frames: latent_frames,
            height: height / SIDE,
            width: width / SIDE,
        };
        let mut out = Latent::empty(1, SIDE * SIDE, size);
        let each = size.height * size.width * SIDE * SIDE;
        for (t, out) in out.values.chunks_exact_mut(each).enumerate() {
            let middle = (t as f32 + 0.5) * (frames as f32 / latent_frames as f32);
            let values = mask((middle as usize).min(frames - 1));
            for (i, v) in out.iter_mut().enumerate() {
                let (pixel, sub) = (i / (SIDE * SIDE), i % (SIDE * SIDE));
                let y = pixel / size.width * SIDE + sub / SIDE;
                let x = pixel % size.width * SIDE + sub % SIDE;
                *v = values[y * width + x];
            }
        }
        out
    }
}

/// Two latents of one size with their channels beside each other.
fn beside(a: &Latent, b: &Latent) -> Latent {
    let pixels = a.values.chunks_exact(a.channels);
    let pairs = pixels.zip(b.values.chunks_exact(b.channels));
    Latent {
        channels: a.channels + b.channels,
        values: pairs.flat_map(|(a, b)| [a, b].concat()).collect(),
        ..a.without_values()
    }
}

/// Two latents one after the other in time.
fn joined(first: &Latent, then: &Latent) -> Latent {
    Latent {
        frames: first.frames + then.frames,
        values: [&first.values[..], &then.values].concat(),
        ..then.without_values()
    }
}
