//! What was tried, as a table, as a page with the pictures, and as settings.

use super::trial::Tried;
use crate::table::{Align, Table};
use anyhow::{Context, Result};
use nino_engine::media;
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
pub(super) struct Document {
    pub(super) model: String,
    pub(super) device: String,
    pub(super) min_psnr: f64,
    pub(super) runs: usize,
    /// Lines of a config file; none where the base is best.
    pub(super) settings: Vec<String>,
    pub(super) rows: Vec<Row>,
}

#[derive(Serialize)]
pub(super) struct Row {
    option: String,
    median_ms: f64,
    fastest_ms: f64,
    slowest_ms: f64,
    peak_bytes: usize,
    /// `None` where the picture is the same, byte for byte.
    psnr: Option<f64>,
    kept: bool,
    picture: String,
}

impl Row {
    /// The row of a way, whose picture is written into the folder.
    pub(super) fn new(option: &str, tried: &Tried, folder: &Path) -> Result<Row> {
        let name: String = option
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { '-' })
            .collect();
        let picture = format!("{name}.png");
        media::write_picture(&folder.join(&picture), &tried.picture, &[])?;
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
        })
    }

    pub(super) fn kept(self, kept: bool) -> Row {
        Row { kept, ..self }
    }

    fn likeness(&self) -> String {
        self.psnr
            .map_or_else(|| "same".to_owned(), |psnr| format!("{psnr:.1} dB"))
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
            ("like f32", Right),
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
            format!("best: {}", self.settings.join(", "))
        };
        let page = folder.join("report.md");
        format!("{}\n\n{then}\nreport: {}", table.render(), page.display())
    }

    /// Writes `report.md` and `settings.toml`.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let head = format!(
            "# {} on {}\n\nMedians of {} runs after one that warmed up; likeness at least {} dB.\n\n\
             | option | median ms | fastest to slowest | peak MiB | like f32 | kept | picture |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n",
            self.model, self.device, self.runs, self.min_psnr
        );
        let line = |row: &Row| {
            format!(
                "| {} | {:.1} | {:.1} to {:.1} | {} | {} | {} | ![]({}) |\n",
                row.option,
                row.median_ms,
                row.fastest_ms,
                row.slowest_ms,
                row.peak_bytes >> 20,
                row.likeness(),
                if row.kept { "yes" } else { "" },
                row.picture
            )
        };
        let page = head + &self.rows.iter().map(line).collect::<String>();
        let by = format!("# {} on {}, by nino optimize", self.model, self.device);
        let settings = [&[by][..], &self.settings].concat().join("\n") + "\n";
        for (name, text) in [("report.md", &page), ("settings.toml", &settings)] {
            let path = folder.join(name);
            let written = nino_files::AtomicFile::replace(&path, text.as_bytes());
            written.with_context(|| format!("{} cannot be written", path.display()))?;
        }
        Ok(())
    }
}
