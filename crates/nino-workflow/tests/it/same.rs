//! Graphs make, byte for byte, what `nino_engine::generate` makes of the same request.

use crate::host::{Folders, checkpoint, executor, graph, run, sd1, store};
use nino_dtype::DType;
use nino_engine::media::write_picture;
use nino_engine::{
    CacheWay, Checkpoint, Control, Fill, GenerateRequest, Hires, HyperTile, Inpaint, LoraSpec,
    Mask, Picture, Resize, SamplerInfo, Scheduler, SelfAttention, Shrink, Start, StepReuse,
    Upscale, generate,
};
use nino_weights::safetensors::{NewTensor, Writer};
use nino_workflow::Folder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const SEED: u64 = 1_234_567_890_123;

fn request(model: &Checkpoint) -> GenerateRequest {
    let mut request = GenerateRequest::new(model, "a red fox, (snow:1.2)");
    "blurry".clone_into(&mut request.negative);
    request.seed.value = SEED;
    (request.width, request.height) = (64, 48);
    (request.steps, request.cfg) = (3, 7.0);
    request.sampler = SamplerInfo::find("dpmpp_2m").unwrap();
    request.scheduler = Scheduler::find("karras").unwrap();
    request
}

fn generated(model: &Checkpoint, request: &GenerateRequest) -> Vec<Picture> {
    let cancel = AtomicBool::new(false);
    let mut control = Control {
        cancel: &cancel,
        on_event: &mut |_| {},
    };
    let made = generate(&store(), model, request, &mut control, &mut |_| Ok(()));
    made.unwrap().pictures
}

/// The nodes of [`request`]; `latent` is what sampling starts from.
fn nodes(latent: &Value, denoise: f64) -> Value {
    json!({
        "1": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "m" } },
        "2": { "class_type": "CLIPTextEncode",
               "inputs": { "text": "a red fox, (snow:1.2)", "clip": ["1", 1] } },
        "3": { "class_type": "CLIPTextEncode", "inputs": { "text": "blurry", "clip": ["1", 1] } },
        "4": latent,
        "5": sampler(["1", "2", "3", "4"], denoise, 3),
        "6": { "class_type": "VAEDecode", "inputs": { "samples": ["5", 0], "vae": ["1", 2] } },
        "7": { "class_type": "SaveImage",
               "inputs": { "images": ["6", 0], "filename_prefix": "x" } },
    })
}

fn sampler([model, positive, negative, latent]: [&str; 4], denoise: f64, steps: u32) -> Value {
    json!({ "class_type": "KSampler", "inputs": {
        "model": [model, 0], "positive": [positive, 0], "negative": [negative, 0],
        "latent_image": [latent, 0], "seed": SEED, "steps": steps, "cfg": 7.0,
        "sampler_name": "dpmpp_2m", "scheduler": "karras", "denoise": denoise,
    } })
}

fn empty(batch: usize) -> Value {
    json!({ "class_type": "EmptyLatentImage",
            "inputs": { "width": 64, "height": 48, "batch_size": batch } })
}

/// The pictures of node 7.
fn ran(nodes: Value, mut host: Folders) -> Vec<Picture> {
    run(&mut executor(), &graph(nodes), &mut host);
    host.pictures("7")
}

fn models(path: &Path) -> Folders {
    Folders::default().with(Folder::Checkpoints, "m", path)
}

/// A picture with a transparent spot, as a file, and what of it is to be painted.
fn picture(folder: &Path) -> (std::path::PathBuf, std::path::PathBuf, Picture, Mask) {
    let (width, height) = (64, 48);
    let rgb = (0..width * height * 3).map(|i| (i * 37 % 251) as u8);
    let picture = Picture {
        width,
        height,
        rgb: rgb.collect(),
    };
    let white = |i: usize| i % width > 20 && i % width < 44 && i / width > 12 && i / width < 40;
    let mask = Mask {
        width,
        height,
        values: (0..width * height)
            .map(|i| f32::from(u8::from(white(i))))
            .collect(),
    };
    let mask_picture = Picture {
        rgb: mask
            .values
            .iter()
            .flat_map(|v| [(v * 255.0) as u8; 3])
            .collect(),
        ..picture.clone()
    };
    let (image_file, mask_file) = (folder.join("i.png"), folder.join("m.png"));
    write_picture(&image_file, &picture, &[]).unwrap();
    write_picture(&mask_file, &mask_picture, &[]).unwrap();
    (image_file, mask_file, picture, mask)
}

