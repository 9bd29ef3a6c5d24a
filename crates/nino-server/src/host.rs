//! Files for graphs by ComfyUI's names, and a place for what they make.

use crate::app::App;
use crate::folders::{self, Folders, find_made};
use crate::job::Item;
use crate::names::Taken;
use crate::pictures;
use nino_engine::media::{PictureOptions, Stop, write_picture_with};
use nino_engine::{Image, Mask};
use nino_workflow::{Clip, Folder, Host, HostError, Latents, Made, Output, SampledLatent};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The program that a graph runs in, or is checked for.
pub(crate) struct ServerHost<'a> {
    app: &'a App,
    /// The job that runs; `None` while a graph is checked or planned.
    item: Option<Arc<Item>>,
    /// Ends other programs that read or write files.
    stop: Stop,
    /// The last sampled latent, where a stopped run left it.
    pub(crate) stopped: Option<nino_engine::Latent>,
}

impl<'a> ServerHost<'a> {
    pub(crate) fn to_check(app: &'a App) -> ServerHost<'a> {
        ServerHost {
            app,
            item: None,
            stop: Stop::never(),
            stopped: None,
        }
    }

    pub(crate) fn to_plan(app: &'a App, stop: Stop) -> ServerHost<'a> {
        ServerHost {
            stop,
            ..ServerHost::to_check(app)
        }
    }

    pub(crate) fn to_run(
        app: &'a App,
        item: &Arc<Item>,
        cancel: &Arc<AtomicBool>,
    ) -> ServerHost<'a> {
        let cancel = Arc::clone(cancel);
        ServerHost {
            item: Some(Arc::clone(item)),
            stop: Stop::when(move || cancel.load(Ordering::Relaxed)),
            ..ServerHost::to_check(app)
        }
    }

    /// Writes pictures with what made them, and says where they are.
    fn pictures(
        &self,
        images: &[Image],
        opacity: Option<&[Mask]>,
        kind: &str,
        prefix: &str,
    ) -> Result<Value, HostError> {
        let text = self.text();
        let text: Vec<(&str, String)> = text.iter().map(|(k, v)| (&**k, v.clone())).collect();
        let mut files = Vec::new();
        for (i, image) in images.iter().enumerate() {
            let name = self.name(kind, prefix, (image.width, image.height), "png")?;
            let opacity = opacity.and_then(|all| all.get(i)).map(Mask::to_bytes);
            let options = PictureOptions {
                text: &text,
                opacity: opacity.as_deref(),
                ..PictureOptions::default()
            };
            let written = write_picture_with(&name.path, &image.to_picture(), &options);
            written.map_err(HostError::new)?;
            files.push(name.to_json(kind));
        }
        let count = &self.app.counts.pictures;
        count.fetch_add(images.len() as u64, Ordering::Relaxed);
        Ok(json!({ "images": files }))
    }

    /// Writes a clip, and says where it is as ComfyUI does.
    fn clip(&self, clip: &Clip, output: &Output<'_>) -> Result<Value, HostError> {
        let size = clip.images.first().map_or((0, 0), |i| (i.width, i.height));
        let extension = clip.extension(output.class);
        let name = self.name("output", &output.prefix, size, extension)?;
        let written = clip.write(&name.path, self.text(), self.stop.clone());
        written.map_err(HostError::new)?;
        self.app.counts.pictures.fetch_add(1, Ordering::Relaxed);
        Ok(json!({ "images": [name.to_json("output")], "animated": [true] }))
    }

    fn latent(&self, latents: &Latents, prefix: &str) -> Result<Value, HostError> {
        let name = self.name("output", prefix, (0, 0), "latent")?;
        let about: BTreeMap<String, String> = self.text().into_iter().collect();
        let saved = latents.latent.save(&name.path, &about);
        saved.map_err(HostError::new)?;
        Ok(json!({ "latents": [name.to_json("output")] }))
    }

    /// What a file says of how it was made: the graph, and what the client sent along.
    fn text(&self) -> Vec<(String, String)> {
        let Some(item) = &self.item else {
            return Vec::new();
        };
        let more = item.extra["extra_pnginfo"]
            .as_object()
            .into_iter()
            .flatten();
        let more = more.map(|(key, value)| (key.clone(), value.to_string()));
        let prompt = ("prompt".to_owned(), item.prompt.to_string());
        std::iter::once(prompt).chain(more).collect()
    }

    /// A name that is free: the prefix, which may have folders in it, and a number.
    fn name(
        &self,
        kind: &str,
        prefix: &str,
        size: (usize, usize),
        extension: &str,
    ) -> Result<Name<'a>, HostError> {
        let base = self
            .app
            .folders
            .of_type(kind)
            .unwrap_or(&self.app.folders.temp);
        let prefix = filled(prefix, size).replace('\\', "/");
        let (subfolder, stem) = prefix.rsplit_once('/').unwrap_or(("", &prefix));
        let refused = || HostError::new(format!("filename_prefix {prefix:?} is no name of files"));
        let folder = folders::below(base, &[subfolder]).map_err(|_| refused())?;
        folders::below(&folder, &[&format!("{stem}_")]).map_err(|_| refused())?;
        std::fs::create_dir_all(&folder).map_err(HostError::new)?;
        let names = &self.app.names;
        let (file, taken) = names
            .take_number(&folder, stem, extension)
            .map_err(HostError::new)?;
        Ok(Name {
            path: folder.join(&file),
            file,
            subfolder: subfolder.to_owned(),
            _taken: taken,
        })
    }
}

/// A file that is written. Its name is its own as long as this is there.
struct Name<'a> {
    path: PathBuf,
    file: String,
    subfolder: String,
    _taken: Taken<'a>,
}

