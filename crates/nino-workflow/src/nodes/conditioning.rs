//! Encoded prompts that are combined, or count in a part of the picture or of the sampling only.

use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{MAX_SIDE, combo, float, int, link, named, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{Area, Conditioning, Region};
use std::sync::Arc;

const TRANSFORM: &str = "model/conditioning/transform";
const STRENGTH: (f64, f64) = (0.0, 10.0);
const SHARE: (f64, f64) = (0.0, 1.0);
/// Pixels of a latent pixel, as ComfyUI counts areas.
const SCALE: usize = 8;

/// A node that makes conditioning of conditioning.
macro_rules! transform {
    ($class:literal, $name:literal, [$($input:expr),* $(,)?], $run:expr) => {
        NodeDef {
            class: $class,
            display_name: $name,
            category: TRANSFORM,
            inputs: &[$($input),*],
            outputs: &[out(Socket::Conditioning)],
            is_output: false,
            run: $run,
        }
    };
}

const PROMPTS: crate::node::InputDef = link("conditioning", Socket::Conditioning);
const TO: crate::node::InputDef = link("conditioning_to", Socket::Conditioning);
const FROM: crate::node::InputDef = link("conditioning_from", Socket::Conditioning);

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "LotusConditioning",
        display_name: "LotusConditioning",
        category: "model/conditioning/lotus",
        inputs: &[],
        outputs: &[named("conditioning", Socket::Conditioning)],
        is_output: false,
        run: |_| Ok(vec![Value::from(vec![Conditioning::lotus()])]),
    },
    transform!(
        "ConditioningCombine",
        "Conditioning (Combine)",
        [
            link("conditioning_1", Socket::Conditioning),
            link("conditioning_2", Socket::Conditioning),
        ],
        combine
    ),
    transform!(
        "ConditioningAverage",
        "Conditioning (Average)",
        [
            TO,
            FROM,
            float("conditioning_to_strength", 1.0, SHARE, 0.01)
        ],
        average
    ),
    transform!(
        "ConditioningConcat",
        "Conditioning (Concat)",
        [TO, FROM],
        concat
    ),
    transform!(
        "ConditioningSetArea",
        "Conditioning (Set Area)",
        [
            PROMPTS,
            int("width", 64, (64, MAX_SIDE), 8),
            int("height", 64, (64, MAX_SIDE), 8),
            int("x", 0, (0, MAX_SIDE), 8),
            int("y", 0, (0, MAX_SIDE), 8),
            float("strength", 1.0, STRENGTH, 0.01),
        ],
        set_area
    ),
    transform!(
        "ConditioningSetAreaPercentage",
        "Conditioning (Set Area with Percentage)",
        [
            PROMPTS,
            float("width", 1.0, SHARE, 0.01),
            float("height", 1.0, SHARE, 0.01),
            float("x", 0.0, SHARE, 0.01),
            float("y", 0.0, SHARE, 0.01),
            float("strength", 1.0, STRENGTH, 0.01),
        ],
        set_area_percentage
    ),
    transform!(
        "ConditioningSetAreaStrength",
        "Conditioning (Set Area Strength)",
        [PROMPTS, float("strength", 1.0, STRENGTH, 0.01)],
        |call| {
            let strength = call.float("strength")? as f32;
            regions(call, |region| region.strength = strength)
        }
    ),
    transform!(
        "ConditioningSetMask",
        "Conditioning (Set Mask)",
        [
            PROMPTS,
            link("mask", Socket::Mask),
            float("strength", 1.0, STRENGTH, 0.01),
            combo("set_cond_area", || vec!["default", BOUNDS]),
        ],
        set_mask
    ),
    transform!(
        "ConditioningSetTimestepRange",
        "ConditioningSetTimestepRange",
        [
            PROMPTS,
            float("start", 0.0, SHARE, 0.001),
            float("end", 1.0, SHARE, 0.001),
        ],
        |call| {
            let percent = (call.float("start")?, call.float("end")?);
            regions(call, |region| region.percent = percent)
        }
    ),
    transform!(
        "ConditioningZeroOut",
        "Conditioning Zero Out",
        [PROMPTS],
        |call| each(call, "conditioning", Conditioning::zeroed)
    ),
];

/// The model sees only the part of the picture that a mask covers.
const BOUNDS: &str = "mask bounds";

fn each(
    call: &mut Call<'_, '_>,
    input: &'static str,
    f: impl Fn(&Conditioning) -> Conditioning,
) -> Result<Vec<Value>, NodeError> {
    let prompts: Vec<Conditioning> = call.prompts(input)?.iter().map(f).collect();
    Ok(vec![Value::from(prompts)])
}

fn regions(call: &mut Call<'_, '_>, change: impl Fn(&mut Region)) -> Result<Vec<Value>, NodeError> {
    each(call, "conditioning", |prompt| {
        let mut prompt = prompt.clone();
        change(&mut prompt.region);
        prompt
    })
}

fn combine(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (first, second) = (
        call.prompts("conditioning_1")?,
        call.prompts("conditioning_2")?,
    );
    let both: Vec<Conditioning> = first.iter().chain(second.iter()).cloned().collect();
    Ok(vec![Value::from(both)])
}

/// The first prompt of `conditioning_from`, which alone counts, and fits those of
/// `conditioning_to`.
fn from(call: &Call<'_, '_>) -> Result<Conditioning, NodeError> {
    let none = || NodeError::Input("its conditioning_from holds no prompt".to_owned());
    let from = call.prompts("conditioning_from")?;
    let from = from.first().ok_or_else(none)?;
    let to = call.prompts("conditioning_to")?;
    if let Some(other) = to.iter().find(|to| to.width != from.width) {
        return Err(NodeError::Input(format!(
            "its prompts are of different models: tokens of {} values and of {}",
            other.width, from.width
        )));
    }
    Ok(from.clone())
}

fn average(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let from = from(call)?;
    let share = call.float("conditioning_to_strength")? as f32;
    each(call, "conditioning_to", |to| to.averaged(&from, share))
}

fn concat(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let from = from(call)?;
    each(call, "conditioning_to", |to| to.followed_by(&from))
}

fn set_area(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let area = Area::Latent {
        x: call.size("x")? / SCALE,
        y: call.size("y")? / SCALE,
        width: call.size("width")? / SCALE,
        height: call.size("height")? / SCALE,
    };
    place(call, area)
}

fn set_area_percentage(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let area = Area::Share {
        x: call.float("x")?,
        y: call.float("y")?,
        width: call.float("width")?,
        height: call.float("height")?,
    };
    place(call, area)
}

fn place(call: &mut Call<'_, '_>, area: Area) -> Result<Vec<Value>, NodeError> {
    let strength = call.float("strength")? as f32;
    regions(call, |region| {
        region.area = Some(area);
        region.strength = strength;
        region.mask_bounds = false;
    })
}

fn set_mask(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let masks = call.masks("mask")?;
    let [mask] = &masks[..] else {
        return Err(NodeError::Input(format!(
            "its mask is a batch of {}, where one is supported",
            masks.len()
        )));
    };
    let mask = Arc::new(mask.clone());
    let strength = call.float("strength")? as f32;
    let bounds = &*call.text("set_cond_area")? == BOUNDS;
    regions(call, |region| {
        region.mask = Some(Arc::clone(&mask));
        region.mask_strength = strength;
        region.mask_bounds = bounds;
    })
}
