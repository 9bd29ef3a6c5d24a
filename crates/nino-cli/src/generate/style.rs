//! `--style`: pictures whose style a prompt is given.

use crate::args::{StyleArgs, StyleTypeArg};
use crate::env::Env;
use crate::video::model::found;
use anyhow::{Context, Result};
use nino_engine::media::{Limits, load_picture};
use nino_engine::{Image, ImageEncoder, ModelKind, Square, Style, StyleModel, StyleStrength};
use std::sync::Arc;

/// Names that files of SigLIP usually have.
const SIGLIP: &[&str] = &[
    "sigclip_vision_patch14_384",
    "siglip-so400m-patch14-384",
    "siglip_vision_patch14_384",
];

/// The styles that the flags ask for.
pub(super) fn styles(args: &StyleArgs, env: &Env, limits: &Limits) -> Result<Vec<Arc<Style>>> {
    if args.style.is_empty() {
        return Ok(Vec::new());
    }
    let named = args.clip_vision.as_deref();
    let encoder = found(ModelKind::ClipVision, named, SIGLIP, "--clip-vision", env)?;
    let encoder = ImageEncoder::open(&encoder)?;
    let library = env.library();
    let mut styles = Vec::new();
    for style in &args.style {
        let path = library.resolve(&[ModelKind::StyleModel], &style.file)?;
        let picture = library.find_input(&style.image);
        let picture = load_picture(&picture, limits)
            .with_context(|| format!("the image of --style {style}"))?;
        styles.push(Arc::new(Style {
            model: StyleModel::open(&path)?,
            encoder: encoder.clone(),
            image: Arc::new(Image::from(&picture)),
            square: Square::Cut,
            strength: match args.style_type {
                StyleTypeArg::Multiply => StyleStrength::Multiply(style.strength),
                StyleTypeArg::AttnBias => StyleStrength::Heed(style.strength),
            },
        }));
    }
    Ok(styles)
}
