//! ComfyUI's graph of a request gives back the request's flags.

use super::*;
use crate::args::{Cli, Verb};
use crate::env::Env;
use crate::generate::{from_png, request};
use crate::settings::Settings;
use clap::Parser;
use nino_engine::Picture;
use nino_engine::media::write_picture;
use std::ffi::OsString;

/// Flags given, and what they are when read back.
type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);

#[test]
fn the_graph_of_a_request_gives_its_flags_back() {
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
                ("lora", "a.safetensors:0.8:0.5|b.safetensors:1.0:1.0"),
                ("cfg-rescale", "0.7"),
                ("batch", "3"),
                ("size", "512x512"),
            ],
        ),
        (
            &["--clip", "l.safetensors", "--vae", "v.safetensors"],
            &[("clip", "l.safetensors"), ("vae", "v.safetensors")],
        ),
        (
            &["--image", &image, "--strength", "0.6", "--batch", "2"],
            &[
                ("image", "i.png"),
                ("denoise", "0.6"),
                ("batch", "2"),
                ("size", ""),
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
                ("mask", "m.png"),
                ("mask-grow", "4"),
                ("mask-fill", ""),
                ("size", "128x64"),
            ],
        ),
        (
            &["--image", &image, "--mask", &mask, "--mask-fill", "gray"],
            &[("mask", "m.png"), ("mask-grow", "6"), ("mask-fill", "gray")],
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
                ("outpaint", "16,0,32,8"),
                ("outpaint-feather", "4"),
                ("mask", ""),
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
                ("hires", "1024x1024"),
                ("hires-denoise", "0.4"),
                ("hires-steps", "7"),
                ("hires-method", "nearest-exact"),
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
                ("start-at-step", "2"),
                ("end-at-step", "9"),
                ("denoise", ""),
            ],
        ),
        (
            &["--prediction", "v", "--zsnr"],
            &[("prediction", "v"), ("zsnr", "")],
        ),
        (
            &["--prediction", "lcm", "--cfg-rescale", "0.7"],
            &[("prediction", "lcm"), ("cfg-rescale", "0.7")],
        ),
        (
            &["--model", "sd15-edit", "--image", &image, "--batch", "2"],
            &[
                ("model", "sd15-edit"),
                ("image", "i.png"),
                ("denoise", "1.0"),
                ("batch", "2"),
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
        let mut model = if edits { &editing } else { &plain }.clone();
        model.diffusion.cfg_rescale = args.sampling.cfg_rescale as f32;
        let model = &model;
        let request =
            request::request(&args, model, &Settings::default(), &Env::default()).unwrap();
        let flags = from_png::Flags::given(&line).unwrap();
        let origin = Origin {
            flags: &flags,
            files: &args.model,
            model,
            model_hash: None,
            device: "cpu",
            clip_skip: request.clip_skip,
        };
        let found =
            from_png::of_graph(&graph::graph(&request, &origin).to_json().to_string()).unwrap();
        let base = [
            ("prompt", "a fox"),
            ("negative", "n"),
            ("seed", "7"),
            ("model", model.name()),
        ];
        assert_eq!(found.get("zsnr").is_some(), args.model.zsnr);
        for (flag, value) in base.iter().chain(*wanted) {
            let all = found.get(flag).map(|v| v.join("|")).unwrap_or_default();
            assert_eq!(all, *value, "{flag} of {line:?}");
        }
    }
}
