//! Pictures and masks resized in many ways, and pictures put beside or behind each other.

use super::image::scaled;
use crate::NodeError;
use crate::node::table::{MAX_SIDE, boolean, combo, float, grown, hidden, int, link, named, out};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{Image, Mask};
use serde_json::{Value as Json, json};
use std::sync::Arc;

const TRANSFORM: &str = "image/transform";
const SIDE: (i128, i128) = (0, MAX_SIDE);
pub(super) const METHODS: [&str; 5] = ["nearest-exact", "bilinear", "area", "bicubic", "lanczos"];
const CROPS: [&str; 2] = ["disabled", "center"];
const FACTOR: (f64, f64) = (0.01, 8.0);
const MEGAPIXELS: (f64, f64) = (0.01, 16.0);

macro_rules! batched {
    ($below:literal, $socket:expr, [$($n:literal)*]) => {
        &[
            grown($below),
            $(hidden(link(concat!($below, ".", $n), $socket))),*
        ]
    };
}

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "ResizeImageMaskNode",
        display_name: "Resize Image/Mask",
        category: TRANSFORM,
        inputs: &[
            link("input", Socket::Any),
            combo("resize_type", || WAYS.to_vec()),
            combo("scale_method", || METHODS.to_vec()),
            hidden(int("resize_type.width", 512, SIDE, 1)),
            hidden(int("resize_type.height", 512, SIDE, 1)),
            hidden(combo("resize_type.crop", || CROPS.to_vec())),
            hidden(float("resize_type.multiplier", 1.0, FACTOR, 0.01)),
            hidden(int("resize_type.longer_size", 512, SIDE, 1)),
            hidden(int("resize_type.shorter_size", 512, SIDE, 1)),
            hidden(float("resize_type.megapixels", 1.0, MEGAPIXELS, 0.01)),
            hidden(link("resize_type.match", Socket::Any)),
            hidden(int("resize_type.multiple", 8, (1, MAX_SIDE), 1)),
        ],
        outputs: &[named("resized", Socket::Any)],
        is_output: false,
        run: resized,
    },
    NodeDef {
        class: "ImageScaleToMaxDimension",
        display_name: "Scale Image to Max Dimension",
        category: "image/upscaling",
        inputs: &[
            link("image", Socket::Image),
            combo("upscale_method", || {
                vec![
                    "area",
                    "lanczos",
                    "bilinear",
                    "nearest-exact",
                    "bilinear",
                    "bicubic",
                ]
            }),
            int("largest_size", 512, SIDE, 1),
        ],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: |call| {
            let images = call.images("image")?;
            let Some(first) = images.first() else {
                return Ok(vec![Value::Image(images)]);
            };
            let to = by_side(
                (first.width, first.height),
                call.size("largest_size")?,
                true,
            );
            let method = call.text("upscale_method")?;
            Ok(vec![Value::from(scaled(
                call, &images, to, &method, false,
            )?)])
        },
    },
    NodeDef {
        class: "ImageStitch",
        display_name: "Stitch Images",
        category: TRANSFORM,
        inputs: &[
            link("image1", Socket::Image),
            combo("direction", || vec!["right", "down", "left", "up"]),
            boolean("match_image_size", true),
            int("spacing_width", 0, (0, 1024), 2),
            combo("spacing_color", || COLORS.map(|(name, _)| name).to_vec()),
            crate::node::table::optional(link("image2", Socket::Image)),
        ],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: stitched,
    },
    NodeDef {
        class: "BatchImagesNode",
        display_name: "Batch Images",
        category: "image/batch",
        inputs: BATCH,
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: batched,
    },
];

