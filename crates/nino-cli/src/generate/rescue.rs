//! The latent that is kept until its picture is written, and what to type when no picture comes of
//! it.

use crate::args::{GenerateArgs, SeedArg};
use crate::interrupt::{self, Keeping};
use crate::naming::numbered;
use nino_engine::{Checkpoint, EngineError, GenerateRequest, Kept, Stopped};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Keeps the latent of one request.
pub(super) struct Rescue<'a> {
    about: About<'a>,
    file: PathBuf,
    /// The user wants the file, picture or not.
    asked_for: bool,
    told: Rescued,
}

/// What is sampled, to say how it can go on.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) args: &'a GenerateArgs,
    pub(super) model: &'a Checkpoint,
    pub(super) request: &'a GenerateRequest,
}

/// What became of a run without a picture, in a sentence and hints.
#[derive(Clone, Debug)]
pub(crate) struct Rescued {
    sentence: String,
    hints: Vec<String>,
    /// The user asked for it: the sentence begins where `stopped:` ends.
    stopped: bool,
}

impl<'a> Rescue<'a> {
    /// For a picture that will be `output`; its latent is kept in `asked_for`, or beside the
    /// picture until that is there.
    pub(super) fn new(about: About<'a>, asked_for: Option<PathBuf>, output: &Path) -> Rescue<'a> {
        Rescue {
            about,
            asked_for: asked_for.is_some(),
            file: asked_for.unwrap_or_else(|| unused(&output.with_extension("latent"))),
            told: Rescued {
                sentence: "no image was made".to_owned(),
                hints: Vec::new(),
                stopped: false,
            },
        }
    }

    pub(super) fn keep(&mut self, kept: Kept<'_>) -> Result<(), EngineError> {
        let _keeping = Keeping::new();
        let mut about = BTreeMap::new();
        if !self.about.args.no_metadata {
            about.insert("prompt".to_owned(), self.about.request.prompt.clone());
        }
        let noisy = kept.stopped.and_then(|s| Some(&s.go_on.as_ref()?.noisy));
        kept.latent.save_beside(noisy, &self.file, &about)?;
        let file = self.file.display();
        self.told = match kept.stopped {
            None => Rescued {
                sentence: format!("the sampled latent was saved to {file}"),
                hints: vec![format!("{} continues from it", self.decode())],
                stopped: false,
            },
            Some(stopped) => Rescued {
                sentence: format!(
                    "{file} has the latent of step {} of {}",
                    stopped.done, stopped.total
                ),
                hints: std::iter::once(format!("{} decodes it", self.decode()))
                    .chain(self.go_on(stopped))
                    .collect(),
                stopped: true,
            },
        };
        interrupt::set_last_words(Some(&self.told.sentence));
        Ok(())
    }

    /// For an error.
    pub(super) fn told(&self) -> Rescued {
        self.told.clone()
    }

    /// The picture is there.
    pub(super) fn done(self) {
        interrupt::set_last_words(None);
        if !self.asked_for {
            // It served its purpose; one that cannot be removed does no harm.
            let _ = std::fs::remove_file(&self.file);
        }
    }

    fn decode(&self) -> String {
        let vae = self
            .about
            .args
            .model
            .vae
            .as_deref()
            .unwrap_or(&self.about.model.path);
        format!(
            "`nino decode {} --vae {} -o {}`",
            self.file.display(),
            vae.display(),
            self.file.with_extension("png").display()
        )
    }

    fn go_on(&self, stopped: &Stopped) -> Option<String> {
        let (args, go_on) = (self.about.args, stopped.go_on.as_ref()?);
        let mut with = format!(
            "--latent {} --start-at-step {} --no-noise",
            self.file.display(),
            go_on.start_at_step
        );
        if args.sampling.steps.map(|n| n as usize) != Some(go_on.steps) {
            with = format!("{with} --steps {}", go_on.steps);
        }
        if args.sampling.seed != Some(SeedArg(Some(self.about.request.seed.value))) {
            with = format!("{with} --seed {}", self.about.request.seed.value);
        }
        let second = stopped.pass > 0;
        let without: Vec<&str> = [
            ("--image", args.start.image.is_some()),
            ("--strength", args.sampling.denoise.is_some()),
            (
                "--end-at-step",
                second && args.sampling.end_at_step.is_some(),
            ),
            ("--size", second && args.size.is_some()),
            ("--hires", second),
            ("--count", args.count > 1),
        ]
        .into_iter()
        .filter_map(|(flag, given)| given.then_some(flag))
        .collect();
        let without = match &without[..] {
            [] => String::new(),
            flags => format!(" and without {}", flags.join(", ")),
        };
        let comes_to = if go_on.same {
            "continues to the same image".to_owned()
        } else {
            let sampler = self.about.request.sampler.name;
            format!("continues to a similar image ({sampler} is not reproducible from there)")
        };
        Some(format!(
            "the same command with `{with}`{without} {comes_to}"
        ))
    }
}

impl Rescued {
    /// What became of a run that failed, or that the user stopped.
    pub(super) fn new(sentence: String, hints: Vec<String>, stopped: bool) -> Rescued {
        Rescued {
            sentence,
            hints,
            stopped,
        }
    }

    /// Whether the user stopped the run.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl fmt::Display for Rescued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// A file that is there already may be what a run starts from.
pub(super) fn unused(path: &Path) -> PathBuf {
    let others = (1..).map(|i| numbered(path, i));
    let mut all = std::iter::once(path.to_owned()).chain(others);
    all.find(|p| !p.exists()).unwrap_or_else(|| path.to_owned())
}
