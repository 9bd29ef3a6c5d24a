//! Between latents and pictures.

use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{int, link, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{
    DecodeOptions, EncodeOptions, FloatFrames, Image, Latent, Precision, VaeFile, decode_images,
    encode_clip, encode_image,
};

const LATENT: &str = "model/latent";
const SAMPLES: crate::node::InputDef = link("samples", Socket::Latent);
const PIXELS: crate::node::InputDef = link("pixels", Socket::Image);
const VAE: crate::node::InputDef = link("vae", Socket::Vae);
const TILE: (i128, i128) = (64, 4096);
const OVERLAP: crate::node::InputDef = int("overlap", 64, (0, 4096), 32);
const FRAMES: crate::node::InputDef = int("temporal_size", 64, (8, 4096), 4);
const FRAMES_OVERLAP: crate::node::InputDef = int("temporal_overlap", 8, (4, 4096), 4);

// The tiled nodes do the same as the others: a decode that does not fit is cut by rows, which
// changes nothing in the picture, so tiles would only make it worse.
pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "VAEDecode",
        display_name: "VAE Decode",
        category: LATENT,
        inputs: &[SAMPLES, VAE],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: decode,
    },
    NodeDef {
        class: "VAEDecodeTiled",
        display_name: "VAE Decode (Tiled)",
        category: LATENT,
        inputs: &[
            SAMPLES,
            VAE,
            int("tile_size", 512, TILE, 32),
            OVERLAP,
            FRAMES,
            FRAMES_OVERLAP,
        ],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: decode,
    },
    NodeDef {
        class: "VAEEncode",
        display_name: "VAE Encode",
        category: LATENT,
        inputs: &[PIXELS, VAE],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: encode,
    },
    NodeDef {
        class: "VAEEncodeTiled",
        display_name: "VAE Encode (Tiled)",
        category: LATENT,
        inputs: &[
            PIXELS,
            VAE,
            int("tile_size", 512, TILE, 64),
            OVERLAP,
            FRAMES,
            FRAMES_OVERLAP,
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: encode,
    },
];

fn decode(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    decode_in(call, call.settings.precision)
}

/// Decodes with activations stored in a precision.
pub(super) fn decode_in(
    call: &mut Call<'_, '_>,
    precision: Precision,
) -> Result<Vec<Value>, NodeError> {
    let (samples, vae) = (call.latents("samples")?, call.vae("vae")?);
    let latent = &samples.latent;
    let side = vae.pixel_multiple()?;
    let frames = latent.batch * vae.kind.n_frames(latent.frames);
    let sizes = [frames, latent.height * side, latent.width * side, 3];
    call.room_for("a batch of pictures", &sizes)?;
    let options = DecodeOptions {
        precision,
        beside: call.held_bytes,
        ..DecodeOptions::default()
    };
    let (images, _) = decode_images(call.store, &vae, latent, &options, &mut call.control)?;
    Ok(vec![Value::from(images)])
}

fn encode(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (pixels, vae) = (call.images("pixels")?, call.vae("vae")?);
    let cut = whole_squares(&pixels, &vae)?;
    Ok(vec![Value::latent(encoded(call, &vae, &cut)?)])
}

/// The largest parts in the middle whose sides are whole pixels of the VAE's latents.
pub(super) fn whole_squares(images: &[Image], vae: &VaeFile) -> Result<Vec<Image>, NodeError> {
    let side = vae.pixel_multiple()?;
    let cut = |image: &Image| {
        let (width, height) = (image.width / side * side, image.height / side * side);
        let at = (image.width % side / 2, image.height % side / 2);
        super::image::cropped(image, at, width, height)
    };
    Ok(images.iter().map(cut).collect())
}

/// A batch of pictures of one size, encoded one after the other.
pub(super) fn encoded(
    call: &mut Call<'_, '_>,
    vae: &VaeFile,
    images: &[Image],
) -> Result<Latent, NodeError> {
    let options = EncodeOptions {
        precision: call.settings.precision,
        format: vae.assumed_format(),
        beside: call.held_bytes,
    };
    // The frames of a clip are encoded together.
    if let (Some(_), Some(first)) = (vae.kind.time_scale(), images.first())
        && images.len() > 1
    {
        let clip = FloatFrames {
            width: first.width,
            height: first.height,
            n_frames: images.len(),
            frame: &|i| images[i].values.clone(),
        };
        return Ok(encode_clip(call.store, vae, &clip, &options, &mut call.control)?.latent);
    }
    let mut batch: Option<Latent> = None;
    for image in images {
        if image.width == 0 || image.height == 0 {
            let side = vae.pixel_multiple()?;
            let text =
                format!("its picture is smaller than the {side}x{side} pixels of a latent's");
            return Err(NodeError::Input(text));
        }
        let one = encode_image(call.store, vae, image, &options, &mut call.control)?.latent;
        match &mut batch {
            None => batch = Some(one),
            Some(all) => {
                all.batch += 1;
                all.values.extend(one.values);
            }
        }
    }
    batch.ok_or_else(|| NodeError::Input("its batch has no picture".to_owned()))
}
