//! Writing still pictures, PNG (with text chunks), JPEG and WebP, and folders of frames.

use super::{FrameSink, MediaError, PICTURES, can_write, deflate, exif, extension, io_error};
use crate::Picture;
use crate::deflate::Pixels;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::webp::WebPEncoder;
use image::{ExtendedColorType, ImageEncoder};
use nino_files::{AtomicFile, Pending};
use png::chunk;
use std::io::Write;
use std::path::Path;

/// An error unless [`write_picture`] can write there, in a format it writes.
pub fn can_write_picture(path: &Path) -> Result<(), MediaError> {
    let found = extension(path);
    if PICTURES.contains(&found.as_str()) {
        return can_write(path);
    }
    Err(not_a_picture(path, &found))
}

fn not_a_picture(path: &Path, found: &str) -> MediaError {
    MediaError::UnknownFormat {
        path: path.to_owned(),
        found: found.to_owned(),
        what: "images",
        known: &PICTURES,
    }
}

/// What a file of a picture has beside its pixels.
#[derive(Clone, Copy, Debug)]
pub struct PictureOptions<'a> {
    /// Keywords with their text. They go into a PNG's text chunks, where ComfyUI and A1111 look for
    /// prompts; of them, the other formats have a place for `parameters`.
    pub text: &'a [(&'a str, String)],
    /// Of a JPEG, 1 to 100; the other formats lose nothing.
    pub quality: u8,
    /// How opaque each pixel is, 255 being the most; all of them when `None`. JPEGs cannot keep it.
    pub opacity: Option<&'a [u8]>,
}

impl Default for PictureOptions<'_> {
    fn default() -> Self {
        PictureOptions {
            text: &[],
            quality: 95,
            opacity: None,
        }
    }
}

/// Writes a picture with text, its format by extension.
pub fn write_picture(
    path: &Path,
    picture: &Picture,
    text: &[(&str, String)],
) -> Result<(), MediaError> {
    let options = PictureOptions {
        text,
        ..PictureOptions::default()
    };
    write_picture_with(path, picture, &options)
}

/// Writes a picture, its format by extension.
pub fn write_picture_with(
    path: &Path,
    picture: &Picture,
    options: &PictureOptions<'_>,
) -> Result<(), MediaError> {
    let mut file = AtomicFile::create(path)?;
    encode_picture(&mut file, path, picture, options)?;
    Ok(file.commit()?)
}

/// Writes a picture to anything; `path` says the format by its extension and is named in errors.
pub fn encode_picture(
    file: &mut impl Write,
    path: &Path,
    picture: &Picture,
    options: &PictureOptions<'_>,
) -> Result<(), MediaError> {
    let image = |source| MediaError::Image {
        path: path.to_owned(),
        source,
    };
    let text = options.text;
    let parameters = text.iter().find(|(keyword, _)| *keyword == "parameters");
    let comment = parameters.map(|(_, text)| exif::write(text));
    match extension(path).as_str() {
        "png" => write_png(file, picture, options).map_err(|e| MediaError::Encode {
            path: path.to_owned(),
            what: e.to_string(),
        }),
        "jpg" | "jpeg" if options.opacity.is_some() => Err(MediaError::Encode {
            path: path.to_owned(),
            what: "a JPEG keeps no transparency; png and webp do".to_owned(),
        }),
        "jpg" | "jpeg" => {
            let encoder = JpegEncoder::new_with_quality(file, options.quality.clamp(1, 100));
            write_with(encoder, picture, None, comment).map_err(image)
        }
        "webp" => {
            let encoder = WebPEncoder::new_lossless(file);
            write_with(encoder, picture, options.opacity, comment).map_err(image)
        }
        found => Err(not_a_picture(path, found)),
    }
}

/// A comment that is too long for the format is left out.
fn write_with(
    mut encoder: impl ImageEncoder,
    picture: &Picture,
    opacity: Option<&[u8]>,
    comment: Option<Vec<u8>>,
) -> image::ImageResult<()> {
    const MOST: usize = 65_000; // a segment of a JPEG
    if let Some(comment) = comment.filter(|c| c.len() <= MOST) {
        encoder
            .set_exif_metadata(comment)
            .map_err(image::ImageError::Unsupported)?;
    }
    let (w, h) = (picture.width as u32, picture.height as u32);
    match opacity {
        None => encoder.write_image(&picture.rgb, w, h, ExtendedColorType::Rgb8),
        Some(opacity) => {
            let rgba = picture.with_opacity(opacity);
            encoder.write_image(&rgba, w, h, ExtendedColorType::Rgba8)
        }
    }
}

pub(crate) fn write_png(
    file: impl Write,
    picture: &Picture,
    options: &PictureOptions<'_>,
) -> Result<(), png::EncodingError> {
    let rgba = options.opacity.map(|opacity| picture.with_opacity(opacity));
    let mut pixels = Pixels::from(picture);
    let mut encoder = png::Encoder::new(file, picture.width as u32, picture.height as u32);
    encoder.set_color(png::ColorType::Rgb);
    if let Some(rgba) = &rgba {
        (pixels.channels, pixels.bytes) = (4, rgba);
        encoder.set_color(png::ColorType::Rgba);
    }
    encoder.set_depth(png::BitDepth::Eight);
    for (keyword, value) in options.text {
        if value.is_ascii() {
            encoder.add_text_chunk((*keyword).to_owned(), value.clone())?;
        } else {
            encoder.add_itxt_chunk((*keyword).to_owned(), value.clone())?;
        }
    }
    let mut writer = encoder.write_header()?;
    deflate::zlib(pixels, |piece| writer.write_chunk(chunk::IDAT, piece))?;
    writer.finish()
}

/// A PNG in memory.
pub fn png(picture: &Picture) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to memory fails only for sizes no picture has; then there is nothing to show.
    let _ = write_png(&mut bytes, picture, &PictureOptions::default());
    bytes
}

fn frame_name(i: usize) -> String {
    format!("{i:05}.png")
}

/// `00000.png`, `00001.png`, … in a folder.
pub(super) struct Folder {
    pending: Pending,
    n: usize,
}

impl Folder {
    /// An error where frames of a longer clip are: they would follow those of this one.
    pub(super) fn create(path: &Path, n_frames: usize) -> Result<Folder, MediaError> {
        let next = path.join(frame_name(n_frames));
        if next.exists() {
            return Err(MediaError::Encode {
                path: path.to_owned(),
                what: format!(
                    "contains {} of a longer video, and this one has {n_frames} frame{}: name \
                     another folder",
                    frame_name(n_frames),
                    if n_frames == 1 { "" } else { "s" }
                ),
            });
        }
        let pending = Pending::folder(path)?;
        Ok(Folder { pending, n: 0 })
    }
}

impl FrameSink for Folder {
    fn frame(&mut self, picture: &Picture) -> Result<(), MediaError> {
        write_picture(
            &self.pending.temporary().join(frame_name(self.n)),
            picture,
            &[],
        )?;
        self.n += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        let (path, temporary) = (self.pending.target(), self.pending.temporary());
        if !path.is_dir() {
            return Ok(self.pending.keep()?);
        }
        // An older run's frames: replaced one by one, others in the folder stay.
        for i in 0..self.n {
            let name = frame_name(i);
            std::fs::rename(temporary.join(&name), path.join(&name))
                .map_err(io_error(path, "move a frame into the folder"))?;
        }
        Ok(())
    }
}
