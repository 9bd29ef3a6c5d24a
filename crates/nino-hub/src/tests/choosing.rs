//! Which files of a repository are taken. The lists are shortened from real repositories.

use crate::answer::RemoteFile;
use crate::choose::{Choice, ChoiceError, choose};
use crate::names::{FileName, RepoName};

const GB: f64 = 1e9;

/// Sizes are in GB.
fn remote(files: &[(&str, f64)]) -> Vec<RemoteFile> {
    let file = |(name, size): &(&str, f64)| RemoteFile {
        name: FileName::new(name).unwrap(),
        size: Some((size * GB) as u64),
        hash: None,
    };
    files.iter().map(file).collect()
}

fn chosen(files: &[(&str, f64)], choice: &Choice) -> Result<Vec<String>, ChoiceError> {
    let repo = RepoName::new("org/repo").unwrap();
    let files = remote(files);
    let mut names: Vec<String> = choose(&repo, &files, None, choice)?
        .into_iter()
        .map(|f| f.name.to_string())
        .collect();
    names.sort();
    Ok(names)
}

#[track_caller]
fn check(files: &[(&str, f64)], wanted: &[&str]) {
    assert_eq!(chosen(files, &Choice::default()).unwrap(), wanted);
}

/// Shortened from stable-diffusion-v1-5.
const SD15: &[(&str, f64)] = &[
    ("README.md", 0.0),
    ("model_index.json", 0.0),
    ("feature_extractor/preprocessor_config.json", 0.0),
    ("safety_checker/config.json", 0.0),
    ("safety_checker/model.fp16.safetensors", 0.61),
    ("safety_checker/model.safetensors", 1.22),
    ("scheduler/scheduler_config.json", 0.0),
    ("text_encoder/config.json", 0.0),
    ("text_encoder/model.fp16.safetensors", 0.246),
    ("text_encoder/model.safetensors", 0.492),
    ("text_encoder/pytorch_model.bin", 0.492),
    ("text_encoder/pytorch_model.fp16.bin", 0.246),
    ("tokenizer/merges.txt", 0.0),
    ("tokenizer/vocab.json", 0.0),
    ("unet/config.json", 0.0),
    ("unet/diffusion_pytorch_model.fp16.safetensors", 1.72),
    ("unet/diffusion_pytorch_model.non_ema.safetensors", 3.44),
    ("unet/diffusion_pytorch_model.safetensors", 3.44),
    ("unet/diffusion_flax_model.msgpack", 3.44),
    ("vae/config.json", 0.0),
    ("vae/diffusion_pytorch_model.fp16.safetensors", 0.167),
    ("vae/diffusion_pytorch_model.safetensors", 0.335),
    ("v1-5-pruned-emaonly.ckpt", 4.27),
    ("v1-5-pruned-emaonly.safetensors", 4.27),
    ("v1-5-pruned.safetensors", 7.7),
];

#[test]
fn f16_in_a_folder_wins_over_f32_in_one_file() {
    check(
        SD15,
        &[
            "model_index.json",
            "scheduler/scheduler_config.json",
            "text_encoder/config.json",
            "text_encoder/model.fp16.safetensors",
            "tokenizer/merges.txt",
            "tokenizer/vocab.json",
            "unet/config.json",
            "unet/diffusion_pytorch_model.fp16.safetensors",
            "vae/config.json",
            "vae/diffusion_pytorch_model.fp16.safetensors",
        ],
    );
}

#[test]
fn a_variant_can_be_asked_for() {
    let choice = Choice {
        variant: Some("non_ema".to_owned()),
        ..Choice::default()
    };
    let names = chosen(SD15, &choice).unwrap();
    assert!(names.contains(&"unet/diffusion_pytorch_model.non_ema.safetensors".to_owned()));
    // What has no such variant comes as it would have.
    assert!(names.contains(&"vae/diffusion_pytorch_model.fp16.safetensors".to_owned()));
}

/// One file that is as small as the f16 folder is f16, whatever its name.
#[test]
fn one_file_wins_over_a_folder_of_the_same_size() {
    check(
        &[
            ("model_index.json", 0.0),
            ("sd_xl_base_1.0.safetensors", 6.94),
            ("sd_xl_base_1.0_0.9vae.safetensors", 6.94),
            ("sd_xl_offset_example-lora_1.0.safetensors", 0.05),
            ("text_encoder/model.fp16.safetensors", 0.246),
            ("text_encoder/model.onnx", 0.5),
            ("text_encoder_2/model.fp16.safetensors", 1.39),
            ("unet/diffusion_pytorch_model.fp16.safetensors", 5.14),
            ("unet/diffusion_pytorch_model.safetensors", 10.3),
            ("vae/diffusion_pytorch_model.fp16.safetensors", 0.167),
            ("vae_1_0/diffusion_pytorch_model.fp16.safetensors", 0.167),
        ],
        &["sd_xl_base_1.0.safetensors"],
    );
    check(
        &[
            ("sd_xl_turbo_1.0.safetensors", 13.9),
            ("sd_xl_turbo_1.0_fp16.safetensors", 6.94),
        ],
        &["sd_xl_turbo_1.0_fp16.safetensors"],
    );
}

