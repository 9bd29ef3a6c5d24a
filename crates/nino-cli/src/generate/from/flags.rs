//! Flags of a verb as a value: what was given, what a picture or a clip records, and a command line
//! again.

use crate::args::{LoraArg, grammar};
use crate::failure::UsageWithHint;
use crate::generate::names;
use crate::generate::request::new_seed;
use crate::size::Size;
use anyhow::Result;
use clap::parser::ValueSource;
use clap::{Arg, Command};
use nino_engine::{GenerateRequest, Start};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// A verb whose files can be made again, and the flags that say what they are. All others (where to
/// write, what to run on) are never taken from a file: it may come from anybody.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repeated {
    pub(crate) verb: &'static str,
    pub(crate) flags: &'static [&'static str],
}

impl Repeated {
    /// The verb's grammar.
    pub(super) fn command(&self) -> Command {
        let mut cli = grammar();
        cli.build();
        cli.find_subcommand(self.verb).cloned().unwrap_or_default()
    }
}

pub(super) const GENERATE: Repeated = Repeated {
    verb: "generate",
    flags: REPEATED,
};

pub(super) const REPEATED: &[&str] = &[
    "prompt",
    "negative",
    "zero-negative",
    "original-size",
    "target-size",
    "crop",
    "size",
    "width",
    "height",
    "batch",
    "precision",
    "model",
    "vae",
    "clip",
    "lora",
    "control",
    "preprocess",
    "control-mode",
    "style",
    "style-type",
    "clip-vision",
    "quantize",
    "clip-skip",
    "prediction",
    "zsnr",
    "zero-negative",
    "original-size",
    "crop",
    "target-size",
    "seed",
    "steps",
    "cfg",
    "guidance",
    "cfg-rescale",
    "step-cache",
    "sampler",
    "scheduler",
    "denoise",
    "rng",
    "start-at-step",
    "end-at-step",
    "no-noise",
    "return-with-leftover-noise",
    "image",
    "reference",
    "mask",
    "mask-fill",
    "mask-grow",
    "mask-feather",
    "paste",
    "outpaint",
    "outpaint-feather",
    "latent",
    "hires",
    "hires-method",
    "hires-steps",
    "hires-denoise",
];

/// Values by long name; `prompt` is the positional one. A switch has no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    of: &'static Repeated,
    values: BTreeMap<String, Vec<String>>,
    /// What could not be taken over, for the user.
    pub(crate) notes: Vec<String>,
}

impl Default for Flags {
    fn default() -> Flags {
        Flags::none(&GENERATE)
    }
}

