//! Pictures, masks, clips and audio, in memory and as files. Every format is written beside its
//! place and moved there when it is whole, so that nothing half-written is left behind.

mod animation;
mod audio;
mod deflate;
mod edges;
mod exif;
mod ffmpeg;
mod format;
mod info;
mod limits;
mod load;
mod mask;
mod picture;
mod pool;
mod raw;
mod resize;
mod source;
mod still;
mod text;
mod y4m;

pub use audio::{Audio, load_audio, load_wav};
pub use deflate::work_bytes as png_work_bytes;
pub use edges::canny;
pub use ffmpeg::count_ppm_frames;
pub use info::{PictureInfo, picture_info};
pub use limits::Limits;
pub use load::{load_mask, load_picture, load_with_alpha};
pub use mask::{Mask, Sides, outpaint};
pub use nino_files::Stop;
use nino_files::{FileError, Pending};
pub use picture::{Picture, centered};
pub use resize::{Size, Upscale, resize, resize_smooth};
pub use source::{FrameSource, ReadOptions, may_have_audio, open_video};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
pub use still::{
    PictureOptions, can_write_picture, encode_picture, png, write_picture, write_picture_with,
};
pub use text::{Text, read_text};

#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        path: PathBuf,
        action: &'static str,
        source: io::Error,
    },
    #[error("{0}")]
    File(FileError),
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
    #[error("{}: this format is limited to {most} pixels a side, and the image has \
             {width}x{height}; png has no such limit", path.display())]
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
    #[error("{}: this format needs ffmpeg, which is not on the PATH", path.display())]
    NoFfmpeg { path: PathBuf },
    #[error("{}: {what}", path.display())]
    Ffmpeg { path: PathBuf, what: String },
    #[error("{}: it has no audio", path.display())]
    NoAudio { path: PathBuf },
    #[error("{}: stopped", path.display())]
    Stopped { path: PathBuf },
    #[error(
        "{}: this {format} of {file_bytes} bytes {what}; the limit is {most} {unit}", path.display()
    )]
    BeyondLimit {
        path: PathBuf,
        format: &'static str,
        file_bytes: u64,
        /// What it does, such as "has 65535x65535 pixels".
        what: String,
        most: u64,
        unit: &'static str,
    },
    #[error("{}: this {format} is damaged: {what}", path.display())]
    Damaged {
        path: PathBuf,
        format: &'static str,
        what: String,
    },
    #[error("{}: not enough memory to decompress it to {} MiB", path.display(), bytes.div_ceil(1 << 20))]
    NoMemory { path: PathBuf, bytes: usize },
}

// Not `#[from]`: the message says all, and a source would say it twice in a chain.
impl From<FileError> for MediaError {
    fn from(error: FileError) -> Self {
        MediaError::File(error)
    }
}

fn no_format(found: &str, what: &str) -> String {
    match found {
        "" => format!("the name has no extension, which sets the format of {what}"),
        _ => format!("{found:?} is not a supported output format for {what}"),
    }
}

/// Extensions a still picture can have.
pub const PICTURES: [&str; 4] = ["png", "jpg", "jpeg", "webp"];
/// Extensions a video can have; no extension means a folder of PNG frames.
pub const VIDEOS: [&str; 6] = ["mp4", "y4m", "gif", "apng", "png", "webp"];

/// Takes frames as they are ready. Dropped before `finish`, it leaves nothing behind.
pub trait FrameSink: Send {
    fn frame(&mut self, picture: &Picture) -> Result<(), MediaError>;
    /// A frame with how opaque each of its pixels is, of a clip that has
    /// [`ClipFormat::has_opacity`].
    fn frame_with(&mut self, picture: &Picture, _opacity: &[u8]) -> Result<(), MediaError> {
        self.frame(picture)
    }
    fn finish(self: Box<Self>) -> Result<(), MediaError>;
}

/// A clip that is to be written.
#[derive(Clone, Debug)]
pub struct ClipFormat {
    pub width: usize,
    pub height: usize,
    pub n_frames: usize,
    /// Frames a second.
    pub fps: f64,
    /// How the clip was made, by keyword. GIF, Y4M and folders of frames carry no text.
    pub text: Vec<(String, String)>,
    /// Whether parts of its frames are clear, which APNG and WebP keep.
    pub has_opacity: bool,
    /// How much an MP4 may lose, as ffmpeg's `-crf`: 0 is nothing, 51 the most. Little when `None`.
    pub crf: Option<f64>,
    /// Its sound, which MP4 alone has room for.
    pub audio: Option<Arc<Audio>>,
    /// Ends an `ffmpeg` that writes, wherever it is.
    pub stop: Stop,
}

/// A video file, its format by extension; without one, a folder of frames.
pub fn create_video(path: &Path, clip: &ClipFormat) -> Result<Box<dyn FrameSink>, MediaError> {
    let extension = extension(path);
    if clip.audio.is_some() && extension != "mp4" {
        return Err(MediaError::Encode {
            path: path.to_owned(),
            what: "videos of this format have no sound; mp4 does".to_owned(),
        });
    }
    if clip.has_opacity && !["apng", "png", "webp"].contains(&&*extension) {
        return Err(MediaError::Encode {
            path: path.to_owned(),
            what: "videos of this format keep no transparency; apng and webp do".to_owned(),
        });
    }
    Ok(match extension.as_str() {
        "" => Box::new(still::Folder::create(path, clip.n_frames)?),
        "y4m" => Box::new(y4m::Y4m::create(path, clip)?),
        "gif" => Box::new(animation::Gif::create(path, clip)?),
        "apng" | "png" => Box::new(animation::Apng::create(path, clip)?),
        "webp" => Box::new(animation::WebP::create(path, clip)?),
        "mp4" => Box::new(ffmpeg::Mp4::create(path, clip)?),
        found => return Err(not_a_video(path, found)),
    })
}

/// An error unless [`create_video`] can write what the extension says, with what is on this
/// machine.
pub fn can_write_video(path: &Path) -> Result<(), MediaError> {
    match extension(path).as_str() {
        // Frames are made beside the folder first.
        "" if path.is_dir() => return Ok(Pending::folder(path).map(drop)?),
        "" if path.exists() => {
            let file = io::ErrorKind::NotADirectory.into();
            return Err(io_error(path, "create a folder for frames")(file));
        }
        "mp4" => ffmpeg::is_there(path)?,
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
    Ok(Pending::probe(path)?)
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
