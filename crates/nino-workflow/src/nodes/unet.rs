//! UNets that are changed inside: what their output blocks get, what their places look at, and how
//! large activations are.

use crate::NodeError;
use crate::node::table::{boolean, combo, float, int, link, out};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{FreeU, HyperTile, Resize, SelfAttention, Shrink};

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
    NodeDef {
        class: "PatchModelAddDownscale",
        display_name: "PatchModelAddDownscale (Kohya Deep Shrink)",
        category: PATCH,
        inputs: &[
            link("model", Socket::Model),
            int("block_number", 3, (1, 32), 1),
            float("downscale_factor", 2.0, (0.1, 9.0), 0.001),
            float("start_percent", 0.0, (0.0, 1.0), 0.001),
            float("end_percent", 0.35, (0.0, 1.0), 0.001),
            boolean("downscale_after_skip", true),
            combo("downscale_method", || RESIZES.to_vec()),
            combo("upscale_method", || RESIZES.to_vec()),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: shrunk,
    },
    NodeDef {
        class: "HyperTile",
        display_name: "HyperTile",
        category: PATCH,
        inputs: &[
            link("model", Socket::Model),
            int("tile_size", 256, (1, 2048), 1),
            int("swap_size", 2, (1, 128), 1),
            int("max_depth", 0, (0, 10), 1),
            boolean("scale_depth", false),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: tiled,
    },
    NodeDef {
        class: "SelfAttentionGuidance",
        display_name: "Self-Attention Guidance",
        category: "experimental",
        inputs: &[
            link("model", Socket::Model),
            float("scale", 0.5, (-2.0, 5.0), 0.01),
            float("blur_sigma", 2.0, (0.0, 10.0), 0.1),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| {
            let guidance = SelfAttention {
                scale: call.float("scale")? as f32,
                blur: call.float("blur_sigma")? as f32,
            };
            if guidance.blur <= 0.0 {
                let text = "blur_sigma is 0, of which no blur can be made: set it to 0.1 or more";
                return Err(NodeError::Input(text.to_owned()));
            }
            let model = call.model("model")?.with_self_attention(guidance)?;
            Ok(vec![Value::from(model)])
        },
    },
];

const RESIZES: [&str; 5] = ["bicubic", "nearest-exact", "bilinear", "area", "bislerp"];

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

fn resize(call: &Call<'_, '_>, input: &'static str) -> Result<Resize, NodeError> {
    Ok(match &*call.text(input)? {
        "bicubic" => Resize::Bicubic,
        "nearest-exact" => Resize::NearestExact,
        "bilinear" => Resize::Bilinear,
        "area" => Resize::Area,
        other => {
            let text = format!(
                "{input} is {other}, which is not available inside of a model: choose bicubic, \
                 bilinear, area or nearest-exact"
            );
            return Err(NodeError::Input(text));
        }
    })
}

fn shrunk(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let ways = [
        resize(call, "downscale_method")?,
        resize(call, "upscale_method")?,
    ];
    let shrink = Shrink::new(
        call.int("block_number")? as usize,
        call.float("downscale_factor")?,
        call.boolean("downscale_after_skip")?,
        ways,
    );
    let part = (call.float("start_percent")?, call.float("end_percent")?);
    let model = call.model("model")?.with_shrink(shrink, part)?;
    Ok(vec![Value::from(model)])
}

fn tiled(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let swap = call.int("swap_size")?;
    // ComfyUI draws among all but the last of so many sizes: with 1 and 2 there is nothing to draw.
    if swap > 2 {
        let text = format!(
            "swap_size is {swap}: with more than 2, ComfyUI draws other tiles in every layer and \
             step, which is not available: set it to 1 or 2"
        );
        return Err(NodeError::Input(text));
    }
    let tile = HyperTile {
        side: (call.int("tile_size")? as usize).max(32) / 8,
        max_depth: call.int("max_depth")? as usize,
        scale_depth: call.boolean("scale_depth")?,
    };
    let model = call.model("model")?.with_hypertile(tile)?;
    Ok(vec![Value::from(model)])
}
