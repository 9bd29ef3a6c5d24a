//! Settings known to give poor pictures.

use crate::args::GenerateArgs;
use crate::plural::count;
use nino_engine::{Checkpoint, Family, GenerateRequest, Start};

/// What of a model the tips depend on.
struct Facts<'a> {
    name: &'a str,
    family: Family,
    /// Pixels it was trained at.
    size: usize,
    few_steps: bool,
    /// Guidance is told to the UNet, which was made for strong ones too.
    takes_guidance: bool,
    /// Of a weight, on average.
    bits: f64,
    /// What it does with a picture, and how to give it one.
    picture: Option<&'static str>,
}

pub(super) fn tips(
    request: &GenerateRequest,
    model: &Checkpoint,
    args: &GenerateArgs,
) -> Vec<String> {
    let facts = Facts {
        name: model.name(),
        family: model.family(),
        size: model.defaults().size,
        few_steps: model.diffusion.wants_few_steps(),
        takes_guidance: model.diffusion.takes_guidance(),
        bits: model.diffusion.bits_per_weight(),
        picture: if model.diffusion.paints_over() {
            Some("is an inpainting model: give --image and --mask or --outpaint")
        } else if model.diffusion.edits() {
            Some("is an editing model: give --image")
        } else {
            None
        },
    };
    let mut tips = of(request, &facts);
    // With a mask or a picture it says how much changes; alone it leaves noise in the picture.
    if let (Some(strength), Start::Empty) = (args.sampling.denoise, &request.start)
        && strength < 1.0
    {
        tips.push(format!(
            "--strength {strength} is for an input image, and there is none: give --image, or \
             leave it out"
        ));
    }
    tips
}

fn of(request: &GenerateRequest, model: &Facts<'_>) -> Vec<String> {
    let Facts { name, size, .. } = model;
    let (long, short) = (
        request.width.max(request.height),
        request.width.min(request.height),
    );
    let empty = request.start == Start::Empty;
    let mut tips = Vec::new();
    let mut tip = |when: bool, text: String| {
        if when {
            tips.push(text);
        }
    };
    tip(
        long * 4 <= size * 3,
        format!(
            "{name} was trained at {size} pixels and draws poorly far below that: try --size \
             {size}x{size}"
        ),
    );
    tip(
        empty && short >= size * 3 / 2 && model.family != Family::Emoji,
        format!(
            "{name} was trained at {size} pixels and repeats itself far above that: try --size \
             {size}x{size} --hires 2x"
        ),
    );
    // A second pass does not help it: it draws more things there, too.
    let finished = request.final_size();
    tip(
        empty && finished.0.max(finished.1) >= size * 3 / 2 && model.family == Family::Emoji,
        format!(
            "{name} was trained at {size} pixels and draws several things on larger images: try \
             --size {size}x{size}"
        ),
    );
    if model.few_steps {
        tip(
            request.cfg > 2.0 && !model.takes_guidance,
            format!(
                "{name} was distilled to a few steps, for which --cfg {} is too strong: try --cfg 1",
                request.cfg
            ),
        );
        tip(
            request.steps > 15,
            format!(
                "{name} was distilled to a few steps and gains nothing from {}: try --steps 4",
                request.steps
            ),
        );
    } else {
        tip(
            request.steps < 8 && request.cfg > 3.0,
            "few steps need a low --cfg, such as 2.5".to_owned(),
        );
        tip(
            model.bits < 5.6 && request.steps < 10,
            format!(
                "{name} has {:.1} bits per weight, whose error {} cannot average out: try --steps \
                 20, or 8 bits",
                model.bits,
                count(request.steps, "step")
            ),
        );
    }
    tip(
        !request.negative.is_empty() && (request.cfg - 1.0).abs() < 1e-6,
        "--cfg 1 ignores --negative".to_owned(),
    );
    tip(
        empty && model.family == Family::SdxlRefiner,
        format!("{name} refines images of another model: give --image or --latent"),
    );
    tip(
        !request.negative.is_empty() && model.takes_guidance,
        format!("{name} has a guidance embedding and ignores --negative"),
    );
    if let Some(what) = model.picture {
        tip(empty, format!("{name} {what}"));
    }
    tips
}

#[cfg(test)]
mod tests;
