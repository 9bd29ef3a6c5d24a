//! Switches, formulas, and what is shown instead of kept.

use crate::host::{Folders, executor, graph, run, sd1};
use nino_engine::Picture;
use nino_engine::media::{ClipFormat, Stop, create_video};
use nino_workflow::{Executor, Folder, Limits, Made, Progress, Watch, check};
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;

fn empty(color: u32) -> Value {
    json!({ "class_type": "EmptyImage",
            "inputs": { "width": 8, "height": 8, "batch_size": 1, "color": color } })
}

fn switched(switch: &Value) -> Value {
    json!({
        "1": empty(0xFF_0000),
        "2": empty(0x00_00FF),
        "3": { "class_type": "ComfySwitchNode", "inputs": {
            "switch": switch, "on_false": ["1", 0], "on_true": ["2", 0] } },
        "4": { "class_type": "PreviewImage", "inputs": { "images": ["3", 0] } },
    })
}

fn started(executor: &mut Executor, nodes: &Value, host: &mut Folders) -> Vec<String> {
    let events = run(executor, &graph(nodes.clone()), host);
    let started = events
        .into_iter()
        .filter(|(_, _, what)| matches!(what, Progress::Started));
    started.map(|(node, _, _)| node).collect()
}

#[test]
fn a_switch_runs_the_side_that_it_takes() {
    let mut host = Folders::default();
    let mut executor = executor();
    for (switch, side, red) in [(false, "1", 255), (true, "2", 0)] {
        let ran = started(&mut executor, &switched(&json!(switch)), &mut host);
        assert_eq!(ran, [side, "3", "4"]);
        assert_eq!(host.pictures("4").last().unwrap().rgb[0], red);
    }
    // A side that is not taken may change.
    let mut nodes = switched(&json!(true));
    nodes["1"] = empty(0x12_3456);
    assert!(started(&mut executor, &nodes, &mut host).is_empty());
    // What says which side is a node of its own, and runs first.
    let mut nodes = switched(&json!(["5", 0]));
    nodes["5"] = json!({ "class_type": "PrimitiveBoolean", "inputs": { "value": true } });
    let ran = started(&mut executor, &nodes, &mut host);
    assert_eq!(
        ran,
        ["5", "3", "4"],
        "picture 2 is known, and picture 1 is not needed"
    );
    let checked = check(&graph(nodes), &host, &Limits::default()).unwrap();
    assert_eq!(executor.cached(&checked, &host), ["5", "2", "3", "4"]);
}

/// The nodes that a plan runs.
fn rehearsed(nodes: &Value, host: &mut Folders) -> Vec<String> {
    let checked = check(&graph(nodes.clone()), host, &Limits::default()).unwrap();
    let mut started = Vec::new();
    let mut watch = Watch {
        cancel: &AtomicBool::new(false),
        on_event: &mut |event| {
            if matches!(event.what, Progress::Started) {
                started.push(event.node.to_owned());
            }
        },
    };
    executor().rehearse(&checked, host, &mut watch).unwrap();
    started
}

/// Pictures that no network sees are not made for a plan: they may take minutes and gigabytes.
#[test]
fn plans_end_with_the_last_network() {
    let blur = |from: &str| {
        json!({ "class_type": "ImageBlur",
                "inputs": { "image": [from, 0], "blur_radius": 1, "sigma": 1.0 } })
    };
    let preview =
        |from: &str| json!({ "class_type": "PreviewImage", "inputs": { "images": [from, 0] } });
    let mut host = Folders::default().with(Folder::Checkpoints, "a", &sd1());
    let nodes = json!({ "1": empty(0), "2": blur("1"), "3": preview("2") });
    assert!(rehearsed(&nodes, &mut host).is_empty());
    let nodes = json!({
        "1": empty(0),
        "2": blur("1"),
        "3": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "a" } },
        "4": { "class_type": "VAEEncode", "inputs": { "pixels": ["2", 0], "vae": ["3", 2] } },
        "5": { "class_type": "VAEDecode", "inputs": { "samples": ["4", 0], "vae": ["3", 2] } },
        "6": blur("5"),
        "7": preview("6"),
        "8": preview("2"),
    });
    assert_eq!(rehearsed(&nodes, &mut host), ["1", "2", "3", "4", "5"]);
}

