//! Videos as frames to encode: folders of pictures, GIF, APNG, animated WebP and Y4M by ourselves,
//! everything else through the `ffmpeg` on the PATH.

use crate::format::{Kind, PictureFile, png, webp};
use crate::limits::Guard;
use crate::load::{bound, bound_frame, rewind};
use crate::{Limits, MediaError, Picture, extension, ffmpeg, io_error, load_picture, y4m};
use image::codecs::gif::GifDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::{AnimationDecoder, ImageDecoder};
use nino_files::Stop;
use std::path::{Path, PathBuf};

/// Gives frames one after the other.
pub trait FrameSource {
    fn next_frame(&mut self) -> Result<Option<Picture>, MediaError>;
    /// How many there are in all, where that is known beforehand.
    fn n_frames(&self) -> Option<usize> {
        None
    }
    /// Frames a second, where the file says; an animation says it with its first frame.
    fn fps(&self) -> Option<f64> {
        None
    }
}

/// How clips are read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    pub limits: Limits,
    /// Ends an `ffmpeg` that reads, wherever it is.
    pub stop: Stop,
}

/// Extensions that go to ffmpeg; other files are told apart by their first bytes.
const FFMPEG: [&str; 6] = ["mp4", "mkv", "webm", "mov", "avi", "m4v"];

/// Bytes that a pixel of an animation takes: the frame, the picture so far and the one before, what
/// is given out, and the RGB copy of it. A GIF and a WebP have no picture before.
const GIF_BYTES: u64 = 4 + 4 + 4 + 3;
const WEBP_BYTES: u64 = 4 + 4 + 4 + 4 + 3;
const APNG_BYTES: u64 = 4 + 4 + 4 + 4 + 4 + 3;

/// Opens a video; `None` when the path is a still picture.
pub fn open_video(
    path: &Path,
    options: &ReadOptions,
) -> Result<Option<Box<dyn FrameSource>>, MediaError> {
    let source: Option<Box<dyn FrameSource>> = if path.is_dir() {
        Some(Box::new(Folder::open(path, options.limits)?))
    } else {
        match extension(path).as_str() {
            "y4m" => Some(Box::new(y4m::Reader::open(path, &options.limits)?)),
            e if FFMPEG.contains(&e) => Some(Box::new(ffmpeg::Frames::open(path, options)?)),
            _ => open_animation(path, &options.limits)?,
        }
    };
    Ok(source.map(|source| {
        let bounded: Box<dyn FrameSource> = Box::new(Bounded {
            source,
            path: path.to_owned(),
            file_bytes: std::fs::metadata(path).map_or(0, |m| m.len()),
            limits: options.limits,
            n: 0,
        });
        bounded
    }))
}

/// Whether a clip's format has room for audio.
pub fn may_have_audio(path: &Path) -> bool {
    FFMPEG.contains(&&*extension(path))
}

/// Gives as many frames as the limits allow; one more is an error.
struct Bounded {
    source: Box<dyn FrameSource>,
    path: PathBuf,
    file_bytes: u64,
    limits: Limits,
    n: u64,
}

impl FrameSource for Bounded {
    fn next_frame(&mut self) -> Result<Option<Picture>, MediaError> {
        let frame = self.source.next_frame()?;
        self.n += u64::from(frame.is_some());
        let guard = Guard {
            path: &self.path,
            format: "clip",
            file_bytes: self.file_bytes,
            limits: &self.limits,
        };
        guard.frames(self.n)?;
        Ok(frame)
    }

    fn n_frames(&self) -> Option<usize> {
        self.source.n_frames()
    }

    fn fps(&self) -> Option<f64> {
        self.source.fps()
    }
}

/// Pictures of a folder in the order of their names.
struct Folder {
    files: Vec<PathBuf>,
    at: usize,
    limits: Limits,
}

