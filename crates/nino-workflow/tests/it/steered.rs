//! ControlNets in graphs: the same pictures as `nino_engine::generate` makes with the same hints.

use crate::host::{Folders, checkpoint, executor, graph, run, sd1, store};
use nino_engine::media::{canny, write_picture};
use nino_engine::{
    Checkpoint, Control, ControlNetFile, GenerateRequest, Hint, HintImage, Image, Picture,
    SamplerInfo, Scheduler, generate,
};
use nino_workflow::Folder;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SIDE: usize = 64;

fn net() -> PathBuf {
    checkpoint("control_sd1", "workflow_control_sd1", |list| list)
}

/// A picture with edges, as a file.
fn picture(folder: &Path) -> (PathBuf, Picture) {
    let bright = |i: usize| (i % SIDE).abs_diff(32) < 14 && (i / SIDE).abs_diff(30) < 18;
    let rgb = (0..SIDE * SIDE).flat_map(|i| [if bright(i) { 230 } else { 20 }; 3]);
    let picture = Picture {
        width: SIDE,
        height: SIDE,
        rgb: rgb.collect(),
    };
    let path = folder.join("edges.png");
    write_picture(&path, &picture, &[]).unwrap();
    (path, picture)
}

/// A graph whose sampler takes its prompts from nodes of these ids.
fn nodes(positive: [&str; 2], negative: [&str; 2]) -> Value {
    let link = |[node, slot]: [&str; 2]| json!([node, slot.parse::<usize>().unwrap()]);
    json!({
        "1": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "m" } },
        "2": { "class_type": "CLIPTextEncode", "inputs": { "text": "a house", "clip": ["1", 1] } },
        "3": { "class_type": "CLIPTextEncode", "inputs": { "text": "fog", "clip": ["1", 1] } },
        "4": { "class_type": "EmptyLatentImage",
               "inputs": { "width": SIDE, "height": SIDE, "batch_size": 1 } },
        "5": { "class_type": "KSampler", "inputs": {
            "model": ["1", 0], "positive": link(positive), "negative": link(negative),
            "latent_image": ["4", 0], "seed": 11, "steps": 3, "cfg": 6.0,
            "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0 } },
        "6": { "class_type": "VAEDecode", "inputs": { "samples": ["5", 0], "vae": ["1", 2] } },
        "7": { "class_type": "SaveImage",
               "inputs": { "images": ["6", 0], "filename_prefix": "x" } },
        "8": { "class_type": "LoadImage", "inputs": { "image": "i" } },
        "9": { "class_type": "ControlNetLoader", "inputs": { "control_net_name": "c" } },
    })
}

fn ran(nodes: Value, image: &Path) -> Vec<Picture> {
    let mut host = Folders::default()
        .with(Folder::Checkpoints, "m", &sd1())
        .with(Folder::ControlNets, "c", &net())
        .with(Folder::InputImages, "i", image);
    run(&mut executor(), &graph(nodes), &mut host);
    host.pictures("7")
}

fn generated(hints: Vec<Hint>) -> Vec<Picture> {
    let model = Checkpoint::open(&sd1(), None).unwrap();
    let mut request = GenerateRequest::new(&model, "a house");
    "fog".clone_into(&mut request.negative);
    request.seed.value = 11;
    (request.width, request.height) = (SIDE, SIDE);
    (request.steps, request.cfg) = (3, 6.0);
    request.sampler = SamplerInfo::find("euler").unwrap();
    request.scheduler = Scheduler::find("normal").unwrap();
    request.hints = hints.into_iter().map(Arc::new).collect();
    let cancel = AtomicBool::new(false);
    let mut control = Control {
        cancel: &cancel,
        on_event: &mut |_| {},
    };
    let made = generate(&store(), &model, &request, &mut control, &mut |_| Ok(()));
    made.unwrap().pictures
}

fn hint(image: Image, strength: f32, percent: (f64, f64)) -> Hint {
    Hint {
        net: ControlNetFile::open(&net()).unwrap(),
        seen: HintImage::Pixels {
            images: Arc::new(vec![image]),
            vae: None,
            paint: None,
        },
        strength,
        percent,
        both_sides: false,
    }
}

