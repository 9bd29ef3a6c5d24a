//! Pictures as CLIP and SigLIP see them, and as the style of a prompt.

use crate::NodeError;
use crate::host::Folder;
use crate::node::NodeDef;
use crate::node::table::{combo, file, float, link, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{
    ImageEncoder, ImageStates, Square, StyleModel, StyleStrength, Unclip, encode_for_clip,
    style_tokens,
};
use std::sync::Arc;

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "CLIPVisionLoader",
        display_name: "Load CLIP Vision",
        category: "model/loaders",
        inputs: &[file("clip_name", Folder::ClipVision)],
        outputs: &[out(Socket::ClipVision)],
        is_output: false,
        run: |call| {
            let encoder = ImageEncoder::open(&call.file("clip_name")?)?;
            Ok(vec![Value::ClipVision(Arc::new(encoder))])
        },
    },
    NodeDef {
        class: "CLIPVisionEncode",
        display_name: "CLIP Vision Encode",
        category: "model/conditioning",
        inputs: &[
            link("clip_vision", Socket::ClipVision),
            link("image", Socket::Image),
            combo("crop", || vec!["center", "none"]),
        ],
        outputs: &[out(Socket::ClipVisionOutput)],
        is_output: false,
        run: encode,
    },
    NodeDef {
        class: "StyleModelLoader",
        display_name: "Load Style Model",
        category: "model/loaders",
        inputs: &[file("style_model_name", Folder::StyleModels)],
        outputs: &[out(Socket::StyleModel)],
        is_output: false,
        run: |call| {
            let model = StyleModel::open(&call.file("style_model_name")?)?;
            Ok(vec![Value::StyleModel(Arc::new(model))])
        },
    },
    NodeDef {
        class: "StyleModelApply",
        display_name: "Apply Style Model",
        category: "model/conditioning",
        inputs: &[
            link("conditioning", Socket::Conditioning),
            link("style_model", Socket::StyleModel),
            link("clip_vision_output", Socket::ClipVisionOutput),
            float("strength", 1.0, (0.0, 10.0), 0.001),
            combo("strength_type", || vec!["multiply", "attn_bias"]),
        ],
        outputs: &[out(Socket::Conditioning)],
        is_output: false,
        run: style,
    },
    NodeDef {
        class: "unCLIPConditioning",
        display_name: "unCLIPConditioning",
        category: "model/conditioning",
        inputs: &[
            link("conditioning", Socket::Conditioning),
            link("clip_vision_output", Socket::ClipVisionOutput),
            float("strength", 1.0, (-10.0, 10.0), 0.01),
            float("noise_augmentation", 0.0, (0.0, 1.0), 0.01),
        ],
        outputs: &[out(Socket::Conditioning)],
        is_output: false,
        run: unclip,
    },
];

fn encode(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (encoder, images) = (call.clip_vision("clip_vision")?, call.images("image")?);
    let square = match &*call.text("crop")? {
        "none" => Square::Stretch,
        _ => Square::Cut,
    };
    let mut states: Option<ImageStates> = None;
    // Video models look at one picture, others at all of them.
    let many = if encoder.is_for_styles() || encoder.sees_whole() {
        images.len()
    } else {
        1
    };
    for image in images.iter().take(many) {
        let more = encode_for_clip(call.store, &encoder, image, square, &mut call.control)?;
        match &mut states {
            None => states = Some(more),
            Some(states) if encoder.is_for_styles() => *states = states.followed_by(&more),
            Some(states) => states.whole.extend(more.whole),
        }
    }
    let states = states.ok_or_else(|| NodeError::Input("its batch has no picture".to_owned()))?;
    Ok(vec![Value::ClipVisionOutput(Arc::new(states))])
}

/// The prompts with a picture in the place of their pooled vector.
fn unclip(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let prompts = call.prompts("conditioning")?;
    let picture = Unclip {
        image: call.clip_states("clip_vision_output")?,
        strength: call.float("strength")? as f32,
        noise: call.float("noise_augmentation")?,
    };
    if picture.strength == 0.0 {
        return Ok(vec![Value::Conditioning(prompts)]);
    }
    if picture.image.whole.is_empty() {
        let text = "the image encoder's file has no layer that makes one vector of a picture";
        return Err(NodeError::Input(text.to_owned()));
    }
    let told = prompts.iter().map(|p| p.with_unclip(picture.clone()));
    Ok(vec![Value::from(told.collect::<Vec<_>>())])
}

/// The prompts with the style of a picture behind them.
fn style(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (model, states) = (
        call.style_model("style_model")?,
        call.clip_states("clip_vision_output")?,
    );
    let strength = call.float("strength")? as f32;
    let strength = match &*call.text("strength_type")? {
        "attn_bias" => StyleStrength::Heed(strength),
        _ => StyleStrength::Multiply(strength),
    };
    let tokens = style_tokens(call.store, &model, &states, &mut call.control)?;
    let prompts = call.prompts("conditioning")?;
    let styled = prompts.iter().map(|p| p.with_style(&tokens, strength));
    Ok(vec![Value::from(styled.collect::<Result<Vec<_>, _>>()?)])
}
