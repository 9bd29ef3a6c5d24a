//! Masks out of pictures and pictures out of masks, and parts of masks.

use super::image::IMAGE;
use super::mask::{MASK, mask};
use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{MAX_SIDE, combo, float, int, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{Image, Mask};

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "MaskToImage",
        display_name: "Convert Mask to Image",
        category: "image/mask",
        inputs: &[MASK],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: |call| {
            let masks = call.masks("mask")?;
            let images = masks.iter().map(|mask| Image {
                width: mask.width,
                height: mask.height,
                values: mask.values.iter().flat_map(|&v| [v; 3]).collect(),
            });
            Ok(vec![Value::from(images.collect::<Vec<_>>())])
        },
    },
    mask!(
        "ImageToMask",
        "Convert Image to Mask",
        [
            IMAGE,
            combo("channel", || vec!["red", "green", "blue", "alpha"]),
        ],
        channel
    ),
    mask!(
        "ImageColorToMask",
        "Convert Image Color to Mask",
        [IMAGE, int("color", 0, (0, 0xFF_FFFF), 1)],
        |call| {
            let color = call.int("color")?;
            let is_it = |pixel: &[f32]| {
                let bytes = [0, 1, 2].map(|c| (pixel[c].clamp(0.0, 1.0) * 255.0).round_ties_even());
                let found = bytes.iter().fold(0, |sum, &byte| sum << 8 | byte as i128);
                f32::from(found == color)
            };
            of_pixels(call, is_it)
        }
    ),
    mask!(
        "CropMask",
        "Crop Mask",
        [
            MASK,
            int("x", 0, (0, MAX_SIDE), 1),
            int("y", 0, (0, MAX_SIDE), 1),
            int("width", 512, (1, MAX_SIDE), 1),
            int("height", 512, (1, MAX_SIDE), 1),
        ],
        crop
    ),
    mask!(
        "ThresholdMask",
        "Threshold Mask",
        [MASK, float("value", 0.5, (0.0, 1.0), 0.01)],
        |call| {
            let least = call.float("value")? as f32;
            super::mask::each(call, |mask| {
                mask.values
                    .iter_mut()
                    .for_each(|v| *v = f32::from(*v > least));
            })
        }
    ),
];

/// A mask with a value for every pixel.
fn of_pixels(call: &Call<'_, '_>, value: impl Fn(&[f32]) -> f32) -> Result<Vec<Value>, NodeError> {
    let images = call.images("image")?;
    let masks = images.iter().map(|image| Mask {
        width: image.width,
        height: image.height,
        values: image.values.chunks_exact(3).map(&value).collect(),
    });
    Ok(vec![Value::from(masks.collect::<Vec<_>>())])
}

fn channel(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let channel = match &*call.text("channel")? {
        "red" => 0,
        "green" => 1,
        "blue" => 2,
        _ => {
            let text = "pictures have no alpha here; LoadImage gives it as a mask";
            return Err(NodeError::Input(text.to_owned()));
        }
    };
    of_pixels(call, |pixel| pixel[channel])
}

fn crop(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (x, y) = (call.size("x")?, call.size("y")?);
    let (width, height) = (call.size("width")?, call.size("height")?);
    let masks = call.masks("mask")?;
    let mut cut = Vec::with_capacity(masks.len());
    for mask in masks.iter() {
        let (x, y) = (x.min(mask.width), y.min(mask.height));
        let (width, height) = (width.min(mask.width - x), height.min(mask.height - y));
        if width == 0 || height == 0 {
            let text = format!(
                "nothing of a mask of {}x{} is there",
                mask.width, mask.height
            );
            return Err(NodeError::Input(text));
        }
        cut.push(mask.cropped((x, y), width, height));
    }
    Ok(vec![Value::from(cut)])
}
