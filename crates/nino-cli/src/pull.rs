//! `nino pull`: downloads a model, and says how to use it.

mod failure;
mod report;
mod screen;

use crate::args::PullArgs;
use crate::bytes::Bytes;
use crate::env::Env;
use crate::failure::Usage;
use crate::list::facts::{self, What};
use crate::printer::Printer;
use anyhow::Result;
pub(crate) use failure::{HubError, told};
use nino_hub::{Alias, Choice, Files, Hub, HubOptions, Limits, Plan, Planned, Revision, Target};
use report::{Document, Pulled, Use};
use screen::Screen;
use std::path::{Path, PathBuf};

pub(crate) fn run(args: &PullArgs, env: &Env, printer: Printer) -> Result<()> {
    let Some(what) = args.what.as_ref().filter(|_| !args.list) else {
        return report::aliases(printer);
    };
    let hub = Hub::new(HubOptions {
        endpoint: env.hf_endpoint.clone(),
        token: env.hf_token.clone(),
        cache: cache(env)?,
        limits: Limits::default(),
        proxy: true,
    });
    let hub = hub.map_err(told)?;
    let target = hub.target(what).map_err(told)?;
    let plan = plan(&hub, &target, args)?;
    if !printer.quiet || args.dry_run {
        printer.text(report::head(what, &plan))?;
    }
    let mut document = Document::new(&target, &plan);
    if args.dry_run {
        return printer.document(&document);
    }
    hub.check_room(&plan).map_err(told)?;
    for planned in &plan.files {
        document.files.push(fetch(&hub, planned, printer)?);
    }
    document.use_it = use_of(&target, &plan, &document.files, env);
    if let Some(use_it) = document.use_it.as_ref().filter(|_| !printer.quiet) {
        printer.text(format!("use it: {}", use_it.command))?;
    }
    printer.document(&document)
}

/// Where downloads are.
pub(crate) fn cache(env: &Env) -> Result<PathBuf, Usage> {
    let none = || Usage("there is no home folder for downloads: set HF_HUB_CACHE".to_owned());
    env.hf_cache.clone().ok_or_else(none)
}

/// Short names and the files they stand for, as the library finds them among downloads.
pub(crate) fn short_names() -> Vec<(String, String)> {
    let each = Alias::all().filter_map(|alias| {
        let first = alias.files.first()?;
        Some((alias.name.to_owned(), format!("{}/{first}", alias.repo)))
    });
    each.collect()
}

/// The files of a short name beside the model that it stands for, as the library finds them.
#[derive(Debug, Default)]
pub(crate) struct PartFiles {
    pub(crate) clip: Vec<PathBuf>,
    pub(crate) vae: Option<PathBuf>,
    pub(crate) clip_vision: Option<PathBuf>,
    pub(crate) audio_encoder: Option<PathBuf>,
    /// The expert for low noise.
    pub(crate) low_noise: Option<PathBuf>,
}

/// The other files of a short name, by the folders they are in. None of any other name.
pub(crate) fn parts_of(name: &str) -> PartFiles {
    let mut parts = PartFiles::default();
    let Some(alias) = Alias::find(name).filter(|alias| alias.runs) else {
        return parts;
    };
    for (repo, file) in alias.all_files().skip(1) {
        let full = PathBuf::from(format!("{repo}/{file}"));
        if file.contains("text_encoders/") {
            parts.clip.push(full);
        } else if file.contains("vae/") {
            parts.vae = Some(full);
        } else if file.contains("clip_vision/") {
            parts.clip_vision = Some(full);
        } else if file.contains("audio_encoders/") {
            parts.audio_encoder = Some(full);
        } else if file.contains("diffusion_models/") {
            parts.low_noise = Some(full);
        }
    }
    parts
}

/// Whether `nino pull` knows a model by this name.
pub(crate) fn is_short_name(name: &str) -> bool {
    Alias::find(name).is_some_and(|alias| alias.runs)
}

fn plan(hub: &Hub, target: &Target, args: &PullArgs) -> Result<Plan> {
    let revision = args.revision.as_deref().map(Revision::new).transpose();
    let revision = revision.map_err(|e| Usage(format!("--revision: {e}")))?;
    let choice = Choice {
        include: args.include.clone(),
        variant: args.variant.clone(),
    };
    let chooses = choice != Choice::default();
    let names_files = !matches!(
        target,
        Target::Repo {
            files: Files::Choose | Files::Below(_),
            ..
        }
    );
    if chooses && names_files {
        let text = "--include and --variant choose from a repository, and a file is named: \
                    leave one out";
        return Err(Usage(text.to_owned()).into());
    }
    let screen = Screen::silent();
    let plan = hub.plan(target, revision.as_ref(), &choice, &screen);
    plan.map_err(told)
}

fn fetch(hub: &Hub, planned: &Planned, printer: Printer) -> Result<Pulled> {
    const MIB: u32 = 20;
    let bar = printer.progress(planned.size >> MIB);
    bar.begin(planned.file.as_str());
    bar.set_message(format!("MiB  {}", planned.file));
    let position = |bytes: u64| bar.set_position(bytes >> MIB);
    let done = hub.fetch(planned, &Screen::new(&position));
    bar.finish_and_clear();
    let done = done.map_err(told)?;
    let note = if done.cached {
        ", already downloaded"
    } else {
        ""
    };
    let about = if printer.quiet {
        String::new()
    } else {
        format!(" ({}{note})", Bytes(done.bytes))
    };
    printer.text(format!("{}{about}", done.path.display()))?;
    Ok(Pulled::new(planned, done))
}

/// How to use what was downloaded: by its short name, the repository's, or the file's.
fn use_of(target: &Target, plan: &Plan, files: &[Pulled], env: &Env) -> Option<Use> {
    let is_weights = |f: &&Pulled| nino_hub::is_model_file(&f.file);
    let weights: Vec<&Pulled> = files.iter().filter(is_weights).collect();
    let folder = files.iter().find(|f| f.file == "model_index.json");
    let alias = match target {
        Target::Repo { alias, .. } => *alias,
        Target::Url { .. } => None,
    };
    let (path, full): (&Path, String) = match (folder, weights.first()) {
        (Some(index), _) => (index.path.parent()?, plan.repo.to_string()),
        (None, Some(first)) => (&first.path, format!("{}/{}", plan.repo, first.file)),
        (None, None) => return None,
    };
    let found = facts::of(path);
    let name = alias.map_or_else(
        || shortest(env, found.what, path, &full),
        |a| a.name.to_owned(),
    );
    let command = report::command(&found, &name);
    Some(Use {
        name,
        command,
        runs: found.runs,
    })
}

/// The file's name without its ending, if that alone finds it; else all of its name.
fn shortest(env: &Env, what: What, path: &Path, full: &str) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let found = env.library().find(what.kinds(), &stem);
    let is_short = path.is_file() && found.is_ok_and(|found| found == path);
    if is_short {
        stem.into_owned()
    } else {
        full.to_owned()
    }
}
