//! Pictures, masks and latents laid over others.

use super::batch::image;
use super::latent::{SCALE, picture_latents};
use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{MAX_SIDE, boolean, combo, int, link, optional, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{Latents, Value};
use nino_engine::media::resize;
use nino_engine::{Image, Latent, Mask, Upscale};

const PLACE: (i128, i128) = (0, MAX_SIDE);

pub(super) static NODES: &[NodeDef] = &[
    image!(
        "ImageCompositeMasked",
        "Image Composite Masked",
        "image/compositing",
        [
            link("destination", Socket::Image),
            link("source", Socket::Image),
            int("x", 0, PLACE, 1),
            int("y", 0, PLACE, 1),
            boolean("resize_source", false),
            optional(link("mask", Socket::Mask)),
        ],
        images
    ),
    NodeDef {
        class: "LatentCompositeMasked",
        display_name: "Latent Composite Masked",
        category: "model/latent",
        inputs: &[
            link("destination", Socket::Latent),
            link("source", Socket::Latent),
            int("x", 0, PLACE, 8),
            int("y", 0, PLACE, 8),
            boolean("resize_source", false),
            optional(link("mask", Socket::Mask)),
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: latents_masked,
    },
    NodeDef {
        class: "LatentComposite",
        display_name: "Latent Composite",
        category: "model/latent",
        inputs: &[
            link("samples_to", Socket::Latent),
            link("samples_from", Socket::Latent),
            int("x", 0, PLACE, 8),
            int("y", 0, PLACE, 8),
            int("feather", 0, PLACE, 8),
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: latents_feathered,
    },
    NodeDef {
        class: "MaskComposite",
        display_name: "Combine Masks",
        category: "image/mask",
        inputs: &[
            link("destination", Socket::Mask),
            link("source", Socket::Mask),
            int("x", 0, PLACE, 1),
            int("y", 0, PLACE, 1),
            combo("operation", || {
                vec!["multiply", "add", "subtract", "and", "or", "xor"]
            }),
        ],
        outputs: &[out(Socket::Mask)],
        is_output: false,
        run: masks,
    },
];

/// Values `[h, w, c]` of one picture.
struct Sheet<'a> {
    values: &'a [f32],
    width: usize,
    height: usize,
    channels: usize,
}

impl Sheet<'_> {
    fn resized(&self, width: usize, height: usize) -> Vec<f32> {
        let size = (self.height, self.width, self.channels);
        if (self.width, self.height) == (width, height) {
            return self.values.to_vec();
        }
        resize(self.values, size, (height, width), Upscale::Bilinear)
    }
}

/// Where values go, and how much they count.
struct Paste {
    left: usize,
    top: usize,
    /// Of every pixel of the source; everything counts where it is empty.
    share: Vec<f32>,
}

/// Lays a source over values of that width and height, as far as it lies on them.
fn paste(to: &mut [f32], (width, height): (usize, usize), from: &Sheet<'_>, how: &Paste) {
    let c = from.channels;
    let rows = from.height.min(height.saturating_sub(how.top));
    let columns = from.width.min(width.saturating_sub(how.left));
    for y in 0..rows {
        for x in 0..columns {
            let at = y * from.width + x;
            let share = how.share.get(at).copied().unwrap_or(1.0);
            let place = ((y + how.top) * width + x + how.left) * c;
            for (to, from) in to[place..place + c].iter_mut().zip(&from.values[at * c..]) {
                *to = share * from + (1.0 - share) * *to;
            }
        }
    }
}

/// The mask of picture `i`, at the size of its source.
fn share(masks: Option<&[Mask]>, i: usize, (width, height): (usize, usize)) -> Vec<f32> {
    let Some(mask) = masks.and_then(|masks| masks.get(i % masks.len().max(1))) else {
        return Vec::new();
    };
    let sheet = Sheet {
        values: &mask.values,
        width: mask.width,
        height: mask.height,
        channels: 1,
    };
    sheet.resized(width, height)
}

fn optional_masks(call: &Call<'_, '_>) -> Result<Option<Vec<Mask>>, NodeError> {
    match call.get("mask") {
        None => Ok(None),
        Some(_) => Ok(Some(call.masks("mask")?.to_vec())),
    }
}

fn none(what: &str) -> NodeError {
    NodeError::Input(format!("its {what} is an empty batch"))
}

fn images(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (mut made, source) = (call.images("destination")?.to_vec(), call.images("source")?);
    let (left, top) = (call.size("x")?, call.size("y")?);
    let (resizes, masks) = (call.boolean("resize_source")?, optional_masks(call)?);
    for (i, image) in made.iter_mut().enumerate() {
        let from = source.get(i % source.len().max(1));
        let from = from.ok_or_else(|| none("source"))?;
        let mut sheet = Sheet {
            values: &from.values,
            width: from.width,
            height: from.height,
            channels: 3,
        };
        let resized;
        if resizes {
            resized = sheet.resized(image.width, image.height);
            sheet = Sheet {
                values: &resized,
                width: image.width,
                height: image.height,
                channels: 3,
            };
        }
        let how = Paste {
            left,
            top,
            share: share(masks.as_deref(), i, (sheet.width, sheet.height)),
        };
        let size = (image.width, image.height);
        let Image { values, .. } = image;
        paste(values, size, &sheet, &how);
    }
    Ok(vec![Value::from(made)])
}

/// Latents of pictures with the same channels.
fn pair(to: &Latents, from: &Latents) -> Result<(Latent, Latent), NodeError> {
    let (to, from) = (picture_latents(to)?, picture_latents(from)?);
    if to.channels != from.channels || from.batch == 0 {
        return Err(NodeError::Input(format!(
            "latents of {} and of {} channels do not go together",
            to.channels, from.channels
        )));
    }
    Ok((to.clone(), from.clone()))
}

fn latents_masked(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let destination = call.latents("destination")?;
    let (mut to, mut from) = pair(&destination, &*call.latents("source")?)?;
    if call.boolean("resize_source")? {
        from = from.resized(to.height, to.width, Upscale::Bilinear);
    }
    let masks = optional_masks(call)?;
    let (left, top) = (call.size("x")? / SCALE, call.size("y")? / SCALE);
    let size = (from.width, from.height);
    over(&mut to, &from, |i| Paste {
        left,
        top,
        share: share(masks.as_deref(), i, size),
    });
    Ok(vec![Value::from(Latents {
        latent: to,
        ..Latents::clone(&destination)
    })])
}

fn over(to: &mut Latent, from: &Latent, how: impl Fn(usize) -> Paste) {
    let (size, each) = ((to.width, to.height), to.width * to.height * to.channels);
    for (i, values) in to.values.chunks_exact_mut(each.max(1)).enumerate() {
        let sheet = Sheet {
            values: from.item(i % from.batch),
            width: from.width,
            height: from.height,
            channels: from.channels,
        };
        paste(values, size, &sheet, &how(i));
    }
}

/// Sides that do not lie at the edge of the latent below fade.
fn latents_feathered(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let destination = call.latents("samples_to")?;
    let (mut to, from) = pair(&destination, &*call.latents("samples_from")?)?;
    let (left, top) = (call.size("x")? / SCALE, call.size("y")? / SCALE);
    let feather = call.size("feather")? / SCALE;
    let (w, h) = (
        from.width.min(to.width.saturating_sub(left)),
        from.height.min(to.height.saturating_sub(top)),
    );
    let (is_right, is_low) = (left + w < to.width, top + h < to.height);
    // How much counts at a distance from a side, where that fades.
    let rate = |distance: usize, fades: bool| {
        if fades && distance < feather {
            (1.0 / feather as f32) * (distance + 1) as f32
        } else {
            1.0
        }
    };
    let share = (0..from.height * from.width).map(|at| {
        let (x, y) = (at % from.width, at / from.width);
        if x >= w || y >= h {
            return 0.0;
        }
        rate(y, top != 0) * rate(h - 1 - y, is_low) * rate(x, left != 0) * rate(w - 1 - x, is_right)
    });
    let share: Vec<f32> = share.collect();
    over(&mut to, &from, |_| Paste {
        left,
        top,
        share: share.clone(),
    });
    Ok(vec![Value::from(Latents {
        latent: to,
        ..Latents::clone(&destination)
    })])
}

fn masks(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (mut made, source) = (call.masks("destination")?.to_vec(), call.masks("source")?);
    let (left, top) = (call.size("x")?, call.size("y")?);
    let is_set = |v: f32| v.round_ties_even() != 0.0;
    let operation = call.text("operation")?;
    let combined = |a: f32, b: f32| match &*operation {
        "multiply" => a * b,
        "add" => a + b,
        "subtract" => a - b,
        "and" => f32::from(is_set(a) && is_set(b)),
        "or" => f32::from(is_set(a) || is_set(b)),
        _ => f32::from(is_set(a) != is_set(b)),
    };
    for (i, mask) in made.iter_mut().enumerate() {
        let from = source.get(i % source.len().max(1));
        let from = from.ok_or_else(|| none("source"))?;
        for y in 0..from.height.min(mask.height.saturating_sub(top)) {
            for x in 0..from.width.min(mask.width.saturating_sub(left)) {
                let to = &mut mask.values[(y + top) * mask.width + x + left];
                *to = combined(*to, from.values[y * from.width + x]);
            }
        }
        mask.values.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0));
    }
    Ok(vec![Value::from(made)])
}