const BATCH: &[InputDef] = batched!("images", Socket::Image, [
    "image0" "image1" "image2" "image3" "image4" "image5" "image6" "image7" "image8" "image9"
    "image10" "image11" "image12" "image13" "image14" "image15" "image16" "image17" "image18"
    "image19" "image20" "image21" "image22" "image23" "image24" "image25" "image26" "image27"
    "image28" "image29" "image30" "image31" "image32" "image33" "image34" "image35" "image36"
    "image37" "image38" "image39" "image40" "image41" "image42" "image43" "image44" "image45"
    "image46" "image47" "image48" "image49"
]);

const WAYS: [&str; 9] = [
    "scale dimensions",
    "scale by multiplier",
    "scale longer dimension",
    "scale shorter dimension",
    "scale width",
    "scale height",
    "scale total pixels",
    "match size",
    "scale to multiple",
];

/// The ways to resize with the inputs that each has.
pub(super) fn ways() -> Json {
    let int = |default: u32, min: u32| json!(["INT", { "default": default, "min": min, "max": MAX_SIDE as u64, "step": 1 }]);
    let float = |(min, max): (f64, f64)| json!(["FLOAT", { "default": 1.0, "min": min, "max": max, "step": 0.01 }]);
    let crop = json!(["COMBO", { "default": "center", "options": CROPS }]);
    let side = int(512, 0);
    let below = |way: &str| match way {
        "scale dimensions" => json!({ "width": side, "height": side, "crop": crop }),
        "scale by multiplier" => json!({ "multiplier": float(FACTOR) }),
        "scale longer dimension" => json!({ "longer_size": side }),
        "scale shorter dimension" => json!({ "shorter_size": side }),
        "scale width" => json!({ "width": side }),
        "scale height" => json!({ "height": side }),
        "scale total pixels" => json!({ "megapixels": float(MEGAPIXELS) }),
        "match size" => json!({ "match": ["IMAGE,MASK", {}], "crop": crop }),
        _ => json!({ "multiple": int(8, 1) }),
    };
    let each = WAYS.iter();
    each.map(|way| json!({ "key": way, "inputs": { "required": below(way) } }))
        .collect()
}

/// Pictures, or masks as pictures of one color.
fn pictures(value: &Value) -> Result<(Arc<Vec<Image>>, bool), NodeError> {
    match value {
        Value::Image(images) => Ok((Arc::clone(images), true)),
        Value::Mask(masks) => {
            let images = masks.iter().map(|mask| Image {
                width: mask.width,
                height: mask.height,
                values: mask.values.iter().flat_map(|v| [*v; 3]).collect(),
            });
            Ok((Arc::new(images.collect()), false))
        }
        _ => Err(NodeError::Input(
            "its input is no picture and no mask".to_owned(),
        )),
    }
}

/// Whole sides, where the longer or the shorter one has so many pixels.
fn by_side((width, height): (usize, usize), side: usize, longer: bool) -> (usize, usize) {
    let other = |a: usize, b: usize| (a as f64 / b as f64 * side as f64).round_ties_even() as usize;
    if width == height {
        (side, side)
    } else if (width > height) == longer {
        (side, other(height, width))
    } else {
        (other(width, height), side)
    }
}

