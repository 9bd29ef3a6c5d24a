//! Captures: the inputs and outputs of stages as files, to run them again elsewhere and compare.
//!
//! A captured stage is one safetensors file: tensors `in.*` and `out.*`, and metadata that says the
//! stage, the model's file and every number that the stage was told. Nothing is captured, and
//! nothing is paid, before [`to`] was called. A stage whose file cannot be written goes on; that is
//! a warning.

mod replay;
#[cfg(test)]
mod tests;

use crate::sample::{Noise, SampleRequest, Sampled};
use crate::{Conditioning, DiffusionModel, EngineError, Latent, Store, TextEncoders, VaeFile};
use nino_dtype::DType;
use nino_weights::safetensors::{NewTensor, Writer};
pub use replay::{Replayed, replay};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static FOLDER: OnceLock<PathBuf> = OnceLock::new();
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// From here on, stages of this process write what they take and give into a folder. The first call
/// counts.
pub fn to(folder: &Path) {
    FOLDER.get_or_init(|| folder.to_owned());
}

/// Whether stages that run in a store are captured.
pub(crate) fn is_on(store: &Store) -> bool {
    FOLDER.get().is_some() && !store.rehearses()
}

/// A stage on its way to a file.
#[derive(Default)]
struct Captured {
    tensors: Vec<(NewTensor, Vec<f32>)>,
    metadata: BTreeMap<String, String>,
}

impl Captured {
    fn new(stage: &str, file: Option<&Path>) -> Captured {
        let mut captured = Captured::default();
        captured.say("stage", &stage);
        captured.say("version", &env!("CARGO_PKG_VERSION"));
        if let Some(file) = file {
            captured.say("file", &file.display());
        }
        captured
    }

    fn say(&mut self, key: &str, value: &dyn Display) {
        self.metadata.insert(key.to_owned(), value.to_string());
    }

    fn add(&mut self, name: &str, shape: &[usize], values: Vec<f32>) {
        let tensor = NewTensor {
            name: name.to_owned(),
            dtype: DType::F32,
            shape: shape.to_vec(),
        };
        self.tensors.push((tensor, values));
    }

    fn add_latent(&mut self, name: &str, latent: &Latent) {
        self.add(name, &latent.file_shape(), latent.planes());
    }

    fn add_pictures(&mut self, name: &str, pictures: Pictures) {
        let Pictures {
            width,
            height,
            values,
        } = pictures;
        let n = values.len() / (width * height * 3).max(1);
        self.add(name, &[n, height, width, 3], values);
    }

    /// Encoded prompts, the first as `name.0`.
    fn add_prompts(&mut self, name: &str, prompts: &[Conditioning]) {
        for (i, prompt) in prompts.iter().enumerate() {
            let shape = [prompt.tokens(), prompt.width];
            self.add(&format!("{name}.{i}"), &shape, prompt.context.to_vec());
            if !prompt.pooled.is_empty() {
                let name = format!("{name}.{i}.pooled");
                self.add(&name, &[prompt.pooled.len()], prompt.pooled.clone());
            }
            if let Some(guidance) = prompt.guidance {
                self.say(&format!("{name}.{i}.guidance"), &guidance);
            }
        }
    }

    /// Writes it; what goes wrong is a warning, since the stage itself went well.
    fn write(self) {
        let Some(folder) = FOLDER.get() else { return };
        let stage = self.metadata.get("stage").cloned().unwrap_or_default();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number:03}-{stage}.safetensors", std::process::id());
        if let Err(error) = self.write_to(&folder.join(name)) {
            tracing::warn!("the {stage} stage was not captured: {error}");
        }
    }

    fn write_to(self, path: &Path) -> Result<(), EngineError> {
        if let Some(folder) = path.parent() {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|reason| nino_weights::Error::Io {
                path: folder.to_owned(),
                action: "create the folder",
                reason,
            })?;
        }
        let (tensors, values): (Vec<_>, Vec<_>) = self.tensors.into_iter().unzip();
        let mut writer = Writer::create(path, &tensors, &self.metadata)?;
        for values in values {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            writer.write(&bytes)?;
        }
        Ok(writer.finish()?)
    }
}

/// Keeps prompts and what they were encoded to; `alone` where nothing but the encoders' files was
/// needed for that.
pub(crate) fn text(text: &TextEncoders, prompts: &[&str], encoded: &[Conditioning], alone: bool) {
    let mut captured = Captured::new("text", text.path());
    captured.say("family", &text.family.name());
    for (i, path) in text.each_path().enumerate() {
        captured.say(&format!("file.{i}"), &path.display());
    }
    for (i, prompt) in prompts.iter().enumerate() {
        captured.say(&format!("prompt.{i}"), prompt);
    }
    if !(alone && text.is_as_opened()) {
        captured.say(
            "only",
            &"for inspection only: it has LoRAs, inversions or other layers",
        );
    }
    captured.add_prompts("out", encoded);
    captured.write();
}

/// Keeps the encode of a picture, or of a clip: its frames `[n, h, w, 3]` as the encoder took them,
/// and the latent they became.
pub(crate) fn encode(vae: &VaeFile, frames: Pictures, latent: &Latent) {
    let mut captured = Captured::new("encode", vae.path());
    if let Some(format) = latent.format {
        captured.say("format", &format.name);
    }
    captured.add_pictures("in.images", frames);
    captured.add_latent("out.latent", latent);
    captured.write();
}

/// Keeps a decode: the latent and the pictures `[n, h, w, 3]` it became.
pub(crate) fn decode(
    vae: &VaeFile,
    latent: &Latent,
    format: Option<&str>,
    precision: DType,
    pictures: Pictures,
) {
    let mut captured = Captured::new("decode", vae.path());
    captured.say("precision", &precision);
    if let Some(format) = format {
        captured.say("format", &format);
    }
    captured.add_latent("in.latent", latent);
    captured.add_pictures("out.images", pictures);
    captured.write();
}

/// Pictures of one size, one after the other.
#[derive(Default)]
pub(crate) struct Pictures {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) values: Vec<f32>,
}

/// Keeps a sampling run.
pub(crate) fn sample(model: &DiffusionModel, request: &SampleRequest<'_>, sampled: &Sampled) {
    let mut captured = Captured::new("sample", model.origin_path());
    captured.say("sampler", &request.sampler.name);
    captured.say("seed", &request.seed.value);
    captured.say("cfg", &request.cfg);
    captured.say("noise", &noise_name(&request.noise));
    if let Noise::Given(noise) = request.noise {
        captured.add("in.noise", &request.latent.file_shape(), noise.to_vec());
    }
    if !replay::can_repeat(model, request) {
        captured.say(
            "only",
            &"for inspection only: it has masks, regions, a third prompt, LoRAs or reference images",
        );
    }
    captured.add(
        "in.sigmas",
        &[request.sigmas.len()],
        request.sigmas.to_vec(),
    );
    captured.add_latent("in.latent", request.latent);
    captured.add_prompts("in.positive", request.positive);
    captured.add_prompts("in.negative", request.negative);
    captured.add_latent("out.latent", &sampled.latent);
    captured.write();
}

fn noise_name(noise: &Noise<'_>) -> &'static str {
    match noise {
        Noise::Seeded => "seeded",
        Noise::SeededAt(_) => "seeded-at",
        Noise::None => "none",
        Noise::Given(_) => "given",
    }
}