impl Flags {
    fn none(of: &'static Repeated) -> Flags {
        Flags {
            of,
            values: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    #[allow(clippy::needless_pass_by_value)] // numbers and texts made for the call
    pub(crate) fn set(&mut self, flag: &str, value: impl ToString) {
        self.values.insert(flag.to_owned(), vec![value.to_string()]);
    }

    pub(crate) fn remove(&mut self, flag: &str) {
        self.values.remove(flag);
    }

    /// With LoRAs beside those that are there.
    pub(in super::super) fn with_loras(&self, loras: &[LoraArg]) -> Flags {
        let mut all = self.clone();
        if !loras.is_empty() {
            let values = all.values.entry("lora".to_owned()).or_default();
            values.extend(loras.iter().map(ToString::to_string));
        }
        all
    }

    /// Brings what a graph takes as a value to ComfyUI's names: a sampler of another program, a
    /// seed of -1, a size in two flags.
    pub(super) fn settle(&mut self) -> Result<(), UsageWithHint> {
        if let Some(label) = self.first("sampler") {
            let found = names::sampler(label)?;
            self.set("sampler", found.sampler.name);
            if let (Some(scheduler), None) = (found.scheduler, self.first("scheduler")) {
                self.set("scheduler", scheduler.name());
            }
        }
        if let Some(label) = self.first("scheduler") {
            let found = names::scheduler(label)?;
            self.set("scheduler", found.name());
        }
        if self.first("seed").is_some_and(|seed| seed.trim() == "-1") {
            self.set("seed", new_seed());
        }
        if let (Some(width), Some(height)) = (self.first("width"), self.first("height")) {
            let size = format!("{width}x{height}");
            self.set("size", size);
            self.remove("width");
            self.remove("height");
        }
        Ok(())
    }

    /// All flags with their values; a switch has none.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        let all = self.values.iter();
        all.map(|(flag, values)| (flag.as_str(), values.as_slice()))
    }

    /// The first value of a flag.
    pub(crate) fn first(&self, flag: &str) -> Option<&str> {
        self.values.get(flag)?.first().map(String::as_str)
    }

    /// Every value of a flag.
    pub(in super::super) fn all(&self, flag: &str) -> impl Iterator<Item = &str> {
        let values = self.values.get(flag).into_iter().flatten();
        values.map(String::as_str)
    }

    /// What a command line gives itself.
    pub(in super::super) fn given(line: &[OsString]) -> Result<Flags> {
        Flags::given_to(&GENERATE, line)
    }

    /// What a command line gives to a verb.
    pub(crate) fn given_to(of: &'static Repeated, line: &[OsString]) -> Result<Flags> {
        let matches = grammar().try_get_matches_from(line)?;
        let mut flags = Flags::none(of);
        let Some((_, mut matches)) = matches.subcommand() else {
            return Ok(flags);
        };
        // `plan generate` has the flags one verb further in.
        while let Some((_, inner)) = matches.subcommand() {
            matches = inner;
        }
        for arg in of.command().get_arguments() {
            let id = arg.get_id().as_str();
            let name = name(arg);
            if !of.flags.contains(&name)
                || matches.value_source(id) != Some(ValueSource::CommandLine)
            {
                continue;
            }
            let values = matches.get_raw(id).into_iter().flatten();
            let values = values.map(|v| v.to_string_lossy().into_owned()).collect();
            let values: Vec<String> = values;
            let values = match name {
                _ if !arg.get_action().takes_values() => Vec::new(),
                // Words that were not quoted.
                "prompt" => vec![values.join(" ")],
                _ => values,
            };
            flags.values.insert(name.to_owned(), values);
        }
        Ok(flags)
    }

    /// These, where `given` says nothing; then `given`.
    pub(crate) fn below(mut self, given: &Flags) -> Flags {
        // A size in two flags replaces one side of a recorded size, or both.
        let sides = [given.first("width"), given.first("height")];
        if sides.iter().any(Option::is_some)
            && let Some(size) = self.first("size").and_then(|s| s.parse::<Size>().ok())
        {
            self.remove("size");
            self.set("width", size.width);
            self.set("height", size.height);
        }
        for (name, values) in &given.values {
            self.values.insert(name.clone(), values.clone());
        }
        self
    }

    /// The command line with these flags in it; what it gives itself is there already.
    pub(crate) fn line(&self, line: &[OsString]) -> Vec<OsString> {
        let none = |_| Flags::none(self.of);
        let given = Flags::given_to(self.of, line).unwrap_or_else(none);
        let command = self.of.command();
        let mut all = line.to_vec();
        let verb = line
            .iter()
            .position(|a| a == self.of.verb)
            .map_or(line.len(), |i| i + 1);
        let mut added = Vec::new();
        for (flag, values) in &self.values {
            let known = command.get_arguments().any(|a| name(a) == flag);
            if !known || given.values.contains_key(flag) || flag == "prompt" {
                continue;
            }
            if values.is_empty() {
                added.push(OsString::from(format!("--{flag}")));
            }
            added.extend(
                values
                    .iter()
                    .map(|v| OsString::from(format!("--{flag}={v}"))),
            );
        }
        all.splice(verb..verb, added);
        if let (Some([prompt, ..]), false) = (
            self.values.get("prompt").map(Vec::as_slice),
            given.values.contains_key("prompt"),
        ) {
            all.push("--".into());
            all.push(prompt.into());
        }
        all
    }

    /// With every choice that was left to the model or to chance filled in.
    pub(in super::super) fn resolved(&self, request: &GenerateRequest, model: &str) -> Value {
        let mut all = self.clone();
        if !all.values.contains_key("model") {
            all.set("model", model);
        }
        all.set("prompt", &request.prompt);
        all.set("seed", request.seed.value);
        all.set("rng", request.seed.rng.name());
        all.set("steps", request.steps);
        all.set("cfg", request.cfg);
        all.set("sampler", request.sampler.name);
        all.set("scheduler", request.scheduler.name());
        // Of a start picture, --size means something else than what comes out.
        if request.start == Start::Empty {
            all.remove("width");
            all.remove("height");
            all.set("size", format!("{}x{}", request.width, request.height));
        }
        if request.window.is_none() {
            all.set("denoise", request.denoise);
        }
        all.to_json()
    }

    /// All of them, as a file records them.
    pub(crate) fn to_json(&self) -> Value {
        json!(self.values)
    }

    /// The verb that a file was made with, where it says one.
    pub(super) fn verb_of(text: &str) -> Option<String> {
        let value: Value = serde_json::from_str(text).ok()?;
        value["verb"].as_str().map(str::to_owned)
    }

    pub(crate) fn from_json(of: &'static Repeated, text: &str) -> Result<Flags, String> {
        let value: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let flags = value["flags"].as_object().ok_or("it contains no flags")?;
        let mut found = Flags::none(of);
        for (name, values) in flags {
            let values = values
                .as_array()
                .ok_or_else(|| format!("{name} is not a list"))?;
            let values = values.iter().filter_map(Value::as_str).map(str::to_owned);
            if of.flags.contains(&name.as_str()) {
                found.values.insert(name.clone(), values.collect());
            } else {
                found.notes.push(format!("--{name} is ignored"));
            }
        }
        Ok(found)
    }
}

/// The long name, or the id of the one that has none.
pub(super) fn name(arg: &Arg) -> &str {
    arg.get_long().unwrap_or(arg.get_id().as_str())
}
