//! UNets that are changed inside: what their output blocks get, and what the middle one looks at.

use crate::NodeError;
use crate::node::table::{float, link, out};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::FreeU;

const PATCH: &str = "model/patch/unet";

const fn factor(name: &'static str, default: f64) -> InputDef {
    float(name, default, (0.0, 10.0), 0.01)
}

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "FreeU",
        display_name: "FreeU",
        category: PATCH,
        inputs: &[
            link("model", Socket::Model),
            factor("b1", 1.1),
            factor("b2", 1.2),
            factor("s1", 0.9),
            factor("s2", 0.2),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| {
            let freeu = factors(call)?;
            changed(call, freeu)
        },
    },
    NodeDef {
        class: "FreeU_V2",
        display_name: "FreeU_V2",
        category: PATCH,
        inputs: &[
            link("model", Socket::Model),
            factor("b1", 1.3),
            factor("b2", 1.4),
            factor("s1", 0.9),
            factor("s2", 0.2),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| {
            let freeu = factors(call)?.second();
            changed(call, freeu)
        },
    },
    NodeDef {
        class: "PerturbedAttentionGuidance",
        display_name: "PerturbedAttentionGuidance",
        category: PATCH,
        inputs: &[
            link("model", Socket::Model),
            float("scale", 3.0, (0.0, 100.0), 0.01),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: perturbed,
    },
];

fn factors(call: &Call<'_, '_>) -> Result<FreeU, NodeError> {
    let of = |input| Ok::<f32, NodeError>(call.float(input)? as f32);
    Ok(FreeU::new([of("b1")?, of("b2")?], [of("s1")?, of("s2")?]))
}

fn changed(call: &Call<'_, '_>, freeu: FreeU) -> Result<Vec<Value>, NodeError> {
    Ok(vec![Value::from(call.model("model")?.with_freeu(freeu)?)])
}

fn perturbed(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let model = call.model("model")?;
    if model.skipped_layers().is_some() {
        let text =
            "the model is guided by perturbed attention already, and so only once".to_owned();
        return Err(NodeError::Input(text));
    }
    let scale = call.float("scale")? as f32;
    Ok(vec![Value::from(model.with_perturbed_attention(scale)?)])
}