#[test]
fn one_network_comes_with_its_config() {
    check(
        &[
            ("config.json", 0.0),
            ("diffusion_pytorch_model.bin", 0.01),
            ("diffusion_pytorch_model.safetensors", 0.01),
            ("taesd_decoder.safetensors", 0.005),
            ("taesd_encoder.safetensors", 0.005),
        ],
        &["config.json", "diffusion_pytorch_model.safetensors"],
    );
}

#[test]
fn pickles_come_only_where_there_is_nothing_else() {
    check(
        &[("a.ckpt", 4.0), ("a.safetensors", 4.0)],
        &["a.safetensors"],
    );
    check(&[("a.ckpt", 4.0), ("a.md", 4.0)], &["a.ckpt"]);
}

#[test]
fn shards_come_with_their_list() {
    let shards = [
        ("m-00001-of-00002.safetensors", 5.0),
        ("m-00002-of-00002.safetensors", 5.0),
        ("m.safetensors.index.json", 0.0),
    ];
    check(&shards, &shards.map(|(name, _)| name));
    check(
        &[
            ("model_index.json", 0.0),
            ("unet/m.fp16-00001-of-00002.safetensors", 5.0),
            ("unet/m.fp16-00002-of-00002.safetensors", 5.0),
            ("unet/m.safetensors.index.fp16.json", 0.0),
            ("unet/m.safetensors.index.json", 0.0),
            ("unet/m-00001-of-00002.safetensors", 9.0),
            ("unet/m-00002-of-00002.safetensors", 9.0),
        ],
        &[
            "model_index.json",
            "unet/m.fp16-00001-of-00002.safetensors",
            "unet/m.fp16-00002-of-00002.safetensors",
            "unet/m.safetensors.index.fp16.json",
        ],
    );
}

#[test]
fn different_models_are_a_question() {
    for files in [
        &[("flux-Q4_0.gguf", 6.0), ("flux-Q8_0.gguf", 12.0)][..],
        &[("flux.gguf", 24.0), ("flux-Q8_0.gguf", 12.0)],
        &[("one.safetensors", 1.0), ("two.safetensors", 1.0)],
        &[("a/one.safetensors", 1.0), ("b/two.safetensors", 1.0)],
    ] {
        let error = chosen(files, &Choice::default()).unwrap_err();
        assert!(matches!(&error, ChoiceError::Several { found, .. } if found.len() == 2));
        assert!(error.to_string().contains("GB"), "{error}");
    }
    let none = chosen(&[("README.md", 0.0)], &Choice::default()).unwrap_err();
    assert!(matches!(none, ChoiceError::NoModels { .. }));
}

#[test]
fn a_folder_of_a_repository_is_looked_at_alone() {
    let files = remote(SD15);
    let repo = RepoName::new("org/repo").unwrap();
    let vae = FileName::new("vae").unwrap();
    let names: Vec<String> = choose(&repo, &files, Some(&vae), &Choice::default())
        .unwrap()
        .into_iter()
        .map(|f| f.name.to_string())
        .collect();
    assert_eq!(names, ["vae/diffusion_pytorch_model.fp16.safetensors"]);
}

#[test]
fn patterns() {
    let include = |p: &str| Choice {
        include: vec![p.to_owned()],
        variant: None,
    };
    assert_eq!(chosen(SD15, &include("vae/*")).unwrap().len(), 3);
    assert_eq!(chosen(SD15, &include("*.fp16.*")).unwrap().len(), 5);
    assert_eq!(
        chosen(SD15, &include("v?-5-*.ckpt")).unwrap(),
        ["v1-5-pruned-emaonly.ckpt"]
    );
    assert_eq!(chosen(SD15, &include("README.md")).unwrap(), ["README.md"]);
    assert!(chosen(SD15, &include("*.nope")).is_err());
    // Many stars cost no more than a few.
    assert!(chosen(SD15, &include(&"*a".repeat(500))).is_err());
}
