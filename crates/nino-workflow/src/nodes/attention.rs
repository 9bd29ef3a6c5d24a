//! Attention that is multiplied: its queries, keys, values and outputs, in UNets and text encoders.
//! Other networks name those weights differently, and ComfyUI finds none to multiply there.

use crate::NodeError;
use crate::node::table::{float, link, out};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;

const EXPERIMENTS: &str = "experimental/attention_experiments";

const fn factor(name: &'static str) -> InputDef {
    float(name, 1.0, (0.0, 10.0), 0.01)
}

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "UNetSelfAttentionMultiply",
        display_name: "UNetSelfAttentionMultiply",
        category: EXPERIMENTS,
        inputs: &[
            link("model", Socket::Model),
            factor("q"),
            factor("k"),
            factor("v"),
            factor("out"),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| unet(call, "attn1"),
    },
    NodeDef {
        class: "UNetCrossAttentionMultiply",
        display_name: "UNetCrossAttentionMultiply",
        category: EXPERIMENTS,
        inputs: &[
            link("model", Socket::Model),
            factor("q"),
            factor("k"),
            factor("v"),
            factor("out"),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| unet(call, "attn2"),
    },
    NodeDef {
        class: "CLIPAttentionMultiply",
        display_name: "CLIPAttentionMultiply",
        category: EXPERIMENTS,
        inputs: &[
            link("clip", Socket::Clip),
            factor("q"),
            factor("k"),
            factor("v"),
            factor("out"),
        ],
        outputs: &[out(Socket::Clip)],
        is_output: false,
        run: clip,
    },
    NodeDef {
        class: "UNetTemporalAttentionMultiply",
        display_name: "UNetTemporalAttentionMultiply",
        category: EXPERIMENTS,
        inputs: &[
            link("model", Socket::Model),
            factor("self_structural"),
            factor("self_temporal"),
            factor("cross_structural"),
            factor("cross_temporal"),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: temporal,
    },
];

/// The factor of the layer that a weight or bias belongs to.
fn of_layer(name: &str, layers: &[(String, f32)]) -> Option<f32> {
    let layer = name.strip_suffix(".weight");
    let layer = layer.or_else(|| name.strip_suffix(".bias"))?;
    let found = layers.iter().find(|(end, _)| layer.ends_with(end));
    found.map(|(_, factor)| *factor)
}

/// The factors of queries, keys, values and outputs, which have these names.
fn layers(call: &Call<'_, '_>, names: [String; 4]) -> Result<Vec<(String, f32)>, NodeError> {
    let inputs = names.into_iter().zip(["q", "k", "v", "out"]);
    inputs
        .map(|(name, input)| Ok((name, call.float(input)? as f32)))
        .collect()
}

fn unet(call: &mut Call<'_, '_>, attention: &str) -> Result<Vec<Value>, NodeError> {
    let names = ["to_q", "to_k", "to_v", "to_out.0"];
    let layers = layers(call, names.map(|name| format!("{attention}.{name}")))?;
    let model = call.model("model")?;
    let model = model.with_factors(|name| of_layer(name, &layers));
    Ok(vec![Value::from(model)])
}

fn clip(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let names = ["q_proj", "k_proj", "v_proj", "out_proj"];
    let layers = layers(call, names.map(|name| format!("self_attn.{name}")))?;
    let clip = call.clip("clip")?;
    let clip = clip.with_factors(|name| of_layer(name, &layers));
    Ok(vec![Value::from(clip)])
}

/// No network here attends over time apart from space, so only what is over space counts.
fn temporal(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let layers = [
        (
            "attn1.to_out.0".to_owned(),
            call.float("self_structural")? as f32,
        ),
        (
            "attn2.to_out.0".to_owned(),
            call.float("cross_structural")? as f32,
        ),
    ];
    let model = call.model("model")?;
    let model = model.with_factors(|name| of_layer(name, &layers));
    Ok(vec![Value::from(model)])
}
