//! What sampling starts from, and what a model sees beside the noise, where a picture is to be
//! changed.

use super::vae::{encoded, whole_squares};
use super::{image, mask};
use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{boolean, int, link, named, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{Latents, Value};
use nino_engine::{Conditioning, Image, Latent, Mask, Seen};
use std::sync::Arc;

/// What ComfyUI cuts the sides of pictures to for `InpaintModelConditioning`, whatever the VAE.
const SCALE: usize = 8;

const TOLD: &[crate::node::OutputDef] = &[
    named("positive", Socket::Conditioning),
    named("negative", Socket::Conditioning),
    named("latent", Socket::Latent),
];

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "VAEEncodeForInpaint",
        display_name: "VAE Encode (for Inpainting)",
        category: "model/latent",
        inputs: &[
            link("pixels", Socket::Image),
            link("vae", Socket::Vae),
            link("mask", Socket::Mask),
            int("grow_mask_by", 6, (0, 64), 1),
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: encode_for_inpaint,
    },
    NodeDef {
        class: "InpaintModelConditioning",
        display_name: "InpaintModelConditioning",
        category: "model/conditioning",
        inputs: &[
            link("positive", Socket::Conditioning),
            link("negative", Socket::Conditioning),
            link("vae", Socket::Vae),
            link("pixels", Socket::Image),
            link("mask", Socket::Mask),
            boolean("noise_mask", true),
        ],
        outputs: TOLD,
        is_output: false,
        run: inpaint_model,
    },
    NodeDef {
        class: "InstructPixToPixConditioning",
        display_name: "InstructPixToPixConditioning",
        category: "model/conditioning/instructpix2pix",
        inputs: &[
            link("positive", Socket::Conditioning),
            link("negative", Socket::Conditioning),
            link("vae", Socket::Vae),
            link("pixels", Socket::Image),
        ],
        outputs: TOLD,
        is_output: false,
        run: instruct,
    },
];

/// Pictures and their masks, both cut to squares of `scale` pixels.
fn cut(call: &Call<'_, '_>, scale: usize) -> Result<(Vec<Image>, Vec<Mask>), NodeError> {
    let (pixels, masks) = (call.images("pixels")?, call.masks("mask")?);
    let Some(first) = pixels.first() else {
        return Err(NodeError::Input("its pixels are no picture".to_owned()));
    };
    let part = |side: usize| (side % scale / 2, side / scale * scale);
    let ((x, width), (y, height)) = (part(first.width), part(first.height));
    let images = pixels
        .iter()
        .map(|i| image::cropped(i, (x, y), width, height));
    let masks = masks.iter().map(|m| {
        let whole = m.resized(first.width, first.height);
        whole.cropped((x, y), width, height)
    });
    Ok((images.collect(), masks.collect()))
}

/// The pictures with exactly the middle between black and white where a mask is.
fn grayed(images: &[Image], masks: &[Mask]) -> Vec<Image> {
    let gray = |(i, image): (usize, &Image)| {
        let Some(mask) = masks.get(i % masks.len().max(1)) else {
            return image.clone();
        };
        let mask = mask.clone().rounded();
        let value = |(at, &v): (usize, &f32)| if mask.values[at / 3] > 0.0 { 0.5 } else { v };
        Image {
            values: image.values.iter().enumerate().map(value).collect(),
            ..image.clone()
        }
    };
    images.iter().enumerate().map(gray).collect()
}

fn encode_for_inpaint(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let vae = call.vae("vae")?;
    let (images, masks) = cut(call, vae.pixel_multiple()?)?;
    let by = call.size("grow_mask_by")?;
    let latent = encoded(call, &vae, &grayed(&images, &masks))?;
    let grown = masks.into_iter().map(|m| m.grown(by).rounded());
    Ok(vec![Value::from(Latents {
        frame_mask: Vec::new(),
        latent,
        noise_mask: Some(Arc::new(grown.collect())),
        batch_index: None,
        empty_scale: None,
    })])
}

fn inpaint_model(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (images, masks) = cut(call, SCALE)?;
    let vae = call.vae("vae")?;
    // Pixels of a latent may be larger; masks keep their size, and are fitted to the latent.
    let latent = encoded(call, &vae, &whole_squares(&images, &vae)?)?;
    let gray = whole_squares(&grayed(&images, &masks), &vae)?;
    let seen = Seen {
        latent: encoded(call, &vae, &gray)?,
        mask: Some(mask::one(&masks, "mask")?.clone()),
    };
    let noise_mask = call.boolean("noise_mask")?.then(|| Arc::new(masks));
    told(
        call,
        seen,
        Latents {
            frame_mask: Vec::new(),
            latent,
            noise_mask,
            batch_index: None,
            empty_scale: None,
        },
    )
}

fn instruct(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (pixels, vae) = (call.images("pixels")?, call.vae("vae")?);
    let latent = encoded(call, &vae, &whole_squares(&pixels, &vae)?)?;
    let empty = Latent {
        values: vec![0.0; latent.values.len()],
        ..latent.clone()
    };
    told(
        call,
        Seen { latent, mask: None },
        Latents {
            frame_mask: Vec::new(),
            latent: empty,
            noise_mask: None,
            batch_index: None,
            empty_scale: None,
        },
    )
}

/// Both prompts with what the model sees, and the latent to start from.
fn told(call: &Call<'_, '_>, seen: Seen, start: Latents) -> Result<Vec<Value>, NodeError> {
    let seen = Arc::new(seen);
    let tell = |prompts: &[Conditioning]| -> Value {
        let told = prompts.iter().map(|p| p.with_seen(Some(Arc::clone(&seen))));
        Value::from(told.collect::<Vec<_>>())
    };
    Ok(vec![
        tell(&call.prompts("positive")?),
        tell(&call.prompts("negative")?),
        Value::from(start),
    ])
}
