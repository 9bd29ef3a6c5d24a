//! Prompts, outputs, notes and progress as people use them: nothing is lost, and what has no effect
//! is told.

use crate::shell::{Folder, nino, nino_fed, nino_in};
use std::path::Path;

/// One step of 64x64 on the CPU.
const QUICK: [&str; 10] = [
    "--device", "cpu", "--steps", "1", "--cfg", "1", "--size", "64", "--seed", "7",
];

fn quick<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["generate"], args, &QUICK].concat()
}

fn golden(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/models");
    let path = root.join(format!("{name}.safetensors"));
    path.to_str().unwrap().to_owned()
}

fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn words_that_are_not_quoted_are_one_prompt() {
    let dir = Folder::new();
    let said = nino_in(dir.path(), &quick(&["a", "red", "fox", "--json"]));
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    assert_eq!(json["prompt"], "a red fox");
    assert_eq!((&json["width"], &json["height"]), (&64.into(), &64.into()));
    assert_eq!(names(&dir), ["a-red-fox-7.png"]);
    let said = nino_in(
        dir.path(),
        &quick(&["--prompt", "a red fox", "--json", "-s", "2"]),
    );
    assert_eq!(said.json()["steps"], 1, "the last flag wins: {}", said.err);
    assert_eq!(names(&dir), ["a-red-fox-7-2.png", "a-red-fox-7.png"]);
    let again = nino_in(
        dir.path(),
        &["generate", "--from", "a-red-fox-7.png", "--json"],
    );
    assert_eq!(again.json()["prompt"], "a red fox", "{}", again.err);
}

#[test]
fn outputs_go_where_they_are_wanted() {
    let dir = Folder::new();
    let run = |more: &[&str]| {
        let said = nino_in(dir.path(), &quick(&[&["a fox"], more].concat()));
        assert_eq!(said.code, 0, "{more:?}: {}", said.err);
        said
    };
    // A path alone, for a script.
    assert_eq!(run(&["-q", "-o", "deep/er/"]).out, "deep/er/a-fox-7.png\n");
    assert_eq!(run(&["-q", "-o", "deep/er"]).out, "deep/er/a-fox-7-2.png\n");
    assert_eq!(run(&["-q", "-o", "new/fox.jpg"]).out, "new/fox.jpg\n");
    let template = "{model}/{prompt}-{seed}-{n}.png";
    assert_eq!(
        run(&["-q", "-o", template]).out,
        "nino-emoji/a-fox-7-1.png\n"
    );
    assert_eq!(
        run(&["-q", "-o", template]).out,
        "nino-emoji/a-fox-7-2.png\n"
    );
    let two = run(&["-q", "-o", "{seed}.png", "-n", "2"]);
    assert_eq!(two.out, "7.png\n8.png\n");
    let two = run(&["-q", "-o", "{prompt}.png", "-n", "2"]);
    assert_eq!(two.out, "a-fox_00000.png\na-fox_00001.png\n");
    assert!(
        !dir.path().join("picture").exists(),
        "only folders of pictures are made"
    );
    for file in [
        "deep/er/a-fox-7-2.png",
        "new/fox.jpg",
        "8.png",
        "a-fox_00001.png",
    ] {
        assert!(dir.path().join(file).is_file(), "{file}");
    }
}

#[test]
fn a_size_comes_in_one_flag_or_in_two() {
    let dir = Folder::new();
    let run = |more: &[&str]| {
        let args = [
            "generate", "a fox", "--device", "cpu", "--steps", "1", "--cfg", "1",
        ];
        let said = nino_in(dir.path(), &[&args[..], more, &["--json"]].concat());
        assert_eq!(said.code, 0, "{more:?}: {}", said.err);
        let json = said.json();
        (
            json["width"].as_u64().unwrap(),
            json["height"].as_u64().unwrap(),
        )
    };
    assert_eq!(run(&["--size", "64"]), (64, 64));
    assert_eq!(run(&["-W", "72", "-H", "64", "-o", "a.png"]), (72, 64));
    assert_eq!(run(&["--from", "a.png", "--height", "80"]), (72, 80));
    assert_eq!(run(&["-H", "64"]), (256, 64), "the model's width");
}

#[test]
fn a_picture_goes_to_standard_output() {
    let dir = Folder::new();
    let mut command = crate::shell::command(&quick(&["a fox", "-o", "-"]));
    let output = command.current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(
        output.stdout.starts_with(b"\x89PNG\r\n"),
        "the picture alone"
    );
    assert_eq!(names(&dir), Vec::<String>::new());
    for (more, part) in [(["--json", "-q"], "--json"), (["-n", "2"], "several")] {
        let said = nino_in(
            dir.path(),
            &quick(&[&["a fox", "-o", "-"], &more[..]].concat()),
        );
        assert_eq!(said.code, 2, "{more:?}");
        assert!(said.err.contains(part), "{}", said.err);
    }
}