#[test]
fn formulas_and_shapes_become_sizes() {
    let nodes = json!({
        "1": { "class_type": "PrimitiveInt", "inputs": { "value": 5 } },
        "2": { "class_type": "PrimitiveFloat", "inputs": { "value": 16.0 } },
        "3": { "class_type": "ComfyMathExpression", "inputs": {
            "expression": "round(a * b) + 1", "values.a": ["1", 0], "values.b": ["2", 0] } },
        "4": { "class_type": "PreviewAny", "inputs": { "source": ["3", 1] } },
        "5": { "class_type": "ResolutionSelector", "inputs": {
            "aspect_ratio": "16:9 (Widescreen)", "megapixels": 1.0, "multiple": 8 } },
        "6": { "class_type": "PreviewAny", "inputs": { "source": ["5", 0] } },
        "7": { "class_type": "PreviewAny", "inputs": { "source": ["3", 0] } },
    });
    let mut host = Folders::default();
    run(&mut executor(), &graph(nodes.clone()), &mut host);
    let text = |id: &str| {
        let (_, made) = host.made.iter().find(|(node, _)| node == id).unwrap();
        match made {
            Made::Texts(texts) => texts.join(""),
            _ => panic!("{id}"),
        }
    };
    assert_eq!([text("4"), text("6"), text("7")], ["81", "1368", "81.0"]);
    // Only numbers are taken.
    let mut wrong = nodes;
    wrong["1"] = json!({ "class_type": "PrimitiveString", "inputs": { "value": "x" } });
    let refused = check(&graph(wrong), &Folders::default(), &Limits::default()).unwrap();
    let told = refused.problems_json().to_string();
    assert!(
        told.contains("received_type(STRING) mismatch input_type(FLOAT,INT,BOOLEAN)"),
        "{told}"
    );
}

#[test]
fn pairs_and_masks_are_shown() {
    let nodes = json!({
        "1": empty(0xFF_0000),
        "2": { "class_type": "ImageCompare",
               "inputs": { "image_a": ["1", 0], "compare_view": "" } },
        "3": { "class_type": "SolidMask", "inputs": { "value": 0.5, "width": 4, "height": 4 } },
        "4": { "class_type": "MaskPreview", "inputs": { "mask": ["3", 0] } },
    });
    let mut host = Folders::default();
    run(&mut executor(), &graph(nodes), &mut host);
    assert_eq!(host.pictures("2").len(), 1);
    assert_eq!(host.pictures("4")[0].rgb[0], 127);
}

/// What is grey in a mask is painted later, which makes another picture.
#[test]
fn grey_masks_can_be_painted_later() {
    let nodes = |model: &str| {
        json!({
            "1": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "m" } },
            "2": { "class_type": "CLIPTextEncode", "inputs": { "text": "a fox", "clip": ["1", 1] } },
            "3": { "class_type": "DifferentialDiffusion", "inputs": { "model": ["1", 0] } },
            "4": empty(0x80_4020),
            "5": { "class_type": "ImageScale", "inputs": { "image": ["4", 0], "width": 64,
                   "height": 64, "upscale_method": "bilinear", "crop": "disabled" } },
            "6": { "class_type": "VAEEncode", "inputs": { "pixels": ["5", 0], "vae": ["1", 2] } },
            "7": { "class_type": "SolidMask", "inputs": { "value": 0.5, "width": 64, "height": 64 } },
            "8": { "class_type": "SetLatentNoiseMask",
                   "inputs": { "samples": ["6", 0], "mask": ["7", 0] } },
            "9": { "class_type": "KSampler", "inputs": {
                "model": [model, 0], "positive": ["2", 0], "negative": ["2", 0],
                "latent_image": ["8", 0], "seed": 1, "steps": 3, "cfg": 1.0,
                "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0 } },
            "10": { "class_type": "SaveLatent",
                    "inputs": { "samples": ["9", 0], "filename_prefix": "x" } },
        })
    };
    let mut made = Vec::new();
    for model in ["1", "3"] {
        let mut host = Folders::default().with(Folder::Checkpoints, "m", &sd1());
        run(&mut executor(), &graph(nodes(model)), &mut host);
        made.push(host.latent("10").values);
    }
    assert!(made[0] != made[1], "the mask is taken as it is");
}

