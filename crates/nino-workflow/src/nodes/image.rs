//! Pictures: out of files, scaled, padded and inverted.

use super::lanczos;
use crate::NodeError;
use crate::host::Folder;
use crate::node::table::{MAX_SIDE, combo, file, float, int, link, out};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::media::{Limits, load_with_alpha, resize};
use nino_engine::{Image, Mask, Picture, Sides, outpaint};

const UPSCALING: &str = "image/upscaling";
const SIDE: (i128, i128) = (0, MAX_SIDE);
pub(super) const IMAGE: InputDef = link("image", Socket::Image);
const METHOD: InputDef = combo("upscale_method", || {
    vec!["nearest-exact", "bilinear", "area", "bicubic", LANCZOS]
});
const LANCZOS: &str = "lanczos";
/// Side of the empty mask that a picture without transparency has.
const NO_MASK: usize = 64;

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "LoadImage",
        display_name: "Load Image",
        category: "image",
        inputs: &[file("image", Folder::InputImages)],
        outputs: &[out(Socket::Image), out(Socket::Mask)],
        is_output: false,
        run: load,
    },
    NodeDef {
        class: "LoadImageMask",
        display_name: "Load Image (as Mask)",
        category: "image",
        inputs: &[
            file("image", Folder::InputImages),
            combo("channel", || vec!["alpha", "red", "green", "blue"]),
        ],
        outputs: &[out(Socket::Mask)],
        is_output: false,
        run: load_mask,
    },
    NodeDef {
        class: "ImageScale",
        display_name: "Upscale Image",
        category: UPSCALING,
        inputs: &[
            IMAGE,
            METHOD,
            int("width", 512, SIDE, 1),
            int("height", 512, SIDE, 1),
            combo("crop", || vec!["disabled", "center"]),
        ],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: scale,
    },
    NodeDef {
        class: "ImageScaleBy",
        display_name: "Upscale Image By",
        category: UPSCALING,
        inputs: &[IMAGE, METHOD, float("scale_by", 1.0, (0.01, 8.0), 0.01)],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: scale_by,
    },
    NodeDef {
        class: "ImageScaleToTotalPixels",
        display_name: "Scale Image to Total Pixels",
        category: UPSCALING,
        inputs: &[
            IMAGE,
            METHOD,
            float("megapixels", 1.0, (0.01, 16.0), 0.01),
            int("resolution_steps", 1, (1, 256), 1),
        ],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: scale_to_pixels,
    },
    NodeDef {
        class: "ImagePadForOutpaint",
        display_name: "Pad Image for Outpainting",
        category: "image/transform",
        inputs: &[
            IMAGE,
            int("left", 0, SIDE, 8),
            int("top", 0, SIDE, 8),
            int("right", 0, SIDE, 8),
            int("bottom", 0, SIDE, 8),
            int("feathering", 40, SIDE, 1),
        ],
        outputs: &[out(Socket::Image), out(Socket::Mask)],
        is_output: false,
        run: pad,
    },
    NodeDef {
        class: "ImageInvert",
        display_name: "Invert Image Colors",
        category: "image/color",
        inputs: &[IMAGE],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: invert,
    },
];

/// A picture, and its transparency as a mask: 1 where it is clear.
fn picture(call: &Call<'_, '_>) -> Result<(Image, Mask), NodeError> {
    let loaded = load_with_alpha(&call.file("image")?, &Limits::default());
    let (picture, alpha) = loaded.map_err(nino_engine::EngineError::from)?;
    call.room_for("a picture", &[picture.width, picture.height, 3])?;
    let none = || Mask {
        width: NO_MASK,
        height: NO_MASK,
        values: vec![0.0; NO_MASK * NO_MASK],
    };
    Ok((Image::from(&picture), alpha.unwrap_or_else(none)))
}

fn load(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (image, mask) = picture(call)?;
    Ok(vec![Value::from(vec![image]), Value::from(vec![mask])])
}

fn load_mask(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (image, alpha) = picture(call)?;
    let channel = match &*call.text("channel")? {
        "red" => 0,
        "green" => 1,
        "blue" => 2,
        _ => return Ok(vec![Value::from(vec![alpha])]),
    };
    let values = image.values.iter().skip(channel).step_by(3);
    let mask = Mask {
        width: image.width,
        height: image.height,
        values: values.copied().collect(),
    };
    Ok(vec![Value::from(vec![mask])])
}

/// The part of a picture at `x`, `y`.
pub(super) fn cropped(image: &Image, (x, y): (usize, usize), width: usize, height: usize) -> Image {
    if (image.width, image.height) == (width, height) {
        return image.clone();
    }
    let rows = image
        .values
        .chunks_exact(image.width.max(1) * 3)
        .skip(y)
        .take(height);
    Image {
        width,
        height,
        values: rows
            .flat_map(|row| &row[x * 3..(x + width) * 3])
            .copied()
            .collect(),
    }
}