#[test]
fn text_to_image_is_the_same() {
    let model = Checkpoint::open(&sd1(), None).unwrap();
    let wanted = GenerateRequest {
        batch: 2,
        ..request(&model)
    };
    let made = ran(nodes(&empty(2), 1.0), models(&sd1()));
    assert_eq!(made.len(), 2);
    assert!(made == generated(&model, &wanted));
}

/// A diffusion model whose weights a loader holds in eight bits.
#[test]
fn weights_of_eight_bits_are_the_same() {
    let model = Checkpoint::open(&sd1(), None).unwrap();
    let plain = generated(&model, &request(&model));
    for (name, dtype) in [
        ("fp8_e4m3fn", DType::F8E4M3),
        ("fp8_e4m3fn_fast", DType::F8E4M3),
        ("fp8_e5m2", DType::F8E5M2),
    ] {
        let held = Checkpoint {
            diffusion: model.diffusion.quantized(dtype),
            ..model.clone()
        };
        let mut nodes = nodes(&empty(1), 1.0);
        nodes["8"] = json!({ "class_type": "UNETLoader",
                             "inputs": { "unet_name": "m", "weight_dtype": name } });
        nodes["5"]["inputs"]["model"] = json!(["8", 0]);
        let host = models(&sd1()).with(Folder::DiffusionModels, "m", &sd1());
        let made = ran(nodes, host);
        assert!(made == generated(&held, &request(&model)), "{name}");
        assert!(made != plain, "{name}");
    }
}

/// Nodes that change a model, and what they are of the engine.
#[test]
fn changed_models_are_the_same() {
    let model = Checkpoint::open(&sd1(), None).unwrap();
    let plain = &model.diffusion;
    let reuse = StepReuse {
        threshold: 3.0,
        percent: (0.0, 1.0),
        ..StepReuse::new(CacheWay::Lazy)
    };
    let shrink = Shrink::new(2, 1.5, false, [Resize::Area, Resize::Bilinear]);
    let tile = HyperTile {
        side: 4,
        max_depth: 1,
        scale_depth: true,
    };
    let looked = SelfAttention {
        scale: 1.5,
        blur: 1.0,
    };
    let unchanged = generated(&model, &request(&model));
    for (class, inputs, diffusion) in [
        (
            "LazyCache",
            json!({ "reuse_threshold": 3.0, "start_percent": 0.0, "end_percent": 1.0,
                    "verbose": false }),
            plain.with_step_reuse(reuse),
        ),
        (
            "PatchModelAddDownscale",
            json!({ "block_number": 2, "downscale_factor": 1.5, "start_percent": 0.0,
                    "end_percent": 0.5, "downscale_after_skip": false,
                    "downscale_method": "area", "upscale_method": "bilinear" }),
            plain.with_shrink(shrink, (0.0, 0.5)),
        ),
        (
            "HyperTile",
            json!({ "tile_size": 9, "swap_size": 1, "max_depth": 1, "scale_depth": true }),
            plain.with_hypertile(tile),
        ),
        (
            "SelfAttentionGuidance",
            json!({ "scale": 1.5, "blur_sigma": 1.0 }),
            plain.with_self_attention(looked),
        ),
    ] {
        let changed = Checkpoint {
            diffusion: diffusion.unwrap(),
            ..model.clone()
        };
        let mut nodes = nodes(&empty(1), 1.0);
        let mut inputs = inputs;
        inputs["model"] = json!(["1", 0]);
        nodes["8"] = json!({ "class_type": class, "inputs": inputs });
        nodes["5"]["inputs"]["model"] = json!(["8", 0]);
        let made = ran(nodes, models(&sd1()));
        assert!(made == generated(&changed, &request(&model)), "{class}");
        assert!(made != unchanged, "{class}");
    }
}

#[test]
fn a_second_pass_is_the_same() {
    let model = Checkpoint::open(&sd1(), None).unwrap();
    let wanted = GenerateRequest {
        hires: Some(Hires {
            width: 128,
            height: 96,
            method: Upscale::Bilinear,
            steps: 2,
            denoise: 0.5,
        }),
        ..request(&model)
    };
    let mut graph = nodes(&empty(1), 1.0);
    graph["8"] = json!({ "class_type": "LatentUpscale", "inputs": {
        "samples": ["5", 0], "upscale_method": "bilinear", "width": 128, "height": 96,
        "crop": "disabled" } });
    graph["9"] = sampler(["1", "2", "3", "8"], 0.5, 2);
    graph["6"]["inputs"]["samples"] = json!(["9", 0]);
    assert!(ran(graph, models(&sd1())) == generated(&model, &wanted));
}