#[test]
fn prompts_come_from_a_file_or_from_standard_input() {
    let dir = Folder::new();
    std::fs::write(dir.at("list.txt"), "a fox\n\n  a cat  \n").unwrap();
    let said = nino_in(dir.path(), &quick(&["--prompts", "list.txt", "--json"]));
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    assert_eq!(json["prompts"], serde_json::json!(["a fox", "a cat"]));
    assert_eq!(json["seeds"], serde_json::json!([7, 7]));
    for args in [&["--prompts", "-", "-q"][..], &["-", "-q"]] {
        let said = nino_fed(dir.path(), &quick(args), "a sun\na moon\n");
        assert_eq!(said.code, 0, "{}", said.err);
        assert_eq!(said.out.lines().count(), 2, "{}", said.out);
    }
    assert_eq!(
        names(&dir),
        [
            "a-cat-7.png",
            "a-fox-7.png",
            "a-moon-7-2.png",
            "a-moon-7.png",
            "a-sun-7-2.png",
            "a-sun-7.png",
            "list.txt"
        ]
    );
    let said = nino_fed(dir.path(), &quick(&["-"]), "\n \n");
    assert_eq!(said.code, 2);
    assert!(said.err.contains("no prompt"), "{}", said.err);
}

#[test]
fn nothing_that_is_read_is_written_over() {
    let dir = Folder::new();
    let at = |name: &str| dir.at(name);
    let (picture, latent, model) = (at("fox.png"), at("fox.latent"), at("model.safetensors"));
    std::fs::copy(golden("taesd"), &model).unwrap();
    let made = nino(&quick(&["a fox", "-o", &picture, "--save-latent", &latent]));
    assert_eq!(made.code, 0, "{}", made.err);
    let vae = golden("taesd");
    let encode = ["encode", &picture, "--vae", &vae, "--device", "cpu"];
    let start = [
        "generate", "x", "--latent", &latent, "--device", "cpu", "--steps", "1",
    ];
    std::fs::copy(&picture, at("a-fox-7.png")).unwrap();
    let template = at("{prompt}-{seed}.png");
    let with = |verb: &[&str], more: &[&str]| -> Vec<String> {
        [verb, more]
            .concat()
            .iter()
            .map(|s| (*s).to_owned())
            .collect()
    };
    let cases = [
        with(&encode, &["-o", &picture]),
        with(&start, &["--save-latent", &latent]),
        with(&["generate", "--from", &picture], &["-o", &picture]),
        with(
            &["generate", "--from", &at("a-fox-7.png")],
            &["-o", &template],
        ),
        with(&["generate", "x"], &["--save-latent", &model]),
        with(&["convert", &model, &model], &["--type", "f16"]),
        with(&["convert", &vae, &model], &["--type", "f16"]),
    ];
    let before = [&picture, &latent, &model].map(|file| std::fs::read(file).unwrap());
    for args in &cases {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let said = nino(&args);
        assert_eq!(said.code, 2, "{args:?}: {}{}", said.out, said.err);
        assert!(
            said.err.contains("would be overwritten") && said.err.contains("--force"),
            "{args:?}: {}",
            said.err
        );
    }
    let after = [&picture, &latent, &model].map(|file| std::fs::read(file).unwrap());
    assert!(before == after);
    // The size before is that of the file as it was.
    let args = [
        "convert", &model, &model, "--type", "f16", "--force", "--json",
    ];
    let json = nino(&args).json();
    assert_eq!(json["file_bytes_before"], before[2].len());
    assert!(
        json["file_bytes_after"].as_u64().unwrap() < before[2].len() as u64,
        "{json:#}"
    );
}

#[test]
fn decode_and_encode_name_their_files() {
    let dir = Folder::new();
    let made = nino_in(dir.path(), &quick(&["a fox", "-o", "fox.png"]));
    assert_eq!(made.code, 0, "{}", made.err);
    let vae = golden("taesd");
    let encode = ["encode", "fox.png", "--vae", &vae, "--device", "cpu", "-q"];
    let said = nino_in(dir.path(), &encode);
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "fox.latent\n"),
        "{}",
        said.err
    );
    let decode = [
        "decode",
        "fox.latent",
        "--vae",
        &vae,
        "--device",
        "cpu",
        "-q",
    ];
    let said = nino_in(dir.path(), &decode);
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "fox-2.png\n"),
        "{}",
        said.err
    );
    let said = nino_in(dir.path(), &[&decode[..], &["-o", "new/"]].concat());
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "new/fox.png\n"),
        "{}",
        said.err
    );
    let said = nino_in(dir.path(), &[&encode[..], &["-o", "new.jpg"]].concat());
    assert_eq!(said.code, 2);
    assert!(said.err.contains(".latent"), "{}", said.err);
    let said = nino_in(
        dir.path(),
        &[&decode[..6], &["--fps", "8", "--json"]].concat(),
    );
    assert_eq!(said.code, 0, "{}", said.err);
    let notes = said.json()["notes"].to_string();
    assert!(notes.contains("--fps has no effect"), "{notes}");
}

