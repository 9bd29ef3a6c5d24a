//! `--control`: pictures that steer a request through `ControlNet`s.

use crate::args::{ControlArgs, PreprocessArg};
use crate::env::Env;
use crate::failure::Usage;
use anyhow::{Context, Result};
use nino_engine::media::{Limits, canny, load_picture};
use nino_engine::{Checkpoint, ControlNetFile, Hint, HintImage, Image, ModelKind, UNION_MODES};
use std::sync::Arc;

/// Thresholds of ComfyUI's node `Canny`.
const CANNY: [f32; 2] = [0.4, 0.8];

/// The hints that the flags ask for.
pub(super) fn hints(
    args: &ControlArgs,
    model: &Checkpoint,
    env: &Env,
    limits: &Limits,
) -> Result<Vec<Arc<Hint>>> {
    let mode = args.control_mode.as_deref().map(mode).transpose()?;
    let library = env.library();
    let mut hints = Vec::new();
    for control in &args.control {
        let path = library.resolve(&[ModelKind::ControlNet], &control.file)?;
        let net = ControlNetFile::open_for(&path, &model.diffusion)?.with_mode(mode);
        let picture = library.find_input(&control.image);
        let picture = load_picture(&picture, limits)
            .with_context(|| format!("the hint image of --control {control}"))?;
        let mut image = Image::from(&picture);
        if args.preprocess == Some(PreprocessArg::Canny) {
            let edges = canny(&image.values, image.width, image.height, CANNY[0], CANNY[1]);
            image.values = edges.into_iter().flat_map(|v| [v; 3]).collect();
        }
        hints.push(Arc::new(Hint {
            net,
            seen: HintImage::Pixels {
                images: Arc::new(vec![image]),
                vae: Some(Arc::clone(&model.vae)),
                paint: None,
            },
            strength: control.strength,
            percent: (0.0, 1.0),
            both_sides: false,
        }));
    }
    Ok(hints)
}

/// The number of a kind of picture, by any of the words of its name.
fn mode(text: &str) -> Result<usize, Usage> {
    let found = UNION_MODES
        .iter()
        .find(|(name, _)| name.split('/').any(|word| word == text));
    found.map(|(_, mode)| *mode).ok_or_else(|| {
        let names: Vec<&str> = UNION_MODES
            .iter()
            .flat_map(|(name, _)| name.split('/'))
            .collect();
        Usage(format!(
            "no control type is called {text:?}; there are: {}",
            names.join(", ")
        ))
    })
}