#[test]
fn a_start_picture_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, picture, _) = picture(folder.path());
    let model = Checkpoint::open(&sd1(), None).unwrap();
    let wanted = GenerateRequest {
        start: Start::Picture(picture),
        denoise: 0.6,
        ..request(&model)
    };
    let encode = json!({ "class_type": "VAEEncode",
                         "inputs": { "pixels": ["8", 0], "vae": ["1", 2] } });
    let mut graph = nodes(&encode, 0.6);
    graph["8"] = json!({ "class_type": "LoadImage", "inputs": { "image": "i" } });
    let host = models(&sd1()).with(Folder::InputImages, "i", &file);
    assert!(ran(graph, host) == generated(&model, &wanted));
}

#[test]
fn painting_over_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (file, mask_file, picture, mask) = picture(folder.path());
    let plain = sd1();
    let first = "input_blocks.0.0.weight 32x";
    let nine = checkpoint("tiny_sd1", "workflow_sd1_inpaint", |list| {
        list.replace(&format!("{first}4x"), &format!("{first}9x"))
    });
    let loaded = json!({ "class_type": "LoadImage", "inputs": { "image": "i" } });
    let loaded_mask = json!({ "class_type": "LoadImageMask",
                              "inputs": { "image": "m", "channel": "red" } });
    let host = |path: &Path| {
        models(path).with(Folder::InputImages, "i", &file).with(
            Folder::InputImages,
            "m",
            &mask_file,
        )
    };
    let wanted = |model: &Checkpoint, fill, grow| GenerateRequest {
        start: Start::Picture(picture.clone()),
        inpaint: Some(Inpaint {
            mask: mask.clone(),
            fill,
            grow,
            feather: 0,
            paste: false,
        }),
        ..request(model)
    };
    let with_files = |mut graph: Value| {
        graph["8"] = loaded.clone();
        graph["9"] = loaded_mask.clone();
        graph
    };

    let model = Checkpoint::open(&plain, None).unwrap();
    let gray = json!({ "class_type": "VAEEncodeForInpaint", "inputs": {
        "pixels": ["8", 0], "vae": ["1", 2], "mask": ["9", 0], "grow_mask_by": 6 } });
    let made = ran(with_files(nodes(&gray, 1.0)), host(&plain));
    assert!(made == generated(&model, &wanted(&model, Fill::Gray, 6)));

    let kept = json!({ "class_type": "SetLatentNoiseMask",
                       "inputs": { "samples": ["10", 0], "mask": ["9", 0] } });
    let mut graph = with_files(nodes(&kept, 1.0));
    graph["10"] = json!({ "class_type": "VAEEncode",
                          "inputs": { "pixels": ["8", 0], "vae": ["1", 2] } });
    let made = ran(graph, host(&plain));
    assert!(made == generated(&model, &wanted(&model, Fill::Keep, 0)));

    let model = Checkpoint::open(&nine, None).unwrap();
    let mut graph = with_files(nodes(&Value::Null, 1.0));
    graph["4"] = json!({ "class_type": "InpaintModelConditioning", "inputs": {
        "positive": ["2", 0], "negative": ["3", 0], "vae": ["1", 2], "pixels": ["8", 0],
        "mask": ["9", 0], "noise_mask": true } });
    graph["5"]["inputs"]["positive"] = json!(["4", 0]);
    graph["5"]["inputs"]["negative"] = json!(["4", 1]);
    graph["5"]["inputs"]["latent_image"] = json!(["4", 2]);
    let made = ran(graph, host(&nine));
    assert!(made == generated(&model, &wanted(&model, Fill::Keep, 0)));
}

