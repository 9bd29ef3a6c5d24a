//! An encoded prompt with all that ComfyUI's CONDITIONING can say and the engine knows.

use crate::array::{Array, Input};
use crate::error::value;
use crate::options::{latent, mask};
use nino_engine::{Area, ClipHints, Conditioning, ImageStates, Region, Seen, SeenFrames, SizeHint};
use pyo3::prelude::*;
use std::sync::Arc;

#[pyclass(frozen, name = "Conditioning", module = "ninodes._native")]
pub(crate) struct PyConditioning(pub(crate) Conditioning);

/// What a conditioning is made of.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Args<'py> {
    /// `[tokens, width]`
    context: Bound<'py, PyAny>,
    /// `[width]`
    pooled: Option<Bound<'py, PyAny>>,
    guidance: Option<f32>,
    original: Option<(usize, usize)>,
    crop: (usize, usize),
    target: Option<(usize, usize)>,
    score: Option<f32>,
    /// `latent` or `share`, then x, y, width and height.
    area: Option<(String, f64, f64, f64, f64)>,
    strength: f32,
    mask: Option<Bound<'py, PyAny>>,
    mask_strength: f32,
    mask_bounds: bool,
    percent: (f64, f64),
    /// The picture that an inpaint or editing model sees, and its mask.
    seen: Option<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)>,
    references: Vec<Bound<'py, PyAny>>,
    /// Latent frames that a video model sees, their mask, and the channel that the mask is before.
    frames: Option<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, usize)>,
    /// Pictures as CLIP sees them: `[tokens, width]`.
    image: Option<Bound<'py, PyAny>>,
}

impl Args<'_> {
    fn clip(&self) -> PyResult<ClipHints> {
        let frames = match &self.frames {
            Some((frames, mask, mask_at)) => Some(Arc::new(SeenFrames {
                latent: latent(frames)?,
                mask: mask.as_ref().map(latent).transpose()?,
                mask_at: *mask_at,
            })),
            None => None,
        };
        let image = match &self.image {
            Some(image) => {
                let (values, width) = tokens(image)?;
                Some(Arc::new(ImageStates {
                    values,
                    width,
                    ..ImageStates::default()
                }))
            }
            None => None,
        };
        Ok(ClipHints {
            image,
            frames,
            ..ClipHints::default()
        })
    }
}

/// The values of `[tokens, width]`, and the width.
fn tokens(array: &Bound<'_, PyAny>) -> PyResult<(Vec<f32>, usize)> {
    let input = Input::of(array)?;
    let &[_, width] = &input.shape[..] else {
        return Err(value("a context has the dimensions tokens and width"));
    };
    Ok((input.floats()?.to_vec(), width))
}

#[pymethods]
impl PyConditioning {
    #[new]
    fn new(args: Args<'_>) -> PyResult<PyConditioning> {
        let (context, width) = tokens(&args.context)?;
        let pooled = match &args.pooled {
            Some(pooled) => Input::of(pooled)?.floats()?.to_vec(),
            None => Vec::new(),
        };
        let seen = match &args.seen {
            Some((picture, covered)) => Some(Arc::new(Seen {
                latent: latent(picture)?,
                mask: covered.as_ref().map(mask).transpose()?,
            })),
            None => None,
        };
        let references = args.references.iter().map(|r| latent(r).map(Arc::new));
        Ok(PyConditioning(Conditioning {
            context: Arc::new(context),
            width,
            pooled,
            size: SizeHint {
                original: args.original,
                crop: args.crop,
                target: args.target,
                score: args.score,
            },
            guidance: args.guidance,
            seen,
            references: references.collect::<PyResult<_>>()?,
            clip: args.clip()?,
            region: Region {
                area: args.area.as_ref().map(area).transpose()?,
                strength: args.strength,
                mask: args.mask.as_ref().map(mask).transpose()?.map(Arc::new),
                mask_strength: args.mask_strength,
                mask_bounds: args.mask_bounds,
                percent: args.percent,
            },
            ..Conditioning::default()
        }))
    }

    /// `[tokens, width]`
    #[getter]
    fn context(&self) -> Array {
        let c = &self.0;
        Array::new(c.context.to_vec(), &[c.tokens(), c.width])
    }

    /// `[width]`; `None` of a family that has none.
    #[getter]
    fn pooled(&self) -> Option<Array> {
        let pooled = &self.0.pooled;
        (!pooled.is_empty()).then(|| Array::new(pooled.clone(), &[pooled.len()]))
    }

    /// The same prompt for a Flux that is told another guidance.
    fn with_guidance(&self, guidance: Option<f32>) -> PyConditioning {
        PyConditioning(self.0.with_guidance(guidance))
    }

    /// Zeros in the place of every value.
    fn zeroed(&self) -> PyConditioning {
        PyConditioning(self.0.zeroed())
    }
}

fn area((unit, x, y, width, height): &(String, f64, f64, f64, f64)) -> PyResult<Area> {
    match unit.as_str() {
        "latent" => Ok(Area::Latent {
            x: *x as usize,
            y: *y as usize,
            width: *width as usize,
            height: *height as usize,
        }),
        "share" => Ok(Area::Share {
            x: *x,
            y: *y,
            width: *width,
            height: *height,
        }),
        _ => Err(value(format!(
            "an area is in latent or share, not {unit:?}"
        ))),
    }
}
