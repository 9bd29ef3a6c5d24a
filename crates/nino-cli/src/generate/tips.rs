//! Settings known to give poor pictures.

use nino_engine::{Checkpoint, GenerateRequest};

pub(super) fn tips(request: &GenerateRequest, model: &Checkpoint) -> Vec<String> {
    let size = model.defaults().size;
    let mut tips = Vec::new();
    if request.width.max(request.height) * 4 <= size * 3 {
        tips.push(format!(
            "{} was trained at {size} pixels and draws poorly much below",
            model.name
        ));
    }
    if request.steps < 8 && request.cfg > 3.0 {
        tips.push("few steps want a low --cfg, such as 2.5".to_owned());
    }
    tips
}