#[test]
fn a_control_net_steers_as_it_does_without_a_graph() {
    let folder = tempfile::tempdir().unwrap();
    let (path, picture) = picture(folder.path());
    let mut steered = nodes(["10", "0"], ["10", "1"]);
    steered["10"] = json!({ "class_type": "ControlNetApplyAdvanced", "inputs": {
        "positive": ["2", 0], "negative": ["3", 0], "control_net": ["9", 0], "image": ["8", 0],
        "strength": 0.8, "start_percent": 0.1, "end_percent": 0.9 } });
    let found = ran(steered, &path);
    let image = Image::from(&picture);
    assert!(found == generated(vec![hint(image, 0.8, (0.1, 0.9))]));
    let plain = ran(nodes(["2", "0"], ["3", "0"]), &path);
    assert!(plain == generated(Vec::new()));
    assert!(found != plain, "it does not steer");
}

#[test]
fn edges_steer_one_prompt_and_both() {
    let folder = tempfile::tempdir().unwrap();
    let (path, picture) = picture(folder.path());
    let mut steered = nodes(["11", "0"], ["3", "0"]);
    steered["10"] = json!({ "class_type": "Canny", "inputs": {
        "image": ["8", 0], "low_threshold": 0.2, "high_threshold": 0.6 } });
    steered["11"] = json!({ "class_type": "ControlNetApply", "inputs": {
        "conditioning": ["2", 0], "control_net": ["9", 0], "image": ["10", 0], "strength": 1.0 } });
    let image = Image::from(&picture);
    let edges = canny(&image.values, SIDE, SIDE, 0.2, 0.6);
    assert!(edges.iter().any(|&v| v > 0.0), "no edge was found");
    let edges = Image {
        values: edges.into_iter().flat_map(|v| [v; 3]).collect(),
        ..image
    };
    // The old node steers the other side, too, as ComfyUI's does.
    let wanted = Hint {
        both_sides: true,
        ..hint(edges, 1.0, (0.0, 1.0))
    };
    let model = ran(steered.clone(), &path);
    assert!(model == generated(vec![wanted]));
    steered["11"]["inputs"]["strength"] = json!(0.0);
    assert!(ran(steered, &path) == generated(Vec::new()));
}

/// A graph of a model without a negative prompt, with a mask over the middle of the picture.
fn painting(model: &Path, net: (Folder, &Path), image: &Path, nodes: &Value) -> Vec<Picture> {
    let mut all = json!({
        "1": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "m" } },
        "2": { "class_type": "CLIPTextEncode", "inputs": { "text": "a house", "clip": ["1", 1] } },
        "4": { "class_type": "EmptyLatentImage",
               "inputs": { "width": SIDE, "height": SIDE, "batch_size": 1 } },
        "5": { "class_type": "KSampler", "inputs": {
            "model": ["1", 0], "positive": ["2", 0], "negative": ["2", 0],
            "latent_image": ["4", 0], "seed": 11, "steps": 2, "cfg": 1.0,
            "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0 } },
        "6": { "class_type": "VAEDecode", "inputs": { "samples": ["5", 0], "vae": ["1", 2] } },
        "7": { "class_type": "SaveImage",
               "inputs": { "images": ["6", 0], "filename_prefix": "x" } },
        "8": { "class_type": "LoadImage", "inputs": { "image": "i" } },
        "9": { "class_type": "ImageToMask", "inputs": { "image": ["8", 0], "channel": "red" } },
    });
    for (id, node) in nodes.as_object().unwrap() {
        all[id] = node.clone();
    }
    if nodes["10"]["class_type"] == "ControlNetLoader" {
        all["5"]["inputs"]["positive"] = json!(["11", 0]);
    } else if nodes["11"].is_object() {
        all["5"]["inputs"]["model"] = json!(["11", 0]);
    }
    let mut host = Folders::default()
        .with(Folder::Checkpoints, "m", model)
        .with(net.0, "c", net.1)
        .with(Folder::InputImages, "i", image);
    run(&mut executor(), &graph(all), &mut host);
    host.pictures("7")
}

