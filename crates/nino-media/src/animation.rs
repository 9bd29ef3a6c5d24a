//! Animated pictures: GIF, APNG and lossless WebP.

use crate::deflate::Pixels;
use crate::{ClipFormat, FrameSink, MediaError, Picture, deflate, exif, io_error};
use image::codecs::gif::{GifEncoder, Repeat};
use image::codecs::webp::WebPEncoder;
use image::{Delay, ExtendedColorType, Frame, ImageEncoder, RgbaImage};
use nino_files::{AtomicFile, Pending};
use png::chunk;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) struct Gif {
    encoder: GifEncoder<Shared>,
    file: Shared,
    delay: Delay,
    pending: Pending,
}

/// A file whose encoder writes its end when dropped and tells nobody how that went.
#[derive(Clone)]
struct Shared(Arc<Mutex<BufWriter<File>>>);

impl Shared {
    fn file(&self) -> MutexGuard<'_, BufWriter<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl Gif {
    pub(super) fn create(path: &Path, clip: &ClipFormat) -> Result<Gif, MediaError> {
        let (pending, file) = Pending::file(path)?;
        Gif::to(file, pending, clip.fps)
    }

    fn to(file: File, pending: Pending, fps: f64) -> Result<Gif, MediaError> {
        let file = Shared(Arc::new(Mutex::new(BufWriter::new(file))));
        let mut encoder = GifEncoder::new_with_speed(file.clone(), 10);
        encoder
            .set_repeat(Repeat::Infinite)
            .map_err(|source| MediaError::Image {
                path: pending.target().to_owned(),
                source,
            })?;
        let delay = Delay::from_numer_denom_ms((1000.0 / fps).round() as u32, 1);
        Ok(Gif {
            encoder,
            file,
            delay,
            pending,
        })
    }
}

impl FrameSink for Gif {
    fn frame(&mut self, picture: &Picture) -> Result<(), MediaError> {
        let rgba = picture
            .rgb
            .as_chunks::<3>()
            .0
            .iter()
            .flat_map(|&[r, g, b]| [r, g, b, 255])
            .collect();
        let frame = RgbaImage::from_raw(picture.width as u32, picture.height as u32, rgba)
            .ok_or_else(|| MediaError::Encode {
                path: self.pending.target().to_owned(),
                what: "a frame of another size".to_owned(),
            })?;
        self.encoder
            .encode_frame(Frame::from_parts(frame, 0, 0, self.delay))
            .map_err(|source| MediaError::Image {
                path: self.pending.target().to_owned(),
                source,
            })
    }

    fn finish(mut self: Box<Self>) -> Result<(), MediaError> {
        drop(self.encoder);
        let flushed = self.file.flush();
        flushed.map_err(io_error(self.pending.target(), "write"))?;
        Ok(self.pending.keep()?)
    }
}

/// An animated PNG: its head by the `png` crate, the chunks of each frame by hand.
pub(super) struct Apng {
    writer: png::Writer<BufWriter<File>>,
    size: (usize, usize),
    /// Hundredths of a frame a second.
    rate: u16,
    /// The sequence number of the next chunk that has one.
    sequence: u32,
    pending: Pending,
}

impl Apng {
    pub(super) fn create(path: &Path, clip: &ClipFormat) -> Result<Apng, MediaError> {
        let (pending, file) = Pending::file(path)?;
        let (width, height) = (clip.width, clip.height);
        let writer = (|| {
            let mut encoder = png::Encoder::new(BufWriter::new(file), width as u32, height as u32);
            encoder.set_color(if clip.has_opacity {
                png::ColorType::Rgba
            } else {
                png::ColorType::Rgb
            });
            encoder.set_depth(png::BitDepth::Eight);
            encoder.set_animated(clip.n_frames as u32, 0)?;
            for (keyword, text) in &clip.text {
                encoder.add_itxt_chunk(keyword.clone(), text.clone())?;
            }
            encoder.write_header()
        })();
        let writer = writer.map_err(|e: png::EncodingError| encode(path, &e))?;
        Ok(Apng {
            writer,
            size: (width, height),
            rate: (clip.fps * 100.0).round() as u16,
            sequence: 0,
            pending,
        })
    }

    fn numbered(&mut self, name: chunk::ChunkType, data: &[u8]) -> Result<(), png::EncodingError> {
        let data = [&self.sequence.to_be_bytes(), data].concat();
        self.sequence += 1;
        self.writer.write_chunk(name, &data)
    }

    fn write(&mut self, pixels: Pixels<'_>) -> Result<(), png::EncodingError> {
        let first = self.sequence == 0;
        let size = [pixels.width as u32, pixels.height as u32];
        let mut control = size.map(u32::to_be_bytes).concat();
        control.extend([0; 8]); // at the top left
        control.extend([100, self.rate].map(u16::to_be_bytes).concat());
        control.extend([0; 2]); // neither cleared nor blended
        self.numbered(chunk::fcTL, &control)?;
        deflate::zlib(pixels, |piece| {
            if first {
                self.writer.write_chunk(chunk::IDAT, piece)
            } else {
                self.numbered(chunk::fdAT, piece)
            }
        })
    }