/// A LoRA of rank 2 on one layer of the diffusion model and one of the text encoder.
fn write_lora(path: &Path) {
    let layers = [
        (
            "lora_unet_mid_block_attentions_0_transformer_blocks_0_attn1_to_q",
            64,
        ),
        ("lora_te_text_model_encoder_layers_0_self_attn_q_proj", 768),
    ];
    let tensors: Vec<NewTensor> = layers
        .iter()
        .flat_map(|(name, width)| {
            let tensor = |part: &str, shape: [usize; 2]| NewTensor {
                name: format!("{name}.lora_{part}.weight"),
                dtype: DType::F32,
                shape: shape.to_vec(),
            };
            [tensor("down", [2, *width]), tensor("up", [*width, 2])]
        })
        .collect();
    let mut writer = Writer::create(path, &tensors, &BTreeMap::new()).unwrap();
    for tensor in &tensors {
        let n: usize = tensor.shape.iter().product();
        let values = (0..n).map(|i| ((i * 7 % 13) as f32 - 6.0) * 0.05);
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        writer.write(&bytes).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn a_lora_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lora.safetensors");
    write_lora(&file);
    let model = Checkpoint::open(&sd1(), None).unwrap();
    let spec = LoraSpec {
        path: file.clone(),
        unet: 0.8,
        clip: 0.5,
    };
    let (with_lora, applied) = model.with_lora(&spec).unwrap();
    assert_eq!((applied.updates, applied.unmatched.len()), (2, 0));
    let mut graph = nodes(&empty(1), 1.0);
    graph["8"] = json!({ "class_type": "LoraLoader", "inputs": {
        "model": ["1", 0], "clip": ["1", 1], "lora_name": "l",
        "strength_model": 0.8, "strength_clip": 0.5 } });
    for (node, input, slot) in [("2", "clip", 1), ("3", "clip", 1), ("5", "model", 0)] {
        graph[node]["inputs"][input] = json!(["8", slot]);
    }
    let host = models(&sd1()).with(Folder::Loras, "l", &file);
    let made = ran(graph, host);
    assert!(made == generated(&with_lora, &request(&with_lora)));
    assert!(
        made != ran(nodes(&empty(1), 1.0), models(&sd1())),
        "the LoRA changes nothing"
    );
}

#[test]
fn custom_sampling_is_the_same() {
    let mut graph = nodes(&empty(1), 1.0);
    graph["5"] = json!({ "class_type": "SamplerCustomAdvanced", "inputs": {
        "noise": ["10", 0], "guider": ["11", 0], "sampler": ["12", 0], "sigmas": ["13", 0],
        "latent_image": ["4", 0] } });
    graph["10"] = json!({ "class_type": "RandomNoise", "inputs": { "noise_seed": SEED } });
    graph["11"] = json!({ "class_type": "CFGGuider", "inputs": {
        "model": ["1", 0], "positive": ["2", 0], "negative": ["3", 0], "cfg": 7.0 } });
    graph["12"] =
        json!({ "class_type": "KSamplerSelect", "inputs": { "sampler_name": "dpmpp_2m" } });
    graph["13"] = json!({ "class_type": "BasicScheduler", "inputs": {
        "model": ["1", 0], "scheduler": "karras", "steps": 3, "denoise": 1.0 } });
    let model = Checkpoint::open(&sd1(), None).unwrap();
    let wanted = generated(&model, &request(&model));
    assert!(ran(graph.clone(), models(&sd1())) == wanted);
    // In two parts, the second of which adds no noise.
    graph["14"] = json!({ "class_type": "SplitSigmas",
                          "inputs": { "sigmas": ["13", 0], "step": 2 } });
    graph["15"] = json!({ "class_type": "DisableNoise", "inputs": {} });
    graph["16"] = graph["5"].clone();
    graph["5"]["inputs"]["sigmas"] = json!(["14", 0]);
    graph["16"]["inputs"]["sigmas"] = json!(["14", 1]);
    graph["16"]["inputs"]["noise"] = json!(["15", 0]);
    graph["16"]["inputs"]["latent_image"] = json!(["5", 0]);
    graph["6"]["inputs"]["samples"] = json!(["16", 0]);
    graph["12"]["inputs"]["sampler_name"] = json!("euler");
    let made = ran(graph, models(&sd1()));
    let euler = GenerateRequest {
        sampler: SamplerInfo::find("euler").unwrap(),
        ..request(&model)
    };
    let wanted = generated(&model, &euler);
    let far = made[0]
        .rgb
        .iter()
        .zip(&wanted[0].rgb)
        .filter(|(a, b)| a.abs_diff(**b) > 2);
    assert_eq!(far.count(), 0, "two parts are one run up to rounding");
}
