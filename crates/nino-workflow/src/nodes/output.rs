//! Pictures that are kept or shown.

use crate::NodeError;
use crate::host::Made;
use crate::node::NodeDef;
use crate::node::table::{combo, hidden, link, named, text};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::Image;
use std::sync::Arc;

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "SaveImage",
        display_name: "Save Image",
        category: "image",
        inputs: &[
            link("images", Socket::Image),
            text("filename_prefix", "ComfyUI"),
        ],
        outputs: &[named("images", Socket::Image)],
        is_output: true,
        run: |call| {
            let prefix = call.text("filename_prefix")?;
            told(call, Made::Images, prefix)
        },
    },
    NodeDef {
        class: "SaveImageAdvanced",
        display_name: "Save Image (Advanced)",
        category: "image",
        inputs: &[
            link("images", Socket::Image),
            text("filename_prefix", "ComfyUI"),
            combo("format", || vec!["png"]),
            hidden(combo("format.bit_depth", || vec!["8-bit"])),
            hidden(combo("format.input_color_space", || vec!["sRGB"])),
        ],
        outputs: &[named("images", Socket::Image)],
        is_output: true,
        run: |call| {
            let prefix = call.text("filename_prefix")?;
            told(call, Made::Images, prefix)
        },
    },
    NodeDef {
        class: "PreviewImage",
        display_name: "Preview Image",
        category: "image",
        inputs: &[link("images", Socket::Image)],
        outputs: &[named("images", Socket::Image)],
        is_output: true,
        run: |call| told(call, Made::Previews, "ComfyUI".into()),
    },
    NodeDef {
        class: "SaveImageWebsocket",
        display_name: "Save Image (Websocket)",
        category: "image",
        inputs: &[link("images", Socket::Image)],
        outputs: &[],
        is_output: true,
        run: |call| {
            let (images, opacity) = call.clear_images("images")?;
            call.output_with(Made::Sent(images), opacity, "ComfyUI".into())?;
            Ok(Vec::new())
        },
    },
];

fn told(
    call: &mut Call<'_, '_>,
    made: fn(Arc<Vec<Image>>) -> Made,
    prefix: Arc<str>,
) -> Result<Vec<Value>, NodeError> {
    let (images, opacity) = call.clear_images("images")?;
    call.output_with(made(images), opacity, prefix)?;
    Ok(vec![call.any("images")?])
}
