//! Flags out of pictures and command lines.

use super::*;
use std::path::PathBuf;

fn line(args: &[&str]) -> Vec<OsString> {
    ["nino", "generate"]
        .iter()
        .chain(args)
        .map(OsString::from)
        .collect()
}

fn one(flags: &Flags, name: &str) -> String {
    flags.get(name).map(|v| v.join("|")).unwrap_or_default()
}

#[test]
fn every_flag_is_either_repeated_or_known_not_to_be() {
    const NOT: &[&str] = &[
        "count",
        "output",
        "save-latent",
        "from-png",
        "preview",
        "preview-every",
        "preview-vae",
        "no-preview",
        "device",
        "gpu-tier",
        "budget",
        "profile",
        "threads",
        "json",
        "verbose",
        "quiet",
        "help",
    ];
    for arg in flags::generate().get_arguments() {
        let name = flags::name(arg);
        assert!(
            flags::REPEATED.contains(&name) != NOT.contains(&name),
            "--{name}: does --from-png repeat it?"
        );
    }
}

#[test]
fn given_flags_win_over_recorded_ones() {
    let recorded = Flags::from_json(
        r#"{"flags":{"prompt":["--a - b"],"seed":["7"],"steps":["4"],"lora":["x:1","y:0.5"],"output":["/etc/passwd"]}}"#,
    )
    .unwrap();
    assert_eq!(recorded.notes.len(), 1, "{:?}", recorded.notes);
    let given = line(&["--from-png", "a.png", "--seed", "8", "-o", "b.png"]);
    let merged = recorded.clone().below(&Flags::given(&given).unwrap());
    let Verb::Generate(args) = Cli::try_parse_from(merged.line(&given)).unwrap().verb else {
        panic!()
    };
    assert_eq!(args.prompt, "--a - b");
    assert_eq!(args.sampling.seed, Some(8));
    assert_eq!(args.sampling.steps, Some(4));
    assert_eq!(args.model.lora.len(), 2);
    assert_eq!(args.output, Some(PathBuf::from("b.png")));
    let given = line(&["another", "--from-png", "a.png", "--lora", "z"]);
    let merged = recorded.below(&Flags::given(&given).unwrap());
    let Verb::Generate(args) = Cli::try_parse_from(merged.line(&given)).unwrap().verb else {
        panic!()
    };
    assert_eq!(args.prompt, "another");
    assert_eq!(args.model.lora.len(), 1);
}

#[test]
fn a1111s_lines_become_flags() {
    let text = "a fox, (snow:1.2) <lora:ink:0.8>\nsecond line\nNegative prompt: blurry, text\nSteps: 25, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 7, Seed: 1234, Size: 512x768, Model hash: 6ce0161689, Model: v1-5-pruned-emaonly, Clip skip: 2, Lora hashes: \"ink: 0123, x: 4\", Version: v1.10.1";
    let flags = a1111::flags(text).unwrap();
    for (flag, value) in [
        ("prompt", "a fox, (snow:1.2) \nsecond line"),
        ("negative", "blurry, text"),
        ("lora", "ink:0.8"),
        ("sampler", "dpmpp_2m"),
        ("scheduler", "karras"),
        ("steps", "25"),
        ("cfg", "7"),
        ("seed", "1234"),
        ("size", "512x768"),
        ("model", "v1-5-pruned-emaonly"),
        ("rng", "philox"),
        ("clip-skip", "2"),
    ] {
        assert_eq!(one(&flags, flag), value, "{flag}");
    }
    let old =
        "cat\nSteps: 20, Sampler: DPM++ SDE Karras, CFG scale: 7.5, Seed: 1, Size: 64x64, RNG: CPU";
    let flags = a1111::flags(old).unwrap();
    assert_eq!(one(&flags, "sampler"), "dpmpp_sde");
    assert_eq!(one(&flags, "scheduler"), "karras");
    assert_eq!(one(&flags, "rng"), "torch");
    assert!(a1111::flags("just words").is_err());
}

fn workflow(name: &str) -> Option<String> {
    let path = nino_testing::data_or_skip(&format!("workflows/{name}.api.json"))?;
    Some(std::fs::read_to_string(path).unwrap())
}

#[test]
fn comfyuis_graphs_become_flags_or_say_why_not() {
    if let Some(text) = workflow("lora__lora") {
        let flags = comfyui::flags(&text).unwrap();
        for (flag, value) in [
            ("prompt", "masterpiece best quality girl"),
            ("negative", "bad hands"),
            ("model", "v1-5-pruned-emaonly.ckpt"),
            ("lora", "epiNoiseoffset_v2.safetensors:1.0:1.0"),
            ("seed", "851616030078638"),
            ("size", "512x512"),
            ("cfg", "8.0"),
            ("sampler", "euler"),
        ] {
            assert_eq!(one(&flags, flag), value, "{flag}");
        }
    }
    if let Some(text) = workflow("img2img__img2img_workflow") {
        let flags = comfyui::flags(&text).unwrap();
        for (flag, value) in [
            ("image", "example.png"),
            ("denoise", "0.8700000000000001"),
            ("sampler", "dpmpp_2m"),
        ] {
            assert_eq!(one(&flags, flag), value, "{flag}");
        }
    }
    if let Some(text) = workflow("lcm__lcm_basic_example") {
        let flags = comfyui::flags(&text).unwrap();
        for (flag, value) in [
            ("prediction", "lcm"),
            ("sampler", "lcm"),
            ("scheduler", "sgm_uniform"),
            ("lora", "lcm_lora_sdxl.safetensors:1.0:1.0"),
        ] {
            assert_eq!(one(&flags, flag), value, "{flag}");
        }
        assert!(flags.get("zsnr").is_none());
        let other = text.replace(r#""sampling": "lcm""#, r#""sampling": "img_to_img""#);
        let error = comfyui::flags(&other).unwrap_err();
        assert!(error.contains("img_to_img"), "{error}");
    }
    if let Some(text) = workflow("inpaint__inpaint_example") {
        let flags = comfyui::flags(&text).unwrap();
        for (flag, value) in [("mask", "alpha"), ("mask-fill", "gray"), ("mask-grow", "6")] {
            assert_eq!(one(&flags, flag), value, "{flag}");
        }
    }
    for (name, why) in [
        ("sdxl__sdxl_simple_example", "KSamplerAdvanced"),
        ("sdturbo__sdxlturbo_example", "SamplerCustom"),
    ] {
        if let Some(text) = workflow(name) {
            let error = comfyui::flags(&text).unwrap_err();
            assert!(error.contains(why), "{name}: {error}");
        }
    }
    if let Some(text) = workflow("wan__text_to_video_wan") {
        let error = comfyui::flags(&text).unwrap_err();
        assert!(error.contains("node"), "{error}");
    }
    assert!(
        comfyui::flags("{}")
            .unwrap_err()
            .contains("saves a picture")
    );
    assert!(comfyui::flags("[]").is_err());
}
