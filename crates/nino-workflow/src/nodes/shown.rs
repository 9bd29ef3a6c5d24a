//! Values, masks and pairs of pictures to look at.

use crate::host::Made;
use crate::node::NodeDef;
use crate::node::table::{grown, link, named, optional};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use crate::{NodeError, python};
use nino_engine::Image;
use serde_json::json;
use std::sync::Arc;

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "PreviewAny",
        display_name: "Preview as Text",
        category: "utilities",
        inputs: &[link("source", Socket::Any)],
        outputs: &[out_text()],
        is_output: true,
        run: |call| {
            let text = in_words(&call.any("source")?);
            call.output(Made::Texts(vec![text.clone()]), "ComfyUI".into())?;
            Ok(vec![Value::Text(text.into())])
        },
    },
    NodeDef {
        class: "MaskPreview",
        display_name: "Preview Mask",
        category: "image/mask",
        inputs: &[link("mask", Socket::Mask)],
        outputs: &[named("mask", Socket::Mask)],
        is_output: true,
        run: |call| {
            let masks = call.masks("mask")?;
            let images = masks.iter().map(|mask| Image {
                width: mask.width,
                height: mask.height,
                values: mask.values.iter().flat_map(|v| [*v; 3]).collect(),
            });
            let images = Arc::new(images.collect::<Vec<_>>());
            call.output(Made::Previews(images), "ComfyUI".into())?;
            Ok(vec![Value::Mask(masks)])
        },
    },
    NodeDef {
        class: "ImageCompare",
        display_name: "Compare Images",
        category: "image",
        inputs: &[
            grown("compare_view"),
            optional(link("image_a", Socket::Image)),
            optional(link("image_b", Socket::Image)),
        ],
        outputs: &[],
        is_output: true,
        run: compare,
    },
];

const fn out_text() -> crate::node::OutputDef {
    named("STRING", Socket::String)
}

/// A value as Python writes it; of what is no number and no text, what it is.
fn in_words(value: &Value) -> String {
    let shape = |count: usize, size: Option<(usize, usize)>| {
        let (width, height) = size.unwrap_or((0, 0));
        format!("{count} of {width}x{height}")
    };
    match value {
        Value::Text(text) => text.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Float(n) => python::float(*n),
        Value::Boolean(true) => "True".to_owned(),
        Value::Boolean(false) => "False".to_owned(),
        Value::Image(images) => {
            let first = images.first().map(|i| (i.width, i.height));
            format!("IMAGE: {}", shape(images.len(), first))
        }
        Value::Mask(masks) => {
            let first = masks.first().map(|m| (m.width, m.height));
            format!("MASK: {}", shape(masks.len(), first))
        }
        Value::Sigmas(sigmas) => {
            let each: Vec<String> = sigmas.iter().map(|s| format!("{s:.4}")).collect();
            format!("[{}]", each.join(", "))
        }
        other => other.socket().map_or("None", Socket::name).to_owned(),
    }
}

fn compare(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let mut told = json!({ "a_images": [], "b_images": [] });
    for (input, side) in [("image_a", "a"), ("image_b", "b")] {
        if call.get(input).is_some() {
            let (images, opacity) = call.clear_images(input)?;
            let prefix = format!("comfy.compare.{side}");
            call.output_with(Made::Previews(images), opacity, prefix.into())?;
            told[format!("{side}_images")] = call.take_told()["images"].take();
        }
    }
    call.tell(told);
    Ok(Vec::new())
}
