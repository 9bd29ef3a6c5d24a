//! A clip's plan, and with `--fit` a smaller clip where that does not fit.

use super::request::Wanted;
use crate::device::Opened;
use crate::plan::fitted;
use crate::printer;
use anyhow::Result;
use nino_engine::{
    ClipSize, EngineError, GeneratePlan, PlanError, Store, VideoModel, VideoRequest, plan_video,
};

/// Shares of the frames and of the sides that are tried, the larger clips first.
const SHARES: [(f64, f64); 10] = [
    (0.75, 1.0),
    (1.0, 0.85),
    (0.6, 1.0),
    (0.75, 0.85),
    (1.0, 0.7),
    (0.5, 0.85),
    (0.75, 0.7),
    (0.5, 0.7),
    (0.5, 0.5),
    (0.25, 0.4),
];

/// Plans the request. Where it does not fit and `fit` says so, the request becomes the largest of
/// some smaller ones that fits.
pub(crate) fn planned(
    opened: &Opened,
    store: &Store,
    model: &VideoModel,
    wanted: &mut Wanted,
    fit: bool,
) -> Result<GeneratePlan> {
    let whole = plan_video(store, model, &wanted.request);
    let is_over = matches!(whole, Err(EngineError::Plan(PlanError::OverBudget { .. })));
    if !is_over || !fit {
        return fitted(whole, opened);
    }
    let asked = wanted.request.size;
    for share in SHARES {
        let request = VideoRequest {
            size: smaller(asked, share, model.vae.kind.scale() * 2),
            ..wanted.request.clone()
        };
        if let Ok(plan) = plan_video(store, model, &request) {
            let size = request.size;
            printer::note(&format!(
                "{} frames of {}x{} do not fit; --fit makes {} of {}x{}",
                asked.frames, asked.width, asked.height, size.frames, size.width, size.height
            ));
            wanted.request = request;
            return Ok(plan);
        }
    }
    fitted(whole, opened)
}

fn smaller(size: ClipSize, (frames, sides): (f64, f64), multiple: usize) -> ClipSize {
    let side = |n: usize| (((n as f64 * sides) as usize) / multiple).max(1) * multiple;
    ClipSize {
        width: side(size.width),
        height: side(size.height),
        frames: ((size.frames as f64 * frames) as usize).max(1) / 4 * 4 + 1,
    }
}
