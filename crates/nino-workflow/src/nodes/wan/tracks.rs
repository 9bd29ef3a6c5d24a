//! Points that move through a clip, and clips that follow them (Wan ATI and Wan-Move).

use super::{
    BATCH, HEIGHT, LENGTH, NEGATIVE, OUTPUTS, POSITIVE, SEEN, VAE, WIDTH, given, image_to_video,
    nothing, shown, states, with,
};
use crate::NodeError;
use crate::node::table::{boolean, combo, float, int, link, named, optional, out, prompt_of, text};
use crate::node::{InputDef, NodeDef, OutputDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{ClipHints, Pace, Spread, TrackWay, Tracks};
use serde_json::Value as Json;
use std::sync::Arc;

const MOVE: &str = "model/conditioning/wan/move";
const START: InputDef = link("start_image", Socket::Image);
const MASK: InputDef = optional(link("track_mask", Socket::Mask));
const MADE: [OutputDef; 2] = [out(Socket::Tracks), named("track_length", Socket::Int)];

const fn share(name: &'static str, default: f64) -> InputDef {
    float(name, default, (0.0, 1.0), 0.01)
}

pub(in crate::nodes) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "WanTrackToVideo",
        display_name: "WanTrackToVideo",
        category: MOVE,
        inputs: &[
            POSITIVE,
            NEGATIVE,
            VAE,
            prompt_of("tracks", "[]"),
            WIDTH,
            HEIGHT,
            LENGTH,
            BATCH,
            float("temperature", 220.0, (1.0, 1000.0), 0.1),
            int("topk", 2, (1, 10), 1),
            START,
            SEEN,
        ],
        outputs: &OUTPUTS,
        is_output: false,
        run: track_to_video,
    },
    NodeDef {
        class: "GenerateTracks",
        display_name: "Generate Video Tracks",
        category: MOVE,
        inputs: &[
            int("width", 832, (16, 4096), 16),
            int("height", 480, (16, 4096), 16),
            share("start_x", 0.0),
            share("start_y", 0.0),
            share("end_x", 1.0),
            share("end_y", 1.0),
            int("num_frames", 81, (1, 1024), 1),
            int("num_tracks", 5, (1, 100), 1),
            float("track_spread", 0.025, (0.0, 1.0), 0.001),
            boolean("bezier", false),
            share("mid_x", 0.5),
            share("mid_y", 0.5),
            combo("interpolation", || PACES.to_vec()),
            MASK,
        ],
        outputs: &MADE,
        is_output: false,
        run: generate,
    },
    NodeDef {
        class: "WanMoveTracksFromCoords",
        display_name: "WanMoveTracksFromCoords",
        category: MOVE,
        inputs: &[optional(text("track_coords", "[]")), MASK],
        outputs: &MADE,
        is_output: false,
        run: from_coordinates,
    },
    NodeDef {
        class: "WanMoveConcatTrack",
        display_name: "WanMoveConcatTrack",
        category: MOVE,
        inputs: &[
            link("tracks_1", Socket::Tracks),
            optional(link("tracks_2", Socket::Tracks)),
        ],
        outputs: &[out(Socket::Tracks)],
        is_output: false,
        run: |call| {
            let first = call.tracks("tracks_1")?;
            if call.get("tracks_2").is_none() {
                return Ok(vec![Value::Tracks(first)]);
            }
            let both = first.and(&*call.tracks("tracks_2")?);
            Ok(vec![Value::Tracks(Arc::new(both))])
        },
    },
    NodeDef {
        class: "WanMoveTrackToVideo",
        display_name: "WanMoveTrackToVideo",
        category: MOVE,
        inputs: &[
            POSITIVE,
            NEGATIVE,
            VAE,
            optional(link("tracks", Socket::Tracks)),
            float("strength", 1.0, (0.0, 100.0), 0.01),
            WIDTH,
            HEIGHT,
            LENGTH,
            BATCH,
            START,
            SEEN,
        ],
        outputs: &OUTPUTS,
        is_output: false,
        run: move_to_video,
    },
];

/// How fast points go along their way, by ComfyUI's names.
const PACES: [&str; 5] = ["linear", "ease_in", "ease_out", "ease_in_out", "constant"];

