//! Runs a captured stage again and says how far the result is from what was captured.

use crate::decode::{DecodeOptions, Precision, decode_images};
use crate::sample::{self, Noise, SampleRequest};
use crate::{
    Checkpoint, Conditioning, Control, DiffusionModel, EncodeOptions, EngineError, FloatFrames,
    Image, Latent, LatentFormat, Store, TextEncoders, VaeFile, encode_clip, encode_image,
    encode_texts,
};
use nino_sample::{Blend, Options, Rng, Sampler, Seed};
use nino_weights::{TensorReader, Value};
use std::path::{Path, PathBuf};

/// How a captured stage compares with itself run again.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// The stage's name.
    pub stage: String,
    /// The model's file.
    pub file: String,
    /// Normalized mean square error, and the largest difference.
    pub nmse: f64,
    pub largest: f32,
}

/// Whether all that a run was told is in its capture.
pub(super) fn can_repeat(model: &DiffusionModel, request: &SampleRequest<'_>) -> bool {
    let prompts = request.positive.iter().chain(request.negative);
    let plain = |c: &Conditioning| {
        let bare = Conditioning {
            context: c.context.clone(),
            width: c.width,
            pooled: c.pooled.clone(),
            guidance: c.guidance,
            ..Conditioning::default()
        };
        bare == *c
    };
    request.mask.is_none()
        && request.third.is_none()
        && model.perpendicular().is_none()
        && request.frame_mask.is_empty()
        && !matches!(request.noise, Noise::SeededAt(_))
        && model.is_as_opened()
        && model.blend == Blend::Plain
        && model.corrections.is_empty()
        && model.skipped_layers().is_none()
        && prompts.into_iter().all(plain)
}

/// Runs a captured stage again, with the model's file where it was.
pub fn replay(
    store: &Store,
    path: &Path,
    control: &mut Control<'_>,
) -> Result<Replayed, EngineError> {
    let file = Captured {
        reader: nino_weights::open(path)?,
        path,
    };
    let stage = file.said("stage")?;
    let model = file.said("file")?;
    let (want, made) = match stage {
        "decode" => file.decode(Path::new(model), store, control)?,
        "sample" => file.sample(Path::new(model), store, control)?,
        "text" => file.encode_text(Path::new(model), store, control)?,
        "encode" => file.encode(Path::new(model), store, control)?,
        _ => return Err(file.cannot("its stage is unknown")),
    };
    let (nmse, largest) = difference(&want, &made);
    Ok(Replayed {
        stage: stage.to_owned(),
        file: model.to_owned(),
        nmse,
        largest,
    })
}

/// A capture that is read.
struct Captured<'a> {
    reader: TensorReader,
    path: &'a Path,
}

