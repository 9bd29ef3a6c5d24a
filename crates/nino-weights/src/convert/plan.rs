//! Which encoding each tensor gets.
//!
//! - What is not real numbers stays as it is.
//! - The first `keep` rule one of whose words is in the name decides.
//! - When the wanted type is a block type or fp8, tensors with fewer than two dimensions (norms,
//!   biases) keep their type if it is a plain float.
//! - A block type needs rows of whole blocks. Where they are not, the type falls back: Q2_K and
//!   Q3_K to Q4_0, Q4_K to Q5_0, Q5_K to Q5_1, Q6_K to Q8_0 (as llama.cpp does), and those to f16.

use nino_dtype::DType;

use super::{Problem, Target};
use crate::names::{self, Net};
use crate::{Entry, Format, Index, Result, gguf, safetensors};

/// Tensors whose names contain one of `words` get `dtype`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub words: Vec<String>,
    pub dtype: DType,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub dtype: DType,
    pub keep: Vec<Rule>,
    /// What a GGUF file calls the model where the source does not say: `general.architecture`.
    pub architecture: String,
}

impl std::str::FromStr for Rule {
    type Err = Problem;

    /// Reads `norm,bias,emb=f16`.
    fn from_str(text: &str) -> Result<Rule, Problem> {
        let bad = || Problem::Rule(text.to_owned());
        let (words, dtype) = text.rsplit_once('=').ok_or_else(bad)?;
        let words: Vec<String> = words.split(',').map(|w| w.trim().to_owned()).collect();
        if words.iter().any(String::is_empty) {
            return Err(bad());
        }
        Ok(Rule {
            words,
            dtype: dtype.trim().parse()?,
        })
    }
}

pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) architecture: String,
    pub(super) jobs: Vec<Job>,
}

/// One tensor to write.
pub(super) struct Job {
    /// Position in the source index.
    pub(super) entry: usize,
    pub(super) dtype: DType,
    /// What was wanted, when `dtype` is a fallback.
    pub(super) wanted: Option<DType>,
    /// The shape in the file; GGUF has at most four dimensions.
    pub(super) shape: Vec<usize>,
}

impl Job {
    pub(super) fn n_bytes(&self) -> u64 {
        self.dtype
            .bytes_for(self.shape.iter().product())
            .unwrap_or(0) as u64
    }
}

/// Refuses a wanted type before anything is read.
pub(super) fn check_type(target: Target, dtype: DType) -> Result<(), Problem> {
    if !nino_dtype::has_encoder(dtype) {
        return Err(Problem::NoEncoder { dtype });
    }
    match target {
        Target::Gguf if gguf::dtype_id(dtype).is_none() => Err(Problem::NotInFormat {
            target: "GGUF",
            dtype,
            instead: "write .safetensors, or use q8_0",
        }),
        Target::Safetensors if safetensors::dtype_name(dtype).is_none() => {
            let instead = "write .gguf, or use fp8_e4m3";
            Err(Problem::NotInFormat {
                target: "safetensors",
                dtype,
                instead,
            })
        }
        _ => Ok(()),
    }
}

/// What is converted: a file as it is named, a diffusers folder as one file with original names.
pub(super) fn source(index: &Index) -> Result<Index> {
    if index.format != Format::Diffusers {
        return Ok(index.clone());
    }
    let (components, _) = names::canonical(index)?;
    let mut entries = Vec::new();
    for component in components {
        let prefix = match (component.net, component.prefix.as_str()) {
            (Net::Unet | Net::Flux | Net::Wan | Net::ZImage, "transformer_2.") => {
                "model_2.diffusion_model."
            }
            (
                Net::Unet
                | Net::Flux
                | Net::Wan
                | Net::ZImage
                | Net::QwenImage
                | Net::Krea2
                | Net::Anima,
                _,
            ) => "model.diffusion_model.",
            (Net::KlVae | Net::WanVae | Net::Taesd | Net::Taehv, _) => "first_stage_model.",
            (Net::ControlNet | Net::T2iAdapter, _) => "control_model.",
            (Net::T5, _) => "text_encoders.t5xxl.transformer.",
            (Net::Llm, _) => "text_encoders.llm.transformer.",
            (Net::QwenVision | Net::Qwen3Vision, _) => "text_encoders.llm.transformer.visual.",
            (Net::ClipVision, _) => "clip_vision.",
            (Net::ClipText, "text_encoder_2.") => "text_encoders.clip_g.transformer.",
            (Net::ClipText, _) => "cond_stage_model.transformer.",
            // No folder of diffusers has one; alone, it needs no prefix.
            (Net::Redux | Net::Rrdb | Net::Srvgg | Net::Wav2Vec2, _) => "",
        };
        entries.extend(component.index.entries().iter().map(|e| {
            let name = format!("{prefix}{}", e.name);
            Entry { name, ..e.clone() }
        }));
    }
    Ok(index.with_entries(entries))
}

pub(super) fn plan(index: &Index, target: Target, options: &Options) -> Plan {
    let jobs = index.entries().iter().enumerate().map(|(i, entry)| {
        let wanted = wanted(entry, options);
        let dtype = fitting(entry, wanted);
        let wanted = (dtype != wanted).then_some(wanted);
        Job {
            entry: i,
            dtype,
            wanted,
            shape: stored_shape(&entry.shape, target),
        }
    });
    Plan {
        target,
        architecture: options.architecture.clone(),
        jobs: jobs.collect(),
    }
}

fn wanted(entry: &Entry, options: &Options) -> DType {
    if !entry.dtype.is_real() {
        return entry.dtype;
    }
    let rule = options
        .keep
        .iter()
        .find(|r| r.words.iter().any(|w| entry.name.contains(w)));
    if let Some(rule) = rule {
        return rule.dtype;
    }
    let small = options.dtype.is_block() || options.dtype.block_bytes() == 1;
    let plain = matches!(entry.dtype, DType::F32 | DType::F16 | DType::BF16);
    if small && entry.shape.len() < 2 && plain {
        return entry.dtype;
    }
    options.dtype
}

fn fitting(entry: &Entry, mut dtype: DType) -> DType {
    while dtype.is_block() && !entry.row_len().is_multiple_of(dtype.block_len()) {
        dtype = match dtype {
            DType::Q2_K | DType::Q3_K => DType::Q4_0,
            DType::Q4_K => DType::Q5_0,
            DType::Q5_K => DType::Q5_1,
            DType::Q6_K => DType::Q8_0,
            _ => DType::F16,
        };
    }
    dtype
}

/// GGUF holds four dimensions: the first ones of a 3-D convolution are written as one.
fn stored_shape(shape: &[usize], target: Target) -> Vec<usize> {
    if target == Target::Safetensors || shape.len() <= 4 {
        return shape.to_vec();
    }
    let (head, tail) = shape.split_at(shape.len() - 3);
    std::iter::once(head.iter().product())
        .chain(tail.iter().copied())
        .collect()
}
