//! Pictures, masks and clips, in memory and as files. Every format is written beside its place and
//! moved there when it is whole, so that nothing half-written is left behind.

mod animation;
mod deflate;
mod exif;
mod mask;
mod mp4;
mod pending;
mod picture;
mod resize;
mod source;
mod still;
mod text;
mod y4m;

pub use deflate::work_bytes as png_work_bytes;
pub use mask::{Mask, Sides, outpaint};
use pending::Pending;
pub use pending::discard_unfinished;
pub use picture::Picture;
pub use resize::{Size, Upscale, resize};
pub use source::{FrameSource, open_video};
use std::io;
use std::path::{Path, PathBuf};
pub use still::{can_write_picture, load_mask, load_picture, load_with_alpha, png, write_picture};
pub use text::read_text;

#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        path: PathBuf,
        action: &'static str,
        source: io::Error,
    },
    #[error("{}: {source}", path.display())]
    Image {
        path: PathBuf,
        source: image::ImageError,
    },
    #[error("{}: {what}", path.display())]
    Encode { path: PathBuf, what: String },
    #[error("{}: {}; they can be {}", path.display(), no_format(found, what), known.join(", "))]
    UnknownFormat {
        path: PathBuf,
        found: String,
        /// What was to be written, and the extensions it can have.
        what: &'static str,
        known: &'static [&'static str],
    },
    #[error("{}: sides of this format have {most} pixels at most, the picture has {width}x{height}; png has room", path.display())]
    TooLarge {
        path: PathBuf,
        width: usize,
        height: usize,
        most: usize,
    },
    #[error("{}: the folder {} does not exist", path.display(), folder.display())]
    NoFolder { path: PathBuf, folder: PathBuf },
    #[error("{}: {what}", path.display())]
    Decode { path: PathBuf, what: String },
    #[error("{}: this format is left to ffmpeg, which is not on the PATH", path.display())]
    NoFfmpeg { path: PathBuf },
}

fn no_format(found: &str, what: &str) -> String {
    match found {
        "" => format!("no extension says which format {what} are to have"),
        _ => format!("{found:?} is not a format this program writes {what} in"),
    }
}

/// Extensions a still picture can have.
pub const PICTURES: [&str; 4] = ["png", "jpg", "jpeg", "webp"];
/// Extensions a video can have; no extension means a folder of PNG frames.
pub const VIDEOS: [&str; 6] = ["mp4", "y4m", "gif", "apng", "png", "webp"];

/// Takes frames as they are ready. Dropped before `finish`, it leaves nothing behind.
pub trait FrameSink: Send {
    fn frame(&mut self, picture: &Picture) -> Result<(), MediaError>;
    fn finish(self: Box<Self>) -> Result<(), MediaError>;
}

/// A video file, its format by extension; without one, a folder of frames.
pub fn create_video(
    path: &Path,
    size: (usize, usize),
    n_frames: usize,
    fps: f64,
) -> Result<Box<dyn FrameSink>, MediaError> {
    Ok(match extension(path).as_str() {
        "" => Box::new(still::Folder::create(path, n_frames)?),
        "y4m" => Box::new(y4m::Y4m::create(path, size, fps)?),
        "gif" => Box::new(animation::Gif::create(path, fps)?),
        "apng" | "png" => Box::new(animation::Apng::create(path, size, n_frames, fps)?),
        "webp" => Box::new(animation::WebP::create(path, size, fps)?),
        "mp4" => Box::new(mp4::Mp4::create(path, size, fps)?),
        found => return Err(not_a_video(path, found)),
    })
}

/// An error unless [`create_video`] can write what the extension says, with what is on this machine.
pub fn can_write_video(path: &Path) -> Result<(), MediaError> {
    match extension(path).as_str() {
        // Frames go into a folder that is there.
        "" if path.is_dir() => return probe(path),
        "" if path.exists() => {
            let file = io::ErrorKind::NotADirectory.into();
            return Err(io_error(path, "make a folder for frames")(file));
        }
        "mp4" => mp4::is_there(path)?,
        found if found.is_empty() || VIDEOS.contains(&found) => {}
        found => return Err(not_a_video(path, found)),
    }
    can_write(path)
}

fn not_a_video(path: &Path, found: &str) -> MediaError {
    MediaError::UnknownFormat {
        path: path.to_owned(),
        found: found.to_owned(),
        what: "videos",
        known: &VIDEOS,
    }
}

/// Whether a file can be made where `path` says, tried out: better now than after an hour's work.
pub fn can_write(path: &Path) -> Result<(), MediaError> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|f| !f.is_dir()) {
        return Err(MediaError::NoFolder {
            path: path.to_owned(),
            folder: folder.to_owned(),
        });
    }
    if path.is_dir() {
        let folder = io::ErrorKind::IsADirectory.into();
        return Err(io_error(path, "create the file")(folder));
    }
    probe(path)
}

/// An error where the format that the extension says has no room for a picture of this size.
pub fn has_room(path: &Path, (width, height): (usize, usize)) -> Result<(), MediaError> {
    let most = match extension(path).as_str() {
        "webp" => 16_384,
        "jpg" | "jpeg" | "gif" => 65_535,
        _ => return Ok(()),
    };
    if width.max(height) <= most {
        return Ok(());
    }
    Err(MediaError::TooLarge {
        path: path.to_owned(),
        width,
        height,
        most,
    })
}

fn probe(path: &Path) -> Result<(), MediaError> {
    let probe = Pending::new(path);
    let made = std::fs::File::create(&probe.temporary);
    made.map(drop).map_err(io_error(path, "create the file"))
}

fn extension(path: &Path) -> String {
    path.extension()
        .map_or_else(String::new, |e| e.to_string_lossy().to_ascii_lowercase())
}

fn io_error<'a>(path: &'a Path, action: &'static str) -> impl Fn(io::Error) -> MediaError + 'a {
    move |source| MediaError::Io {
        path: path.to_owned(),
        action,
        source,
    }
}

#[cfg(test)]
mod tests;