/// Tracks as texts have them: lists of points with `x` and `y`. What is no JSON is none, as in
/// ComfyUI.
fn parsed(text: &str) -> Result<Vec<Vec<[f32; 2]>>, NodeError> {
    let wrong = || {
        let text = "tracks are lists of points such as [[{\"x\": 10, \"y\": 20}]], of one batch";
        NodeError::Input(text.to_owned())
    };
    let Ok(all) = serde_json::from_str::<Json>(&text.replace('\'', "\"")) else {
        return Ok(Vec::new());
    };
    let point = |point: &Json| -> Option<[f32; 2]> {
        let [x, y] = ["x", "y"].map(|axis| point.get(axis).and_then(Json::as_f64));
        Some([x? as f32, y? as f32])
    };
    let track =
        |points: &Json| -> Option<Vec<[f32; 2]>> { points.as_array()?.iter().map(point).collect() };
    let list = all.as_array().ok_or_else(wrong)?;
    let tracks: Option<Vec<_>> = match list.first() {
        Some(Json::Object(_)) => track(&all).map(|one| vec![one]),
        _ => list.iter().map(track).collect(),
    };
    tracks.ok_or_else(wrong)
}

fn track_to_video(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let tracks = parsed(&call.text("tracks")?)?;
    if tracks.is_empty() {
        return image_to_video(call);
    }
    let (vae, start) = (call.vae("vae")?, call.images("start_image")?);
    let given = given(call, &vae)?;
    if start.len() > 1 && call.size("batch_size")? > 1 {
        let text = "several pictures to begin with: tracks take one, whatever the batch";
        return Err(NodeError::Input(text.to_owned()));
    }
    let image = start.first();
    let image = image.ok_or_else(|| NodeError::Input("its batch has no picture".to_owned()))?;
    let spread = Spread {
        temperature: call.float("temperature")? as f32,
        most: call.size("topk")?,
    };
    let frames = given.moved(image, &tracks, spread, &mut call.control)?;
    let hints = ClipHints {
        image: states(call, &["clip_vision_output"])?,
        frames: Some(Arc::new(frames)),
        ..ClipHints::default()
    };
    let latent = nothing(call, vae.kind.latent_channels(), given.size.latent(&vae))?;
    shown(call, |p| with(p, &hints), latent)
}

fn move_to_video(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let strength = call.float("strength")? as f32;
    if call.get("tracks").is_none() || strength <= 0.0 {
        return image_to_video(call);
    }
    let (vae, start) = (call.vae("vae")?, call.images("start_image")?);
    let (given, tracks) = (given(call, &vae)?, call.tracks("tracks")?);
    let frames = given.dragged(&start, &tracks, strength, &mut call.control)?;
    let hints = ClipHints {
        image: states(call, &["clip_vision_output"])?,
        frames: Some(Arc::new(frames)),
        ..ClipHints::default()
    };
    let latent = nothing(call, vae.kind.latent_channels(), given.size.latent(&vae))?;
    shown(call, |p| with(p, &hints), latent)
}

/// Tracks, of which a mask may say the frames that all are seen in, and their length.
fn made(call: &Call<'_, '_>, path: Vec<Vec<[f32; 2]>>) -> Result<Vec<Value>, NodeError> {
    let length = path.len();
    let mut tracks = Tracks::seen(path);
    if call.get("track_mask").is_some() {
        let masks = call.masks("track_mask")?;
        for (i, frame) in tracks.visible.iter_mut().enumerate() {
            let seen = masks
                .get(i)
                .is_some_and(|m| m.values.iter().any(|&v| v > 0.0));
            frame.fill(seen);
        }
    }
    let length = Value::Int(length as i128);
    Ok(vec![Value::Tracks(Arc::new(tracks)), length])
}

fn from_coordinates(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let tracks = match call.get("track_coords") {
        Some(_) => parsed(&call.text("track_coords")?)?,
        None => Vec::new(),
    };
    let length = tracks.first().map_or(0, Vec::len);
    if length == 0 || tracks.iter().any(|track| track.len() < length) {
        let text = "there are no tracks, or some are shorter than the first".to_owned();
        return Err(NodeError::Input(text));
    }
    let frame = |i: usize| tracks.iter().map(|track| track[i]).collect();
    made(call, (0..length).map(frame).collect())
}

fn generate(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let sides = [call.size("width")? as f64, call.size("height")? as f64];
    let point = |x, y| -> Result<[f64; 2], NodeError> {
        Ok([call.float(x)? * sides[0], call.float(y)? * sides[1]])
    };
    let mid = point("mid_x", "mid_y")?;
    let way = TrackWay {
        start: point("start_x", "start_y")?,
        mid: call.boolean("bezier")?.then_some(mid),
        end: point("end_x", "end_y")?,
        frames: call.size("num_frames")?,
        tracks: call.size("num_tracks")?,
        apart: call.float("track_spread")? * (sides[0] + sides[1]) / 2.0,
        pace: match &*call.text("interpolation")? {
            "constant" => Pace::Still,
            "ease_in" => Pace::Faster,
            "ease_out" => Pace::Slower,
            "ease_in_out" => Pace::Smooth,
            _ => Pace::Even,
        },
    };
    made(call, way.path())
}
