//! Options of the stages out of dictionaries in which every key is present.

use crate::array::Input;
use crate::error::{raise, value};
use nino_engine::{
    Chunking, DecodeOptions, EncodeOptions, Favor, Latent, LatentFormat, Mask, Precision, Tile,
    Tiling,
};
use pyo3::prelude::*;
use std::path::Path;

/// Options of `decode`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct DecodeArgs {
    precision: String,
    /// Pixels of a tile and of its overlap; whole, or exact within the budget, when `None`.
    tile: Option<(usize, usize)>,
    /// Latent frames at a time.
    chunk: Option<usize>,
    format: Option<String>,
    budget: Option<usize>,
    /// `time` or `memory`.
    favor: String,
}

impl DecodeArgs {
    pub(crate) fn options(&self) -> PyResult<DecodeOptions> {
        Ok(DecodeOptions {
            precision: precision(&self.precision)?,
            tile: match self.tile {
                Some((size, overlap)) => Tile::Fast(Tiling { size, overlap }),
                None => Tile::Auto,
            },
            chunking: self.chunk.map_or(Chunking::Auto, Chunking::Frames),
            format: format(self.format.as_deref())?,
            budget: self.budget,
            favor: favor(&self.favor)?,
            beside: 0,
        })
    }
}

/// Options of `encode`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct EncodeArgs {
    precision: String,
    format: Option<String>,
}

impl EncodeArgs {
    pub(crate) fn options(&self) -> PyResult<EncodeOptions> {
        Ok(EncodeOptions {
            precision: precision(&self.precision)?,
            format: format(self.format.as_deref())?,
            beside: 0,
        })
    }
}

pub(crate) fn precision(name: &str) -> PyResult<Precision> {
    match name {
        "auto" => Ok(Precision::Auto),
        "f32" => Ok(Precision::F32),
        "f16" => Ok(Precision::F16),
        "bf16" => Ok(Precision::Bf16),
        _ => Err(value(format!(
            "precision is auto, f32, f16 or bf16, not {name:?}"
        ))),
    }
}

fn favor(name: &str) -> PyResult<Favor> {
    match name {
        "time" => Ok(Favor::Time),
        "memory" => Ok(Favor::Memory),
        _ => Err(value(format!("favor is time or memory, not {name:?}"))),
    }
}

fn format(name: Option<&str>) -> PyResult<Option<&'static LatentFormat>> {
    let Some(name) = name else { return Ok(None) };
    let found = LatentFormat::by_name(name);
    let known = nino_engine::LATENT_FORMATS.map(|f| f.name).join(", ");
    let unknown = || value(format!("a latent format is one of {known}, not {name:?}"));
    found.map(Some).ok_or_else(unknown)
}

/// A latent out of `[b, c, h, w]` or `[b, c, t, h, w]`.
pub(crate) fn latent(array: &Bound<'_, PyAny>) -> PyResult<Latent> {
    let input = Input::of(array)?;
    Latent::from_planes(&input.shape, input.floats()?, Path::new("the latent")).map_err(raise)
}

/// A mask out of `[h, w]`, or out of the first of several.
pub(crate) fn mask(array: &Bound<'_, PyAny>) -> PyResult<Mask> {
    let input = Input::of(array)?;
    let &[.., height, width] = &input.shape[..] else {
        return Err(value("a mask has at least two dimensions"));
    };
    let values = input.floats()?;
    let plane = values
        .get(..height * width)
        .filter(|plane| !plane.is_empty());
    let plane = plane.ok_or_else(|| value("the mask is empty"))?;
    Ok(Mask {
        width,
        height,
        values: plane.to_vec(),
    })
}
