//! Pictures with transparency: put together with a mask, and taken apart.

use super::image::IMAGE;
use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{link, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{ClearImages, Value};
use nino_engine::{Image, Mask};
use std::sync::Arc;

const COMPOSITING: &str = "image/compositing";

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "SplitImageWithAlpha",
        display_name: "Split Image with Alpha",
        category: COMPOSITING,
        inputs: &[IMAGE],
        outputs: &[out(Socket::Image), out(Socket::Mask)],
        is_output: false,
        run: split,
    },
    NodeDef {
        class: "JoinImageWithAlpha",
        display_name: "Join Image with Alpha",
        category: COMPOSITING,
        inputs: &[IMAGE, link("alpha", Socket::Mask)],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: join,
    },
];

/// What is clear of a mask is opaque of a picture, and the other way round.
fn inverted(mask: &Mask) -> Mask {
    Mask {
        values: mask.values.iter().map(|v| 1.0 - v).collect(),
        ..mask.clone()
    }
}

fn split(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (images, opacity) = call.clear_images("image")?;
    let none = |image: &Image| Mask {
        width: image.width,
        height: image.height,
        values: vec![0.0; image.width * image.height],
    };
    let masks: Vec<Mask> = match opacity {
        Some(opacity) => opacity.iter().map(inverted).collect(),
        None => images.iter().map(none).collect(),
    };
    Ok(vec![Value::Image(images), Value::from(masks)])
}

/// The picture, clear where the mask is 1. What is fewer begins anew.
fn join(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (images, _) = call.clear_images("image")?;
    let masks = call.masks("alpha")?;
    let (Some(first), false) = (images.first(), masks.is_empty()) else {
        return Err(NodeError::Input("its image is no picture".to_owned()));
    };
    let (width, height) = (first.width, first.height);
    let n = images.len().max(masks.len());
    call.room_for("a batch of pictures", &[n, width, height, 4])?;
    let opacity = masks.iter().cycle().take(n);
    let opacity = opacity.map(|mask| inverted(&mask.resized(width, height)));
    let opacity: Arc<Vec<Mask>> = Arc::new(opacity.collect());
    let images = if images.len() == n {
        images
    } else {
        Arc::new(images.iter().cycle().take(n).cloned().collect())
    };
    Ok(vec![Value::from(ClearImages { images, opacity })])
}
