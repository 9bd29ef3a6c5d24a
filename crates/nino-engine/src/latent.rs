//! Latents as users have them: what ComfyUI's SaveLatent, diffusers and `torch.save` write.

use crate::transpose::transpose;
use crate::{EngineError, LatentSize, Upscale};
use nino_dtype::DType;
use nino_media::resize;
use nino_models::latent::LatentFormat;
use nino_weights::safetensors::{NewTensor, Writer};
use nino_weights::{Entry, Index, Value, torch};
use std::collections::BTreeMap;
use std::path::Path;

/// Metadata of our files: the latent space by name.
pub const FORMAT_KEY: &str = "latent_format";

/// A batch of latents in the VAE's units, channels last.
#[derive(Clone, Debug, PartialEq)]
pub struct Latent {
    pub batch: usize,
    /// 1 for images.
    pub frames: usize,
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    /// `[b, t, h, w, c]`
    pub values: Vec<f32>,
    /// The file says it is a video (five dimensions), even of one frame.
    pub is_video: bool,
    /// The latent space, where the model that made it or the file's metadata says which.
    pub format: Option<&'static LatentFormat>,
}

/// Values of a latent that is read from a file, at most: a gibibyte, which is a minute of video.
const MAX_VALUES: usize = 1 << 28;

/// ComfyUI's name of a latent, two that diffusers and others use, and that of a tensor which
/// `torch.save` wrote without a name.
const NAMES: [&str; 4] = ["latent_tensor", "samples", "latents", torch::ALONE];

/// The name, in files of stopped runs, of the latent with the noise it still has. The picture so
/// far stands beside it.
const NOISY: &str = "noisy_latent";

impl Latent {
    /// Reads the tensor that [`Latent::entry`] finds in a file.
    pub fn open(path: &Path) -> Result<Latent, EngineError> {
        Latent::read(path, &NAMES)
    }

    /// The latent in a file: `latent_tensor` (ComfyUI), `samples` or `latents` (diffusers), or the
    /// one tensor that PyTorch saved by itself. `None` where the file holds no latent.
    pub fn entry(index: &Index) -> Option<&Entry> {
        find(index, &NAMES)
    }

