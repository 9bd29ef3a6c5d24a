//! Where pictures go, and where the sampled latent is kept until they are there.

use crate::args::{BatchArg, GenerateArgs};
use crate::failure::Usage;
use crate::naming::{
    Template, Words, is_folder, make_folder, make_folder_of, numbered, unused_picture,
};
use crate::overwrite::{Guard, latent_name};
use crate::printer;
use crate::settings::Settings;
use crate::stdout;
use anyhow::Result;
use nino_engine::media::{PictureOptions, can_write, can_write_picture, write_picture_with};
use nino_engine::{Generated, Picture};
use std::path::{Path, PathBuf};

/// Names of pictures where none are given.
const NAMES: &str = "{prompt}-{seed}";

/// Where the pictures of a run go.
pub(super) struct Outputs<'a> {
    args: &'a GenerateArgs,
    place: Place,
    /// Prompts, each of which makes `--count` pictures.
    prompts: usize,
    guard: Guard,
}

enum Place {
    /// A file that the user names; several pictures are numbered.
    File(PathBuf),
    /// A file whose name is filled in; pictures that get the same name are numbered.
    Named(Template),
    /// A folder, where names count up and no file is overwritten.
    Folder(PathBuf, Template),
    Stdout,
}

impl<'a> Outputs<'a> {
    /// Pictures of so many prompts, which must not be what `guard` keeps.
    pub(super) fn new(
        args: &'a GenerateArgs,
        settings: &Settings,
        prompts: usize,
        guard: Guard,
    ) -> Result<Outputs<'a>, Usage> {
        let names = || Template::new(settings.text("output_name").unwrap_or(NAMES));
        let place = match &args.output {
            Some(path) if stdout::is_meant(path) => Place::Stdout,
            Some(path) if is_folder(path) => Place::Folder(path.clone(), names()?),
            Some(path) => match path.to_str().filter(|text| text.contains('{')) {
                Some(text) => Place::Named(Template::new(text)?),
                None => Place::File(path.clone()),
            },
            None => {
                let folder = settings.text("output_dir").unwrap_or_default();
                Place::Folder(PathBuf::from(folder), names()?)
            }
        };
        Ok(Outputs {
            args,
            place,
            prompts,
            guard,
        })
    }

    /// Says now, not after minutes of sampling, that there is no place for a picture, or that it is
    /// one where something would be lost. Folders are made.
    pub(super) fn check(&self, json: bool) -> Result<()> {
        match &self.place {
            Place::Stdout => self.check_stdout(json)?,
            Place::Folder(folder, _) => {
                make_folder(folder)?;
                can_write_picture(&folder.join("picture.png"))?;
            }
            Place::File(path) => {
                let path = self.several(path, 0);
                make_folder_of(&path)?;
                can_write_picture(&path)?;
                self.guard.check(&path)?;
            }
            Place::Named(template) => {
                let folder = template.folder();
                make_folder(&folder)?;
                let extension = Path::new(template.text()).extension().unwrap_or_default();
                can_write_picture(&folder.join("picture").with_extension(extension))?;
            }
        }
        if let Some(file) = &self.args.preview.preview {
            make_folder_of(file)?;
            can_write_picture(file)?;
            self.guard.check(file)?;
        }
        if let Some(file) = &self.args.save_latent {
            latent_name(file)?;
            make_folder_of(file)?;
            can_write(file)?;
            self.guard.check(file)?;
        }
        self.tell_ineffective();
        Ok(())
    }

    fn check_stdout(&self, json: bool) -> Result<(), Usage> {
        if self.pictures() > 1 || self.args.batch != BatchArg::Count(1) {
            let text = "-o - writes one image to standard output, and this run makes several";
            return Err(Usage(text.to_owned()));
        }
        stdout::check("an image", json)
    }

    fn tell_ineffective(&self) {
        let is_jpeg = match &self.place {
            Place::File(path) => is_jpeg(path),
            Place::Named(name) | Place::Folder(_, name) => is_jpeg(Path::new(name.text())),
            Place::Stdout => false,
        };
        if self.args.quality.is_some() && !is_jpeg {
            printer::note("--quality has no effect: it is for JPEG files, such as -o fox.jpg");
        }
    }

    fn pictures(&self) -> usize {
        self.prompts * self.args.count as usize
    }

    /// Whether the picture goes to standard output and has no file.
    pub(super) fn is_stdout(&self) -> bool {
        matches!(self.place, Place::Stdout)
    }

    /// [`Outputs::path`] for a picture that is made next: its folder is there, and nothing is lost
    /// when it is written.
    pub(super) fn place(&self, words: Words<'_>, i: usize) -> Result<PathBuf> {
        let path = self.path(words, i);
        if !self.is_stdout() {
            self.guard.check(&path)?;
            make_folder_of(&path)?;
        }
        Ok(path)
    }

    /// The file of picture `i` of all: as asked for, numbered where several would have one name;
    /// else named after a template, and counted up where such a picture is there already.
    pub(super) fn path(&self, words: Words<'_>, i: usize) -> PathBuf {
        match &self.place {
            Place::File(path) => self.several(path, i),
            Place::Named(template) => {
                let name = template.fill(words, |name| !Path::new(name).exists());
                if self.is_distinct(template) {
                    PathBuf::from(name)
                } else {
                    self.several(Path::new(&name), i)
                }
            }
            Place::Folder(folder, template) => {
                let name = template.fill(words, |name| !folder.join(with_extension(name)).exists());
                let path = PathBuf::from(with_extension(&name));
                let extension = path.extension().unwrap_or_default().to_string_lossy();
                let stem = path.with_extension("");
                unused_picture(folder, &stem.to_string_lossy(), &extension)
            }
            // Only what is kept of a run that fails has a file.
            Place::Stdout => unused_picture(&std::env::temp_dir(), "picture", "png"),
        }
    }

    /// Whether all pictures of the run get different names by themselves.
    fn is_distinct(&self, template: &Template) -> bool {
        let by_prompt = self.prompts == 1 || template.has("prompt");
        let by_seed = self.args.count == 1 || template.has("seed");
        template.has("n") || (by_prompt && by_seed)
    }

    /// Where `--save-latent` keeps the latent of picture `i`.
    pub(super) fn latent(&self, i: usize) -> Option<PathBuf> {
        let path = self.args.save_latent.as_deref()?;
        Some(self.several(path, i))
    }

    /// The name, numbered where the run makes several pictures.
    fn several(&self, path: &Path, i: usize) -> PathBuf {
        if self.pictures() == 1 {
            path.to_owned()
        } else {
            numbered(path, i)
        }
    }

    /// Writes all pictures of a batch, of which `output` is the first or only one.
    pub(super) fn write(
        &self,
        output: &Path,
        made: &Generated,
        text: &[(&str, String)],
    ) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for (i, picture) in made.pictures.iter().enumerate() {
            let path = if made.pictures.len() == 1 {
                output.to_owned()
            } else {
                numbered(output, i)
            };
            self.write_one(&path, picture, None, text)?;
            files.push(path);
        }
        Ok(files)
    }

    /// Writes one picture to `path`, with how opaque its pixels are, or to standard output where
    /// that is asked for.
    pub(super) fn write_one(
        &self,
        path: &Path,
        picture: &Picture,
        opacity: Option<&[u8]>,
        text: &[(&str, String)],
    ) -> Result<()> {
        let mut options = PictureOptions {
            text: if self.args.no_metadata { &[] } else { text },
            opacity,
            ..PictureOptions::default()
        };
        options.quality = self.args.quality.unwrap_or(options.quality);
        if self.is_stdout() {
            stdout::picture(picture, &options)?;
        } else {
            // A graph names its files as it goes.
            self.guard.check(path)?;
            make_folder_of(path)?;
            write_picture_with(path, picture, &options)?;
        }
        Ok(())
    }
}

/// A template says the format by its end, or it is PNG.
fn with_extension(name: &str) -> String {
    let lower = name.to_lowercase();
    let known = ["png", "jpg", "jpeg", "webp"];
    if known.iter().any(|e| lower.ends_with(&format!(".{e}"))) {
        name.to_owned()
    } else {
        format!("{name}.png")
    }
}

fn is_jpeg(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|e| e.eq_ignore_ascii_case("jpg") || e.eq_ignore_ascii_case("jpeg"))
}
