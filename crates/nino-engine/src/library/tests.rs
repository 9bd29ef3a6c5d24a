//! Names and lists against folders made for the purpose.

use super::*;
use std::fs;

fn touch(root: &Path, files: &[&str]) {
    for file in files {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"").unwrap();
    }
}

fn below(path: &Path, root: &Path) -> String {
    let below = path.strip_prefix(root).unwrap();
    below.to_string_lossy().replace('\\', "/")
}

const MODEL: &[ModelKind] = ModelKind::MODELS;
const VAE: &[ModelKind] = &[ModelKind::Vae];
const CLIP: &[ModelKind] = &[ModelKind::TextEncoder];
const LORA: &[ModelKind] = &[ModelKind::Lora];

fn names(found: &[Found]) -> Vec<&str> {
    found.iter().map(|f| f.name.as_str()).collect()
}

fn in_models(folder: &Path) -> Library {
    Library::new(LibraryPaths {
        models: vec![folder.to_owned()],
        ..LibraryPaths::default()
    })
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
        let library = Library::new(LibraryPaths {
            comfyui: Some(comfyui),
            ..LibraryPaths::default()
        });
        for (name, want) in [
            ("a.png", "input/a.png"),
            ("clipspace/b.png [input]", "input/clipspace/b.png"),
            ("c.png [output]", "output/c.png"),
        ] {
            assert_eq!(library.find_input(Path::new(name)), root.join(want));
        }
        for unknown in ["c.png", "none.png"] {
            assert_eq!(library.find_input(Path::new(unknown)), Path::new(unknown));
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
    let library = Library::new(LibraryPaths {
        models: vec![root.join("mine")],
        comfyui: Some(root.join("comfy")),
        downloads: Some(root.join("hub")),
        ..LibraryPaths::default()
    });
    for (kind, name, want) in [
        (MODEL, "sd15", "mine/checkpoints/sd15.safetensors"),
        (
            MODEL,
            "sd15.safetensors",
            "mine/checkpoints/sd15.safetensors",
        ),
        (MODEL, "loose", "mine/loose.gguf"),
        (
            MODEL,
            "xl/base 1.0",
            "comfy/models/checkpoints/xl/base 1.0.safetensors",
        ),
        (
            MODEL,
            "base 1.0",
            "comfy/models/checkpoints/xl/base 1.0.safetensors",
        ),
        (MODEL, "FLUX", "comfy/models/unet/flux.gguf"),
        (MODEL, "sd", "comfy/models/diffusers/sd"),
        (VAE, "kl.v2", "comfy/models/vae/kl.v2.safetensors"),
        (
            VAE,
            "taesd_decoder",
            "comfy/models/vae_approx/taesd_decoder.pth",
        ),
        (CLIP, "clip_l", "comfy/models/clip/clip_l.safetensors"),
        (LORA, "ink", "mine/loras/style/ink.safetensors"),
        (LORA, "style/ink", "mine/loras/style/ink.safetensors"),
        (LORA, "wool", "elsewhere/a1111/Lora/wool.pt"),
        (
            LORA,
            "silk.safetensors",
            "elsewhere/a1111/LyCORIS/silk.safetensors",
        ),
        (
            MODEL,
            "q4",
            "hub/models--city96--flux-gguf/snapshots/abc/q4.gguf",
        ),
        (
            MODEL,
            "city96/flux-gguf/q4.gguf",
            "hub/models--city96--flux-gguf/snapshots/abc/q4.gguf",
        ),
        (
            ModelKind::ALL,
            "kl.v2",
            "comfy/models/vae/kl.v2.safetensors",
        ),
    ] {
        let path = library.find(kind, name).unwrap();
        assert_eq!(below(&path, root), want, "{name}");
    }
    let error = library.find(MODEL, "sd51").unwrap_err().to_string();
    for part in [
        "no model is called \"sd51\"",
        "did you mean sd15",
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
    let library = in_models(dir.path());
    let error = library.find(LORA, "x").unwrap_err().to_string();
    assert!(
        error.contains("a/x.safetensors") && error.contains("b/x.safetensors"),
        "{error}"
    );
    assert!(library.find(LORA, "a/x").is_ok());
}

#[test]
fn without_places_the_error_says_that_there_are_none() {
    let error = Library::new(LibraryPaths::default())
        .find(VAE, "nothing")
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("no VAE is called \"nothing\""), "{text}");
    assert!(matches!(error, LibraryError::Unknown { places, .. } if places.is_empty()));
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

#[test]
fn lists_are_by_kind_with_comfyui_s_names_and_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    touch(
        root,
        &[
            "mine/loras/style/ink.safetensors",
            "mine/checkpoints/sd15.safetensors",
            "mine/checkpoints/folder/model_index.json",
            "mine/checkpoints/folder/unet/part.safetensors",
            "mine/loose.gguf",
            "comfy/models/loras/ink.safetensors",
            "comfy/models/loras/style/ink.safetensors",
            "comfy/models/upscale_models/4x.pth",
            "hub/models--a--b/snapshots/abc/c.safetensors",
        ],
    );
    fs::write(root.join("mine/loras/style/ink.safetensors"), [0; 10]).unwrap();
    fs::write(
        root.join("mine/checkpoints/folder/unet/part.safetensors"),
        [0; 7],
    )
    .unwrap();
    let library = Library::new(LibraryPaths {
        models: vec![root.join("mine")],
        comfyui: Some(root.join("comfy")),
        downloads: Some(root.join("hub")),
        ..LibraryPaths::default()
    });
    let loras = library.list(LORA).unwrap();
    let wanted = [
        "style/ink.safetensors",
        "loose.gguf",
        "ink.safetensors",
        "a/b/c.safetensors",
    ];
    assert_eq!(names(&loras), wanted);
    assert_eq!((loras[0].size, loras[0].kind), (10, Some(ModelKind::Lora)));
    assert_eq!(loras[1].kind, None, "nobody says what a loose file is");
    let models = library.list(&[ModelKind::Checkpoint]).unwrap();
    let typed: Vec<_> = models.iter().filter(|f| f.kind.is_some()).collect();
    assert_eq!(typed.len(), 2, "{typed:?}");
    assert_eq!((typed[0].name.as_str(), typed[0].size), ("folder", 7));
    let upscalers = library.list(&[ModelKind::UpscaleModel]).unwrap();
    assert!(names(&upscalers).contains(&"4x.pth"));
    let folders = library.folders(ModelKind::Lora).unwrap();
    assert_eq!(
        folders,
        [root.join("mine/loras"), root.join("comfy/models/loras")]
    );
}

/// `--vae taesd` was answered with names of embeddings and checkpoints.
#[test]
fn suggestions_are_of_the_kind_and_begin_with_the_name() {
    let dir = tempfile::tempdir().unwrap();
    touch(
        dir.path(),
        &[
            "embeddings/cat.pt",
            "checkpoints/old.safetensors",
            "checkpoints/taes.safetensors",
            "vae/taesd_decoder.safetensors",
            "vae/TAESDXL.safetensors",
            "vae/kl.safetensors",
            "vae/my taesd.safetensors",
        ],
    );
    let library = in_models(dir.path());
    let near = |name: &str| match library.find(VAE, name) {
        Err(LibraryError::Unknown { near, .. }) => near,
        found => panic!("{found:?}"),
    };
    assert_eq!(near("taesd"), ["TAESDXL", "taesd_decoder", "my taesd"]);
    assert_eq!(near("kk")[0], "kl");
    let found = library.find(VAE, "old").unwrap();
    assert!(
        found.ends_with("checkpoints/old.safetensors"),
        "a checkpoint has a VAE"
    );
}

/// `NINO_MODELS=/` searched in silence for more than ten seconds.
#[test]
fn folders_without_end_are_searched_in_a_moment_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    touch(root, &["near.safetensors", "a/b/far.safetensors"]);
    for i in 0..100 {
        touch(root, &[&format!("a/f{i}")]);
    }
    let library = Library {
        most_entries: 50,
        ..in_models(root)
    };
    assert!(library.find(VAE, "near").is_ok(), "the nearest come first");
    let error = library.find(VAE, "nothing").unwrap_err().to_string();
    assert!(error.contains("only its first 50 entries"), "{error}");
    assert_eq!(names(&library.list(VAE).unwrap()), ["near.safetensors"]);
    for system in ["/proc", "/sys", "/dev"] {
        assert!(
            in_models(Path::new(system))
                .list(ModelKind::ALL)
                .unwrap()
                .is_empty()
        );
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_not_in_circles() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    touch(
        root,
        &[
            "vae/a/x.safetensors",
            "vae/b/y.safetensors",
            "elsewhere/z.safetensors",
        ],
    );
    symlink(root.join("elsewhere"), root.join("vae/far")).unwrap();
    symlink(
        root.join("elsewhere/z.safetensors"),
        root.join("vae/file.safetensors"),
    )
    .unwrap();
    symlink(root.join("vae"), root.join("vae/a/up")).unwrap();
    symlink(root.join("vae/b"), root.join("vae/a/b")).unwrap();
    symlink(root.join("vae/a"), root.join("vae/b/a")).unwrap();
    symlink(root.join("nowhere"), root.join("vae/broken.safetensors")).unwrap();
    let found = in_models(root).list(VAE).unwrap();
    let vaes: Vec<_> = found.iter().filter(|f| f.kind.is_some()).cloned().collect();
    let wanted = [
        "a/b/y.safetensors",
        "a/x.safetensors",
        "b/a/x.safetensors",
        "b/y.safetensors",
        "far/z.safetensors",
        "file.safetensors",
    ];
    assert_eq!(names(&vaes), wanted);
}

#[test]
fn a_short_name_stands_for_a_download_and_a_file_of_that_name_wins() {
    let dir = tempfile::tempdir().unwrap();
    let snapshot = "hub/models--org--repo/snapshots/abc";
    let file = format!("{snapshot}/v1-fp16.safetensors");
    touch(dir.path(), &[&file, "models/loras/x.safetensors"]);
    let library = Library::new(LibraryPaths {
        models: vec![dir.path().join("models")],
        downloads: Some(dir.path().join("hub")),
        short_names: vec![
            ("sd15".to_owned(), "org/repo/v1-fp16.safetensors".to_owned()),
            ("sdxl".to_owned(), "org/other/xl.safetensors".to_owned()),
        ],
        ..LibraryPaths::default()
    });
    for name in ["sd15", "SD15"] {
        assert_eq!(library.find(MODEL, name).unwrap(), dir.path().join(&file));
    }
    assert!(
        library.find(MODEL, "sdxl").is_err(),
        "it was not downloaded"
    );
    touch(dir.path(), &["models/checkpoints/sd15.safetensors"]);
    let own = dir.path().join("models/checkpoints/sd15.safetensors");
    assert_eq!(library.find(MODEL, "sd15").unwrap(), own);
}
