//! Prompts, and the layer that text encoders stop at.

use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{MAX_SIDE, float, int, link, out, prompt};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{
    Conditioning, Encoder, Family, SizeHint, T5Padding, TextEncoders, encode_text, encode_texts,
};
use std::sync::Arc;

const SIDE: (i128, i128) = (0, MAX_SIDE);
const T5_LENGTH: (i128, i128) = (0, 10_000);

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "CLIPTextEncode",
        display_name: "CLIP Text Encode (Prompt)",
        category: "model/conditioning",
        inputs: &[prompt("text"), link("clip", Socket::Clip)],
        outputs: &[out(Socket::Conditioning)],
        is_output: false,
        run: |call| Ok(vec![Value::from(vec![encode(call)?])]),
    },
    NodeDef {
        class: "CLIPTextEncodeSDXL",
        display_name: "CLIP Text Encode (SDXL)",
        category: "model/conditioning/stable diffusion",
        inputs: &[
            link("clip", Socket::Clip),
            int("width", 1024, SIDE, 1),
            int("height", 1024, SIDE, 1),
            int("crop_w", 0, SIDE, 1),
            int("crop_h", 0, SIDE, 1),
            int("target_width", 1024, SIDE, 1),
            int("target_height", 1024, SIDE, 1),
            prompt("text_g"),
            prompt("text_l"),
        ],
        outputs: &[out(Socket::Conditioning)],
        is_output: false,
        run: sdxl,
    },
    NodeDef {
        class: "CLIPTextEncodeSDXLRefiner",
        display_name: "CLIP Text Encode (SDXL Refiner)",
        category: "model/conditioning/stable diffusion",
        inputs: &[
            float("ascore", 6.0, (0.0, 1000.0), 0.01),
            int("width", 1024, SIDE, 1),
            int("height", 1024, SIDE, 1),
            prompt("text"),
            link("clip", Socket::Clip),
        ],
        outputs: &[out(Socket::Conditioning)],
        is_output: false,
        run: refiner,
    },
    NodeDef {
        class: "CLIPSetLastLayer",
        display_name: "CLIP Set Last Layer",
        category: "model/conditioning",
        inputs: &[
            link("clip", Socket::Clip),
            int("stop_at_clip_layer", -1, (-24, -1), 1),
        ],
        outputs: &[out(Socket::Clip)],
        is_output: false,
        run: last_layer,
    },
    NodeDef {
        class: "T5TokenizerOptions",
        display_name: "T5 Tokenizer Options",
        category: "model/conditioning",
        inputs: &[
            link("clip", Socket::Clip),
            int("min_padding", 0, T5_LENGTH, 1),
            int("min_length", 0, T5_LENGTH, 1),
        ],
        outputs: &[out(Socket::Clip)],
        is_output: false,
        run: padding,
    },
];

fn encode(call: &mut Call<'_, '_>) -> Result<Conditioning, NodeError> {
    let (clip, text) = (call.clip("clip")?, call.text("text")?);
    let embeddings = call.host.embeddings();
    let encoded = encode_text(call.store, &clip, &text, &embeddings, &mut call.control)?;
    Ok(encoded)
}

fn sdxl(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let clip = call.clip("clip")?;
    let (narrow, wide) = (call.text("text_l")?, call.text("text_g")?);
    let size = SizeHint {
        original: Some((call.size("width")?, call.size("height")?)),
        crop: (call.size("crop_w")?, call.size("crop_h")?),
        target: Some((call.size("target_width")?, call.size("target_height")?)),
        score: None,
    };
    let embeddings = call.host.embeddings();
    let mut encoded =
        |texts: &[&str]| encode_texts(call.store, &clip, texts, &embeddings, &mut call.control);
    let joined = if narrow == wide || clip.family != Family::Sdxl {
        encoded(&[&wide])?.swap_remove(0)
    } else {
        let each = encoded(&[&narrow, &wide, ""])?;
        side_by_side(&clip, &each[0], &each[1], &each[2])
    };
    Ok(vec![Value::from(vec![joined.with_size(size)])])
}

/// The narrow encoder's part of one prompt beside the wide one's part of another. The shorter
/// prompt is filled up with empty chunks, each of which is encoded by itself.
fn side_by_side(
    clip: &TextEncoders,
    narrow: &Conditioning,
    wide: &Conditioning,
    empty: &Conditioning,
) -> Conditioning {
    let split = match clip.family.encoders().first() {
        Some(Encoder::Clip(width)) => *width,
        Some(Encoder::T5 | Encoder::Umt5 | Encoder::Llm(_)) | None => 0,
    };
    let token = |prompt: &Conditioning, i: usize| -> Vec<f32> {
        let (of, i) = if i < prompt.tokens() {
            (prompt, i)
        } else {
            (empty, (i - prompt.tokens()) % empty.tokens().max(1))
        };
        of.context[i * of.width..(i + 1) * of.width].to_vec()
    };
    let tokens = narrow.tokens().max(wide.tokens());
    let mut context = Vec::with_capacity(tokens * wide.width);
    for i in 0..tokens {
        context.extend_from_slice(&token(narrow, i)[..split]);
        context.extend_from_slice(&token(wide, i)[split..]);
    }
    Conditioning {
        context: Arc::new(context),
        ..wide.clone()
    }
}

fn refiner(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let size = SizeHint {
        original: Some((call.size("width")?, call.size("height")?)),
        score: Some(call.float("ascore")? as f32),
        ..SizeHint::default()
    };
    let encoded = encode(call)?.with_size(size);
    Ok(vec![Value::from(vec![encoded])])
}

fn last_layer(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let layer = call.int("stop_at_clip_layer")?.unsigned_abs() as usize;
    let clip = call.clip("clip")?.with_clip_skip(Some(layer));
    Ok(vec![Value::from(clip)])
}

/// How prompts are filled up for T5.
fn padding(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let mut clip = TextEncoders::clone(&*call.clip("clip")?);
    clip.t5_padding = Some(T5Padding {
        min_padding: call.size("min_padding")?,
        min_length: call.size("min_length")?,
    });
    Ok(vec![Value::from(clip)])
}