impl Name<'_> {
    fn to_json(&self, kind: &str) -> Value {
        json!({ "filename": self.file, "subfolder": self.subfolder, "type": kind })
    }
}

/// Whether a file's name says that it is a clip.
fn is_clip(name: &str) -> bool {
    let extension = name.rsplit('.').next().unwrap_or_default();
    let extension = extension.to_ascii_lowercase();
    [
        "mp4", "webm", "mkv", "mov", "avi", "m4v", "gif", "webp", "apng", "y4m",
    ]
    .contains(&&*extension)
}

fn is_audio(name: &str) -> bool {
    let extension = name.rsplit('.').next().unwrap_or_default();
    let extension = extension.to_ascii_lowercase();
    ["wav", "mp3", "flac", "ogg", "opus", "m4a", "aac"].contains(&&*extension)
}

/// ComfyUI's words in a prefix, with their values. The time is UTC.
fn filled(prefix: &str, (width, height): (usize, usize)) -> String {
    if !prefix.contains('%') {
        return prefix.to_owned();
    }
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = since.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let words = [
        ("%width%", width.to_string()),
        ("%height%", height.to_string()),
        ("%year%", year.to_string()),
        ("%month%", format!("{month:02}")),
        ("%day%", format!("{day:02}")),
        ("%hour%", format!("{:02}", seconds / 3600 % 24)),
        ("%minute%", format!("{:02}", seconds / 60 % 60)),
        ("%second%", format!("{:02}", seconds % 60)),
    ];
    let replace = |text: String, (word, value): &(&str, String)| text.replace(word, value);
    words.iter().fold(prefix.to_owned(), replace)
}

/// Year, month and day of a day since 1970, in the Gregorian calendar.
fn date(days: u64) -> (u64, u64, u64) {
    // Years that begin in March have the leap day at their end.
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

impl Host for ServerHost<'_> {
    fn find(&self, folder: Folder, name: &str) -> Result<PathBuf, HostError> {
        if !folder.is_input() {
            return self.app.models.find(folder.name(), name);
        }
        let (file, kind) = Folders::annotated(name);
        let base = self.app.folders.of_type(kind.unwrap_or("input"));
        let found = folders::file(base.unwrap_or(&self.app.folders.input), &[file]);
        // ComfyUI's words.
        let what = match folder {
            Folder::InputLatents => "latent",
            Folder::InputVideos => "video",
            Folder::InputAudio => "audio",
            _ => "image",
        };
        found.map_err(|_| HostError::new(format!("Invalid {what} file: {name}")))
    }

    fn list(&self, folder: Folder) -> Option<Vec<String>> {
        if !folder.is_input() {
            return Some(self.app.models.names(folder.name()).unwrap_or_default());
        }
        let entries = std::fs::read_dir(&self.app.folders.input)
            .into_iter()
            .flatten();
        let files = entries.flatten().filter(|entry| entry.path().is_file());
        let names = files.filter_map(|entry| entry.file_name().into_string().ok());
        let wanted = |name: &String| match folder {
            Folder::InputLatents => name.ends_with(".latent") || name.ends_with(".safetensors"),
            Folder::InputVideos => is_clip(name),
            Folder::InputAudio => is_audio(name) || is_clip(name),
            _ => pictures::content_type(name).starts_with("image/"),
        };
        let mut names: Vec<String> = names.filter(wanted).collect();
        names.sort_unstable();
        Some(names)
    }

    fn embeddings(&self) -> Vec<PathBuf> {
        self.app.models.embeddings()
    }

    fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Whether the files of a result are all there: a user may have removed some.
    fn is_there(&self, told: &Value) -> bool {
        let lists = told.as_object().into_iter().flatten();
        let entries = lists.flat_map(|(_, list)| list.as_array().into_iter().flatten());
        let mut files = entries.filter(|entry| entry["filename"].is_string());
        files.all(|file| find_made(&self.app.folders, file).is_ok())
    }

    fn output(&mut self, output: &Output<'_>) -> Result<Value, HostError> {
        self.stopped = None;
        if self.item.is_none() {
            // A plan makes nothing.
            return Ok(json!({}));
        }
        let opacity = output.opacity.as_deref().map(Vec::as_slice);
        match &output.made {
            Made::Images(images) => self.pictures(images, opacity, "output", &output.prefix),
            Made::Previews(images) => {
                let prefix = format!("{}_temp_{}", output.prefix, output.node);
                self.pictures(images, opacity, "temp", &prefix.replace([':', '/'], "_"))
            }
            Made::Sent(images) => {
                let client = self.item.as_ref().and_then(|item| item.client.as_deref());
                for (i, image) in images.iter().enumerate() {
                    let opacity = opacity.and_then(|all| all.get(i)).map(Mask::to_bytes);
                    let options = PictureOptions {
                        opacity: opacity.as_deref(),
                        ..PictureOptions::default()
                    };
                    let png = pictures::encode_with(&image.to_picture(), "png", &options);
                    let png = png.map_err(HostError::new)?;
                    self.app.hub.picture(client, &png);
                }
                Ok(Value::Null)
            }
            Made::Latent(latents) => self.latent(latents, &output.prefix),
            Made::Clip(clip) => self.clip(clip, output),
            Made::Texts(texts) => Ok(json!({ "text": texts })),
        }
    }

    fn sampled(&mut self, sampled: &SampledLatent<'_>) {
        self.stopped = sampled.stopped.map(|_| sampled.latent.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(19_723), (2024, 1, 1));
        assert_eq!(date(20_819), (2027, 1, 1));
    }

    #[test]
    fn sizes_are_filled_in() {
        assert_eq!(filled("x_%width%x%height%", (64, 32)), "x_64x32");
    }
}
