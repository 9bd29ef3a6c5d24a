//! What was tried, as a table, as a page with the pictures, and as settings.

use super::page;
use super::trial::Tried;
use crate::measured::Best;
use crate::table::{Align, Table};
use anyhow::{Context, Result};
use nino_engine::{Picture, media};
use serde::Serialize;
use std::path::Path;

/// How many times differences between pictures are shown.
pub(super) const GAIN: u8 = 8;

#[derive(Serialize)]
pub(super) struct Document {
    pub(super) model: String,
    pub(super) prompt: String,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) steps: usize,
    pub(super) device: String,
    pub(super) device_model: String,
    pub(super) min_psnr: f64,
    pub(super) runs: usize,
    /// Settings of a config file; none where the base is best.
    pub(super) settings: Vec<Best>,
    pub(super) rows: Vec<Row>,
}

#[derive(Serialize)]
pub(super) struct Row {
    pub(super) option: String,
    pub(super) median_ms: f64,
    pub(super) fastest_ms: f64,
    pub(super) slowest_ms: f64,
    pub(super) peak_bytes: usize,
    /// `None` where the picture is the same, byte for byte.
    pub(super) psnr: Option<f64>,
    pub(super) kept: bool,
    pub(super) picture: String,
    /// How it differs from the base's picture; `None` for the base.
    pub(super) difference: Option<String>,
}

impl Row {
    /// The row of a way, whose picture is written into the folder, and how it differs from the
    /// base's.
    pub(super) fn new(
        option: &str,
        tried: &Tried,
        base: Option<&Tried>,
        folder: &Path,
    ) -> Result<Row> {
        let name: String = option
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { '-' })
            .collect();
        let picture = format!("{name}.png");
        media::write_picture(&folder.join(&picture), &tried.picture, &[])?;
        let difference = match base {
            Some(base) => {
                let file = format!("{name}-difference.png");
                let shown = difference(&tried.picture, &base.picture);
                media::write_picture(&folder.join(&file), &shown, &[])?;
                Some(file)
            }
            None => None,
        };
        let ms = |i: usize| tried.times[i].as_secs_f64() * 1e3;
        Ok(Row {
            option: option.to_owned(),
            median_ms: tried.median().as_secs_f64() * 1e3,
            fastest_ms: ms(0),
            slowest_ms: ms(tried.times.len() - 1),
            peak_bytes: tried.peak_bytes,
            psnr: tried.psnr.is_finite().then_some(tried.psnr),
            kept: false,
            picture,
            difference,
        })
    }

    pub(super) fn kept(self, kept: bool) -> Row {
        Row { kept, ..self }
    }

    pub(super) fn likeness(&self) -> String {
        self.psnr
            .map_or_else(|| "same".to_owned(), |psnr| format!("{psnr:.1} dB"))
    }
}

/// How much two pictures differ, [`GAIN`] times.
fn difference(a: &Picture, b: &Picture) -> Picture {
    let pairs = a.rgb.iter().zip(&b.rgb);
    Picture {
        rgb: pairs
            .map(|(a, b)| a.abs_diff(*b).saturating_mul(GAIN))
            .collect(),
        ..a.clone()
    }
}

impl Document {
    pub(super) fn text(&self, folder: &Path) -> String {
        use Align::{Left, Right};
        let mut table = Table::new(&[
            ("option", Left),
            ("n", Right),
            ("median ms", Right),
            ("peak MiB", Right),
            ("PSNR", Right),
            ("", Left),
        ]);
        for row in &self.rows {
            table.push(vec![
                row.option.clone(),
                self.runs.to_string(),
                format!("{:.1}", row.median_ms),
                (row.peak_bytes >> 20).to_string(),
                row.likeness(),
                if row.kept { "kept" } else { "" }.to_owned(),
            ]);
        }
        let then = if self.settings.is_empty() {
            "nothing is better than f32 here".to_owned()
        } else {
            format!(
                "best: {}\nuse it: --profile measured, or --profile {}",
                self.lines().join(", "),
                folder.join("settings.toml").display()
            )
        };
        let page = folder.join("report.html");
        format!("{}\n\n{then}\nreport: {}", table.render(), page.display())
    }

    /// The settings as lines of a config file.
    fn lines(&self) -> Vec<String> {
        let line = |Best { key, value, .. }: &Best| match value.parse::<u64>() {
            Ok(number) => format!("{key} = {number}"),
            Err(_) => format!("{key} = \"{value}\""),
        };
        self.settings.iter().map(line).collect()
    }

    /// Writes `report.html` and `settings.toml`.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let by = format!(
            "# {} on {}, by nino optimize",
            self.model, self.device_model
        );
        let why = self.settings.iter().map(|best| &best.why);
        let lines = self.lines().into_iter().zip(why);
        let lines = lines.map(|(line, why)| format!("{line}  # {why}"));
        let settings: Vec<String> = std::iter::once(by).chain(lines).collect();
        let settings = settings.join("\n") + "\n";
        for (name, text) in [
            ("report.html", &page::render(self)),
            ("settings.toml", &settings),
        ] {
            let path = folder.join(name);
            let written = nino_files::AtomicFile::replace(&path, text.as_bytes());
            written.with_context(|| format!("{} cannot be written", path.display()))?;
        }
        Ok(())
    }
}
