//! Prompts for Qwen-Image-Edit, which speak about pictures.

use super::vae::{encoded, whole_squares};
use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{link, optional, out, prompt};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{Image, PICTURE, encode_seen, encode_text};
use std::sync::Arc;

/// Pixels of a picture that is looked at, and of one that is spoken about by number.
const LOOKED_AT: usize = 1024 * 1024;
const SPOKEN_OF: usize = 384 * 384;
/// Sides of a picture that becomes a latent are multiples of this.
const MULTIPLE: usize = 8;

const CATEGORY: &str = "model/conditioning/qwen image";

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "TextEncodeQwenImageEdit",
        display_name: "TextEncodeQwenImageEdit",
        category: CATEGORY,
        inputs: &[
            link("clip", Socket::Clip),
            prompt("prompt"),
            optional(link("vae", Socket::Vae)),
            optional(link("image", Socket::Image)),
        ],
        outputs: &[out(Socket::Conditioning)],
        is_output: false,
        run: one,
    },
    NodeDef {
        class: "TextEncodeQwenImageEditPlus",
        display_name: "TextEncodeQwenImageEditPlus",
        category: CATEGORY,
        inputs: &[
            link("clip", Socket::Clip),
            prompt("prompt"),
            optional(link("vae", Socket::Vae)),
            optional(link("image1", Socket::Image)),
            optional(link("image2", Socket::Image)),
            optional(link("image3", Socket::Image)),
        ],
        outputs: &[out(Socket::Conditioning)],
        is_output: false,
        run: several,
    },
];

/// The first picture of an input's batch; `None` where nothing is connected.
fn picture(call: &Call<'_, '_>, input: &'static str) -> Result<Option<Image>, NodeError> {
    if call.get(input).is_none() {
        return Ok(None);
    }
    Ok(call.images(input)?.first().cloned())
}

fn one(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let Some(image) = picture(call, "image")? else {
        // Without a picture it is a prompt like others.
        let (clip, text) = (call.clip("clip")?, call.text("prompt")?);
        let embeddings = call.host.embeddings();
        let made = encode_text(call.store, &clip, &text, &embeddings, &mut call.control)?;
        return Ok(vec![Value::from(vec![made])]);
    };
    let image = image.of_pixels(LOOKED_AT, 1);
    let pictures = [image];
    spoken(call, PICTURE, &pictures, &pictures)
}

fn several(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (mut before, mut seen, mut looked_at) = (Vec::new(), Vec::new(), Vec::new());
    for (i, input) in ["image1", "image2", "image3"].into_iter().enumerate() {
        if let Some(image) = picture(call, input)? {
            before.push(format!("Picture {}: {PICTURE}", i + 1));
            seen.push(image.of_pixels(SPOKEN_OF, 1));
            looked_at.push(image.of_pixels(LOOKED_AT, MULTIPLE));
        }
    }
    spoken(call, &before.concat(), &seen, &looked_at)
}

/// A prompt about pictures that are seen, with latents of those that are looked at where there is a
/// VAE.
fn spoken(
    call: &mut Call<'_, '_>,
    before: &str,
    seen: &[Image],
    looked_at: &[Image],
) -> Result<Vec<Value>, NodeError> {
    let (clip, text) = (call.clip("clip")?, call.text("prompt")?);
    let whole = format!("{before}{text}");
    let embeddings = call.host.embeddings();
    let mut made = encode_seen(
        call.store,
        &clip,
        &whole,
        seen,
        &embeddings,
        &mut call.control,
    )?;
    if call.get("vae").is_some() {
        let vae = call.vae("vae")?;
        for image in whole_squares(looked_at, &vae)? {
            let latent = encoded(call, &vae, &[image])?;
            made = made.with_reference(Arc::new(latent));
        }
    }
    Ok(vec![Value::from(vec![made])])
}
