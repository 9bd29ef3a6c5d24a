//! A picture that its user painted over on a page: `Painter`. The page brings what was painted as a
//! file with transparency.

use super::lanczos;
use crate::NodeError;
use crate::host::Folder;
use crate::node::NodeDef;
use crate::node::table::{int, link, optional, out, text};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::media::{Limits, load_with_alpha};
use nino_engine::{EngineError, Image, Mask, Picture};

const SIDE: (i128, i128) = (64, 4096);

pub(super) static NODES: &[NodeDef] = &[NodeDef {
    class: "Painter",
    display_name: "Painter",
    category: "image",
    inputs: &[
        text("mask", ""),
        int("width", 512, SIDE, 64),
        int("height", 512, SIDE, 64),
        text("bg_color", "#000000"),
        optional(link("image", Socket::Image)),
    ],
    outputs: &[out(Socket::Image), out(Socket::Mask)],
    is_output: false,
    run: paint,
}];

fn paint(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let base = match call.get("image") {
        Some(_) => call.images("image")?.first().cloned(),
        None => None,
    };
    let mut image = if let Some(image) = base {
        image
    } else {
        let (width, height) = (call.size("width")?, call.size("height")?);
        call.room_for_new("a picture", &[width, height, 3])?;
        Image {
            width,
            height,
            values: color(&call.text("bg_color")?)?.repeat(width * height),
        }
    };
    let (width, height) = (image.width, image.height);
    let mut mask = Mask {
        width,
        height,
        values: vec![0.0; width * height],
    };
    let name = call.text("mask")?;
    if !name.trim().is_empty() {
        let path = call.host.find(Folder::InputImages, &name)?;
        let loaded = load_with_alpha(&path, &Limits::default()).map_err(EngineError::from)?;
        let (paint, opacity) = resized(loaded, width, height);
        mask.values = opacity.iter().map(|&a| f32::from(a) / 255.0).collect();
        let pixels = image.values.as_chunks_mut::<3>().0.iter_mut();
        let paint = paint.rgb.as_chunks::<3>().0;
        for ((pixel, paint), alpha) in pixels.zip(paint).zip(&mask.values) {
            for (value, paint) in pixel.iter_mut().zip(paint) {
                *value = f32::from(*paint) / 255.0 * alpha + *value * (1.0 - alpha);
            }
        }
    }
    Ok(vec![Value::from(vec![image]), Value::from(vec![mask])])
}

/// `#rrggbb` in 0..1; black where it is of another length, as ComfyUI has it.
fn color(text: &str) -> Result<[f32; 3], NodeError> {
    let digits = text.trim_start_matches('#');
    if digits.len() != 6 {
        return Ok([0.0; 3]);
    }
    let wrong = |_| NodeError::Input(format!("{text:?} is no color such as #40a0ff"));
    let color = u32::from_str_radix(digits, 16).map_err(wrong)?;
    Ok([16, 8, 0].map(|shift| (color >> shift & 0xFF) as f32 / 255.0))
}

/// What was painted, and how opaque it is, in another size. Pillow's way: what is clear has no
/// color while it is resized.
fn resized(
    (picture, clear): (Picture, Option<Mask>),
    width: usize,
    height: usize,
) -> (Picture, Vec<u8>) {
    let opaque = |clear: &f32| ((1.0 - clear) * 255.0).round() as u8;
    let opacity = match &clear {
        Some(clear) => clear.values.iter().map(opaque).collect(),
        None => vec![255; picture.width * picture.height],
    };
    if (picture.width, picture.height) == (width, height) {
        return (picture, opacity);
    }
    let each = |i: usize| u32::from(opacity[i / 3]);
    let weighted = picture.rgb.iter().enumerate().map(|(i, &v)| {
        let product = u32::from(v) * each(i) + 128;
        (((product >> 8) + product) >> 8) as u8
    });
    let of = |rgb: Vec<u8>| Picture {
        rgb,
        width: picture.width,
        height: picture.height,
    };
    let weighted = lanczos::resized(&of(weighted.collect()), width, height);
    let gray = opacity.iter().flat_map(|&a| [a; 3]).collect();
    let gray = lanczos::resized(&of(gray), width, height).rgb;
    let values = weighted.rgb.iter().zip(&gray);
    let rgb = values.map(|(&v, &a)| match a {
        0 | 255 => v,
        a => (255 * u32::from(v) / u32::from(a)).min(255) as u8,
    });
    let rgb = rgb.collect();
    (
        Picture { width, height, rgb },
        gray.iter().copied().step_by(3).collect(),
    )
}
