//! A graph that ends in an upscaler, as gallery workflows do.

use crate::host::{Folders, executor, graph, run};
use nino_engine::media::png;
use nino_engine::{Picture, Stage};
use nino_workflow::{Folder, Progress};
use serde_json::json;
use std::path::Path;

#[test]
fn pictures_of_a_batch_are_made_larger() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("i.png");
    let rgb = (0..12 * 10 * 3).map(|i| (i * 37 % 256) as u8).collect();
    let picture = Picture {
        width: 12,
        height: 10,
        rgb,
    };
    std::fs::write(&file, png(&picture)).unwrap();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/models");
    let mut host = Folders::default()
        .with(Folder::InputImages, "i", &file)
        .with(
            Folder::UpscaleModels,
            "u",
            &models.join("esrgan_x2.safetensors"),
        );
    let nodes = graph(json!({
        "1": { "class_type": "LoadImage", "inputs": { "image": "i" } },
        "2": { "class_type": "UpscaleModelLoader", "inputs": { "model_name": "u" } },
        "3": { "class_type": "ImageUpscaleWithModel", "inputs": {
            "upscale_model": ["2", 0], "image": ["1", 0],
        } },
        "4": { "class_type": "PreviewImage", "inputs": { "images": ["3", 0] } },
    }));
    let mut executor = executor();
    let events = run(&mut executor, &nodes, &mut host);
    let made = host.pictures("4");
    assert_eq!((made.len(), made[0].width, made[0].height), (1, 24, 20));
    let upscaled = events.iter().any(|(node, _, what)| {
        node == "3"
            && matches!(
                what,
                Progress::Engine(nino_engine::Event::Stage(Stage::Upscale))
            )
    });
    assert!(upscaled, "{events:?}");
}
