//! Pictures brought to a size: with bars around them, or by their longer side.

use super::image::{IMAGE, scaled};
use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{MAX_SIDE, combo, int, link, named, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::Image;

const TRANSFORM: &str = "image/transform";
const SIDE: (i128, i128) = (1, MAX_SIDE);

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "ResizeAndPadImage",
        display_name: "Resize And Pad Image",
        category: TRANSFORM,
        inputs: &[
            IMAGE,
            int("target_width", 512, SIDE, 1),
            int("target_height", 512, SIDE, 1),
            combo("padding_color", || vec!["white", "black"]),
            combo("interpolation", || {
                vec!["area", "bicubic", "nearest-exact", "bilinear", "lanczos"]
            }),
        ],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: resize_and_pad,
    },
    NodeDef {
        class: "ResizeImagesByLongerEdge",
        display_name: "Resize Images by Longer Edge (DEPRECATED)",
        category: TRANSFORM,
        inputs: &[
            link("images", Socket::Image),
            int("longer_edge", 1024, (1, 8192), 1),
        ],
        outputs: &[named("images", Socket::Image)],
        is_output: false,
        run: by_longer_edge,
    },
];

/// The largest that fits, in the middle.
fn resize_and_pad(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let images = call.images("image")?;
    let (width, height) = (call.size("target_width")?, call.size("target_height")?);
    let Some(first) = images.first() else {
        return Ok(vec![Value::Image(images)]);
    };
    let (w, h) = (first.width as f64, first.height as f64);
    let scale = (width as f64 / w).min(height as f64 / h);
    let (new_width, new_height) = ((w * scale) as usize, (h * scale) as usize);
    call.room_for("a batch of pictures", &[images.len(), width, height, 3])?;
    let method = call.text("interpolation")?;
    let small = scaled(call, &images, (new_width, new_height), &method, false)?;
    let color = if &*call.text("padding_color")? == "black" {
        0.0
    } else {
        1.0
    };
    let (x, y) = ((width - new_width) / 2, (height - new_height) / 2);
    let padded = small.iter().map(|image| {
        let mut values = vec![color; width * height * 3];
        let rows = image.values.chunks_exact(new_width * 3).enumerate();
        for (row, from) in rows {
            let at = ((y + row) * width + x) * 3;
            values[at..at + from.len()].copy_from_slice(from);
        }
        Image {
            width,
            height,
            values,
        }
    });
    Ok(vec![Value::from(padded.collect::<Vec<_>>())])
}

fn by_longer_edge(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (images, longer) = (call.images("images")?, call.size("longer_edge")?);
    let Some(first) = images.first() else {
        return Ok(vec![Value::Image(images)]);
    };
    let other = |side: usize, of: usize| (side as f64 * (longer as f64 / of as f64)) as usize;
    let size = if first.width > first.height {
        (longer, other(first.height, first.width))
    } else {
        (other(first.width, first.height), longer)
    };
    let made = scaled(call, &images, size, "lanczos", false)?;
    Ok(vec![Value::from(made)])
}