/// A clip of 16x8 with frames of 12.5 a second, each brighter than the one before.
fn clip(path: &std::path::Path, brightness: &[u8]) {
    let format = ClipFormat {
        width: 16,
        height: 8,
        n_frames: brightness.len(),
        fps: 12.5,
        text: Vec::new(),
        has_opacity: false,
        audio: None,
        crf: None,
        stop: Stop::never(),
    };
    let mut sink = create_video(path, &format).unwrap();
    for &brightness in brightness {
        let rgb = vec![brightness; 16 * 8 * 3];
        sink.frame(&Picture {
            width: 16,
            height: 8,
            rgb,
        })
        .unwrap();
    }
    sink.finish().unwrap();
}

#[test]
fn clips_are_cut_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip.y4m");
    clip(&path, &[20, 60, 100, 140, 180]);
    let frames = |start: f64, duration: f64, strict: bool| {
        let nodes = json!({
            "1": { "class_type": "LoadVideo", "inputs": { "file": "c" } },
            "2": { "class_type": "Video Slice", "inputs": { "video": ["1", 0],
                   "start_time": start, "duration": duration, "strict_duration": strict } },
            "3": { "class_type": "GetVideoComponents", "inputs": { "video": ["2", 0] } },
            "4": { "class_type": "PreviewImage", "inputs": { "images": ["3", 0] } },
        });
        let mut host = Folders::default().with(Folder::InputVideos, "c", &path);
        let checked = check(&graph(nodes), &host, &Limits::default()).unwrap();
        let cancel = AtomicBool::new(false);
        let mut watch = Watch {
            cancel: &cancel,
            on_event: &mut |_| {},
        };
        let ran = executor().run(&checked, &mut host, &mut watch);
        ran.map_err(|e| e.to_string())?;
        let near = |picture: &Picture| (f32::from(picture.rgb[0]) / 40.0).round() as u8;
        Ok::<_, String>(host.pictures("4").iter().map(near).collect::<Vec<_>>())
    };
    // Frames are 0.08 seconds apart, and 20 and 60 round to 1 and 2.
    assert_eq!(frames(0.0, 0.0, false).unwrap().len(), 5);
    assert_eq!(
        frames(0.08, 0.16, false).unwrap(),
        frames(0.0, 0.0, false).unwrap()[1..3]
    );
    assert_eq!(
        frames(0.09, 0.16, false).unwrap(),
        frames(0.0, 0.0, false).unwrap()[2..4]
    );
    assert_eq!(
        frames(-0.16, 0.0, false).unwrap(),
        frames(0.0, 0.0, false).unwrap()[3..]
    );
    assert_eq!(frames(0.24, 5.0, false).unwrap().len(), 2);
    let told = frames(0.24, 5.0, true).unwrap_err();
    assert!(
        told.contains("of 0.400 seconds has no 5 seconds from 0.24 on"),
        "{told}"
    );
    assert!(frames(3.0, 0.0, false).is_err());
}

#[test]
fn clips_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip.y4m");
    clip(&path, &[16, 128, 235]);
    let nodes = json!({
        "1": { "class_type": "LoadVideo", "inputs": { "file": "c" } },
        "2": { "class_type": "GetVideoComponents", "inputs": { "video": ["1", 0] } },
        "3": { "class_type": "PreviewImage", "inputs": { "images": ["2", 0] } },
        "4": { "class_type": "PreviewAny", "inputs": { "source": ["2", 2] } },
        // What has no sound may be linked where one is optional.
        "5": { "class_type": "CreateVideo",
               "inputs": { "images": ["2", 0], "fps": 8.0, "audio": ["2", 1] } },
        "6": { "class_type": "SaveVideo", "inputs": {
            "video": ["5", 0], "filename_prefix": "x", "format": "auto", "codec": "auto" } },
    });
    let mut host = Folders::default().with(Folder::InputVideos, "c", &path);
    run(&mut executor(), &graph(nodes), &mut host);
    assert_eq!(host.pictures("3").len(), 3);
    assert_eq!(host.pictures("6").len(), 3);
    let told = host
        .made
        .iter()
        .find(|(node, _)| node == "4")
        .map(|(_, made)| made);
    assert!(matches!(told, Some(Made::Texts(texts)) if texts == &["12.5"]));
}
