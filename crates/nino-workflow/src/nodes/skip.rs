//! Guidance away from what a network makes without some of its layers.

use crate::NodeError;
use crate::node::table::{float, link, out, text};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::SkipWay;

const GUIDANCE: &str = "advanced/guidance";
const MODEL: InputDef = link("model", Socket::Model);
const DOUBLE: InputDef = text("double_layers", "7, 8, 9");
const SINGLE: InputDef = text("single_layers", "7, 8, 9");

const fn percent(name: &'static str, default: f64) -> InputDef {
    float(name, default, (0.0, 1.0), 0.001)
}

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "SkipLayerGuidanceDiT",
        display_name: "SkipLayerGuidanceDiT",
        category: GUIDANCE,
        inputs: &[
            MODEL,
            DOUBLE,
            SINGLE,
            float("scale", 3.0, (0.0, 10.0), 0.1),
            percent("start_percent", 0.01),
            percent("end_percent", 0.15),
            float("rescaling_scale", 0.0, (0.0, 10.0), 0.01),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| {
            let way = SkipWay::Apart {
                scale: call.float("scale")? as f32,
                rescale: call.float("rescaling_scale")? as f32,
            };
            skipped(call, way)
        },
    },
    NodeDef {
        class: "SkipLayerGuidanceDiTSimple",
        display_name: "SkipLayerGuidanceDiTSimple",
        category: GUIDANCE,
        inputs: &[
            MODEL,
            DOUBLE,
            SINGLE,
            percent("start_percent", 0.0),
            percent("end_percent", 1.0),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| skipped(call, SkipWay::Negative),
    },
];

/// The model without the layers. Those of the networks that can do without are all double ones.
fn skipped(call: &mut Call<'_, '_>, way: SkipWay) -> Result<Vec<Value>, NodeError> {
    let model = call.model("model")?;
    let [double, single] =
        [call.text("double_layers")?, call.text("single_layers")?].map(|text| numbers(&text));
    if double.is_empty() && single.is_empty() {
        return Ok(vec![Value::Model(model)]);
    }
    if model.skipped_layers().is_some() {
        let text = "the model skips layers already, and does so in one way only".to_owned();
        return Err(NodeError::Input(text));
    }
    let part = (call.float("start_percent")?, call.float("end_percent")?);
    let model = model.with_skipped_layers(&double, way, part)?;
    Ok(vec![Value::from(model)])
}

/// The whole numbers in a text.
fn numbers(text: &str) -> Vec<usize> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}
