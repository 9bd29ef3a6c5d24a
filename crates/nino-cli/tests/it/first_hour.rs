//! What a new user tries in the first hour, where an earlier version led astray.

use crate::shell::{Folder, command, nino, nino_with};
use nino_engine::media::{Limits, load_picture};
use nino_testing::data_or_skip;
use std::path::{Path, PathBuf};

const SMALL: [&str; 8] = [
    "--size", "64x64", "--steps", "1", "--seed", "7", "--device", "cpu",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pixels(file: &str) -> Vec<u8> {
    load_picture(Path::new(file), &Limits::default())
        .unwrap()
        .rgb
}

/// The first picture that a new user has.
#[test]
fn the_picture_of_the_readme_repeats() {
    let dir = Folder::new();
    let (sun, out) = (root().join("docs/sun.png"), dir.at("sun.png"));
    let sun = sun.to_string_lossy();
    let args = ["generate", "--from", &sun, "-o", &out];
    let said = nino(&[&args[..], &SMALL].concat());
    assert_eq!(said.code, 0, "{}", said.err);
}

/// A VAE of another latent space made mud, and previews by one did, too.
#[test]
fn a_vae_of_another_latent_space_is_refused() {
    let Some(vae) = data_or_skip("taesd/taesd_decoder.safetensors") else {
        return;
    };
    let dir = Folder::new();
    let (vae, out, preview) = (vae.to_string_lossy(), dir.at("a.png"), dir.at("p.png"));
    let told = "is a VAE for sd15 latents, and nino-emoji makes nino latents";
    let start = [&["generate", "a fox", "-o", &out], &SMALL[..]].concat();
    let said = nino(&[&start[..], &["--vae", &vae]].concat());
    assert_eq!(said.code, 1);
    assert!(said.err.contains(told), "{}", said.err);
    let previews = ["--preview", &preview, "--preview-vae", &vae];
    let said = nino(&[&start[..], &previews].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains(told), "{}", said.err);
    assert!(!Path::new(&preview).exists());
}

/// The latent says which space it is of, and the built-in model's VAE has a name.
#[test]
fn a_saved_latent_is_decoded_to_its_picture() {
    let dir = Folder::new();
    let (picture, latent, again) = (dir.at("a.png"), dir.at("a.latent"), dir.at("b.png"));
    let args = [
        "generate",
        "a fox",
        "-o",
        &picture,
        "--save-latent",
        &latent,
    ];
    let said = nino(&[&args[..], &SMALL].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let said = nino(&[
        "decode",
        &latent,
        "--vae",
        "nino-emoji",
        "-o",
        &again,
        "--device",
        "cpu",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(!said.err.contains("assuming"), "{}", said.err);
    assert!(pixels(&picture) == pixels(&again));
}

/// One bit of the copy in the cache made another picture, and a byte of its header broke every run.
#[test]
fn a_damaged_copy_of_the_built_in_model_is_replaced() {
    let dir = Folder::new();
    let cache = dir.at("cache");
    let env = [("NINO_CACHE", cache.as_str())];
    let drawn = |name: &str| {
        let out = dir.at(name);
        let said = nino_with(
            &[&["generate", "a fox", "-o", &out], &SMALL[..]].concat(),
            &env,
        );
        assert_eq!(said.code, 0, "{}", said.err);
        std::fs::read(out).unwrap()
    };
    let first = drawn("first.png");
    let models = std::fs::read_dir(dir.path().join("cache/models")).unwrap();
    let copy = models.flatten().next().unwrap().path();
    let whole = std::fs::read(&copy).unwrap();
    for (i, at) in [20, whole.len() / 2].into_iter().enumerate() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&copy, damaged).unwrap();
        assert!(drawn(&format!("{i}.png")) == first, "byte {at}");
        assert!(std::fs::read(&copy).unwrap() == whole, "byte {at}");
    }
}

#[test]
fn a_size_beyond_what_the_model_was_trained_at_has_a_tip() {
    let dir = Folder::new();
    let out = dir.at("a.png");
    let args = [
        "generate", "a fox", "--steps", "1", "--device", "cpu", "-o", &out,
    ];
    let said = nino(&[&args[..], &["--size", "512x64"]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.err.contains("was trained at 256 pixels"),
        "{}",
        said.err
    );
}

/// Colors are for people at a terminal who did not say no.
#[test]
fn errors_have_colors_on_a_terminal_alone() {
    let on_terminal = |no_color: bool| {
        let nino = command(&["generate", "x", "--model", "nope"]);
        let program = nino.get_program().to_string_lossy().into_owned();
        let line = format!("'{program}' generate x --model nope");
        let mut script = std::process::Command::new("script");
        script.args(["-qec", &line, "/dev/null"]);
        script.env_remove("NO_COLOR").env("TERM", "xterm");
        if no_color {
            script.env("NO_COLOR", "1");
        }
        let said = script.output().ok()?;
        Some(String::from_utf8_lossy(&said.stdout).into_owned())
    };
    let (Some(colored), Some(plain)) = (on_terminal(false), on_terminal(true)) else {
        println!("skipped: no script, which makes a terminal");
        return;
    };
    assert!(colored.contains("\u{1b}[1;31merror:"), "{colored:?}");
    for text in [plain, nino(&["generate", "x", "--model", "nope"]).err] {
        assert!(
            text.contains("error:") && !text.contains('\u{1b}'),
            "{text:?}"
        );
    }
}
