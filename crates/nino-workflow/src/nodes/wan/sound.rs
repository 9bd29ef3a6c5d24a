//! What Wan's sound-to-video model is given.

use super::{BATCH, HEIGHT, NEGATIVE, OUTPUTS, POSITIVE, VAE, WIDTH, given, nothing};
use crate::NodeError;
use crate::node::table::{MAX_SIDE, int, link, optional};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{Before, ClipSize, Given, Latent, LatentSize, SoundHints, Sounding};

const SOUND: &str = "model/conditioning/wan/sound";
const LENGTH: InputDef = int("length", 77, (1, MAX_SIDE), 4);
const HEARD: InputDef = optional(link("audio_encoder_output", Socket::AudioEncoderOutput));
const REFERENCE: InputDef = optional(link("ref_image", Socket::Image));
const FOLLOWED: InputDef = optional(link("control_video", Socket::Image));
/// Frames of audio under a latent frame.
const TIME: usize = 4;

pub(in crate::nodes) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "WanSoundImageToVideo",
        display_name: "WanSoundImageToVideo",
        category: SOUND,
        inputs: &[
            POSITIVE,
            NEGATIVE,
            VAE,
            WIDTH,
            HEIGHT,
            LENGTH,
            BATCH,
            HEARD,
            REFERENCE,
            FOLLOWED,
            optional(link("ref_motion", Socket::Image)),
        ],
        outputs: &OUTPUTS,
        is_output: false,
        run: begin,
    },
    NodeDef {
        class: "WanSoundImageToVideoExtend",
        display_name: "WanSoundImageToVideoExtend",
        category: SOUND,
        inputs: &[
            POSITIVE,
            NEGATIVE,
            VAE,
            LENGTH,
            link("video_latent", Socket::Latent),
            HEARD,
            REFERENCE,
            FOLLOWED,
        ],
        outputs: &OUTPUTS,
        is_output: false,
        run: extend,
    },
];

/// A video from its first frame on.
fn begin(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let vae = call.vae("vae")?;
    let before = call.images_if_linked("ref_motion")?;
    let given = given(call, &vae)?;
    let size = given.size.latent(&vae);
    let latent = nothing(call, vae.kind.latent_channels(), size)?;
    sounded(call, &given, Before::Frames(&before), 0, latent)
}

/// What follows a video.
fn extend(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let vae = call.vae("vae")?;
    let before = call.latents("video_latent")?;
    let before = &before.latent;
    let scale = vae.kind.scale();
    let given = Given {
        store: call.store,
        vae: &vae,
        size: ClipSize {
            width: before.width * scale,
            height: before.height * scale,
            frames: call.size("length")?.max(1),
        },
        precision: call.settings.precision,
        beside: call.held_bytes,
    };
    let LatentSize {
        frames,
        height,
        width,
    } = given.size.latent(&vae);
    let channels = vae.kind.latent_channels();
    call.room_for(
        "a clip's latent",
        &[before.batch, frames, height, width, channels],
    )?;
    let latent = Latent {
        is_video: true,
        ..Latent::empty(before.batch, channels, given.size.latent(&vae))
    };
    let offset = before.frames * TIME;
    sounded(call, &given, Before::Latent(before), offset, latent)
}

fn sounded(
    call: &mut Call<'_, '_>,
    given: &Given<'_>,
    before: Before<'_>,
    offset: usize,
    latent: Latent,
) -> Result<Vec<Value>, NodeError> {
    let heard = match call.get("audio_encoder_output") {
        Some(_) => Some(call.audio_states("audio_encoder_output")?),
        None => None,
    };
    let (reference, followed) = (
        call.images_if_linked("ref_image")?,
        call.images_if_linked("control_video")?,
    );
    let sounding = Sounding {
        audio: heard.as_deref(),
        offset,
        reference: reference.first(),
        follow: &followed,
        before,
    };
    let sounded = given.sounded(&sounding, &mut call.control)?;
    let side = |input, sound: &SoundHints| -> Result<Value, NodeError> {
        let prompts = call.prompts(input)?;
        let given = prompts.iter().map(|p| sounded.given_to(p, sound));
        Ok(Value::from(given.collect::<Vec<_>>()))
    };
    Ok(vec![
        side("positive", &sounded.positive)?,
        side("negative", &sounded.negative)?,
        Value::latent(latent),
    ])
}
