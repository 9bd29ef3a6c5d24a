//! Writes a model in another encoding: to GGUF or safetensors, tensor by tensor, in parallel over
//! pieces of a million values, so that memory stays at a few dozen megabytes whatever the file's
//! size.

mod plan;
mod report;
mod run;

use std::path::{Path, PathBuf};

use nino_dtype::DType;

pub use plan::{Options, Rule};
pub use report::{Encoding, Fallback, Report, TensorError};

use crate::{Error, Result, TensorReader};

/// The two formats that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Safetensors,
    Gguf,
}

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("the name must end in .safetensors or .gguf, which sets the format")]
    Extension,
    #[error("{dtype} cannot be written")]
    NoEncoder { dtype: DType },
    #[error("{target} files cannot hold {dtype}; {instead}")]
    NotInFormat {
        target: &'static str,
        dtype: DType,
        instead: &'static str,
    },
    #[error("{0:?} is not a rule such as norm,bias=f16")]
    Rule(String),
    #[error(transparent)]
    Type(#[from] nino_dtype::UnknownDType),
    #[error("stopped")]
    Cancelled,
    #[error("no tensors in it")]
    Empty,
}

/// How far a conversion is; returning `false` stops it and leaves no file.
pub struct Progress<'a> {
    pub done: u64,
    pub total: u64,
    pub tensor: &'a str,
}

/// Converts everything a reader has. `out` appears when all of it is written, or not at all.
pub fn convert(
    reader: &TensorReader,
    out: &Path,
    options: &Options,
    mut progress: impl FnMut(Progress<'_>) -> bool,
) -> Result<Report> {
    let fail = |reason| Error::Convert {
        path: out.to_owned(),
        reason,
    };
    let target = Target::of(out).ok_or_else(|| fail(Problem::Extension))?;
    plan::check_type(target, options.dtype).map_err(fail)?;
    for rule in &options.keep {
        plan::check_type(target, rule.dtype).map_err(fail)?;
    }
    let index = plan::source(reader.index())?;
    let plan = plan::plan(&index, target, options);
    if plan.jobs.is_empty() {
        return Err(fail(Problem::Empty));
    }
    run::run(reader, &index, out, &plan, &mut progress)
}

impl Target {
    /// The format that the end of a file's name tells.
    pub fn of(path: &Path) -> Option<Target> {
        match path.extension()?.to_str()?.to_lowercase().as_str() {
            "safetensors" | "sft" => Some(Target::Safetensors),
            "gguf" => Some(Target::Gguf),
            _ => None,
        }
    }
}

/// Bytes of all files together.
pub(crate) fn total_size(files: &[PathBuf]) -> u64 {
    files
        .iter()
        .filter_map(|f| Some(std::fs::metadata(f).ok()?.len()))
        .sum()
}

#[cfg(test)]
mod tests;
