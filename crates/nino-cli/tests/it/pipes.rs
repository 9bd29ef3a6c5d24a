//! `-o -`: results to standard output, for other programs.

use crate::shell::{Folder, command, nino};
use nino_engine::{Latent, LatentSize};

fn golden(name: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/models");
    let file = root.join(format!("{name}.safetensors"));
    file.to_string_lossy().into_owned()
}

/// The same command with a file and with `-` as its output: the same bytes, and nothing else on
/// standard output.
fn same(args: &[&str], file: &str) {
    let said = nino(&[args, &["-o", file]].concat());
    assert_eq!(said.code, 0, "{args:?}: {}", said.err);
    let piped = command(&[args, &["-o", "-"]].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&piped.stderr);
    assert!(piped.status.success(), "{args:?}: {said}");
    let expected = std::fs::read(file).unwrap();
    assert!(piped.stdout == expected, "{args:?}: the bytes differ");
}

#[test]
fn pictures_and_latents_go_to_standard_output() {
    let dir = Folder::new();
    let (picture, latent, again) = (dir.at("a.png"), dir.at("a.latent"), dir.at("b.png"));
    let small = [
        "--size", "64x64", "--steps", "1", "--seed", "1", "--device", "cpu",
    ];
    same(&[&["generate", "a fox"], &small[..]].concat(), &picture);
    let vae = golden("taesd");
    let vae = ["--vae", vae.as_str(), "--device", "cpu"];
    same(&[&["encode", picture.as_str()], &vae[..]].concat(), &latent);
    same(&[&["decode", latent.as_str()], &vae[..]].concat(), &again);
}

#[test]
fn what_cannot_go_to_standard_output_is_told() {
    let dir = Folder::new();
    let (picture, latent) = (dir.at("a.png"), dir.at("a.latent"));
    let small = [
        "--size", "64x64", "--steps", "1", "--device", "cpu", "-o", &picture,
    ];
    let said = nino(&[&["generate", "a fox"], &small[..]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let (still, clip) = (golden("taesd"), golden("taehv"));
    let size = LatentSize {
        frames: 2,
        height: 8,
        width: 8,
    };
    let frames = Latent {
        is_video: true,
        ..Latent::empty(1, 16, size)
    };
    let file = std::path::Path::new(&latent);
    frames
        .save(file, &std::collections::BTreeMap::new())
        .unwrap();
    let cases: [(&[&str], &str); 3] = [
        (
            &[
                "decode", &latent, "--vae", &clip, "-o", "-", "--device", "cpu",
            ],
            "one image to standard output",
        ),
        (
            &["encode", &picture, "--vae", &still, "-o", "-", "--json"],
            "leave one out",
        ),
        (
            &["convert", &still, "-", "--type", "f16"],
            "name one that ends in .gguf or .safetensors",
        ),
    ];
    for (args, part) in cases {
        let said = nino(args);
        assert_eq!(said.code, 2, "{args:?}: {}", said.err);
        assert!(said.err.contains(part), "{part:?} is missing: {}", said.err);
    }
}
