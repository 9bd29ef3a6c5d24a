//! YUV4MPEG2, the uncompressed video every tool reads: 4:4:4, BT.601, limited range.

use super::{FrameSink, MediaError, Pending, io_error};
use crate::Picture;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

pub(super) struct Y4m {
    file: BufWriter<File>,
    pending: Pending,
}

impl Y4m {
    pub(super) fn create(
        path: &Path,
        (width, height): (usize, usize),
        fps: f64,
    ) -> Result<Y4m, MediaError> {
        let pending = Pending::new(path);
        let file = File::create(&pending.temporary).map_err(io_error(path, "create the file"))?;
        let mut file = BufWriter::new(file);
        let (rate, base) = ((fps * 1000.0).round() as u64, 1000);
        writeln!(
            file,
            "YUV4MPEG2 W{width} H{height} F{rate}:{base} Ip A1:1 C444"
        )
        .map_err(io_error(path, "write"))?;
        Ok(Y4m { file, pending })
    }
}

impl FrameSink for Y4m {
    fn frame(&mut self, picture: &Picture) -> Result<(), MediaError> {
        let planes = to_yuv(picture);
        self.file
            .write_all(b"FRAME\n")
            .and_then(|()| self.file.write_all(&planes))
            .map_err(io_error(&self.pending.path, "write"))
    }

    fn finish(mut self: Box<Self>) -> Result<(), MediaError> {
        self.file
            .flush()
            .map_err(io_error(&self.pending.path, "write"))?;
        self.pending.keep()
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
            planes[plane * n + i] = v.round() as u8;
        }
    }
    planes
}