impl Captured<'_> {
    fn cannot(&self, why: &'static str) -> EngineError {
        EngineError::CannotReplay {
            path: self.path.to_owned(),
            why,
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.reader
            .index()
            .metadata
            .get(key)
            .and_then(Value::as_str)
    }

    fn said(&self, key: &str) -> Result<&str, EngineError> {
        self.text(key)
            .ok_or_else(|| self.cannot("it names no stage, or no model file"))
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<T, EngineError> {
        let parsed = self.said(key)?.parse();
        parsed.map_err(|_| self.cannot("a number in it cannot be read"))
    }

    fn values(&self, name: &str) -> Result<(Vec<usize>, Vec<f32>), EngineError> {
        let entry = self.reader.entry(name)?;
        let mut values = nino_files::zeroed(entry.n_values())
            .map_err(|_| self.cannot("there is not enough memory for its tensors"))?;
        self.reader.read_f32(entry, &mut values)?;
        Ok((entry.shape.clone(), values))
    }

    fn latent(&self, name: &str) -> Result<Latent, EngineError> {
        let (shape, values) = self.values(name)?;
        Latent::from_planes(&shape, &values, self.path)
    }

    fn decode(
        &self,
        vae: &Path,
        store: &Store,
        control: &mut Control<'_>,
    ) -> Result<(Vec<f32>, Vec<f32>), EngineError> {
        let vae = VaeFile::open(vae)?;
        let options = DecodeOptions {
            format: self.text("format").and_then(LatentFormat::by_name),
            ..DecodeOptions::default()
        };
        let latent = self.latent("in.latent")?;
        let (images, _) = decode_images(store, &vae, &latent, &options, control)?;
        let made = images.into_iter().flat_map(|i| i.values).collect();
        Ok((self.values("out.images")?.1, made))
    }

    fn sample(
        &self,
        model: &Path,
        store: &Store,
        control: &mut Control<'_>,
    ) -> Result<(Vec<f32>, Vec<f32>), EngineError> {
        self.check_whole()?;
        let model = DiffusionModel::open(model)?;
        let (latent, sigmas) = (self.latent("in.latent")?, self.values("in.sigmas")?.1);
        let given = match self.said("noise")? {
            "given" => Some(self.values("in.noise")?.1),
            _ => None,
        };
        let noise = match (self.said("noise")?, &given) {
            ("none", _) => Noise::None,
            (_, Some(noise)) => Noise::Given(noise),
            _ => Noise::Seeded,
        };
        let request = SampleRequest {
            positive: &self.prompts("in.positive")?,
            negative: &self.prompts("in.negative")?,
            third: None,
            latent: &latent,
            noise,
            mask: None,
            frame_mask: &[],
            sigmas: &sigmas,
            sampler: Sampler::find(self.said("sampler")?)?,
            options: &Options::default(),
            seed: Seed {
                value: self.number("seed")?,
                rng: Rng::Torch,
            },
            cfg: self.number("cfg")?,
            precision: Precision::Auto,
            preview: None,
            beside: 0,
            memory: None,
        };
        let sampled = sample::sample(store, &model, &request, control)?;
        Ok((self.values("out.latent")?.1, sampled.latent.planes()))
    }

    fn check_whole(&self) -> Result<(), EngineError> {
        match self.text("only") {
            None => Ok(()),
            Some(_) => Err(self.cannot("its file is incomplete, as its `only` says")),
        }
    }

    fn encode_text(
        &self,
        file: &Path,
        store: &Store,
        control: &mut Control<'_>,
    ) -> Result<(Vec<f32>, Vec<f32>), EngineError> {
        self.check_whole()?;
        let each = |name: &str| -> Vec<&str> {
            let numbered = (0..).map_while(|i| self.text(&format!("{name}.{i}")));
            numbered.collect()
        };
        let encoders = if let Ok(whole) = Checkpoint::open(file, None) {
            whole.text
        } else {
            let files: Vec<PathBuf> = each("file").into_iter().map(PathBuf::from).collect();
            TextEncoders::open(&files)?
        };
        if encoders.family.name() != self.said("family")? {
            return Err(self.cannot("its encoders were used for another family of models"));
        }
        let made = encode_texts(store, &encoders, &each("prompt"), &[], control)?;
        let values = |prompts: &[Conditioning]| -> Vec<f32> {
            let both = prompts.iter().flat_map(|p| [&*p.context, &p.pooled]);
            both.flatten().copied().collect()
        };
        Ok((values(&self.prompts("out")?), values(&made)))
    }

    fn encode(
        &self,
        vae: &Path,
        store: &Store,
        control: &mut Control<'_>,
    ) -> Result<(Vec<f32>, Vec<f32>), EngineError> {
        let vae = VaeFile::open(vae)?;
        let (shape, values) = self.values("in.images")?;
        let &[n_frames, height, width, _] = &shape[..] else {
            return Err(self.cannot("its images have another shape"));
        };
        let options = EncodeOptions {
            format: self.text("format").and_then(LatentFormat::by_name),
            ..EncodeOptions::default()
        };
        let encoded = if vae.kind.time_scale().is_some() {
            let each = height * width * 3;
            let clip = FloatFrames {
                width,
                height,
                n_frames,
                frame: &|i| values[i * each..(i + 1) * each].to_vec(),
            };
            encode_clip(store, &vae, &clip, &options, control)?
        } else {
            let image = Image {
                width,
                height,
                values,
            };
            encode_image(store, &vae, &image, &options, control)?
        };
        Ok((self.values("out.latent")?.1, encoded.latent.planes()))
    }

    fn prompts(&self, name: &str) -> Result<Vec<Conditioning>, EngineError> {
        let mut prompts = Vec::new();
        while let Some(entry) = self
            .reader
            .index()
            .get(&format!("{name}.{}", prompts.len()))
        {
            let i = prompts.len();
            let pooled = format!("{name}.{i}.pooled");
            let (shape, context) = self.values(&entry.name)?;
            prompts.push(Conditioning {
                context: context.into(),
                width: shape.last().copied().unwrap_or(0),
                pooled: if self.reader.index().contains(&pooled) {
                    self.values(&pooled)?.1
                } else {
                    Vec::new()
                },
                guidance: self
                    .text(&format!("{name}.{i}.guidance"))
                    .and_then(|g| g.parse().ok()),
                ..Conditioning::default()
            });
        }
        Ok(prompts)
    }
}

fn difference(want: &[f32], made: &[f32]) -> (f64, f32) {
    if want.len() != made.len() {
        return (f64::INFINITY, f32::INFINITY);
    }
    let (mut error, mut size, mut largest) = (0.0, 0.0, 0f32);
    for (w, m) in want.iter().zip(made) {
        error += f64::from(w - m).powi(2);
        size += f64::from(*w).powi(2);
        largest = largest.max((w - m).abs());
    }
    (error / size.max(f64::MIN_POSITIVE), largest)
}
