//! Models and text encoders mixed with others of the same kind. Everything is computed in f32 while
//! the weights are loaded, with ComfyUI's results.

use crate::NodeError;
use crate::node::table::{float, link, out};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::Mix;

const MERGING: &str = "model/merging";
const MULTIPLIER: (f64, f64) = (-10.0, 10.0);

const fn ratio(name: &'static str) -> InputDef {
    float(name, 1.0, (0.0, 1.0), 0.01)
}

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "ModelMergeSimple",
        display_name: "Model Merge Simple",
        category: MERGING,
        inputs: &[
            link("model1", Socket::Model),
            link("model2", Socket::Model),
            ratio("ratio"),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| by_ratios(call, &["ratio"]),
    },
    NodeDef {
        class: "ModelMergeBlocks",
        display_name: "Model Merge Blocks",
        category: MERGING,
        inputs: &[
            link("model1", Socket::Model),
            link("model2", Socket::Model),
            ratio("input"),
            ratio("middle"),
            ratio("out"),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| by_ratios(call, &["input", "middle", "out"]),
    },
    NodeDef {
        class: "ModelMergeSubtract",
        display_name: "Model Merge Subtract",
        category: MERGING,
        inputs: &[
            link("model1", Socket::Model),
            link("model2", Socket::Model),
            float("multiplier", 1.0, MULTIPLIER, 0.01),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| {
            let mix = difference(call)?;
            models(call, |_| mix)
        },
    },
    NodeDef {
        class: "ModelMergeAdd",
        display_name: "Model Merge Add",
        category: MERGING,
        inputs: &[link("model1", Socket::Model), link("model2", Socket::Model)],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| models(call, |_| SUM),
    },
    NodeDef {
        class: "CLIPMergeSimple",
        display_name: "CLIP Merge Simple",
        category: MERGING,
        inputs: &[
            link("clip1", Socket::Clip),
            link("clip2", Socket::Clip),
            ratio("ratio"),
        ],
        outputs: &[out(Socket::Clip)],
        is_output: false,
        run: |call| {
            let mix = between(call.float("ratio")?);
            encoders(call, mix)
        },
    },
    NodeDef {
        class: "CLIPMergeSubtract",
        display_name: "CLIP Merge Subtract",
        category: MERGING,
        inputs: &[
            link("clip1", Socket::Clip),
            link("clip2", Socket::Clip),
            float("multiplier", 1.0, MULTIPLIER, 0.01),
        ],
        outputs: &[out(Socket::Clip)],
        is_output: false,
        run: |call| {
            let mix = difference(call)?;
            encoders(call, mix)
        },
    },
    NodeDef {
        class: "CLIPMergeAdd",
        display_name: "CLIP Merge Add",
        category: MERGING,
        inputs: &[link("clip1", Socket::Clip), link("clip2", Socket::Clip)],
        outputs: &[out(Socket::Clip)],
        is_output: false,
        run: |call| encoders(call, SUM),
    },
];

const SUM: Mix = Mix {
    own: 1.0,
    other: 1.0,
};

/// So much of the first, and the rest of the second.
fn between(ratio: f64) -> Mix {
    Mix {
        own: ratio as f32,
        other: (1.0 - ratio) as f32,
    }
}

fn difference(call: &Call<'_, '_>) -> Result<Mix, NodeError> {
    let multiplier = call.float("multiplier")? as f32;
    Ok(Mix {
        own: multiplier,
        other: -multiplier,
    })
}

/// Mixes two models by ratios, whose names are the beginnings of the names of weights. The longest
/// one that fits counts, and the first one where none does.
fn by_ratios(call: &Call<'_, '_>, ratios: &[&'static str]) -> Result<Vec<Value>, NodeError> {
    let ratios = ratios.iter().map(|&name| Ok((name, call.float(name)?)));
    let ratios = ratios.collect::<Result<Vec<_>, NodeError>>()?;
    let mix = |weight: &str| {
        let fitting = ratios.iter().filter(|(name, _)| weight.starts_with(name));
        let longest = fitting.max_by_key(|(name, _)| name.len());
        between(longest.or(ratios.first()).map_or(1.0, |(_, ratio)| *ratio))
    };
    models(call, mix)
}

fn models(call: &Call<'_, '_>, mix: impl Fn(&str) -> Mix) -> Result<Vec<Value>, NodeError> {
    let (model, other) = (call.model("model1")?, call.model("model2")?);
    Ok(vec![Value::from(model.mixed(&other, mix)?)])
}

fn encoders(call: &Call<'_, '_>, mix: Mix) -> Result<Vec<Value>, NodeError> {
    let (clip, other) = (call.clip("clip1")?, call.clip("clip2")?);
    Ok(vec![Value::from(clip.mixed(&other, mix)?)])
}
