//! Still pictures: PNG (with text chunks), JPEG, WebP; folders of frames; reading a picture back.

use super::{
    FrameSink, MediaError, PICTURES, Pending, can_write, deflate, exif, extension, io_error,
};
use crate::{Mask, Picture};
use image::codecs::jpeg::JpegEncoder;
use image::codecs::webp::WebPEncoder;
use image::{DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, ImageError, ImageReader};
use png::chunk;
use std::fs::File;
use std::io::{BufWriter, Write};
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
        what: "pictures",
        known: &PICTURES,
    }
}

/// Writes a picture, its format by extension. `text` goes into a PNG's text chunks, where ComfyUI
/// and A1111 look for prompts; of it, the others have a place for `parameters`.
pub fn write_picture(
    path: &Path,
    picture: &Picture,
    text: &[(&str, String)],
) -> Result<(), MediaError> {
    let pending = Pending::new(path);
    let create = io_error(path, "create the file");
    let mut file = BufWriter::new(File::create(&pending.temporary).map_err(create)?);
    let image = |source| MediaError::Image {
        path: path.to_owned(),
        source,
    };
    let parameters = text.iter().find(|(keyword, _)| *keyword == "parameters");
    let comment = parameters.map(|(_, text)| exif::write(text));
    match extension(path).as_str() {
        "png" => write_png(&mut file, picture, text).map_err(|e| MediaError::Encode {
            path: path.to_owned(),
            what: e.to_string(),
        })?,
        "jpg" | "jpeg" => {
            let encoder = JpegEncoder::new_with_quality(&mut file, 95);
            write_with(encoder, picture, comment).map_err(image)?;
        }
        "webp" => {
            let encoder = WebPEncoder::new_lossless(&mut file);
            write_with(encoder, picture, comment).map_err(image)?;
        }
        found => return Err(not_a_picture(path, found)),
    }
    file.flush().map_err(io_error(path, "write"))?;
    pending.keep()
}

/// A comment that is too long for the format is left out.
fn write_with(
    mut encoder: impl ImageEncoder,
    picture: &Picture,
    comment: Option<Vec<u8>>,
) -> image::ImageResult<()> {
    const MOST: usize = 65_000; // a segment of a JPEG
    if let Some(comment) = comment.filter(|c| c.len() <= MOST) {
        encoder
            .set_exif_metadata(comment)
            .map_err(image::ImageError::Unsupported)?;
    }
    let (w, h) = (picture.width as u32, picture.height as u32);
    encoder.write_image(&picture.rgb, w, h, ExtendedColorType::Rgb8)
}

pub(crate) fn write_png(
    file: impl Write,
    picture: &Picture,
    text: &[(&str, String)],
) -> Result<(), png::EncodingError> {
    let mut encoder = png::Encoder::new(file, picture.width as u32, picture.height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    for (keyword, value) in text {
        if value.is_ascii() {
            encoder.add_text_chunk((*keyword).to_owned(), value.clone())?;
        } else {
            encoder.add_itxt_chunk((*keyword).to_owned(), value.clone())?;
        }
    }
    let mut writer = encoder.write_header()?;
    deflate::zlib(picture, |piece| writer.write_chunk(chunk::IDAT, piece))?;
    writer.finish()
}

/// A PNG in memory.
pub fn png(picture: &Picture) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to memory fails only for sizes no picture has; then there is nothing to show.
    let _ = write_png(&mut bytes, picture, &[]);
    bytes
}

/// Reads a picture as RGB, the way up that its camera says.
pub fn load_picture(path: &Path) -> Result<Picture, MediaError> {
    Ok(rgb(open(path)?))
}

/// A picture, and its transparency as a mask: what is clear is to be painted.
pub fn load_with_alpha(path: &Path) -> Result<(Picture, Option<Mask>), MediaError> {
    let image = open(path)?;
    let mask = image.color().has_alpha().then(|| {
        let alpha = image.to_rgba8();
        let values = alpha.pixels().map(|p| 1.0 - f32::from(p[3]) / 255.0);
        Mask {
            width: alpha.width() as usize,
            height: alpha.height() as usize,
            values: values.collect(),
        }
    });
    Ok((rgb(image), mask))
}

/// A mask out of a picture: white is to be painted, black and clear stay.
pub fn load_mask(path: &Path) -> Result<Mask, MediaError> {
    let image = open(path)?.into_luma_alpha8();
    let values = image
        .pixels()
        .map(|p| f32::from(p[0]) / 255.0 * (f32::from(p[1]) / 255.0));
    Ok(Mask {
        width: image.width() as usize,
        height: image.height() as usize,
        values: values.collect(),
    })
}

fn open(path: &Path) -> Result<DynamicImage, MediaError> {
    let reader = ImageReader::open(path).map_err(io_error(path, "open"))?;
    let reader = reader
        .with_guessed_format()
        .map_err(io_error(path, "read"))?;
    let upright = || {
        let mut decoder = reader.into_decoder()?;
        let orientation = decoder.orientation()?;
        let mut image = DynamicImage::from_decoder(decoder)?;
        image.apply_orientation(orientation);
        Ok(image)
    };
    upright().map_err(|source| match source {
        ImageError::Unsupported(_) => MediaError::Decode {
            path: path.to_owned(),
            what: "not a picture this program reads: PNG, JPEG, WebP or GIF".to_owned(),
        },
        source => MediaError::Image {
            path: path.to_owned(),
            source,
        },
    })
}

fn rgb(image: DynamicImage) -> Picture {
    let rgb = image.into_rgb8();
    Picture {
        width: rgb.width() as usize,
        height: rgb.height() as usize,
        rgb: rgb.into_raw(),
    }
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
                    "holds {} of a longer clip, and this one has {n_frames} frames: name another folder",
                    frame_name(n_frames)
                ),
            });
        }
        let pending = Pending::new(path);
        std::fs::create_dir_all(&pending.temporary).map_err(io_error(path, "create the folder"))?;
        Ok(Folder { pending, n: 0 })
    }
}

impl FrameSink for Folder {
    fn frame(&mut self, picture: &Picture) -> Result<(), MediaError> {
        write_picture(
            &self.pending.temporary.join(frame_name(self.n)),
            picture,
            &[],
        )?;
        self.n += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        let Pending { path, temporary } = &self.pending;
        if !path.is_dir() {
            return self.pending.keep();
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
