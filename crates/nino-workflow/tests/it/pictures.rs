//! Nodes of pictures, masks and latents make what ComfyUI's make: `goldens/nodes/pictures.py`.

use crate::host::{Folders, executor, graph, run};
use nino_engine::media::{PictureOptions, png, write_picture_with};
use nino_engine::{Latent, Picture};
use nino_weights::TensorReader;
use nino_workflow::{Folder, Made};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Rounding of sums in another order.
const LIMIT: f32 = 3e-6;
/// The same of colors that go through CIELAB, in f32 in ComfyUI.
const LAB_LIMIT: f32 = 2e-5;

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/nodes")
}

fn tensor(golden: &TensorReader, name: &str) -> (Vec<usize>, Vec<f32>) {
    let entry = golden.entry(name).unwrap();
    let mut values = vec![0.0; entry.n_values()];
    golden.read_f32(entry, &mut values).unwrap();
    (entry.shape.clone(), values)
}

/// Files that the graphs load.
fn host(golden: &TensorReader, folder: &Path) -> Folders {
    let mut host = Folders::default();
    for name in ["a", "b"] {
        let (shape, values) = tensor(golden, &format!("in.{name}"));
        let picture = Picture {
            width: shape[1],
            height: shape[0],
            rgb: values.iter().map(|&v| v as u8).collect(),
        };
        let file = folder.join(format!("{name}.png"));
        std::fs::write(&file, png(&picture)).unwrap();
        host = host.with(Folder::InputImages, &format!("{name}.png"), &file);
    }
    let (shape, values) = tensor(golden, "in.c");
    let bytes: Vec<u8> = values.iter().map(|&v| v as u8).collect();
    let painted = Picture {
        width: shape[1],
        height: shape[0],
        rgb: bytes.chunks(4).flat_map(|p| &p[..3]).copied().collect(),
    };
    let opacity: Vec<u8> = bytes.chunks(4).map(|p| p[3]).collect();
    let options = PictureOptions {
        opacity: Some(&opacity),
        ..PictureOptions::default()
    };
    let file = folder.join("c.png");
    write_picture_with(&file, &painted, &options).unwrap();
    host = host.with(Folder::InputImages, "c.png", &file);
    for name in ["x", "y", "v"] {
        let (shape, values) = tensor(golden, &format!("in.{name}"));
        let is_video = shape.len() == 5;
        let [height, width, channels] = *shape.last_chunk().unwrap();
        let latent = Latent {
            batch: shape[0],
            frames: if is_video { shape[1] } else { 1 },
            height,
            width,
            channels,
            values,
            is_video,
            format: None,
        };
        let file = folder.join(format!("{name}.latent"));
        latent.save(&file, &BTreeMap::new()).unwrap();
        host = host.with(Folder::InputLatents, &format!("{name}.latent"), &file);
    }
    host
}

/// What the last node of a graph gives, and its shape.
fn made(nodes: &Value, host: &mut Folders) -> (Vec<usize>, Vec<f32>) {
    let mut nodes = nodes.clone();
    let count = nodes
        .as_object()
        .unwrap()
        .keys()
        .filter(|k| k.parse::<usize>().is_ok());
    let last = count.count().to_string();
    let class = nodes[&last]["class_type"].as_str().unwrap().to_owned();
    let output = nino_workflow::nodes::find(&class).unwrap().outputs[0].socket;
    let shown = match output.name() {
        "LATENT" => json!({ "class_type": "SaveLatent", "inputs": {
            "samples": [last, 0], "filename_prefix": "x",
        } }),
        "MASK" => {
            let image = json!({ "class_type": "MaskToImage", "inputs": { "mask": [last, 0] } });
            nodes["image"] = image;
            json!({ "class_type": "PreviewImage", "inputs": { "images": ["image", 0] } })
        }
        _ => json!({ "class_type": "PreviewImage", "inputs": { "images": [last, 0] } }),
    };
    nodes["end"] = shown;
    host.made.clear();
    run(&mut executor(), &graph(nodes), host);
    match host.made.pop().unwrap().1 {
        Made::Latent(latents) => {
            let latent = &latents.latent;
            let mut shape = vec![latent.batch, latent.height, latent.width, latent.channels];
            if latent.is_video {
                shape.insert(1, latent.frames);
            }
            (shape, latent.values.clone())
        }
        Made::Previews(images) => {
            let step = if output.name() == "MASK" { 3 } else { 1 };
            let values = images
                .iter()
                .flat_map(|i| i.values.iter().step_by(step).copied());
            let mut shape = vec![images.len(), images[0].height, images[0].width];
            shape.extend((step == 1).then_some(3));
            (shape, values.collect())
        }
        _ => panic!("{class}"),
    }
}

#[test]
fn nodes_make_what_comfyuis_make() {
    let golden = nino_weights::open(goldens().join("pictures.safetensors")).unwrap();
    let graphs = std::fs::read_to_string(goldens().join("pictures.json")).unwrap();
    let graphs: BTreeMap<String, Value> = serde_json::from_str(&graphs).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut host = host(&golden, folder.path());
    let mut wrong = Vec::new();
    for (name, nodes) in &graphs {
        let (shape, found) = made(nodes, &mut host);
        let (wanted_shape, wanted) = tensor(&golden, &format!("out.{name}"));
        if shape != wanted_shape {
            wrong.push(format!("{name}: {shape:?} for {wanted_shape:?}"));
            continue;
        }
        let differences = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs());
        let worst = differences.fold(0.0, f32::max);
        let limit = match name.split_once('_') {
            _ if name.contains("histogram") => LIMIT,
            Some(("color", _)) => LAB_LIMIT,
            // Latents are larger than colors.
            Some(("latent", "sharpen")) => 2.0 * LIMIT,
            _ => LIMIT,
        };
        if worst > limit {
            wrong.push(format!("{name}: {worst}"));
        }
    }
    assert!(graphs.len() > 100, "{}", graphs.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
