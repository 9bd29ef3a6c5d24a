//! What `nino upscale` tells, as text and as JSON.

use crate::bytes::Bytes;
use crate::decode::device_text;
use crate::device::Opened;
use crate::resident;
use nino_engine::{Image, UpscaleModel, Upscaled};
use serde::Serialize;
use std::fmt;
use std::path::Path;
use std::time::Duration;

#[derive(Serialize)]
pub(super) struct Report {
    file: String,
    model: String,
    device: String,
    from_width: usize,
    from_height: usize,
    width: usize,
    height: usize,
    precision: String,
    /// Bands of rows that each piece of the network ran on.
    bands: Vec<usize>,
    measured_peak_bytes: usize,
    resident_peak_bytes: Option<usize>,
    load_ms: f64,
    upscale_ms: f64,
    total_ms: f64,
}

impl Report {
    pub(super) fn new(
        made: &Upscaled,
        model: &UpscaleModel,
        from: &Image,
        opened: &Opened,
        file: &Path,
        total: Duration,
    ) -> Report {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Report {
            file: file.display().to_string(),
            model: model.name.clone(),
            device: device_text(opened),
            from_width: from.width,
            from_height: from.height,
            width: made.image.width,
            height: made.image.height,
            precision: made.dtype.to_string(),
            bands: made.bands.clone(),
            measured_peak_bytes: made.measured_peak,
            resident_peak_bytes: resident::peak(),
            load_ms: ms(made.load_time),
            upscale_ms: ms(made.run_time),
            total_ms: ms(total),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.file)?;
        let how = match self.bands.iter().max() {
            Some(&most) if most > 1 => format!("in {most} bands"),
            _ => "whole".to_owned(),
        };
        writeln!(
            f,
            "  {}x{} from {}x{} with {}, {how} in {} on {}",
            self.width,
            self.height,
            self.from_width,
            self.from_height,
            self.model,
            self.precision,
            self.device
        )?;
        write!(
            f,
            "  {:.2} s (load {:.2}, upscale {:.2}), {} used",
            self.total_ms / 1e3,
            self.load_ms / 1e3,
            self.upscale_ms / 1e3,
            Bytes(self.measured_peak_bytes as u64),
        )
    }
}
