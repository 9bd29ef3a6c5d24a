//! ComfyUI's graph of a request says what the request says, and can be run.

use super::*;
use crate::args::{Cli, Verb};
use crate::env::Env;
use crate::generate::{from, request};
use crate::settings::Settings;
use clap::Parser;
use nino_engine::media::write_picture;
use nino_engine::{Blend, Picture};
use nino_workflow::{Folder, Host, HostError, Limits, Output, check};
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;

/// Flags given, and values of nodes: class, input, and what it is. A class of several nodes has the
/// values of all of them, in their order.
type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str, &'a str)]);

/// Finds every file.
struct Anything;

impl Host for Anything {
    fn find(&self, _: Folder, name: &str) -> Result<PathBuf, HostError> {
        Ok(PathBuf::from(name))
    }

    fn list(&self, _: Folder) -> Option<Vec<String>> {
        None
    }

    fn embeddings(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn output(&mut self, _: &Output<'_>) -> Result<Value, HostError> {
        Ok(Value::Null)
    }
}

/// The values of an input in all nodes of a class, in the order of the nodes.
fn values(graph: &nino_workflow::Graph, class: &str, input: &str) -> String {
    let nodes = graph
        .iter()
        .filter(|(_, node)| node.class.as_deref() == Some(class));
    let found = nodes.filter_map(|(_, node)| node.value(input));
    let texts = found.map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
    texts.collect::<Vec<_>>().join("|")
}

#[test]
fn the_graph_of_a_request_says_what_the_request_says() {
    let dir = tempfile::tempdir().unwrap();
    let picture = Picture {
        width: 64,
        height: 64,
        rgb: vec![200; 64 * 64 * 3],
    };
    let file = |name: &str| {
        let path = dir.path().join(name);
        write_picture(&path, &picture, &[]).unwrap();
        path.to_string_lossy().into_owned()
    };
    let (image, mask) = (file("i.png"), file("m.png"));
    let plain = nino_engine::Checkpoint::spec("sd15").unwrap();
    let editing = nino_engine::Checkpoint::spec("sd15-edit").unwrap();
    let cases: &[Case] = &[
        (
            &[
                "--lora",
                "a.safetensors:0.8:0.5",
                "--lora",
                "b.safetensors",
                "--cfg-rescale",
                "0.7",
                "--batch",
                "3",
            ],
            &[
                ("LoraLoader", "lora_name", "a.safetensors|b.safetensors"),
                ("LoraLoader", "strength_model", "0.8|1.0"),
                ("LoraLoader", "strength_clip", "0.5|1.0"),
                ("RescaleCFG", "multiplier", "0.7"),
                ("EmptyLatentImage", "batch_size", "3"),
                ("EmptyLatentImage", "width", "512"),
                ("EmptyLatentImage", "height", "512"),
            ],
        ),
        (
            &["--clip", "l.safetensors", "--vae", "v.safetensors"],
            &[
                ("CLIPLoader", "clip_name", "l.safetensors"),
                ("VAELoader", "vae_name", "v.safetensors"),
            ],
        ),
        (
            &["--image", &image, "--strength", "0.6", "--batch", "2"],
            &[
                ("LoadImage", "image", "i.png"),
                ("KSampler", "denoise", "0.6"),
                ("RepeatLatentBatch", "amount", "2"),
                ("EmptyLatentImage", "width", ""),
            ],
        ),
        (
            &[
                "--image",
                &image,
                "--mask",
                &mask,
                "--mask-grow",
                "4",
                "--size",
                "128x64",
            ],
            &[
                ("LoadImageMask", "image", "m.png"),
                ("GrowMask", "expand", "4"),
                ("VAEEncodeForInpaint", "grow_mask_by", ""),
                ("ImageScale", "width", "128"),
                ("ImageScale", "height", "64"),
            ],
        ),
        (
            &["--image", &image, "--mask", &mask, "--mask-fill", "gray"],
            &[
                ("LoadImageMask", "image", "m.png"),
                ("VAEEncodeForInpaint", "grow_mask_by", "6"),
            ],
        ),
        (
            &[
                "--image",
                &image,
                "--outpaint",
                "16,0,32,8",
                "--outpaint-feather",
                "4",
            ],
            &[
                ("ImagePadForOutpaint", "left", "16"),
                ("ImagePadForOutpaint", "right", "32"),
                ("ImagePadForOutpaint", "bottom", "8"),
                ("ImagePadForOutpaint", "feathering", "4"),
                ("LoadImageMask", "image", ""),
            ],
        ),
        (
            &[
                "--hires",
                "2x",
                "--hires-denoise",
                "0.4",
                "--hires-steps",
                "7",
            ],
            &[
                ("LatentUpscale", "width", "1024"),
                ("LatentUpscale", "height", "1024"),
                ("LatentUpscale", "upscale_method", "nearest-exact"),
                ("KSampler", "denoise", "1.0|0.4"),
                ("KSampler", "steps", "20|7"),
            ],
        ),
        (
            &[
                "--start-at-step",
                "2",
                "--end-at-step",
                "9",
                "--return-with-leftover-noise",
            ],
            &[
                ("KSamplerAdvanced", "start_at_step", "2"),
                ("KSamplerAdvanced", "end_at_step", "9"),
                ("KSamplerAdvanced", "return_with_leftover_noise", "enable"),
            ],
        ),
        (
            &["--prediction", "v", "--zsnr"],
            &[
                ("ModelSamplingDiscrete", "sampling", "v_prediction"),
                ("ModelSamplingDiscrete", "zsnr", "true"),
            ],
        ),
        (
            &["--zero-negative", "--rng", "philox"],
            &[("KSampler", "nino_rng", "philox")],
        ),
        (
            &[
                "--original-size",
                "640x480",
                "--crop",
                "8,16",
                "--target-size",
                "512x512",
            ],
            &[
                ("CLIPTextEncodeSDXL", "text_g", "a fox|n"),
                ("CLIPTextEncodeSDXL", "height", "480|480"),
                ("CLIPTextEncodeSDXL", "crop_w", "8|8"),
                ("CLIPTextEncodeSDXL", "target_width", "512|512"),
            ],
        ),
        (
            &["--step-cache", "easy:0.3"],
            &[
                ("EasyCache", "reuse_threshold", "0.3"),
                ("EasyCache", "start_percent", "0.15"),
                ("EasyCache", "end_percent", "0.95"),
            ],
        ),
        (
            &["--prediction", "lcm", "--cfg-rescale", "0.7"],
            &[
                ("ModelSamplingDiscrete", "sampling", "lcm"),
                ("RescaleCFG", "multiplier", "0.7"),
            ],
        ),
        (
            &["--model", "sd15-edit", "--image", &image, "--batch", "2"],
            &[
                ("CheckpointLoaderSimple", "ckpt_name", "sd15-edit"),
                ("LoadImage", "image", "i.png"),
                ("KSampler", "denoise", "1.0"),
                ("RepeatLatentBatch", "amount", "2"),
            ],
        ),
    ];
    for (args, wanted) in cases {
        let line = [
            "nino",
            "generate",
            "a fox",
            "--seed",
            "7",
            "--negative",
            "n",
        ];
        let line: Vec<OsString> = line.iter().chain(*args).map(OsString::from).collect();
        let Verb::Generate(args) = Cli::try_parse_from(&line).unwrap().verb else {
            panic!()
        };
        let edits = line.iter().any(|arg| arg == "sd15-edit");
        let mut model = if edits {
            editing.clone()
        } else {
            plain.clone()
        };
        model.diffusion.blend = Blend::rescaled(args.sampling.cfg_rescale as f32);
        if let Some(reuse) = args.sampling.step_cache {
            model.diffusion = model.diffusion.with_step_reuse(reuse.0).unwrap();
        }
        let model = &model;
        let request = request::request(
            &args,
            &args.prompt(),
            model,
            &Settings::default(),
            &Env::default(),
        )
        .unwrap();
        let flags = from::Flags::given(&line).unwrap();
        let origin = Origin {
            flags: &flags,
            files: &args.model,
            loras: &args.model.lora,
            model,
            model_hash: None,
            device: "cpu",
            clip_skip: request.clip_skip,
        };
        let json = graph::graph(&request, &origin).to_json();
        let found = nino_workflow::Graph::from_value(json, &Limits::default()).unwrap();
        let checked = check(&found, &Anything, &Limits::default());
        let checked = checked.unwrap_or_else(|error| panic!("{line:?}: {error}"));
        assert_eq!(checked.outputs.len(), 1, "{line:?}");
        let seed = if request.window.is_some() {
            "noise_seed"
        } else {
            "seed"
        };
        let sampler = if request.window.is_some() {
            "KSamplerAdvanced"
        } else {
            "KSampler"
        };
        let seeds = if request.hires.is_some() { "7|7" } else { "7" };
        let sized = request.size_hint != nino_engine::SizeHint::default();
        let texts = if sized { "" } else { "a fox|n" };
        let base = [("CLIPTextEncode", "text", texts), (sampler, seed, seeds)];
        let zeroed = found
            .iter()
            .filter(|(_, node)| node.class.as_deref() == Some("ConditioningZeroOut"));
        assert_eq!(zeroed.count(), usize::from(args.zero_negative));
        for (class, input, value) in base.iter().chain(*wanted) {
            let all = values(&found, class, input);
            assert_eq!(all, *value, "{class}.{input} of {line:?}");
        }
    }
}