#[test]
fn networks_for_inpainting_are_told_what_to_paint() {
    let folder = tempfile::tempdir().unwrap();
    let (image, _) = picture(folder.path());
    let flux = checkpoint("tiny_flux", "workflow_flux", |list| list);
    let alimama = checkpoint("control_union", "workflow_alimama", |list| {
        let name = "controlnet_x_embedder.weight 256x";
        let list = list.replace(&format!("{name}64"), &format!("{name}68"));
        let lines = list.lines().filter(|line| !line.contains("mode_embedder"));
        lines.collect::<Vec<_>>().join("\n")
    });
    let mut nodes = json!({
        "10": { "class_type": "ControlNetLoader", "inputs": { "control_net_name": "c" } },
        "11": { "class_type": "ControlNetInpaintingAliMamaApply", "inputs": {
            "positive": ["2", 0], "negative": ["2", 0], "control_net": ["10", 0],
            "vae": ["1", 2], "image": ["8", 0], "mask": ["9", 0], "strength": 1.0,
            "start_percent": 0.0, "end_percent": 1.0 } },
    });
    let net = (Folder::ControlNets, &*alimama);
    let masked = painting(&flux, net, &image, &nodes);
    nodes["11"]["class_type"] = json!("ControlNetApplySD3");
    nodes["11"]["inputs"]
        .as_object_mut()
        .unwrap()
        .remove("mask");
    let whole = painting(&flux, net, &image, &nodes);
    assert!(
        masked.len() == 1 && masked != whole,
        "the mask does nothing"
    );

    let z_image = checkpoint("tiny_z_image", "workflow_z_deep", |list| {
        let layers = "diffusion_model.layers.";
        list.replace(&format!("{layers}{{0-1}}."), &format!("{layers}{{0-29}}."))
    });
    let patch = checkpoint("control_z_second", "workflow_z_second", |list| list);
    let net = (Folder::ModelPatches, &*patch);
    let with = |given: Value| {
        let mut inputs = json!({
            "model": ["1", 0], "model_patch": ["10", 0], "vae": ["1", 2], "strength": 1.0,
        });
        for (input, value) in given.as_object().unwrap() {
            inputs[input] = value.clone();
        }
        let nodes = json!({
            "10": { "class_type": "ModelPatchLoader", "inputs": { "name": "c" } },
            "11": { "class_type": "ZImageFunControlnet", "inputs": inputs },
        });
        painting(&z_image, net, &image, &nodes)
    };
    let steered = with(json!({ "image": ["8", 0] }));
    let under = with(json!({ "inpaint_image": ["8", 0] }));
    let masked = with(json!({ "inpaint_image": ["8", 0], "mask": ["9", 0] }));
    assert!(steered.len() == 1 && steered != under && under != masked);

    let anima = checkpoint("tiny_anima", "workflow_anima", |list| list);
    let lllite = checkpoint("control_lllite", "workflow_lllite", |list| {
        let name = "lllite_conditioning1.conv1.weight 12x";
        list.replace(&format!("{name}3x"), &format!("{name}4x"))
    });
    let with = |given: Value| {
        let mut inputs = json!({
            "model": ["1", 0], "model_patch": ["10", 0], "image": ["8", 0], "strength": 1.0,
            "start_percent": 0.0, "end_percent": 1.0,
        });
        for (input, value) in given.as_object().unwrap() {
            inputs[input] = value.clone();
        }
        let nodes = json!({
            "10": { "class_type": "ModelPatchLoader", "inputs": { "name": "c" } },
            "11": { "class_type": "AnimaLLLiteApply", "inputs": inputs },
        });
        painting(&anima, (Folder::ModelPatches, &lllite), &image, &nodes)
    };
    let steered = with(json!({}));
    let masked = with(json!({ "mask": ["9", 0] }));
    let first = with(json!({ "end_percent": 0.2 }));
    assert!(steered.len() == 1 && steered != masked && steered != first);
}
