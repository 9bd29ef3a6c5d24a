//! Pictures cut, and batches of them put together and taken apart.

use super::image::{IMAGE, centered, cropped};
use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{MAX_SIDE, combo, int, link, named, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::media::resize;
use nino_engine::{Image, Upscale};

const BATCH: &str = "image/batch";
const MAX_BATCH: i128 = 4096;
const SIDE: (i128, i128) = (1, MAX_SIDE);

/// A node that gives pictures.
macro_rules! image {
    ($class:literal, $name:literal, $category:expr, [$($input:expr),* $(,)?], $run:expr) => {
        NodeDef {
            class: $class,
            display_name: $name,
            category: $category,
            inputs: &[$($input),*],
            outputs: &[out(Socket::Image)],
            is_output: false,
            run: $run,
        }
    };
}
pub(super) use image;

pub(super) static NODES: &[NodeDef] = &[
    image!(
        "EmptyImage",
        "Empty Image",
        "image",
        [
            int("width", 512, SIDE, 1),
            int("height", 512, SIDE, 1),
            int("batch_size", 1, (1, MAX_BATCH), 1),
            int("color", 0, (0, 0xFF_FFFF), 1),
        ],
        empty
    ),
    image!(
        "ImageCrop",
        "Crop Image (DEPRECATED)",
        "image/transform",
        [
            IMAGE,
            int("width", 512, SIDE, 1),
            int("height", 512, SIDE, 1),
            int("x", 0, (0, MAX_SIDE), 1),
            int("y", 0, (0, MAX_SIDE), 1),
        ],
        crop
    ),
    image!(
        "ImageFlip",
        "Flip Image",
        "image/transform",
        [
            IMAGE,
            combo("flip_method", || {
                vec!["x-axis: vertically", "y-axis: horizontally"]
            }),
        ],
        |call| {
            let vertically = call.text("flip_method")?.starts_with('x');
            turned(call, |w, h| Turn {
                size: (w, h),
                from: Box::new(move |x, y| {
                    if vertically {
                        (x, h - 1 - y)
                    } else {
                        (w - 1 - x, y)
                    }
                }),
            })
        }
    ),
    image!(
        "ImageRotate",
        "Rotate Image",
        "image/transform",
        [
            IMAGE,
            combo("rotation", || {
                vec!["none", "90 degrees", "180 degrees", "270 degrees"]
            }),
        ],
        |call| {
            let rotation = call.text("rotation")?;
            turned(call, |w, h| match &*rotation {
                "90 degrees" => Turn {
                    size: (h, w),
                    from: Box::new(move |x, y| (y, h - 1 - x)),
                },
                "180 degrees" => Turn {
                    size: (w, h),
                    from: Box::new(move |x, y| (w - 1 - x, h - 1 - y)),
                },
                "270 degrees" => Turn {
                    size: (h, w),
                    from: Box::new(move |x, y| (w - 1 - y, x)),
                },
                _ => Turn {
                    size: (w, h),
                    from: Box::new(|x, y| (x, y)),
                },
            })
        }
    ),
    image!(
        "ImageBatch",
        "Batch Images (DEPRECATED)",
        BATCH,
        [link("image1", Socket::Image), link("image2", Socket::Image)],
        batch
    ),
    image!(
        "RepeatImageBatch",
        "Repeat Image Batch",
        BATCH,
        [IMAGE, int("amount", 1, (1, MAX_BATCH), 1)],
        repeat
    ),
    image!(
        "ImageFromBatch",
        "Get Image from Batch",
        BATCH,
        [
            IMAGE,
            int("batch_index", 0, (-MAX_SIDE, MAX_SIDE), 1),
            int("length", 1, (1, MAX_BATCH), 1),
        ],
        from_batch
    ),
    NodeDef {
        class: "GetImageSize",
        display_name: "Get Image Size",
        category: "image",
        inputs: &[IMAGE],
        outputs: &[
            named("width", Socket::Int),
            named("height", Socket::Int),
            named("batch_size", Socket::Int),
        ],
        is_output: false,
        run: |call| {
            let (images, _) = call.clear_images("image")?;
            let (width, height) = images.first().map_or((0, 0), |i| (i.width, i.height));
            let sizes = [width, height, images.len()];
            Ok(sizes.map(|n| Value::Int(n as i128)).to_vec())
        },
    },
];

fn empty(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (width, height) = (call.size("width")?, call.size("height")?);
    let n = call.size("batch_size")?;
    call.room_for_new("a batch of pictures", &[n, width, height, 3])?;
    let color = call.int("color")?;
    let pixel = [16, 8, 0].map(|shift| (color >> shift & 0xFF) as f32 / 255.0);
    let image = Image {
        width,
        height,
        values: pixel.repeat(width * height),
    };
    Ok(vec![Value::from(vec![image; n])])
}

fn crop(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let images = call.images("image")?;
    let (width, height) = (call.size("width")?, call.size("height")?);
    let (x, y) = (call.size("x")?, call.size("y")?);
    let cut = images.iter().map(|image| {
        let (x, y) = (x.min(image.width - 1), y.min(image.height - 1));
        let (width, height) = (width.min(image.width - x), height.min(image.height - y));
        cropped(image, (x, y), width, height)
    });
    Ok(vec![Value::from(cut.collect::<Vec<_>>())])
}

/// Where the pixels of a turned picture come from.
struct Turn {
    /// Width and height of the result.
    size: (usize, usize),
    from: Box<dyn Fn(usize, usize) -> (usize, usize)>,
}

fn turned(
    call: &Call<'_, '_>,
    turn: impl Fn(usize, usize) -> Turn,
) -> Result<Vec<Value>, NodeError> {
    let images = call.images("image")?;
    let each = images.iter().map(|image| {
        let Turn { size, from } = turn(image.width, image.height);
        let places = (0..size.1).flat_map(|y| (0..size.0).map(move |x| (x, y)));
        let values = places.flat_map(|(x, y)| {
            let (x, y) = from(x, y);
            let at = (y * image.width + x) * 3;
            [0, 1, 2].map(|c| image.values[at + c])
        });
        Image {
            width: size.0,
            height: size.1,
            values: values.collect(),
        }
    });
    Ok(vec![Value::from(each.collect::<Vec<_>>())])
}

/// A picture cut in the middle to the shape of another, and resized to its size.
pub(super) fn like(image: &Image, other: &Image, how: Upscale) -> Image {
    if (image.width, image.height) == (other.width, other.height) {
        return image.clone();
    }
    let part = centered(image, other.width as f64 / other.height as f64);
    let size = (part.height, part.width, 3);
    Image {
        width: other.width,
        height: other.height,
        values: resize(&part.values, size, (other.height, other.width), how),
    }
}

fn batch(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (first, second) = (call.images("image1")?, call.images("image2")?);
    let mut all = first.to_vec();
    let Some(model) = first.first() else {
        return Ok(vec![Value::Image(second)]);
    };
    let n = first.len() + second.len();
    call.room_for("a batch of pictures", &[n, model.width, model.height, 3])?;
    all.extend(second.iter().map(|i| like(i, model, Upscale::Bilinear)));
    Ok(vec![Value::from(all)])
}

fn repeat(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (images, amount) = (call.images("image")?, call.size("amount")?);
    let values = images.iter().map(|image| image.values.len()).sum();
    call.room_for("a batch of pictures", &[values, amount])?;
    let all = std::iter::repeat_n(&*images, amount).flatten();
    Ok(vec![Value::from(all.cloned().collect::<Vec<_>>())])
}

fn from_batch(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let images = call.images("image")?;
    let (index, n) = (call.int("batch_index")?, images.len() as i128);
    let index = if index < 0 { index + n } else { index };
    let start = index.clamp(0, (n - 1).max(0)) as usize;
    let some = images.iter().skip(start).take(call.size("length")?);
    Ok(vec![Value::from(some.cloned().collect::<Vec<_>>())])
}
