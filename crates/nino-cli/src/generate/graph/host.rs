//! Files for a graph by the names of the command line's lookup, and pictures written as they are
//! made.

use super::change;
use super::rescue::LastLatent;
use crate::env::Env;
use crate::generate::model;
use crate::generate::output::Outputs;
use crate::generate::rescue::Rescued;
use crate::interrupt;
use crate::naming::{Words, numbered};
use nino_engine::media::Stop;
use nino_engine::{EngineError, Image, Mask, ModelKind, Picture};
use nino_workflow::walk::{self, ClassInput};
use nino_workflow::{Clip, Folder, Graph, Host, HostError, Latents, Made, Output, SampledLatent};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) struct CliHost<'a> {
    outputs: &'a Outputs<'a>,
    env: &'a Env,
    run: Run,
    files: Vec<PathBuf>,
    last: Option<Picture>,
    /// The latent that no picture came of yet.
    sampled: Option<LastLatent>,
}

/// The run that goes on.
#[derive(Default)]
struct Run {
    /// Where its picture goes; several are numbered.
    path: PathBuf,
    /// Which run it is, of several.
    index: usize,
    outputs: usize,
    /// Whether any node keeps pictures, so that those only to be looked at are left out.
    keeps: bool,
    pictures: usize,
    /// What the pictures say of how they were made.
    text: Vec<(&'static str, String)>,
}

impl<'a> CliHost<'a> {
    pub(super) fn new(outputs: &'a Outputs<'a>, env: &'a Env) -> CliHost<'a> {
        CliHost {
            outputs,
            env,
            run: Run::default(),
            files: Vec::new(),
            last: None,
            sampled: None,
        }
    }

    /// Run `index` begins, of a graph with so many outputs.
    pub(super) fn begin(&mut self, graph: &Graph, index: usize, outputs: usize) {
        let seed = change::seed(graph).unwrap_or(0);
        let prompt = change::first_prompt(graph);
        let words = Words {
            prompt: &prompt,
            seed,
            model: "graph",
        };
        let is_save = |class: &Option<String>| {
            let class = class.as_deref().unwrap_or_default();
            class.starts_with("Save") && class != "SaveLatent"
        };
        self.run = Run {
            path: self.outputs.path(words, index),
            index,
            outputs,
            keeps: graph.iter().any(|(_, node)| is_save(&node.class)),
            pictures: 0,
            text: vec![("prompt", graph.to_json().to_string())],
        };
    }

    /// Keeps the latent of a run that failed; `None` where there is none.
    pub(super) fn rescue(
        &self,
        graph: &Graph,
        stopped: bool,
    ) -> Option<Result<Rescued, EngineError>> {
        let sampled = self.sampled.as_ref()?;
        let vae = self.vae(graph);
        Some(sampled.save(&self.run.path, &self.about(), vae.as_deref(), stopped))
    }

    /// The file that decodes a graph's latents: its VAE's, else its checkpoint's.
    fn vae(&self, graph: &Graph) -> Option<PathBuf> {
        let loaders: [(&[ClassInput], Folder); 2] = [
            (&[("VAELoader", "vae_name")], Folder::Vae),
            (
                &[("CheckpointLoaderSimple", "ckpt_name")],
                Folder::Checkpoints,
            ),
        ];
        loaders.into_iter().find_map(|(loader, folder)| {
            let place = walk::places(graph, loader).into_iter().next()?;
            let name = walk::value(graph, &place)?.as_str()?;
            find(self.env, folder, name).ok()
        })
    }

    /// What a latent's file says of how it was made.
    fn about(&self) -> BTreeMap<String, String> {
        let text = self.run.text.iter();
        text.map(|(key, text)| ((*key).to_owned(), text.clone()))
            .collect()
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    pub(super) fn last_picture(&self) -> Option<&Picture> {
        self.last.as_ref()
    }

    fn pictures(&mut self, images: &[Image], output: &Output<'_>) -> Result<(), HostError> {
        let alone = self.run.outputs == 1 && images.len() == 1;
        for (i, image) in images.iter().enumerate() {
            let path = if alone {
                self.run.path.clone()
            } else {
                numbered(&self.run.path, self.run.pictures)
            };
            let picture = image.to_picture();
            let opacity = output.opacity.as_ref().and_then(|all| all.get(i));
            let opacity = opacity.map(Mask::to_bytes);
            let outputs = &self.outputs;
            let written = outputs.write_one(&path, &picture, opacity.as_deref(), &self.run.text);
            written.map_err(|e| HostError::new(format!("{e:#}")))?;
            self.run.pictures += 1;
            self.files.push(path);
            self.last = Some(picture);
        }
        Ok(())
    }

    /// Writes a clip in the format that its node says, or in one that can be written here.
    fn clip(&mut self, clip: &Clip, class: &str) -> Result<(), HostError> {
        let extension = clip.extension(class);
        let path = self.run.path.with_extension(extension);
        let path = match self.run.outputs {
            1 => path,
            _ => numbered(&path, self.run.pictures),
        };
        let text = self.about().into_iter().collect();
        let written = clip.write(&path, text, interrupt::stop());
        written.map_err(|e| HostError::new(e.to_string()))?;
        self.run.pictures += 1;
        self.files.push(path);
        self.last = clip.images.last().map(Image::to_picture);
        Ok(())
    }

    fn latent(&mut self, latents: &Latents) -> Result<(), HostError> {
        let asked_for = self.outputs.latent(self.run.index);
        let path = asked_for.unwrap_or_else(|| self.run.path.with_extension("latent"));
        let saved = latents.latent.save(&path, &self.about());
        saved.map_err(HostError::new)?;
        self.files.push(path);
        Ok(())
    }
}

/// The file that a graph means by a name in a folder.
pub(crate) fn find(env: &Env, folder: Folder, name: &str) -> Result<PathBuf, HostError> {
    let kinds = match folder {
        Folder::InputImages => return find_start(env, name, Some("--image")),
        Folder::InputVideos => return find_start(env, name, Some("--video")),
        Folder::InputAudio => return find_start(env, name, None),
        Folder::InputLatents => return find_start(env, name, Some("--latent")),
        Folder::Checkpoints | Folder::DiffusionModels => ModelKind::MODELS,
        Folder::TextEncoders => &[ModelKind::TextEncoder],
        Folder::Vae => &[ModelKind::Vae],
        Folder::Loras => &[ModelKind::Lora],
        Folder::ControlNets | Folder::ModelPatches => &[ModelKind::ControlNet],
        Folder::ClipVision => &[ModelKind::ClipVision],
        Folder::AudioEncoders => &[ModelKind::AudioEncoder],
        Folder::StyleModels => &[ModelKind::StyleModel],
        Folder::UpscaleModels => &[ModelKind::UpscaleModel],
    };
    model::file_of(kinds, Path::new(name), env).map_err(HostError::new)
}

/// A picture or a latent to start from, which the graph names as ComfyUI's input folder has it;
/// `flag` gives another one.
fn find_start(env: &Env, name: &str, flag: Option<&str>) -> Result<PathBuf, HostError> {
    let path = env.library().find_input(Path::new(name));
    if path.is_file() {
        return Ok(path);
    }
    let flag = flag.map_or_else(String::new, |flag| format!("; give it with {flag}"));
    let text = format!("there is no file {name:?} here or in ComfyUI's input folder{flag}");
    Err(HostError::new(text))
}

impl Host for CliHost<'_> {
    fn find(&self, folder: Folder, name: &str) -> Result<PathBuf, HostError> {
        find(self.env, folder, name)
    }

    fn list(&self, _: Folder) -> Option<Vec<String>> {
        // Names are found by parts of them, too.
        None
    }

    fn embeddings(&self) -> Vec<PathBuf> {
        let library = self.env.library();
        library.folders(ModelKind::Embedding).unwrap_or_default()
    }

    fn output(&mut self, output: &Output<'_>) -> Result<Value, HostError> {
        match &output.made {
            Made::Images(images) => self.pictures(images, output)?,
            Made::Previews(images) | Made::Sent(images) if !self.run.keeps => {
                self.pictures(images, output)?;
            }
            // Texts were told as notes.
            Made::Previews(_) | Made::Sent(_) | Made::Texts(_) => {}
            Made::Latent(latents) => self.latent(latents)?,
            Made::Clip(clip) => self.clip(clip, output.class)?,
        }
        self.sampled = None;
        Ok(json!({}))
    }

    fn stop(&self) -> Stop {
        interrupt::stop()
    }

    fn sampled(&mut self, sampled: &SampledLatent<'_>) {
        self.sampled = Some(sampled.into());
    }
}
