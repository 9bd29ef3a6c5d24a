//! Names against folders made for the purpose.

use super::*;
use std::fs;

fn touch(root: &Path, files: &[&str]) {
    for file in files {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"").unwrap();
    }
}

fn found(kind: Kind, name: &str, env: &Env, root: &Path) -> String {
    let path = find(kind, Path::new(name), env).unwrap();
    let below = path.strip_prefix(root).unwrap();
    below.to_string_lossy().replace('\\', "/")
}

#[test]
fn pictures_to_start_from_are_looked_for_where_comfyui_does() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    touch(
        root,
        &[
            "input/a.png",
            "input/clipspace/b.png",
            "output/c.png",
            "models/vae/v.pt",
        ],
    );
    for comfyui in [root.to_owned(), root.join("models")] {
        let env = Env {
            comfyui: Some(comfyui),
            ..Env::default()
        };
        for (name, want) in [
            ("a.png", "input/a.png"),
            ("clipspace/b.png [input]", "input/clipspace/b.png"),
            ("c.png [output]", "output/c.png"),
        ] {
            assert_eq!(find_start(Path::new(name), &env), root.join(want));
        }
        for unknown in ["c.png", "none.png"] {
            assert_eq!(find_start(Path::new(unknown), &env), Path::new(unknown));
        }
    }
}

#[test]
fn names_are_found_with_and_without_extension_in_order_of_places() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    touch(
        root,
        &[
            "mine/checkpoints/sd15.safetensors",
            "mine/loras/style/ink.safetensors",
            "mine/loose.gguf",
            "comfy/models/checkpoints/sd15.safetensors",
            "comfy/models/checkpoints/xl/base 1.0.safetensors",
            "comfy/models/vae/kl.v2.safetensors",
            "comfy/models/vae_approx/taesd_decoder.pth",
            "comfy/models/unet/flux.gguf",
            "comfy/models/clip/clip_l.safetensors",
            "comfy/models/diffusers/sd/model_index.json",
            "elsewhere/a1111/Lora/wool.pt",
            "elsewhere/a1111/LyCORIS/silk.safetensors",
            "hub/models--city96--flux-gguf/snapshots/abc/q4.gguf",
            "hub/models--city96--flux-gguf/snapshots/abc/readme.md",
        ],
    );
    fs::write(
        root.join("comfy/extra_model_paths.yaml"),
        format!(
            "# mine\na111:\n    base_path: {}\n    loras: |\n         Lora\n         LyCORIS  # second\n    vae: VAE\n\nnothing:\n",
            root.join("elsewhere/a1111").display()
        ),
    )
    .unwrap();
    let env = Env {
        models: vec![root.join("mine")],
        comfyui: Some(root.join("comfy")),
        hf_cache: Some(root.join("hub")),
        ..Env::default()
    };
    for (kind, name, want) in [
        (Kind::Model, "sd15", "mine/checkpoints/sd15.safetensors"),
        (
            Kind::Model,
            "sd15.safetensors",
            "mine/checkpoints/sd15.safetensors",
        ),
        (Kind::Model, "loose", "mine/loose.gguf"),
        (
            Kind::Model,
            "xl/base 1.0",
            "comfy/models/checkpoints/xl/base 1.0.safetensors",
        ),
        (
            Kind::Model,
            "base 1.0",
            "comfy/models/checkpoints/xl/base 1.0.safetensors",
        ),
        (Kind::Model, "FLUX", "comfy/models/unet/flux.gguf"),
        (Kind::Model, "sd", "comfy/models/diffusers/sd"),
        (Kind::Vae, "kl.v2", "comfy/models/vae/kl.v2.safetensors"),
        (
            Kind::Vae,
            "taesd_decoder",
            "comfy/models/vae_approx/taesd_decoder.pth",
        ),
        (Kind::Clip, "clip_l", "comfy/models/clip/clip_l.safetensors"),
        (Kind::Lora, "ink", "mine/loras/style/ink.safetensors"),
        (Kind::Lora, "style/ink", "mine/loras/style/ink.safetensors"),
        (Kind::Lora, "wool", "elsewhere/a1111/Lora/wool.pt"),
        (
            Kind::Lora,
            "silk.safetensors",
            "elsewhere/a1111/LyCORIS/silk.safetensors",
        ),
        (
            Kind::Model,
            "q4",
            "hub/models--city96--flux-gguf/snapshots/abc/q4.gguf",
        ),
        (
            Kind::Model,
            "city96/flux-gguf/q4.gguf",
            "hub/models--city96--flux-gguf/snapshots/abc/q4.gguf",
        ),
        (Kind::File, "kl.v2", "comfy/models/vae/kl.v2.safetensors"),
    ] {
        assert_eq!(found(kind, name, &env, root), want, "{name}");
    }
    let error = find(Kind::Model, Path::new("sd51"), &env)
        .unwrap_err()
        .to_string();
    for part in [
        "no model is called \"sd51\"",
        "nearest are sd15",
        "mine",
        "hub",
    ] {
        assert!(error.contains(part), "{part:?} is missing from {error}");
    }
}

#[test]
fn two_files_of_one_name_are_told() {
    let dir = tempfile::tempdir().unwrap();
    touch(
        dir.path(),
        &["loras/a/x.safetensors", "loras/b/x.safetensors"],
    );
    let env = Env {
        models: vec![dir.path().to_owned()],
        ..Env::default()
    };
    let error = find(Kind::Lora, Path::new("x"), &env)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("a/x.safetensors") && error.contains("b/x.safetensors"),
        "{error}"
    );
    assert!(find(Kind::Lora, Path::new("a/x"), &env).is_ok());
}

#[test]
fn without_places_the_error_says_how_to_name_some() {
    let error = find(Kind::Vae, Path::new("nothing"), &Env::default()).unwrap_err();
    assert!(error.hint().unwrap().contains("NINO_MODELS"));
    assert!(
        error.to_string().contains("no VAE is called \"nothing\""),
        "{error}"
    );
}

#[test]
fn yaml_that_is_not_understood_is_an_error_with_its_line() {
    for (text, line) in [
        ("a:\n  loras: [x, y]\n", 2),
        ("loras\n", 1),
        ("a: b\n", 1),
        ("  loras: x\n", 1),
        ("a:\n\tloras: x\n", 2),
    ] {
        let error = yaml::read(text).unwrap_err();
        assert!(
            matches!(error, yaml::YamlError::Syntax { line: l, .. } if l == line),
            "{text:?}: {error}"
        );
    }
    let sections = yaml::read(
        "a:\n  base_path: 'C:\\x'\n  is_default: true\n  vae: |\n    v1\n\n    v2\n  loras: l\n",
    )
    .unwrap();
    assert!(sections[0].is_default());
    assert_eq!(sections[0].get("base_path"), ["C:\\x"]);
    assert_eq!(sections[0].get("vae"), ["v1", "v2"]);
    assert_eq!(sections[0].get("loras"), ["l"]);
}