fn scale(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let images = call.images("image")?;
    let Some(first) = images.first() else {
        return Ok(vec![Value::Image(images)]);
    };
    let scaled = |side: usize, by: usize, of: usize| {
        ((side as f64 * by as f64 / of as f64).round_ties_even() as usize).max(1)
    };
    let (width, height) = match (call.size("width")?, call.size("height")?) {
        (0, 0) => return Ok(vec![Value::Image(images)]),
        (0, height) => (scaled(first.width, height, first.height), height),
        (width, 0) => (width, scaled(first.height, width, first.width)),
        size => size,
    };
    let center = &*call.text("crop")? == "center";
    resized(call, &images, width, height, center)
}

fn scale_by(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (images, by) = (call.images("image")?, call.float("scale_by")?);
    let Some(first) = images.first() else {
        return Ok(vec![Value::Image(images)]);
    };
    let side = |n: usize| (n as f64 * by).round_ties_even() as usize;
    resized(call, &images, side(first.width), side(first.height), false)
}

fn scale_to_pixels(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (images, step) = (call.images("image")?, call.size("resolution_steps")?.max(1));
    let Some(first) = images.first() else {
        return Ok(vec![Value::Image(images)]);
    };
    let pixels = call.float("megapixels")? * 1024.0 * 1024.0;
    let by = (pixels / (first.width as f64 * first.height as f64)).sqrt();
    let side = |n: usize| (n as f64 * by / step as f64).round_ties_even() as usize * step;
    resized(call, &images, side(first.width), side(first.height), false)
}

fn resized(
    call: &Call<'_, '_>,
    images: &[Image],
    width: usize,
    height: usize,
    center: bool,
) -> Result<Vec<Value>, NodeError> {
    let method = call.text("upscale_method")?;
    let made = scaled(call, images, (width, height), &method, center)?;
    Ok(vec![Value::from(made)])
}

/// Pictures in another size, by one of ComfyUI's methods.
pub(super) fn scaled(
    call: &Call<'_, '_>,
    images: &[Image],
    (width, height): (usize, usize),
    method: &str,
    center: bool,
) -> Result<Vec<Image>, NodeError> {
    if width == 0 || height == 0 {
        let text = format!("a picture of {width}x{height} has no pixels");
        return Err(NodeError::Input(text));
    }
    call.room_for("a batch of pictures", &[images.len(), width, height, 3])?;
    let method = match method {
        LANCZOS => None,
        other => Some(super::latent::method_of(other)?),
    };
    let scaled = images.iter().map(|image| {
        let part = if center {
            centered(image, width as f64 / height as f64)
        } else {
            image.clone()
        };
        let Some(how) = method else {
            return Image::from(&lanczos::resized(&part.to_picture(), width, height));
        };
        let size = (part.height, part.width, 3);
        Image {
            width,
            height,
            values: resize(&part.values, size, (height, width), how),
        }
    });
    Ok(scaled.collect())
}

/// The largest part of that aspect ratio in the middle, as ComfyUI cuts it.
pub(super) fn centered(image: &Image, aspect: f64) -> Image {
    let (w, h) = (image.width as f64, image.height as f64);
    let old = w / h;
    let (mut x, mut y) = (0, 0);
    if old > aspect {
        x = ((w - w * (aspect / old)) / 2.0).round_ties_even() as usize;
    } else if old < aspect {
        y = ((h - h * (old / aspect)) / 2.0).round_ties_even() as usize;
    }
    // A sliver of a picture still has a pixel.
    let (x, y) = (x.min((image.width - 1) / 2), y.min((image.height - 1) / 2));
    cropped(image, (x, y), image.width - 2 * x, image.height - 2 * y)
}

fn pad(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let images = call.images("image")?;
    let add = Sides {
        left: call.size("left")?,
        top: call.size("top")?,
        right: call.size("right")?,
        bottom: call.size("bottom")?,
    };
    let Some(first) = images.first() else {
        return Err(NodeError::Input("its image is no picture".to_owned()));
    };
    let width = first.width + add.left + add.right;
    let height = first.height + add.top + add.bottom;
    call.room_for("a batch of pictures", &[images.len(), width, height, 3])?;
    let feather = call.size("feathering")?;
    let (_, mask) = outpaint(&Picture::new(first.width, first.height), add, feather);
    let padded = images.iter().map(|image| {
        let mut values = vec![0.5; width * height * 3];
        let rows = image.values.chunks_exact(image.width * 3).enumerate();
        for (y, row) in rows {
            let at = ((y + add.top) * width + add.left) * 3;
            values[at..at + row.len()].copy_from_slice(row);
        }
        Image {
            width,
            height,
            values,
        }
    });
    let padded: Vec<Image> = padded.collect();
    Ok(vec![Value::from(padded), Value::from(vec![mask])])
}

fn invert(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let images = call.images("image")?;
    let inverted = images.iter().map(|image| Image {
        values: image.values.iter().map(|v| 1.0 - v).collect(),
        ..image.clone()
    });
    Ok(vec![Value::from(inverted.collect::<Vec<_>>())])
}