#[test]
fn metadata_and_quality_are_as_asked() {
    let dir = Folder::new();
    let size = |name: &str| std::fs::metadata(dir.at(name)).unwrap().len();
    for args in [
        &["-o", "with.png"][..],
        &[
            "-o",
            "without.png",
            "--no-metadata",
            "--save-latent",
            "without.latent",
        ],
        &["-o", "good.jpg", "--no-metadata"],
        &["-o", "poor.jpg", "--no-metadata", "--quality", "20"],
    ] {
        let said = nino_in(dir.path(), &quick(&[&["a secret fox"], args].concat()));
        assert_eq!(said.code, 0, "{}", said.err);
    }
    let holds = |name: &str| {
        let bytes = std::fs::read(dir.at(name)).unwrap();
        bytes.windows(6).any(|w| w == b"secret")
    };
    assert!(holds("with.png") && !holds("without.png") && !holds("without.latent"));
    assert!(size("poor.jpg") < size("good.jpg"));
}

#[test]
fn what_has_no_effect_is_told() {
    let dir = Folder::new();
    let out = dir.at("a.png");
    for (args, part) in [
        (
            &["--original-size", "64x64"][..],
            "--original-size has no effect",
        ),
        (&["--crop", "0,0"], "--crop has no effect"),
        (&["--quantize", "q4_k"], "--quantize has no effect"),
        (&["--preview-every", "2"], "--preview-every has no effect"),
        (&["--quality", "50"], "--quality has no effect"),
        (
            &["--strength", "0.5"],
            "--strength 0.5 is for an input image",
        ),
        (&["--size", "512", "--denoise", "0"], "draws several things"),
    ] {
        let said = nino(&[&quick(&["a cat", "-o", &out, "--json"])[..], args].concat());
        assert_eq!(said.code, 0, "{args:?}: {}", said.err);
        assert!(said.err.contains(part), "{args:?}: {}", said.err);
        let json = said.json();
        let told = format!("{}{}", json["notes"], json["hints"]);
        assert!(told.contains(part), "{args:?}: {told}");
        let quiet = nino(&[&quick(&["a cat", "-o", &out, "-q"])[..], args].concat());
        assert_eq!(
            (quiet.out.trim(), quiet.err.as_str()),
            (out.as_str(), ""),
            "{args:?}"
        );
    }
}

#[test]
fn other_programs_prompts_are_understood_or_told() {
    let dir = Folder::new();
    let out = dir.at("a.png");
    for (prompt, part) in [
        ("a {red|blue} fox", "{red|blue}"),
        ("a [cat:dog:0.5]", "[cat:dog:0.5]"),
        ("xyzzy plugh", "no word of this prompt is known"),
        ("🍕", "\"pizza\""),
    ] {
        let said = nino(&quick(&[prompt, "-o", &out]));
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.err.contains(part), "{prompt}: {}", said.err);
    }
    let said = nino(&quick(&["a fox", "-o", &out]));
    assert!(!said.err.contains("note:"), "nothing to tell: {}", said.err);
    let said = nino(&quick(&["a fox <lora:ink:0.8>", "-o", &out]));
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err.contains("no LoRA is called \"ink\""),
        "{}",
        said.err
    );
    let said = nino(&quick(&["a fox <lora:ink:much>", "-o", &out]));
    assert_eq!(said.code, 2, "{}", said.err);
}

#[test]
fn samplers_have_many_names() {
    let dir = Folder::new();
    let out = dir.at("a.png");
    for (label, sampler, scheduler) in [
        ("DPM++ 2M", "dpmpp_2m", "simple"),
        ("DPM++ 2M Karras", "dpmpp_2m", "karras"),
        ("euler_a", "euler_ancestral", "simple"),
        ("DPMPP2M", "dpmpp_2m", "simple"),
    ] {
        let said = nino(&quick(&["a fox", "-o", &out, "--json", "--sampler", label]));
        let json = said.json();
        assert_eq!(json["sampler"], sampler, "{}", said.err);
        assert_eq!(json["scheduler"], scheduler, "{}", said.err);
    }
    let args = quick(&["a fox", "-o", &out, "--json"]);
    let said = nino(&[&args[..], &["--seed", "-1"]].concat());
    assert_ne!(said.json()["seed"], 7, "a new one: {}", said.err);
}

