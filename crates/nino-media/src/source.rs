//! Videos as frames to encode: folders of pictures, GIF, APNG, animated WebP and Y4M by ourselves,
//! everything else through the `ffmpeg` on the PATH.

use super::{MediaError, extension, io_error, load_picture, mp4, y4m};
use crate::Picture;
use image::AnimationDecoder;
use image::codecs::gif::GifDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Gives frames one after the other.
pub trait FrameSource {
    fn next_frame(&mut self) -> Result<Option<Picture>, MediaError>;
    /// How many there are in all, where that is known beforehand.
    fn n_frames(&self) -> Option<usize> {
        None
    }
}

/// What [`open_video`] reads by itself beside folders; other extensions go to ffmpeg.
const FFMPEG: [&str; 6] = ["mp4", "mkv", "webm", "mov", "avi", "m4v"];

/// Opens a video; `None` when the path is a still picture.
pub fn open_video(path: &Path) -> Result<Option<Box<dyn FrameSource>>, MediaError> {
    if path.is_dir() {
        return Ok(Some(Box::new(Folder::open(path)?)));
    }
    let file = || {
        let file = File::open(path).map_err(io_error(path, "open"))?;
        Ok::<_, MediaError>(BufReader::new(file))
    };
    let image = |source| MediaError::Image {
        path: path.to_owned(),
        source,
    };
    Ok(match extension(path).as_str() {
        "gif" => Some(Animation::boxed(
            path,
            GifDecoder::new(file()?).map_err(image)?,
        )),
        "png" | "apng" => {
            let decoder = PngDecoder::new(file()?).map_err(image)?;
            if decoder.is_apng().map_err(image)? {
                Some(Animation::boxed(path, decoder.apng().map_err(image)?))
            } else {
                None
            }
        }
        "webp" => {
            let decoder = WebPDecoder::new(file()?).map_err(image)?;
            decoder
                .has_animation()
                .then(|| Animation::boxed(path, decoder))
        }
        "y4m" => Some(Box::new(y4m::Reader::open(path, file()?)?)),
        e if FFMPEG.contains(&e) => Some(Box::new(Ffmpeg::open(path)?)),
        _ => None,
    })
}

/// Pictures of a folder in the order of their names.
struct Folder {
    files: Vec<PathBuf>,
    at: usize,
}

impl Folder {
    fn open(path: &Path) -> Result<Folder, MediaError> {
        let entries = std::fs::read_dir(path).map_err(io_error(path, "read the folder"))?;
        let mut files = Vec::new();
        for entry in entries {
            let file = entry.map_err(io_error(path, "read the folder"))?.path();
            if super::PICTURES.contains(&extension(&file).as_str()) {
                files.push(file);
            }
        }
        if files.is_empty() {
            return Err(MediaError::Decode {
                path: path.to_owned(),
                what: format!(
                    "no frames: no file is one of {}",
                    super::PICTURES.join(", ")
                ),
            });
        }
        files.sort();
        Ok(Folder { files, at: 0 })
    }
}

impl FrameSource for Folder {
    fn next_frame(&mut self) -> Result<Option<Picture>, MediaError> {
        let Some(file) = self.files.get(self.at) else {
            return Ok(None);
        };
        self.at += 1;
        load_picture(file).map(Some)
    }

    fn n_frames(&self) -> Option<usize> {
        Some(self.files.len())
    }
}

struct Animation {
    path: PathBuf,
    frames: image::Frames<'static>,
}

impl Animation {
    fn boxed(path: &Path, decoder: impl AnimationDecoder<'static>) -> Box<dyn FrameSource> {
        Box::new(Animation {
            path: path.to_owned(),
            frames: decoder.into_frames(),
        })
    }
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
        let rgba = frame.into_buffer();
        let (width, height) = (rgba.width() as usize, rgba.height() as usize);
        let pixels = rgba.as_raw().as_chunks::<4>().0.iter();
        Ok(Some(Picture {
            width,
            height,
            rgb: pixels.flat_map(|&[r, g, b, _]| [r, g, b]).collect(),
        }))
    }
}

/// Frames as PPM on a pipe: each says its size.
struct Ffmpeg {
    path: PathBuf,
    child: Child,
    out: BufReader<Box<dyn Read>>,
}

impl Ffmpeg {
    fn open(path: &Path) -> Result<Ffmpeg, MediaError> {
        std::fs::metadata(path).map_err(io_error(path, "open"))?;
        let child = mp4::command()
            .arg("-i")
            .arg(path)
            .args(["-f", "image2pipe", "-c:v", "ppm", "-"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|e| mp4::not_started(path, e))?;
        let out: Box<dyn Read> = match child.stdout.take() {
            Some(out) => Box::new(out),
            None => Box::new(std::io::empty()),
        };
        Ok(Ffmpeg {
            path: path.to_owned(),
            child,
            out: BufReader::new(out),
        })
    }
}

impl FrameSource for Ffmpeg {
    fn next_frame(&mut self) -> Result<Option<Picture>, MediaError> {
        let frame = read_ppm(&mut self.out).map_err(|what| MediaError::Decode {
            path: self.path.clone(),
            what,
        })?;
        if frame.is_none() {
            let mut said = String::new();
            if let Some(errors) = &mut self.child.stderr {
                // Only for the message.
                let _ = errors.read_to_string(&mut said);
            }
            let status = self
                .child
                .wait()
                .map_err(io_error(&self.path, "wait for ffmpeg"))?;
            if !status.success() {
                return Err(MediaError::Decode {
                    path: self.path.clone(),
                    what: format!("ffmpeg failed ({status}): {}", mp4::first_line(&said)),
                });
            }
        }
        Ok(frame)
    }
}

impl Drop for Ffmpeg {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A binary PPM of 8 bits; `None` at the end.
pub(super) fn read_ppm(input: &mut impl BufRead) -> Result<Option<Picture>, String> {
    let mut header = [0usize; 3];
    let mut magic = String::new();
    for i in 0..4 {
        let word = word(input).map_err(|e| e.to_string())?;
        match (i, word.parse()) {
            (0, _) if word.is_empty() => return Ok(None),
            (0, _) => magic = word,
            (_, Ok(n)) => header[i - 1] = n,
            _ => return Err(format!("{word:?} in a frame's header")),
        }
    }
    let [width, height, depth] = header;
    let bytes = width.checked_mul(height).and_then(|n| n.checked_mul(3));
    match bytes {
        Some(bytes) if magic == "P6" && depth == 255 && bytes < 1 << 30 => {
            let mut rgb = vec![0; bytes];
            input.read_exact(&mut rgb).map_err(|e| e.to_string())?;
            Ok(Some(Picture { width, height, rgb }))
        }
        _ => Err(format!(
            "a frame of {magic} {width}x{height}, depth {depth}"
        )),
    }
}

/// The next word and the one white space after it.
fn word(input: &mut impl BufRead) -> std::io::Result<String> {
    let mut word = String::new();
    let mut byte = [0];
    while input.read(&mut byte)? == 1 && word.len() < 16 {
        match byte[0] {
            b if !b.is_ascii_whitespace() => word.push(b.into()),
            _ if word.is_empty() => {}
            _ => break,
        }
    }
    Ok(word)
}
