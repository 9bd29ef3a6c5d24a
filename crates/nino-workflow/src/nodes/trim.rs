//! Clips cut by time.

use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{boolean, float, link, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{Clip, Value};
use std::sync::Arc;

/// Seconds before the beginning or the end.
const TIME: (f64, f64) = (-1e5, 1e5);
/// How near to a frame, in frames, a time may be that means it: times are sums of rounded numbers.
const NEAR: f64 = 1e-3;

pub(super) static NODES: &[NodeDef] = &[NodeDef {
    class: "Video Slice",
    display_name: "Trim Video",
    category: "video",
    inputs: &[
        link("video", Socket::Video),
        float("start_time", 0.0, TIME, 0.001),
        // ComfyUI names no limit.
        float("duration", 0.0, (0.0, f64::MAX), 0.001),
        boolean("strict_duration", false),
    ],
    outputs: &[out(Socket::Video)],
    is_output: false,
    run: trim,
}];

fn trim(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let clip = call.video("video")?;
    let (start, duration) = (call.float("start_time")?, call.float("duration")?);
    let n = clip.images.len();
    let whole = n as f64 / clip.fps;
    // Times below 0 are counted from the end.
    let from = if start < 0.0 {
        (whole + start).max(0.0)
    } else {
        start
    };
    let left = if start < 0.0 {
        whole.min(-start)
    } else {
        whole - start
    };
    // The first frame at a time or after it.
    let frame = |time: f64| ((time * clip.fps - NEAR).ceil().max(0.0) as usize).min(n);
    let first = frame(from);
    let end = if duration > 0.0 {
        frame(from + duration)
    } else {
        n
    };
    let is_short = call.boolean("strict_duration")? && left.min(whole) < duration;
    if is_short || first >= end {
        return Err(NodeError::Input(format!(
            "a clip of {whole:.3} seconds has no {duration} seconds from {start} on"
        )));
    }
    if (first, end) == (0, n) {
        return Ok(vec![Value::Video(clip)]);
    }
    let opacity = clip.opacity.as_ref();
    Ok(vec![Value::Video(Arc::new(Clip {
        images: Arc::new(clip.images[first..end].to_vec()),
        opacity: opacity.map(|all| Arc::new(all[first..end].to_vec())),
        audio: clip.audio.as_ref().map(|audio| {
            let seconds = |frame: usize| frame as f64 / clip.fps;
            Arc::new(audio.between(seconds(first), seconds(end)))
        }),
        ..Clip::clone(&clip)
    }))])
}
