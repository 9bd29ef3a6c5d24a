//! Pictures as CLIP sees them.

use crate::NodeError;
use crate::host::Folder;
use crate::node::NodeDef;
use crate::node::table::{combo, file, link, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{ImageEncoder, Square, encode_for_clip};
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
];

fn encode(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (encoder, images) = (call.clip_vision("clip_vision")?, call.images("image")?);
    let square = match &*call.text("crop")? {
        "none" => Square::Stretch,
        _ => Square::Cut,
    };
    let image = images
        .first()
        .ok_or_else(|| NodeError::Input("its batch has no picture".to_owned()))?;
    let states = encode_for_clip(call.store, &encoder, image, square, &mut call.control)?;
    Ok(vec![Value::ClipVisionOutput(Arc::new(states))])
}
