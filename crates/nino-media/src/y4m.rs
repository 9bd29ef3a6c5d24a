//! YUV4MPEG2, the uncompressed video every tool reads: written as 4:4:4, read as 4:4:4, 4:2:2,
//! 4:2:0 or gray; BT.601, limited range.

use crate::limits::Guard;
use crate::{ClipFormat, FrameSink, FrameSource, Limits, MediaError, Picture, io_error};
use nino_files::{AtomicFile, Opened};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

pub(super) struct Y4m {
    file: AtomicFile,
}

impl Y4m {
    pub(super) fn create(path: &Path, clip: &ClipFormat) -> Result<Y4m, MediaError> {
        let mut file = AtomicFile::create(path)?;
        let (width, height) = (clip.width, clip.height);
        let (rate, base) = ((clip.fps * 1000.0).round() as u64, 1000);
        writeln!(
            file,
            "YUV4MPEG2 W{width} H{height} F{rate}:{base} Ip A1:1 C444"
        )
        .map_err(io_error(path, "write"))?;
        Ok(Y4m { file })
    }
}

impl FrameSink for Y4m {
    fn frame(&mut self, picture: &Picture) -> Result<(), MediaError> {
        let planes = to_yuv(picture);
        let written = self
            .file
            .write_all(b"FRAME\n")
            .and_then(|()| self.file.write_all(&planes));
        written.map_err(io_error(self.file.target(), "write"))
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        Ok(self.file.commit()?)
    }
}

/// Planes Y, Cb, Cr of the whole picture.
fn to_yuv(picture: &Picture) -> Vec<u8> {
    let n = picture.width * picture.height;
    let mut planes = vec![0; 3 * n];
    for (i, pixel) in picture.rgb.as_chunks::<3>().0.iter().enumerate() {
        let [r, g, b] = pixel.map(f32::from);
        let y = 16.0 + (65.481 * r + 128.553 * g + 24.966 * b) / 255.0;
        let cb = 128.0 + (-37.797 * r - 74.203 * g + 112.0 * b) / 255.0;
        let cr = 128.0 + (112.0 * r - 93.786 * g - 18.214 * b) / 255.0;
        for (plane, v) in [y, cb, cr].into_iter().enumerate() {
            // To the nearest: none is negative, and a call of `round` would take most of the time.
            planes[plane * n + i] = (v + 0.5) as u8;
        }
    }
    planes
}

/// Frames of a file.
pub(super) struct Reader {
    path: PathBuf,
    file: BufReader<Opened>,
    limits: Limits,
    width: usize,
    height: usize,
    /// Pixels that share a color, across and down; `None` for gray.
    shared: Option<(usize, usize)>,
    fps: Option<f64>,
}

/// Frames a second, out of the fields of a header.
pub(super) fn rate(header: &str) -> Option<f64> {
    let mut fields = header.trim_end().split(' ').skip(1);
    let (above, below) = fields.find_map(|f| f.strip_prefix('F'))?.split_once(':')?;
    let (above, below): (f64, f64) = (above.parse().ok()?, below.parse().ok()?);
    Some(above / below).filter(|fps| fps.is_finite() && *fps > 0.0)
}

impl Reader {
    pub(super) fn open(path: &Path, limits: &Limits) -> Result<Reader, MediaError> {
        let mut file = BufReader::new(Opened::open(path)?);
        let wrong = |what: String| MediaError::Decode {
            path: path.to_owned(),
            what,
        };
        let mut line = Vec::new();
        (&mut file)
            .take(1024)
            .read_until(b'\n', &mut line)
            .map_err(io_error(path, "read"))?;
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let Some(fields) = line.strip_prefix("YUV4MPEG2 ") else {
            return Err(wrong("not a Y4M file".to_owned()));
        };
        let field = |key: char| fields.split(' ').find_map(|f| f.strip_prefix(key));
        let size = |key| {
            field(key)
                .and_then(|v| v.parse().ok())
                .filter(|n| (1..65_536).contains(n))
        };
        let (Some(width), Some(height)) = (size('W'), size('H')) else {
            return Err(wrong(format!("no valid size in its header {line:?}")));
        };
        let shared = match field('C').unwrap_or("420jpeg") {
            "444" => Some((1, 1)),
            "422" => Some((2, 1)),
            "420" | "420jpeg" | "420mpeg2" | "420paldv" => Some((2, 2)),
            "mono" => None,
            other => {
                let known = "444, 422, 420 and mono, all of 8 bits";
                return Err(wrong(format!("color space {other:?}; known are {known}")));
            }
        };
        let reader = Reader {
            path: path.to_owned(),
            file,
            limits: *limits,
            width,
            height,
            shared,
            fps: rate(&line),
        };
        // The planes of a frame, and its picture.
        reader.guard().size(width as u64, height as u64, 3 + 3)?;
        Ok(reader)
    }

    fn guard(&self) -> Guard<'_> {
        Guard {
            path: &self.path,
            format: "Y4M",
            file_bytes: self.file.get_ref().size(),
            limits: &self.limits,
        }
    }
}

impl FrameSource for Reader {
    fn next_frame(&mut self) -> Result<Option<Picture>, MediaError> {
        let mut line = Vec::new();
        (&mut self.file)
            .take(1024)
            .read_until(b'\n', &mut line)
            .map_err(io_error(&self.path, "read"))?;
        if line.is_empty() {
            return Ok(None);
        }
        if !line.starts_with(b"FRAME") {
            return Err(MediaError::Decode {
                path: self.path.clone(),
                what: "a frame does not begin with FRAME".to_owned(),
            });
        }
        let (w, h) = (self.width, self.height);
        let color = self
            .shared
            .map_or(0, |(sx, sy)| w.div_ceil(sx) * h.div_ceil(sy));
        let mut planes = self.guard().zeroed(w * h + 2 * color)?;
        self.file
            .read_exact(&mut planes)
            .map_err(io_error(&self.path, "read a whole frame"))?;
        self.file.get_ref().check_unchanged()?;
        self.to_rgb(&planes, color).map(Some)
    }

    fn fps(&self) -> Option<f64> {
        self.fps
    }
}

impl Reader {
    /// `color`: values of each color plane.
    fn to_rgb(&self, planes: &[u8], color: usize) -> Result<Picture, MediaError> {
        let (w, h) = (self.width, self.height);
        let mut picture = Picture {
            width: w,
            height: h,
            rgb: self.guard().zeroed(w * h * 3)?,
        };
        let (luma, colors) = planes.split_at(w * h);
        for (i, pixel) in picture.rgb.as_chunks_mut::<3>().0.iter_mut().enumerate() {
            let (cb, cr) = match self.shared {
                Some((sx, sy)) => {
                    let at = i / w / sy * w.div_ceil(sx) + i % w / sx;
                    (f32::from(colors[at]), f32::from(colors[color + at]))
                }
                None => (128.0, 128.0),
            };
            let y = 1.164_383 * (f32::from(luma[i]) - 16.0);
            let (cb, cr) = (cb - 128.0, cr - 128.0);
            let rgb = [
                y + 1.596_027 * cr,
                y - 0.391_762 * cb - 0.812_968 * cr,
                y + 2.017_232 * cb,
            ];
            *pixel = rgb.map(|v| v.round().clamp(0.0, 255.0) as u8);
        }
        Ok(picture)
    }
}
