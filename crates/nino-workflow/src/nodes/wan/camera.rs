//! A camera's path, and clips that follow it (Wan Fun camera).

use super::{
    BATCH, HEIGHT, LENGTH, NEGATIVE, OUTPUTS, POSITIVE, SEEN, START, VAE, WIDTH, given, nothing,
    shown, size, states, with,
};
use crate::NodeError;
use crate::node::table::{combo, float, link, named, optional};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{CameraMove, CameraPath, ClipHints, Lens};
use std::sync::Arc;

const CAMERA: &str = "model/conditioning/wan/camera";

const fn share(name: &'static str, step: f64) -> InputDef {
    optional(float(name, 0.5, (0.0, 1.0), step))
}

pub(in crate::nodes) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "WanCameraEmbedding",
        display_name: "WanCameraEmbedding",
        category: CAMERA,
        inputs: &[
            combo("camera_pose", || CameraMove::ALL.map(|m| m.name).to_vec()),
            WIDTH,
            HEIGHT,
            LENGTH,
            optional(float("speed", 1.0, (0.0, 10.0), 0.1)),
            share("fx", 1e-9),
            share("fy", 1e-9),
            share("cx", 0.01),
            share("cy", 0.01),
        ],
        outputs: &[
            named("camera_embedding", Socket::Camera),
            named("width", Socket::Int),
            named("height", Socket::Int),
            named("length", Socket::Int),
        ],
        is_output: false,
        run: path,
    },
    NodeDef {
        class: "WanCameraImageToVideo",
        display_name: "WanCameraImageToVideo",
        category: CAMERA,
        inputs: &[
            POSITIVE,
            NEGATIVE,
            VAE,
            WIDTH,
            HEIGHT,
            LENGTH,
            BATCH,
            SEEN,
            START,
            optional(link("camera_conditions", Socket::Camera)),
        ],
        outputs: &OUTPUTS,
        is_output: false,
        run: image_to_video,
    },
];

fn path(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let name = call.text("camera_pose")?;
    let motion = CameraMove::find(&name)
        .ok_or_else(|| NodeError::Input(format!("no camera moves as {name:?}")))?;
    let optional = |input, usual| match call.get(input) {
        Some(_) => call.float(input),
        None => Ok(usual),
    };
    let lens = Lens {
        focal: [optional("fx", 0.5)?, optional("fy", 0.5)?],
        center: [optional("cx", 0.5)?, optional("cy", 0.5)?],
    };
    if lens.focal.iter().any(|&f| f <= 0.0) {
        let text = "a lens has a focal length above 0: fx and fy".to_owned();
        return Err(NodeError::Input(text));
    }
    let size = size(call)?;
    let camera = CameraPath {
        motion,
        size,
        speed: optional("speed", 1.0)?,
        lens,
    };
    let sides = [size.width, size.height, size.frames].map(|n| Value::Int(n as i128));
    Ok(std::iter::once(Value::Camera(Arc::new(camera)))
        .chain(sides)
        .collect())
}

fn image_to_video(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (vae, start) = (call.vae("vae")?, call.images_if_linked("start_image")?);
    let given = given(call, &vae)?;
    let mut hints = ClipHints {
        image: states(call, &["clip_vision_output"])?,
        ..ClipHints::default()
    };
    if call.get("camera_conditions").is_some() {
        hints.camera = Some(call.camera("camera_conditions")?);
    }
    let latent = nothing(call, vae.kind.latent_channels(), given.size.latent(&vae))?;
    if !start.is_empty() {
        hints.frames = Some(Arc::new(given.before_camera(&start, &mut call.control)?));
    }
    shown(call, |p| with(p, &hints), latent)
}
