//! `nino config`: what is set, where it comes from, and a file to begin with.

use crate::args::{ConfigArgs, ConfigVerb};
use crate::env::Env;
use crate::failure::{Usage, UsageWithHint};
use crate::naming::make_folder_of;
use crate::printer::Printer;
use crate::settings::{self, KEYS, OLD_KEYS};
use crate::table::{Align, Table};
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Serialize)]
struct Document {
    /// Where the config file is looked for.
    file: Option<PathBuf>,
    exists: bool,
    settings: Vec<Setting>,
}

#[derive(Serialize)]
struct Setting {
    name: &'static str,
    /// `None` where nothing sets it.
    value: Option<String>,
    /// Who sets it.
    from: Option<String>,
    about: &'static str,
}

pub(crate) fn run(args: &ConfigArgs, printer: Printer) -> Result<()> {
    if let Some(ConfigVerb::Explain { key }) = &args.verb {
        return explain(key.as_deref(), printer);
    }
    // Without the environment's settings: a broken file must not keep it from being found.
    let path = crate::env::config_path();
    if args.init {
        return init(args, path, printer);
    }
    if args.path {
        let path = path.ok_or_else(no_place)?;
        printer.text(path.display())?;
        return printer.document(&serde_json::json!({ "file": path, "exists": path.exists() }));
    }
    let env = Env::read()?;
    let said = env.settings.all();
    let settings = KEYS.map(|(name, about)| Setting {
        name,
        value: said.get(name).map(|s| s.value.clone()),
        from: said.get(name).map(|s| s.by.clone()),
        about,
    });
    let document = Document {
        exists: env.settings.file.is_some(),
        file: path,
        settings: settings.into(),
    };
    printer.text(text(&document))?;
    printer.document(&document)
}

/// What settings do: those whose name is `key`, or all.
fn explain(key: Option<&str>, printer: Printer) -> Result<()> {
    let ours = KEYS.iter().map(|(name, about)| (*name, *about));
    let all: Vec<_> = ours
        .chain(OLD_KEYS.iter().map(|old| (old.name, old.about)))
        .filter(|(name, _)| key.is_none_or(|key| key == *name))
        .collect();
    if let (Some(key), true) = (key, all.is_empty()) {
        let names = KEYS.iter().map(|(name, _)| *name);
        let names = names.chain(OLD_KEYS.iter().map(|old| old.name));
        let near = nino_engine::nearest(key, names);
        let sentence = format!("no setting is called {key:?}");
        if near.is_empty() {
            return Err(Usage(format!("{sentence}; `nino config` lists them")).into());
        }
        return Err(UsageWithHint {
            sentence,
            hint: format!("did you mean {}?", near.join(" or ")),
        }
        .into());
    }
    let mut table = Table::new(&[("setting", Align::Left), ("what it does", Align::Left)]);
    let rows = all.iter().map(|(name, about)| [*name, *about]);
    rows.for_each(|row| table.push(row.map(str::to_owned).to_vec()));
    printer.text(table.render())?;
    let settings: serde_json::Map<String, serde_json::Value> = all
        .iter()
        .map(|(name, about)| ((*name).to_owned(), (*about).into()))
        .collect();
    printer.document(&serde_json::json!({ "settings": settings }))
}

fn text(document: &Document) -> String {
    let mut table = Table::new(&[
        ("setting", Align::Left),
        ("value", Align::Left),
        ("from", Align::Left),
    ]);
    for setting in &document.settings {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        table.push(vec![
            setting.name.to_owned(),
            or_dash(&setting.value),
            or_dash(&setting.from),
        ]);
    }
    let file = match (&document.file, document.exists) {
        (Some(path), true) => format!("The config file is {}.", path.display()),
        (Some(path), false) => format!(
            "There is no config file yet; `nino config --init` writes {}.",
            path.display()
        ),
        (None, _) => {
            "There is no path for a config file: neither HOME nor NINO_CONFIG is set.".to_owned()
        }
    };
    format!("{}\n\n{file}", table.render())
}

/// Writes a file in which every setting is a comment.
fn init(args: &ConfigArgs, path: Option<PathBuf>, printer: Printer) -> Result<()> {
    let path = path.ok_or_else(no_place)?;
    if path.exists() && !args.force {
        return Err(UsageWithHint {
            sentence: format!("{} already exists", path.display()),
            hint: "--force replaces it".to_owned(),
        }
        .into());
    }
    make_folder_of(&path)?;
    let written = nino_files::AtomicFile::replace(&path, template().as_bytes());
    written.context("the config file cannot be written")?;
    printer.text(path.display())?;
    printer.document(&serde_json::json!({ "file": path, "exists": true }))
}

fn no_place() -> Usage {
    Usage("there is no path for a config file: set HOME or NINO_CONFIG".to_owned())
}

/// A config file with every setting, none of which is in force.
fn template() -> String {
    let head = "# Settings of nino. Remove the # to enable a line. Variables (NINO_MODEL and so \
                on) take # precedence over this file, and flags over both. `nino config` shows the \
                values in effect.";
    let setting = |(key, about): (&str, &str)| {
        let example = match key {
            "profile" => "\"rx580-8gb\"",
            "device" => "\"gpu:0\"",
            "gpu_tier" => "\"f16\"",
            "text_device" => "\"cpu\"",
            "budget" => "\"6GiB\"",
            "threads" => "8",
            "precision" => "\"fp16\"",
            "tile" => "\"fast\"",
            "tile_size" => "512",
            "overlap" => "96",
            "quantize" => "\"q8_0\"",
            "models" => "[\"/data/models\", \"/data/more-models\"]",
            "comfyui" => "\"/opt/ComfyUI\"",
            "model" => "\"sd15\"",
            "steps" => "20",
            "sampler" => "\"dpmpp_2m\"",
            "scheduler" => "\"karras\"",
            "size" => "\"512x768\"",
            "output_dir" => "\"pictures\"",
            "output_name" => "\"{prompt}-{seed}\"",
            _ => "\"\"",
        };
        let variable = settings::variable(key);
        format!("\n# {about} ({variable})\n# {key} = {example}\n")
    };
    let settings: Vec<String> = KEYS.into_iter().map(setting).collect();
    format!("{head}{}", settings.concat())
}

#[cfg(test)]
mod tests {
    use super::template;
    use crate::settings::{KEYS, Settings};

    #[test]
    fn every_line_of_the_file_to_begin_with_can_be_put_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        let lines = template();
        let lines = lines.lines().filter_map(|l| l.strip_prefix("# "));
        let in_force: Vec<&str> = lines.filter(|l| l.contains(" = ")).collect();
        assert_eq!(in_force.len(), KEYS.len());
        std::fs::write(&path, in_force.join("\n")).unwrap();
        let settings = Settings::read(|_| None, Some(&path), true).unwrap();
        assert_eq!(settings.all().len(), KEYS.len());
        assert!(settings.all().values().all(|s| !s.value.is_empty()));
        std::fs::write(&path, template()).unwrap();
        let settings = Settings::read(|_| None, Some(&path), true).unwrap();
        assert!(settings.all().is_empty(), "comments alone");
    }
}
