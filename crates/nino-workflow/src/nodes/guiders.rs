//! Guidance by three prompts.

use super::sampler::CFG;
use crate::NodeError;
use crate::node::table::{combo, float, link, out};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{Guider, Value};
use nino_engine::{Perpendicular, ThreeWay};
use std::sync::Arc;

const fn cfg(name: &'static str) -> InputDef {
    InputDef { name, ..CFG }
}

const NEG_SCALE: InputDef = float("neg_scale", 1.0, (0.0, 100.0), 0.01);

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "DualCFGGuider",
        display_name: "Dual CFG Guider",
        category: "model/sampling/guiders",
        inputs: &[
            link("model", Socket::Model),
            link("cond1", Socket::Conditioning),
            link("cond2", Socket::Conditioning),
            link("negative", Socket::Conditioning),
            cfg("cfg_conds"),
            cfg("cfg_cond2_negative"),
            combo("style", || vec!["regular", "nested"]),
        ],
        outputs: &[out(Socket::Guider)],
        is_output: false,
        run: dual,
    },
    NodeDef {
        class: "PerpNegGuider",
        display_name: "Perp-Neg Guider",
        category: "experimental",
        inputs: &[
            link("model", Socket::Model),
            link("positive", Socket::Conditioning),
            link("negative", Socket::Conditioning),
            link("empty_conditioning", Socket::Conditioning),
            CFG,
            NEG_SCALE,
        ],
        outputs: &[out(Socket::Guider)],
        is_output: false,
        run: perpendicular,
    },
    NodeDef {
        class: "PerpNeg",
        display_name: "Perp-Neg (DEPRECATED by Perp-Neg Guider)",
        category: "experimental",
        inputs: &[
            link("model", Socket::Model),
            link("empty_conditioning", Socket::Conditioning),
            NEG_SCALE,
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| {
            let (model, empty) = (call.model("model")?, call.prompts("empty_conditioning")?);
            let scale = call.float("neg_scale")? as f32;
            Ok(vec![Value::from(model.with_perpendicular(empty, scale))])
        },
    },
];

fn dual(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let second = call.float("cfg_cond2_negative")? as f32;
    let way = if &*call.text("style")? == "nested" {
        ThreeWay::Nested(second)
    } else {
        ThreeWay::Chained(second)
    };
    Ok(vec![Value::Guider(Arc::new(Guider {
        model: call.model("model")?,
        positive: call.prompts("cond1")?,
        negative: call.prompts("negative")?,
        third: Some((call.prompts("cond2")?, way)),
        cfg: call.float("cfg_conds")? as f32,
    }))])
}

fn perpendicular(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let way = ThreeWay::Perpendicular(Perpendicular {
        scale: call.float("neg_scale")? as f32,
        is_patch: false,
    });
    Ok(vec![Value::Guider(Arc::new(Guider {
        model: call.model("model")?,
        positive: call.prompts("positive")?,
        negative: call.prompts("negative")?,
        third: Some((call.prompts("empty_conditioning")?, way)),
        cfg: call.float("cfg")? as f32,
    }))])
}