#[test]
fn names_are_suggested_by_their_beginning_and_in_the_right_folder() {
    let dir = Folder::new();
    for file in [
        "vae/taesd_decoder.safetensors",
        "checkpoints/tiny.safetensors",
        "loras/ink.pt",
    ] {
        let path = dir.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    let models = dir.at("");
    let env = [("NINO_MODELS", models.as_str())];
    let said = crate::shell::nino_with(&["generate", "x", "--vae", "taesd"], &env);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err.contains("did you mean taesd_decoder?"),
        "{}",
        said.err
    );
}

#[test]
fn errors_have_a_kind_and_hints_in_json() {
    let cases: &[(&[&str], &str, i32)] = &[
        (&["generate", "x", "--sed", "7"], "usage", 2),
        (&["generate", "x", "--sampler", "eulr"], "usage", 2),
        (&["generate", "x", "--model", "nope"], "file", 1),
        (
            &["generate", "x", "--budget", "1MiB", "--device", "cpu"],
            "over-budget",
            1,
        ),
        (&["inspect", "/no/such/file"], "file", 1),
    ];
    for (args, kind, code) in cases {
        let said = nino(&[*args, &["--json"]].concat());
        assert_eq!(said.code, *code, "{args:?}: {}", said.err);
        let json = said.json();
        assert_eq!(json["kind"], *kind, "{args:?}: {json:#}");
        assert!(json["notes"].is_array(), "{json:#}");
        let hints = json["hints"].as_array().unwrap();
        assert!(!hints.is_empty() || *kind == "file", "{args:?}: {json:#}");
    }
    let json = nino(&["generate", "x", "--sed", "7", "--json"]).json();
    assert!(
        json["hints"][0].as_str().unwrap().contains("--seed"),
        "{json:#}"
    );
}

#[test]
fn the_budget_that_a_hint_names_is_enough() {
    let dir = Folder::new();
    let quick = ["--device", "cpu", "--threads", "1", "--steps", "1"];
    let clip = [
        "video", "x", "--frames", "5", "--size", "64x64", "-o", "x.webp",
    ];
    for verb in [&["generate", "x"][..], &clip] {
        let with = |budget: &str| {
            let budget = ["--budget", budget];
            nino_in(dir.path(), &[verb, &quick, &budget].concat())
        };
        let said = with("20MiB");
        assert_eq!(said.code, 1, "{}", said.err);
        let mut lines = said.err.lines();
        let hint = lines.find_map(|l| l.strip_prefix("hint: give --budget "));
        let hint = hint.unwrap_or_else(|| panic!("{}", said.err));
        let budget = hint.split(' ').next().unwrap();
        let said = with(budget);
        assert_eq!(said.code, 0, "{budget}: {}", said.err);
    }
}

#[test]
fn progress_is_told_in_lines_for_other_programs() {
    let dir = Folder::new();
    let out = dir.at("a.png");
    let args = quick(&["a {red|blue} cat", "-o", &out, "--json", "--json-progress"]);
    let said = nino(&[&args[..], &["--steps", "3"]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.json()["steps"], 3);
    let events: Vec<serde_json::Value> = said
        .err
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let of = |kind: &str| events.iter().filter(|e| e["event"] == kind).count();
    assert!(of("stage") >= 3 && of("progress") >= 1, "{}", said.err);
    assert_eq!((of("picture"), of("tip")), (1, 2), "{}", said.err);
    let sampled = |e: &&serde_json::Value| e["stage"] == "sample" && e["done"] == 3;
    let last = events.iter().find(sampled);
    assert_eq!(last.unwrap()["total"], 3, "{}", said.err);
    let said = nino(&["generate", "x", "--sampler", "eulr", "--json-progress"]);
    let error: serde_json::Value = serde_json::from_str(said.err.trim()).unwrap();
    assert_eq!(
        (&error["event"], &error["kind"]),
        (&"error".into(), &"usage".into())
    );
    let vae = golden("taesd");
    let args = [
        "convert",
        &vae,
        &dir.at("x.gguf"),
        "--type",
        "f16",
        "--json-progress",
    ];
    let said = nino(&args);
    assert!(said.err.contains("\"stage\":\"convert\""), "{}", said.err);
}

#[test]
fn a_latent_of_a_video_is_told_before_its_files_format() {
    let dir = Folder::new();
    let header = r#"{"samples":{"dtype":"F32","shape":[1,4,3,2,2],"data_offsets":[0,192]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([0; 192]);
    std::fs::write(dir.at("clip.latent"), bytes).unwrap();
    let said = nino(&[
        "decode",
        &dir.at("clip.latent"),
        "--vae",
        &golden("taesd"),
        "-o",
        "x.mp4",
    ]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("3 latent frames"), "{}", said.err);
}