    /// The latent space that a file's metadata says.
    pub fn format_of(index: &Index) -> Option<&'static LatentFormat> {
        let says = index.metadata.get(FORMAT_KEY);
        says.and_then(Value::as_str).and_then(LatentFormat::by_name)
    }

    /// Whether a file is of a run that stopped and holds what it goes on from.
    pub fn is_unfinished(index: &Index) -> bool {
        index.get(NOISY).is_some()
    }

    /// The latent to go on from without new noise: a stopped run's with its noise, else the only
    /// one.
    pub fn open_noisy(path: &Path) -> Result<Latent, EngineError> {
        let [a, b, c, d] = NAMES;
        Latent::read(path, &[NOISY, a, b, c, d])
    }

    /// The tensor that [`find`] gives.
    fn read(path: &Path, wanted: &[&str]) -> Result<Latent, EngineError> {
        let reader = nino_weights::open(path)?;
        let names = || {
            reader
                .index()
                .entries()
                .iter()
                .map(|e| e.name.clone())
                .take(12)
                .collect()
        };
        let entry = find(reader.index(), wanted).ok_or_else(|| EngineError::NoLatent {
            path: path.to_owned(),
            found: names(),
        })?;
        let n = entry.n_values();
        let too_large = || EngineError::LatentTooLarge {
            path: path.to_owned(),
            values: n,
            most: MAX_VALUES,
        };
        if n > MAX_VALUES {
            return Err(too_large());
        }
        let mut values = nino_files::zeroed(n).map_err(|_| too_large())?;
        reader.read_f32(entry, &mut values)?;
        // SaveLatent's files before this marker hold the model's units of SD 1.x.
        let old = entry.name == "latent_tensor"
            && reader.index().get("latent_format_version_0").is_none();
        if old {
            values.iter_mut().for_each(|v| *v /= 0.18215);
        }
        Ok(Latent {
            format: Latent::format_of(reader.index()),
            ..Latent::from_planes(&entry.shape, &values, path)?
        })
    }

    /// Makes a latent from `[b, c, h, w]` or `[b, c, t, h, w]`; `path` is for messages.
    pub fn from_planes(
        shape: &[usize],
        planes: &[f32],
        path: &Path,
    ) -> Result<Latent, EngineError> {
        let wrong = || EngineError::LatentShape {
            path: path.to_owned(),
            shape: shape.to_vec(),
        };
        let (batch, channels, frames, height, width) = match *shape {
            [b, c, h, w] => (b, c, 1, h, w),
            [b, c, t, h, w] => (b, c, t, h, w),
            _ => return Err(wrong()),
        };
        if planes.is_empty() || planes.len() != shape.iter().product::<usize>() {
            return Err(wrong());
        }
        let bad = planes.iter().filter(|v| !v.is_finite()).count();
        if bad > 0 {
            return Err(EngineError::LatentNotFinite {
                path: path.to_owned(),
                bad,
                all: planes.len(),
            });
        }
        let positions = frames * height * width;
        let mut values = vec![0.0; planes.len()];
        let item = positions * channels;
        for (planes, values) in planes.chunks_exact(item).zip(values.chunks_exact_mut(item)) {
            transpose(planes, positions, values);
        }
        Ok(Latent {
            batch,
            frames,
            height,
            width,
            channels,
            values,
            is_video: shape.len() == 5,
            format: None,
        })
    }

    /// Writes it as ComfyUI's SaveLatent does; `metadata` goes into the header, with the latent
    /// space beside it.
    pub fn save(
        &self,
        path: &Path,
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), EngineError> {
        self.save_beside(None, path, metadata)
    }

    /// The same for a run that stopped: `noisy` is what it goes on from.
    pub fn save_beside(
        &self,
        noisy: Option<&Latent>,
        path: &Path,
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), EngineError> {
        let (tensors, metadata) = self.described(noisy, metadata);
        let mut writer = Writer::create(path, &tensors, &metadata)?;
        for latent in std::iter::once(self).chain(noisy) {
            writer.write(&latent.file_bytes())?;
        }
        Ok(writer.finish()?)
    }

    /// [`Latent::save`] to something that is no file, which errors call `name`.
    pub fn write_to(
        &self,
        out: impl std::io::Write,
        name: &Path,
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), EngineError> {
        let (tensors, metadata) = self.described(None, metadata);
        let mut writer = Writer::to(out, name, &tensors, &metadata)?;
        Ok(writer.write(&self.file_bytes())?)
    }

    /// The tensors of its file, and the file's metadata with the latent space.
    fn described(
        &self,
        noisy: Option<&Latent>,
        metadata: &BTreeMap<String, String>,
    ) -> (Vec<NewTensor>, BTreeMap<String, String>) {
        let tensor = |name: &str, shape: Vec<usize>| NewTensor {
            name: name.to_owned(),
            dtype: DType::F32,
            shape,
        };
        let mut tensors = vec![
            tensor("latent_tensor", self.file_shape()),
            tensor("latent_format_version_0", vec![0]),
        ];
        tensors.extend(noisy.map(|n| tensor(NOISY, n.file_shape())));
        let mut metadata = metadata.clone();
        if let Some(format) = self.format {
            let name = metadata.entry(FORMAT_KEY.to_owned());
            name.or_insert_with(|| format.name.to_owned());
        }
        (tensors, metadata)
    }

    /// The values as its file has them.
    fn file_bytes(&self) -> Vec<u8> {
        let planes = self.planes();
        planes.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    /// The values as torch has them, `[b, c, t, h, w]`.
    pub fn planes(&self) -> Vec<f32> {
        let positions = self.frames * self.height * self.width;
        let item = positions * self.channels;
        let mut planes = vec![0.0; self.values.len()];
        let items = self.values.chunks_exact(item);
        for (pixels, planes) in items.zip(planes.chunks_exact_mut(item)) {
            transpose(pixels, self.channels, planes);
        }
        planes
    }

    /// `[b, c, h, w]`, or `[b, c, t, h, w]` of a video.
    pub fn file_shape(&self) -> Vec<usize> {
        let mut shape = vec![self.batch, self.channels, self.height, self.width];
        if self.is_video {
            shape.insert(2, self.frames);
        }
        shape
    }

    /// The size of one batch element.
    pub fn size(&self) -> LatentSize {
        LatentSize {
            frames: self.frames,
            height: self.height,
            width: self.width,
        }
    }

    /// Values of one batch element, `[t, h, w, c]`.
    pub fn item(&self, b: usize) -> &[f32] {
        let each = self.values.len() / self.batch;
        &self.values[b * each..(b + 1) * each]
    }

    /// The first frames of the latents, in turn, for each image of a batch. Without values there
    /// are none.
    pub(crate) fn first_frames(&self, batch: usize) -> Vec<f32> {
        let n = self.height * self.width * self.channels;
        let own = |b| self.item(b % self.batch.max(1)).iter().take(n);
        (0..batch).flat_map(own).copied().collect()
    }

    /// In the model's units of that format; the same without one. An empty latent stays empty, as
    /// in ComfyUI.
    pub(crate) fn in_model_units(&self, format: Option<&LatentFormat>) -> Latent {
        let mut latent = self.clone();
        if let Some(format) = format
            && latent.values.iter().any(|&v| v != 0.0)
        {
            latent.scale_to_model(format);
        }
        latent
    }

    /// The latent at another size, every frame of every picture or clip of the batch.
    #[must_use]
    pub fn resized(&self, height: usize, width: usize, how: Upscale) -> Latent {
        if (self.height, self.width) == (height, width) {
            return self.clone();
        }
        let size = (self.height, self.width, self.channels);
        let frames = self.values.chunks_exact(size.0 * size.1 * size.2);
        let values = frames
            .flat_map(|frame| resize(frame, size, (height, width), how))
            .collect();
        Latent {
            height,
            width,
            values,
            ..self.clone()
        }
    }

    /// A latent of the same shape that has no values.
    pub(crate) fn without_values(&self) -> Latent {
        Latent {
            values: Vec::new(),
            ..*self
        }
    }

    /// The latents without their first frames; at least one frame is left.
    #[must_use]
    pub fn without_first(&self, frames: usize) -> Latent {
        let cut = frames.min(self.frames.saturating_sub(1));
        let frame = self.height * self.width * self.channels;
        let items = (0..self.batch).flat_map(|b| &self.item(b)[cut * frame..]);
        Latent {
            frames: self.frames - cut,
            values: items.copied().collect(),
            ..self.without_values()
        }
    }

    /// The same latents so often that there are `batch` of them.
    pub(crate) fn repeated(&self, batch: usize) -> Latent {
        let times = batch / self.batch.max(1);
        Latent {
            batch: self.batch * times,
            values: self.values.repeat(times),
            ..self.clone()
        }
    }

    /// Latents of nothing, which sampling from text alone starts from. More than one frame makes a
    /// video.
    pub fn empty(batch: usize, channels: usize, size: LatentSize) -> Latent {
        let LatentSize {
            frames,
            height,
            width,
        } = size;
        Latent {
            batch,
            frames,
            height,
            width,
            channels,
            values: vec![0.0; batch * channels * frames * height * width],
            is_video: frames > 1,
            format: None,
        }
    }

    /// Takes every channel from the model's units, which a TAESD encodes to, to the VAE's.
    pub(crate) fn scale_to_vae(&mut self, format: &LatentFormat) {
        self.for_channels(|c, v| {
            let (mul, add) = format.to_vae(c);
            v * mul + add
        });
    }

    /// Takes every channel from the VAE's units to the model's, which a TAESD decodes.
    pub(crate) fn scale_to_model(&mut self, format: &LatentFormat) {
        self.for_channels(|c, v| {
            let (mul, add) = format.to_model(c);
            v * mul + add
        });
    }

    /// Replaces every value by what `f` makes of its channel and it.
    pub(crate) fn for_channels(&mut self, f: impl Fn(usize, f32) -> f32) {
        for pixel in self.values.chunks_exact_mut(self.channels) {
            for (c, v) in pixel.iter_mut().enumerate() {
                *v = f(c, *v);
            }
        }
    }
}

/// The first of `wanted` that a file has.
fn find<'a>(index: &'a Index, wanted: &[&str]) -> Option<&'a Entry> {
    wanted.iter().find_map(|name| index.get(name))
}

#[cfg(test)]
mod tests;