    fn take(&mut self, pixels: Pixels<'_>) -> Result<(), MediaError> {
        let ((w, h), (width, height)) = ((pixels.width, pixels.height), self.size);
        if (w, h) != (width, height) {
            return Err(MediaError::Encode {
                path: self.pending.target().to_owned(),
                what: format!("a frame of {w} x {h} in an animation of {width} x {height}"),
            });
        }
        self.write(pixels)
            .map_err(|e| encode(self.pending.target(), &e))
    }
}

impl FrameSink for Apng {
    fn frame(&mut self, picture: &Picture) -> Result<(), MediaError> {
        self.take(Pixels::from(picture))
    }

    fn frame_with(&mut self, picture: &Picture, opacity: &[u8]) -> Result<(), MediaError> {
        self.take(Pixels {
            channels: 4,
            bytes: &picture.with_opacity(opacity),
            ..Pixels::from(picture)
        })
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        self.writer
            .finish()
            .map_err(|e| encode(self.pending.target(), &e))?;
        Ok(self.pending.keep()?)
    }
}

fn encode(path: &Path, error: &png::EncodingError) -> MediaError {
    MediaError::Encode {
        path: path.to_owned(),
        what: error.to_string(),
    }
}

/// An animated WebP: the container by hand, each frame the lossless bitstream of a still.
pub(super) struct WebP {
    file: AtomicFile,
    body: u32,
    size: (usize, usize),
    delay_ms: u32,
    exif: Option<Vec<u8>>,
}

impl WebP {
    pub(super) fn create(path: &Path, clip: &ClipFormat) -> Result<WebP, MediaError> {
        let size = (clip.width, clip.height);
        let mut webp = WebP {
            file: AtomicFile::create(path)?,
            body: 4,
            size,
            delay_ms: (1000.0 / clip.fps).round() as u32,
            exif: exif::write_texts(&clip.text),
        };
        let has_exif = if webp.exif.is_some() { 0b1000 } else { 0 };
        let has_alpha = if clip.has_opacity { 0b1_0000 } else { 0 };
        let mut extended = vec![0b10 | has_exif | has_alpha, 0, 0, 0];
        extended.extend(u24(size.0 - 1));
        extended.extend(u24(size.1 - 1));
        webp.write(b"RIFF\0\0\0\0WEBP")?;
        webp.chunk(*b"VP8X", &extended)?;
        // Black behind, repeated for ever.
        let behind = if clip.has_opacity { 0 } else { 255 };
        webp.chunk(*b"ANIM", &[0, 0, 0, behind, 0, 0])?;
        Ok(webp)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), MediaError> {
        let written = self.file.write_all(bytes);
        written.map_err(io_error(self.file.target(), "write"))
    }

    fn chunk(&mut self, name: [u8; 4], data: &[u8]) -> Result<(), MediaError> {
        self.write(&name)?;
        self.write(&(data.len() as u32).to_le_bytes())?;
        self.write(data)?;
        if data.len() % 2 == 1 {
            self.write(&[0])?;
        }
        self.body += 8 + data.len().next_multiple_of(2) as u32;
        Ok(())
    }

    fn take(&mut self, pixels: Pixels<'_>) -> Result<(), MediaError> {
        let mut still = Vec::new();
        let color = match pixels.channels {
            4 => ExtendedColorType::Rgba8,
            _ => ExtendedColorType::Rgb8,
        };
        let (width, height) = (pixels.width as u32, pixels.height as u32);
        WebPEncoder::new_lossless(&mut still)
            .write_image(pixels.bytes, width, height, color)
            .map_err(|source| MediaError::Image {
                path: self.file.target().to_owned(),
                source,
            })?;
        // After `RIFF size WEBP` a lossless still is its one VP8L chunk.
        let mut frame = vec![0; 6];
        frame.extend(u24(self.size.0 - 1));
        frame.extend(u24(self.size.1 - 1));
        frame.extend(u24(self.delay_ms as usize));
        frame.push(0b10);
        frame.extend(&still[12..]);
        self.chunk(*b"ANMF", &frame)
    }
}

impl FrameSink for WebP {
    fn frame(&mut self, picture: &Picture) -> Result<(), MediaError> {
        self.take(Pixels::from(picture))
    }

    fn frame_with(&mut self, picture: &Picture, opacity: &[u8]) -> Result<(), MediaError> {
        self.take(Pixels {
            channels: 4,
            bytes: &picture.with_opacity(opacity),
            ..Pixels::from(picture)
        })
    }

    fn finish(mut self: Box<Self>) -> Result<(), MediaError> {
        use std::io::{Seek, SeekFrom};
        if let Some(exif) = self.exif.take() {
            self.chunk(*b"EXIF", &exif)?;
        }
        let written = self
            .file
            .seek(SeekFrom::Start(4))
            .and_then(|_| self.file.write_all(&self.body.to_le_bytes()));
        written.map_err(io_error(self.file.target(), "write"))?;
        Ok(self.file.commit()?)
    }
}

fn u24(v: usize) -> [u8; 3] {
    let [a, b, c, _] = (v as u32).to_le_bytes();
    [a, b, c]
}

#[cfg(test)]
mod tests;
