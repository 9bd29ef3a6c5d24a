//! Diffusion models that are sampled in another way.

use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{boolean, combo, float, link, named, optional, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{Blend, Correction, DiffusionModel, ModelSampling, Prediction};

const SHIFT: (f64, f64) = (0.0, 100.0);
const SCALE: (f64, f64) = (0.0, 100.0);
const MOVE: (f64, f64) = (-256.0, 256.0);

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "ModelSamplingDiscrete",
        display_name: "ModelSamplingDiscrete",
        category: "model/patch",
        inputs: &[
            link("model", Socket::Model),
            combo("sampling", || PREDICTIONS.map(|(name, _)| name).to_vec()),
            boolean("zsnr", false),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: discrete,
    },
    NodeDef {
        class: "ModelSamplingSD3",
        display_name: "ModelSamplingSD3",
        category: "model/patch/stable diffusion",
        inputs: &[
            link("model", Socket::Model),
            float("shift", 3.0, SHIFT, 0.01),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| shifted(call, 1000.0),
    },
    NodeDef {
        class: "ModelSamplingAuraFlow",
        display_name: "ModelSamplingAuraFlow",
        category: "model/patch",
        inputs: &[
            link("model", Socket::Model),
            float("shift", 1.73, SHIFT, 0.01),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| shifted(call, 1.0),
    },
    NodeDef {
        class: "RescaleCFG",
        display_name: "RescaleCFG",
        category: "model/patch",
        inputs: &[
            link("model", Socket::Model),
            float("multiplier", 0.7, (0.0, 1.0), 0.01),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: rescale,
    },
    NodeDef {
        class: "DifferentialDiffusion",
        display_name: "Differential Diffusion",
        category: "experimental",
        inputs: &[
            link("model", Socket::Model),
            optional(float("strength", 1.0, (0.0, 1.0), 0.01)),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| {
            let mut model = DiffusionModel::clone(&*call.model("model")?);
            let strength = call.get("strength").map(|_| call.float("strength"));
            model.gradual_mask = Some(strength.transpose()?.unwrap_or(1.0) as f32);
            Ok(vec![Value::from(model)])
        },
    },
    NodeDef {
        class: "CFGZeroStar",
        display_name: "CFGZeroStar",
        category: "advanced/guidance",
        inputs: &[link("model", Socket::Model)],
        outputs: &[named("patched_model", Socket::Model)],
        is_output: false,
        run: |call| {
            let model = call.model("model")?;
            Ok(vec![Value::from(
                model.with_correction(Correction::ZeroStar),
            )])
        },
    },
    NodeDef {
        class: "ScaleROPE",
        display_name: "ScaleROPE",
        category: "model/patch",
        inputs: &[
            link("model", Socket::Model),
            float("scale_x", 1.0, SCALE, 0.1),
            float("shift_x", 0.0, MOVE, 0.1),
            float("scale_y", 1.0, SCALE, 0.1),
            float("shift_y", 0.0, MOVE, 0.1),
            float("scale_t", 1.0, SCALE, 0.1),
            float("shift_t", 0.0, MOVE, 0.1),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: stretched,
    },
    NodeDef {
        class: "CFGNorm",
        display_name: "CFGNorm",
        category: "advanced/guidance",
        inputs: &[
            link("model", Socket::Model),
            float("strength", 1.0, (0.0, 100.0), 0.01),
            optional(boolean("pre_cfg", false)),
        ],
        outputs: &[named("patched_model", Socket::Model)],
        is_output: false,
        run: norm,
    },
];

const PREDICTIONS: [(&str, Prediction); 4] = [
    ("eps", Prediction::Eps),
    ("v_prediction", Prediction::V),
    ("lcm", Prediction::Lcm),
    ("x0", Prediction::X0),
];

fn discrete(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let name = call.text("sampling")?;
    let known = PREDICTIONS.iter().find(|(known, _)| **known == *name);
    let (_, prediction) =
        known.ok_or_else(|| NodeError::Input(format!("no model is sampled as {name}")))?;
    let model = call.model("model")?;
    let model = model.with_prediction(*prediction, call.boolean("zsnr")?);
    Ok(vec![Value::from(model)])
}

/// Noise levels of flow models; `multiplier` is what they count timesteps in.
fn shifted(call: &mut Call<'_, '_>, multiplier: f32) -> Result<Vec<Value>, NodeError> {
    let sampling = ModelSampling::flow(call.float("shift")?, multiplier);
    let model = call.model("model")?.with_sampling(sampling);
    Ok(vec![Value::from(model)])
}

/// Other places of frames, rows and columns.
#[expect(
    clippy::float_cmp,
    reason = "the values of the inputs that change nothing"
)]
fn stretched(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let each = |inputs: [&'static str; 3]| -> Result<[f32; 3], NodeError> {
        let [t, y, x] = inputs.map(|input| call.float(input));
        Ok([t? as f32, y? as f32, x? as f32])
    };
    let scale = each(["scale_t", "scale_y", "scale_x"])?;
    let shift = each(["shift_t", "shift_y", "shift_x"])?;
    let model = call.model("model")?;
    if scale == [1.0; 3] && shift == [0.0; 3] {
        return Ok(vec![Value::Model(model)]);
    }
    Ok(vec![Value::from(
        model.with_stretched_places(scale, shift)?,
    )])
}

/// Guidance that lengthens no prediction, or that keeps their lengths.
fn norm(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let mut model = DiffusionModel::clone(&*call.model("model")?);
    let strength = call.float("strength")? as f32;
    if call.get("pre_cfg").is_some() && call.boolean("pre_cfg")? {
        model.blend = Blend::Normed(strength);
    } else {
        model = model.with_correction(Correction::Norm(strength));
    }
    Ok(vec![Value::from(model)])
}

fn rescale(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let mut model = DiffusionModel::clone(&*call.model("model")?);
    model.blend = Blend::rescaled(call.float("multiplier")? as f32);
    Ok(vec![Value::from(model)])
}
