//! Names of files that the program makes up, and templates of names that the user gives.

use crate::failure::Usage;
use nino_files::FileError;
use std::path::{Component, Path, PathBuf};

/// What a template's words in braces stand for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    pub(crate) prompt: &'a str,
    pub(crate) seed: u64,
    pub(crate) model: &'a str,
}

/// The name of a file, with words in braces: `{prompt}-{seed}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(String);

const KNOWN: [&str; 4] = ["{prompt}", "{seed}", "{model}", "{n}"];

impl Template {
    /// An error where it has a word in braces that stands for nothing.
    pub(crate) fn new(text: &str) -> Result<Template, Usage> {
        let mut rest = text;
        while let Some((_, after)) = rest.split_once('{') {
            let Some((word, after)) = after.split_once('}') else {
                break;
            };
            if !KNOWN.contains(&format!("{{{word}}}").as_str()) {
                return Err(Usage(format!(
                    "{{{word}}} is not a placeholder of file names; there are {}",
                    KNOWN.join(", ")
                )));
            }
            rest = after;
        }
        Ok(Template(text.to_owned()))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// The folders that are there before anything is filled in.
    pub(crate) fn folder(&self) -> PathBuf {
        let folders = Path::new(&self.0).parent().into_iter();
        let fixed = folders.flat_map(Path::components);
        let is_fixed = |part: &Component<'_>| !part.as_os_str().to_string_lossy().contains('{');
        fixed.take_while(is_fixed).collect()
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.contains(&format!("{{{word}}}"))
    }

    /// The name; where it counts, with the first number from 1 that `is_free` takes.
    pub(crate) fn fill(&self, words: Words<'_>, is_free: impl Fn(&str) -> bool) -> String {
        let stem = words.model.rsplit_once('.').map_or(words.model, |(s, _)| s);
        let name = self
            .0
            .replace("{prompt}", &slug(words.prompt))
            .replace("{seed}", &words.seed.to_string())
            .replace("{model}", &slug(stem));
        if !self.has("n") {
            return name;
        }
        let mut numbered = (1usize..).map(|n| name.replace("{n}", &n.to_string()));
        numbered.find(|name| is_free(name)).unwrap_or(name)
    }
}

/// A text as the name of a file: its words, joined by dashes.
pub(crate) fn slug(text: &str) -> String {
    const MOST: usize = 60;
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|w| !w.is_empty()).collect();
    let name = words.join("-").to_lowercase();
    let name: String = name.chars().take(MOST).collect();
    if name.is_empty() {
        "picture".to_owned()
    } else {
        name
    }
}

/// As [`unused`], and there is no latent of this name either that waits for its picture.
pub(crate) fn unused_picture(folder: &Path, name: &str, extension: &str) -> PathBuf {
    first_free(folder, name, extension, |path| {
        is_unused(path) && !path.with_extension("latent").exists()
    })
}

/// `name.png`, or the first of `name-2.png`, `name-3.png` and so on that is not there, nor as the
/// first picture of a batch.
pub(crate) fn unused(folder: &Path, name: &str, extension: &str) -> PathBuf {
    first_free(folder, name, extension, is_unused)
}

fn is_unused(path: &Path) -> bool {
    !path.exists() && !numbered(path, 0).exists()
}

fn first_free(
    folder: &Path,
    name: &str,
    extension: &str,
    is_free: impl Fn(&Path) -> bool,
) -> PathBuf {
    let path = |name: String| folder.join(format!("{name}.{extension}"));
    let counted = (2usize..).map(|n| path(format!("{name}-{n}")));
    let mut names = std::iter::once(path(name.to_owned())).chain(counted);
    names.find(|p| is_free(p)).expect("numbers do not end")
}

/// `out_00001.png` for `out.png`.
pub(crate) fn numbered(output: &Path, i: usize) -> PathBuf {
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    let name = match output.extension() {
        Some(e) => format!("{stem}_{i:05}.{}", e.to_string_lossy()),
        None => format!("{stem}_{i:05}"),
    };
    output.with_file_name(name)
}

/// Whether a path means a folder: one that is there, or one with a separator at its end.
pub(crate) fn is_folder(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.ends_with(['/', std::path::MAIN_SEPARATOR]) || path.is_dir()
}

/// Makes the folder of a file that will be written.
pub(crate) fn make_folder_of(file: &Path) -> Result<(), FileError> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            make(folder, file, "create the folder of")
        }
        _ => Ok(()),
    }
}

/// Makes a folder, where it is named and not there.
pub(crate) fn make_folder(folder: &Path) -> Result<(), FileError> {
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    make(folder, folder, "create the folder")
}

fn make(folder: &Path, told: &Path, action: &'static str) -> Result<(), FileError> {
    std::fs::create_dir_all(folder).map_err(|reason| FileError::Io {
        path: told.to_owned(),
        action,
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_up_where_a_picture_a_batch_or_a_latent_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let next = || unused_picture(folder.path(), "a-fox-7", "png");
        for (expected, made) in [
            ("a-fox-7.png", "a-fox-7.png"),
            ("a-fox-7-2.png", "a-fox-7-2_00000.png"),
            ("a-fox-7-3.png", "a-fox-7-3.latent"),
        ] {
            assert_eq!(next(), folder.path().join(expected));
            std::fs::write(folder.path().join(made), "").unwrap();
        }
        assert_eq!(next(), folder.path().join("a-fox-7-4.png"));
    }

    #[test]
    fn templates_are_filled() {
        let words = Words {
            prompt: "A Fox, in ../../snow!",
            seed: 7,
            model: "sd15.safetensors",
        };
        let fill = |text: &str| {
            let template = Template::new(text).unwrap();
            template.fill(words, |name| !name.ends_with('1'))
        };
        assert_eq!(fill("{prompt}-{seed}"), "a-fox-in-snow-7");
        assert_eq!(fill("{model}/{n}"), "sd15/2");
        assert_eq!(fill("plain"), "plain");
        let folder = |text: &str| Template::new(text).unwrap().folder();
        assert_eq!(folder("a/b/{model}/c/{n}.png"), Path::new("a/b"));
        assert_eq!(folder("{n}.png"), Path::new(""));
        let error = Template::new("{sead}").unwrap_err().to_string();
        assert!(
            error.contains("{sead}") && error.contains("{seed}"),
            "{error}"
        );
        assert_eq!(slug("!!!"), "picture");
    }
}
