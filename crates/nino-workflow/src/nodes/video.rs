//! Clips that are kept.

use crate::host::{Folder, Made};
use crate::node::NodeDef;
use crate::node::table::{
    boolean, combo, file, float, hidden, int, link, named, optional, out, text,
};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{Clip, Value};
use crate::{HostError, NodeError};
use nino_engine::media::{MediaError, ReadOptions, open_video};
use nino_engine::{EngineError, Event, Image};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const FPS: (f64, f64) = (0.01, 1000.0);
/// Frames a second of a clip that does not say.
const FPS_UNKNOWN: f64 = 24.0;
const CRF: (f64, f64) = (0.0, 51.0);

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "CreateVideo",
        display_name: "Create Video",
        category: "video",
        inputs: &[
            link("images", Socket::Image),
            float("fps", 30.0, (1.0, 120.0), 1.0),
            optional(link("audio", Socket::Audio)),
            // Files have 8 bits of each color.
            optional(int("bit_depth", 8, (8, 10), 2)),
        ],
        outputs: &[out(Socket::Video)],
        is_output: false,
        run: |call| {
            // Clips that are to be cut and read again have three channels.
            call.images("images")?;
            let audio = match call.get("audio") {
                // That of a clip without a sound.
                None | Some(Value::Missing(_)) => None,
                Some(_) => Some(call.audio("audio")?),
            };
            let clip = Clip {
                audio,
                ..Clip::clone(&*clip(call)?)
            };
            Ok(vec![Value::Video(Arc::new(clip))])
        },
    },
    NodeDef {
        class: "LoadVideo",
        display_name: "Load Video",
        category: "video",
        inputs: &[file("file", Folder::InputVideos)],
        outputs: &[out(Socket::Video)],
        is_output: false,
        run: load,
    },
    NodeDef {
        class: "GetVideoComponents",
        display_name: "Get Video Components",
        category: "video",
        inputs: &[link("video", Socket::Video)],
        outputs: &[
            named("images", Socket::Image),
            named("audio", Socket::Audio),
            named("fps", Socket::Float),
            named("bit_depth", Socket::Int),
        ],
        is_output: false,
        run: |call| {
            let clip = call.video("video")?;
            Ok(vec![
                Value::Image(Arc::clone(&clip.images)),
                match &clip.audio {
                    Some(audio) => Value::Audio(Arc::clone(audio)),
                    None => Value::Missing("the clip has no sound".into()),
                },
                Value::Float(clip.fps),
                Value::Int(8),
            ])
        },
    },
    NodeDef {
        class: "SaveVideo",
        display_name: "Save Video",
        category: "video",
        inputs: &[
            link("video", Socket::Video),
            text("filename_prefix", "video/ComfyUI"),
            combo("format", || vec!["auto", "mp4"]),
            combo("codec", || vec!["auto", "h264"]),
            // What a page shows below the codec, by ComfyUI's names.
            hidden(combo("codec.encoding", || vec!["auto", "re-encode"])),
            hidden(float("codec.encoding.crf", 23.0, CRF, 1.0)),
        ],
        outputs: &[named("video", Socket::Video)],
        is_output: true,
        run: |call| {
            let (clip, prefix) = (call.video("video")?, call.text("filename_prefix")?);
            let mut saved = Clip::clone(&clip);
            if matches!(call.text("codec.encoding").as_deref(), Ok("re-encode")) {
                saved.crf = call.float("codec.encoding.crf").ok();
            }
            if saved.audio.is_some() && saved.extension("SaveVideo") != "mp4" {
                let why = "the clip is saved without its sound: MP4 has room for it, for which \
                           there must be an ffmpeg on the PATH and no transparency";
                (call.control.on_event)(Event::Note(why.to_owned()));
            }
            call.output(Made::Clip(Arc::new(saved)), prefix)?;
            Ok(vec![Value::Video(clip)])
        },
    },
    NodeDef {
        class: "SaveWEBM",
        display_name: "Save WEBM",
        category: "video",
        inputs: &[
            link("images", Socket::Image),
            text("filename_prefix", "ComfyUI"),
            combo("codec", || vec!["vp9", "av1"]),
            float("fps", 24.0, FPS, 0.01),
            float("crf", 32.0, (0.0, 63.0), 1.0),
        ],
        outputs: &[named("images", Socket::Image)],
        is_output: true,
        run: save,
    },
    NodeDef {
        class: "SaveAnimatedWEBP",
        display_name: "Save Animated WEBP",
        category: "image",
        inputs: &[
            link("images", Socket::Image),
            text("filename_prefix", "ComfyUI"),
            float("fps", 6.0, FPS, 0.01),
            boolean("lossless", true),
            int("quality", 80, (0, 100), 1),
            combo("method", || vec!["default", "fastest", "slowest"]),
        ],
        outputs: &[named("images", Socket::Image)],
        is_output: true,
        run: save,
    },
    NodeDef {
        class: "SaveAnimatedPNG",
        display_name: "Save Animated PNG",
        category: "image",
        inputs: &[
            link("images", Socket::Image),
            text("filename_prefix", "ComfyUI"),
            float("fps", 6.0, FPS, 0.01),
            int("compress_level", 4, (0, 9), 1),
        ],
        outputs: &[named("images", Socket::Image)],
        is_output: true,
        run: save,
    },
];