fn resized(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (images, is_picture) = pictures(&call.any("input")?)?;
    let same = |call: &Call<'_, '_>| Ok(vec![call.any("input")?]);
    let Some(first) = images.first() else {
        return same(call);
    };
    let (w, h) = (first.width, first.height);
    let along = |side: usize, by: usize, of: usize| {
        ((side as f64 * by as f64 / of as f64).round_ties_even() as usize).max(1)
    };
    let by = |factor: f64| {
        let side = |n: usize| (n as f64 * factor).round_ties_even() as usize;
        (side(w), side(h))
    };
    let way = call.text("resize_type")?;
    let cuts = matches!(call.text("resize_type.crop").as_deref(), Ok("center"));
    let method = call.text("scale_method")?;
    let (to, cuts) = match &*way {
        "scale dimensions" => {
            let sides = (
                call.size("resize_type.width")?,
                call.size("resize_type.height")?,
            );
            match sides {
                (0, 0) => return same(call),
                (0, height) => ((along(w, height, h), height), cuts),
                (width, 0) => ((width, along(h, width, w)), cuts),
                sides => (sides, cuts),
            }
        }
        "scale by multiplier" => (by(call.float("resize_type.multiplier")?), false),
        "scale longer dimension" => {
            let side = call.size("resize_type.longer_size")?;
            (by_side((w, h), side, true), false)
        }
        "scale shorter dimension" => {
            let side = call.size("resize_type.shorter_size")?;
            (by_side((w, h), side, false), false)
        }
        "scale width" => match call.size("resize_type.width")? {
            0 => return same(call),
            width => ((width, along(h, width, w)), false),
        },
        "scale height" => match call.size("resize_type.height")? {
            0 => return same(call),
            height => ((along(w, height, h), height), false),
        },
        "scale total pixels" => {
            let pixels = (call.float("resize_type.megapixels")? * 1024.0 * 1024.0).trunc();
            (by((pixels / (w as f64 * h as f64)).sqrt()), false)
        }
        "match size" => {
            let (others, _) = pictures(&call.any("resize_type.match")?)?;
            let other = others.first();
            (
                other.map_or((w, h), |other| (other.width, other.height)),
                cuts,
            )
        }
        _ => return covered(call, &images, is_picture, &method),
    };
    let made = scaled(call, &images, to, &method, cuts)?;
    Ok(vec![given_back(made, is_picture)])
}

fn given_back(images: Vec<Image>, is_picture: bool) -> Value {
    if is_picture {
        return Value::from(images);
    }
    let masks = images.into_iter().map(|image| Mask {
        width: image.width,
        height: image.height,
        values: image.values.into_iter().step_by(3).collect(),
    });
    Value::from(masks.collect::<Vec<_>>())
}

/// Resized until it just covers sides that are whole multiples, and cut to them.
fn covered(
    call: &Call<'_, '_>,
    images: &[Image],
    is_picture: bool,
    method: &str,
) -> Result<Vec<Value>, NodeError> {
    let multiple = call.size("resize_type.multiple")?.max(1);
    let Some(first) = images.first() else {
        return Ok(vec![call.any("input")?]);
    };
    let (w, h) = (first.width, first.height);
    let (to_w, to_h) = (w / multiple * multiple, h / multiple * multiple);
    if to_w == 0 || to_h == 0 || (to_w, to_h) == (w, h) {
        return Ok(vec![call.any("input")?]);
    }
    let (by_w, by_h) = (to_w as f64 / w as f64, to_h as f64 / h as f64);
    let grown = |n: usize, by: f64, least: usize| ((n as f64 * by).ceil() as usize).max(least);
    let (over_w, over_h) = if by_w >= by_h {
        (to_w, grown(h, by_w, to_h))
    } else {
        (grown(w, by_h, to_w), to_h)
    };
    let made = scaled(call, images, (over_w, over_h), method, false)?;
    let from = ((over_w - to_w) / 2, (over_h - to_h) / 2);
    let cut = made
        .iter()
        .map(|image| super::image::cropped(image, from, to_w, to_h));
    Ok(vec![given_back(cut.collect(), is_picture)])
}

const COLORS: [(&str, [f32; 3]); 5] = [
    ("white", [1.0; 3]),
    ("black", [0.0; 3]),
    ("red", [1.0, 0.0, 0.0]),
    ("green", [0.0, 1.0, 0.0]),
    ("blue", [0.0, 0.0, 1.0]),
];

