//! Clips that are made, sent back and read again.

use crate::client::start;
use serde_json::json;
use std::process::{Command, Stdio};

/// Whether there is an ffmpeg, which MP4 needs.
fn has_ffmpeg() -> bool {
    let mut command = Command::new("ffmpeg");
    let ran = command.arg("-version").stdout(Stdio::null()).status();
    let found = ran.is_ok_and(|status| status.success());
    if !found {
        println!("skipped: no ffmpeg on the PATH");
    }
    found
}

#[test]
fn an_mp4_is_made_uploaded_and_read() {
    if !has_ffmpeg() {
        return;
    }
    let server = start();
    let empty = |color: u32| {
        json!({ "class_type": "EmptyImage",
                "inputs": { "width": 64, "height": 48, "batch_size": 3, "color": color } })
    };
    let make = json!({
        "1": empty(0xff_0000),
        "2": empty(0x00_00ff),
        "3": { "class_type": "ImageBatch", "inputs": { "image1": ["1", 0], "image2": ["2", 0] } },
        "4": { "class_type": "CreateVideo", "inputs": { "images": ["3", 0], "fps": 12.0 } },
        "5": { "class_type": "SaveVideo", "inputs": {
            "video": ["4", 0], "filename_prefix": "clip", "format": "auto", "codec": "auto" } },
    });
    let entry = server.wait(&server.prompt(&make, "clips"));
    let file = &entry["outputs"]["5"]["images"][0];
    let name = file["filename"].as_str().unwrap_or_default();
    assert!(name.to_lowercase().ends_with(".mp4"), "{entry}");
    let made = server.get(&format!("/view?filename={name}&type=output"));
    assert_eq!((made.status, &*made.kind), (200, "video/mp4"));

    let sent = server.upload("/upload/image", "sent.mp4", &made.bytes, &[]);
    assert_eq!(sent.json()["name"], "sent.mp4");
    let read = json!({
        "1": { "class_type": "LoadVideo", "inputs": { "file": "sent.mp4" } },
        "2": { "class_type": "GetVideoComponents", "inputs": { "video": ["1", 0] } },
        "3": { "class_type": "PreviewImage", "inputs": { "images": ["2", 0] } },
        "4": { "class_type": "PreviewAny", "inputs": { "source": ["2", 2] } },
    });
    let entry = server.wait(&server.prompt(&read, "clips"));
    let frames = entry["outputs"]["3"]["images"].as_array();
    assert_eq!(frames.map(Vec::len), Some(6), "{entry}");
    assert_eq!(entry["outputs"]["4"]["text"], json!(["12.0"]));
    let frame = |i: usize| {
        let name = &entry["outputs"]["3"]["images"][i]["filename"];
        let path = format!("/view?filename={}&type=temp", name.as_str().unwrap());
        let bytes = server.get(&path).bytes;
        let decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        [pixels[0], pixels[2]]
    };
    let ([red, _], [_, blue]) = (frame(0), frame(5));
    assert!(red > 200 && blue > 200, "{red} {blue}");
}