/// What `/object_info` says of `SaveVideo`'s codec: a choice with inputs of its own below it.
pub(super) fn codecs() -> Json {
    let crf = json!(["FLOAT", { "default": 23.0, "min": CRF.0, "max": CRF.1, "step": 1.0 }]);
    let encodings = json!([
        { "key": "auto", "inputs": { "required": {} } },
        { "key": "re-encode", "inputs": { "required": { "crf": crf } } },
    ]);
    let encoding = json!(["COMFY_DYNAMICCOMBO_V3", {
        "display_name": "encoding mode", "options": encodings,
    }]);
    let below = json!({ "required": {}, "optional": { "encoding": encoding } });
    json!(["COMFY_DYNAMICCOMBO_V3", { "options": [
        { "key": "auto", "inputs": { "required": {} } },
        { "key": "h264", "inputs": below },
    ] }])
}

/// The frames of a clip's file, all of them.
fn load(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let path = call.file("file")?;
    let unreadable = |e: MediaError| NodeError::Host(HostError::new(e));
    let options = ReadOptions {
        stop: call.host.stop(),
        ..ReadOptions::default()
    };
    let source = open_video(&path, &options).map_err(unreadable)?;
    let still = || NodeError::Input(format!("{} is no clip", path.display()));
    let mut source = source.ok_or_else(still)?;
    let mut images: Vec<Image> = Vec::new();
    while let Some(frame) = source.next_frame().map_err(unreadable)? {
        if call.control.cancel.load(Ordering::Relaxed) {
            return Err(EngineError::Cancelled.into());
        }
        let sizes = [images.len() + 1, frame.width, frame.height, 3];
        call.room_for("a clip", &sizes)?;
        images.push(Image::from(&frame));
    }
    let fps = source.fps().unwrap_or(FPS_UNKNOWN);
    Ok(vec![Value::Video(Arc::new(Clip {
        images: Arc::new(images),
        opacity: None,
        fps,
        audio: super::audio::of_clip(&path, &options)?,
        crf: None,
    }))])
}

fn clip(call: &Call<'_, '_>) -> Result<Arc<Clip>, NodeError> {
    let (images, opacity) = call.clear_images("images")?;
    Ok(Arc::new(Clip {
        images,
        opacity,
        fps: call.float("fps")?,
        audio: None,
        crf: None,
    }))
}

fn save(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (clip, prefix) = (clip(call)?, call.text("filename_prefix")?);
    call.output(Made::Clip(clip), prefix)?;
    Ok(vec![call.any("images")?])
}