/// Two pictures beside or above each other, the second as large as the first or padded.
fn stitched(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let first = call.images("image1")?;
    if call.get("image2").is_none() {
        return Ok(vec![Value::Image(first)]);
    }
    let mut second = call.images("image2")?;
    let direction = call.text("direction")?;
    let across = matches!(&*direction, "left" | "right");
    let name = call.text("spacing_color")?;
    let color = COLORS.iter().find(|(known, _)| *known == &*name);
    let color = color.map_or([1.0; 3], |(_, color)| *color);
    // Only white and black fill the edges of a smaller picture.
    let fill = match &*name {
        "white" | "black" => color,
        _ => [0.0; 3],
    };
    let no_picture = || NodeError::Input("a batch has no picture".to_owned());
    let (a, b) = (
        first.first().ok_or_else(no_picture)?,
        second.first().ok_or_else(no_picture)?,
    );
    if call.boolean("match_image_size")? {
        let aspect = b.width as f64 / b.height as f64;
        let to = if across {
            ((a.height as f64 * aspect) as usize, a.height)
        } else {
            (a.width, (a.width as f64 / aspect) as usize)
        };
        second = Arc::new(scaled(call, &second, to, "lanczos", false)?);
    }
    let gap = call.size("spacing_width")?.next_multiple_of(2);
    let count = first.len().max(second.len());
    let at = |batch: &'_ [Image], i: usize| batch[i.min(batch.len() - 1)].clone();
    let size = |i: usize| {
        let (a, b) = (at(&first, i), at(&second, i));
        (a.width + b.width + gap, a.height + b.height + gap)
    };
    call.room_for("a batch of pictures", &[count, size(0).0, size(0).1, 3])?;
    let made = (0..count).map(|i| {
        let (mut a, mut b) = (at(&first, i), at(&second, i));
        if matches!(&*direction, "left" | "up") {
            std::mem::swap(&mut a, &mut b);
        }
        joined(&a, &b, across, gap, color, fill)
    });
    Ok(vec![Value::from(made.collect::<Vec<_>>())])
}

fn joined(
    a: &Image,
    b: &Image,
    across: bool,
    gap: usize,
    color: [f32; 3],
    fill: [f32; 3],
) -> Image {
    let (width, height) = if across {
        (a.width + gap + b.width, a.height.max(b.height))
    } else {
        (a.width.max(b.width), a.height + gap + b.height)
    };
    let mut values: Vec<f32> = fill
        .iter()
        .copied()
        .cycle()
        .take(width * height * 3)
        .collect();
    let mut put = |image: &Image, x: usize, y: usize| {
        for (row, pixels) in image
            .values
            .chunks_exact(image.width.max(1) * 3)
            .enumerate()
        {
            let to = ((y + row) * width + x) * 3;
            values[to..to + pixels.len()].copy_from_slice(pixels);
        }
    };
    let between = |width: usize, height: usize| Image {
        width,
        height,
        values: color
            .iter()
            .copied()
            .cycle()
            .take(width * height * 3)
            .collect(),
    };
    if across {
        put(a, 0, (height - a.height) / 2);
        put(&between(gap, height), a.width, 0);
        put(b, a.width + gap, (height - b.height) / 2);
    } else {
        put(a, (width - a.width) / 2, 0);
        put(&between(width, gap), 0, a.height);
        put(b, (width - b.width) / 2, a.height + gap);
    }
    Image {
        width,
        height,
        values,
    }
}

/// All pictures behind each other, in the size of the first.
fn batched(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let mut all: Vec<Image> = Vec::new();
    for input in BATCH.iter().skip(1) {
        let Some(Value::Image(images)) = call.get(input.name) else {
            continue;
        };
        let Some(first) = all.first().or(images.first()) else {
            continue;
        };
        let to = (first.width, first.height);
        call.room_for(
            "a batch of pictures",
            &[all.len() + images.len(), to.0, to.1, 3],
        )?;
        let same = images.iter().all(|image| (image.width, image.height) == to);
        if same {
            all.extend(images.iter().cloned());
        } else {
            all.extend(scaled(call, &images, to, "bilinear", true)?);
        }
    }
    if all.is_empty() {
        return Err(NodeError::NotGiven { input: "images" });
    }
    Ok(vec![Value::from(all)])
}