impl Folder {
    fn open(path: &Path, limits: Limits) -> Result<Folder, MediaError> {
        let entries = std::fs::read_dir(path).map_err(io_error(path, "read the folder"))?;
        let mut files = Vec::new();
        for entry in entries {
            let file = entry.map_err(io_error(path, "read the folder"))?.path();
            if crate::PICTURES.contains(&extension(&file).as_str()) {
                files.push(file);
            }
        }
        if files.is_empty() {
            return Err(MediaError::Decode {
                path: path.to_owned(),
                what: format!(
                    "no frames: no file is one of {}",
                    crate::PICTURES.join(", ")
                ),
            });
        }
        files.sort();
        Ok(Folder {
            files,
            at: 0,
            limits,
        })
    }
}

impl FrameSource for Folder {
    fn next_frame(&mut self) -> Result<Option<Picture>, MediaError> {
        let Some(file) = self.files.get(self.at) else {
            return Ok(None);
        };
        self.at += 1;
        load_picture(file, &self.limits).map(Some)
    }

    fn n_frames(&self) -> Option<usize> {
        Some(self.files.len())
    }
}

/// An animated GIF, PNG or WebP; `None` for every other file.
fn open_animation(
    path: &Path,
    limits: &Limits,
) -> Result<Option<Box<dyn FrameSource>>, MediaError> {
    let Some(mut file) = PictureFile::open(path)? else {
        return Ok(None);
    };
    let guard = file.guard(path, limits);
    let image = |source| MediaError::Image {
        path: path.to_owned(),
        source,
    };
    let boxed = |frames| {
        let animation: Box<dyn FrameSource> = Box::new(Animation {
            path: path.to_owned(),
            frames,
            delay: None,
        });
        Ok(Some(animation))
    };
    match file.kind {
        Kind::Jpeg => Ok(None),
        Kind::Gif => {
            let mut decoder = GifDecoder::new(file.input).map_err(image)?;
            let (width, height) = decoder.dimensions();
            guard.size(width.into(), height.into(), GIF_BYTES)?;
            decoder.set_limits(bound_frame(guard)).map_err(image)?;
            boxed(decoder.into_frames())
        }
        Kind::Png => {
            let header = png::check(&mut file.input, guard)?;
            if !header.is_animated {
                return Ok(None);
            }
            guard.size(header.width, header.height, APNG_BYTES)?;
            rewind(&mut file.input, guard)?;
            let mut decoder = PngDecoder::new(file.input).map_err(image)?;
            decoder.set_limits(bound(guard)).map_err(image)?;
            boxed(decoder.apng().map_err(image)?.into_frames())
        }
        Kind::WebP => {
            if !webp::check(&mut file.input, guard, WEBP_BYTES)?.is_animated {
                return Ok(None);
            }
            rewind(&mut file.input, guard)?;
            let decoder = WebPDecoder::new(file.input).map_err(image)?;
            if !decoder.has_animation() {
                return Ok(None);
            }
            boxed(decoder.into_frames())
        }
    }
}

struct Animation {
    path: PathBuf,
    frames: image::Frames<'static>,
    /// How long the first frame is shown, in milliseconds.
    delay: Option<f64>,
}

impl FrameSource for Animation {
    fn next_frame(&mut self) -> Result<Option<Picture>, MediaError> {
        let Some(frame) = self.frames.next() else {
            return Ok(None);
        };
        let frame = frame.map_err(|source| MediaError::Image {
            path: self.path.clone(),
            source,
        })?;
        let (above, below) = frame.delay().numer_denom_ms();
        let delay = f64::from(above) / f64::from(below.max(1));
        self.delay.get_or_insert(delay);
        let rgba = frame.into_buffer();
        let (width, height) = (rgba.width() as usize, rgba.height() as usize);
        let pixels = rgba.as_raw().as_chunks::<4>().0.iter();
        Ok(Some(Picture {
            width,
            height,
            rgb: pixels.flat_map(|&[r, g, b, _]| [r, g, b]).collect(),
        }))
    }

    fn fps(&self) -> Option<f64> {
        self.delay.filter(|ms| *ms > 0.0).map(|ms| 1000.0 / ms)
    }
}
