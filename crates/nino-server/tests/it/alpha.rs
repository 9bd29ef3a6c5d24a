//! Pictures with transparency, from the graph to what a page is shown.

use crate::client::start;
use nino_engine::media::{Limits, load_with_alpha};
use serde_json::json;

#[test]
fn transparency_is_kept_in_files_and_previews() {
    let server = start();
    let nodes = json!({
        "1": { "class_type": "EmptyImage",
               "inputs": { "width": 8, "height": 8, "batch_size": 1, "color": 0x40_80C0 } },
        "2": { "class_type": "SolidMask", "inputs": { "value": 0.25, "width": 8, "height": 8 } },
        "3": { "class_type": "JoinImageWithAlpha",
               "inputs": { "image": ["1", 0], "alpha": ["2", 0] } },
        "4": { "class_type": "SaveImage",
               "inputs": { "images": ["3", 0], "filename_prefix": "clear" } },
        "5": { "class_type": "SaveAnimatedWEBP", "inputs": {
            "images": ["3", 0], "filename_prefix": "moving", "fps": 6.0, "lossless": true,
            "quality": 80, "method": "default" } },
    });
    let entry = server.wait(&server.prompt(&nodes, "a"));
    assert_eq!(entry["status"]["status_str"], "success", "{entry}");
    let folder = tempfile::tempdir().unwrap();
    let opaque = |query: &str, extension: &str| {
        let answer = server.get(&format!("/view?{query}"));
        assert_eq!(answer.status, 200, "{query}");
        let path = folder.path().join(format!("x.{extension}"));
        std::fs::write(&path, &answer.bytes).unwrap();
        let (picture, clear) = load_with_alpha(&path, &Limits::default()).unwrap();
        assert_eq!(picture.rgb.len(), 8 * 8 * 3, "{query}");
        clear.map(|clear| ((1.0 - clear.values[9]) * 255.0).round() as u8)
    };
    // 0.75 of 255, cut off as ComfyUI does it.
    let file = "filename=clear_00001_.png";
    assert_eq!(opaque(file, "png"), Some(191));
    assert_eq!(
        opaque(&format!("{file}&preview=webp;90"), "webp"),
        Some(191)
    );
    assert_eq!(opaque("filename=moving_00001_.webp", "webp"), Some(191));
    // What cannot keep it, or is not to.
    assert_eq!(opaque(&format!("{file}&preview=jpeg;90"), "jpg"), None);
    assert_eq!(
        opaque(&format!("{file}&preview=webp;90&channel=rgb"), "webp"),
        None
    );
    // A node that would lose it says so.
    let mut nodes = nodes;
    nodes["4"] = json!({ "class_type": "ImageInvert", "inputs": { "image": ["3", 0] } });
    nodes["5"] = json!({ "class_type": "PreviewImage", "inputs": { "images": ["4", 0] } });
    let refused = server.post("/prompt", &json!({ "prompt": nodes }));
    let told = String::from_utf8_lossy(&refused.bytes).into_owned();
    let told = match refused.status {
        200 => server
            .wait(refused.json()["prompt_id"].as_str().unwrap())
            .to_string(),
        _ => told,
    };
    assert!(told.contains("SplitImageWithAlpha"), "{told}");
}
