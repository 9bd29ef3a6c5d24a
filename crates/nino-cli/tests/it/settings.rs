//! `nino config`, and settings that take the place of flags.

use crate::shell::{Folder, Said, command, nino_with};

fn with_config(config: &str, args: &[&str], folder: &Folder) -> Said {
    let file = folder.at("config.toml");
    std::fs::write(&file, config).unwrap();
    nino_with(args, &[("NINO_CONFIG", &file)])
}

#[test]
fn settings_are_shown_with_where_they_come_from() {
    let dir = Folder::new();
    let file = dir.at("config.toml");
    std::fs::write(
        &file,
        "steps = 7\nsampler = \"Euler a\"\nmodels = [\"/a\", \"/b\"]\n",
    )
    .unwrap();
    let env = [("NINO_CONFIG", file.as_str()), ("NINO_SAMPLER", "heun")];
    let said = nino_with(&["config"], &env);
    assert_eq!(said.code, 0, "{}", said.err);
    for part in ["steps in", "config.toml", "NINO_SAMPLER", "heun", "/a:/b"] {
        let part = part.replace(':', if cfg!(windows) { ";" } else { ":" });
        assert!(
            said.out.contains(&part),
            "{part:?} is missing from:\n{}",
            said.out
        );
    }
    let json = nino_with(&["config", "--json"], &env).json();
    let settings = json["settings"].as_array().unwrap();
    let steps = settings.iter().find(|s| s["name"] == "steps").unwrap();
    assert_eq!(steps["value"], "7");
    let model = settings.iter().find(|s| s["name"] == "model").unwrap();
    assert!(model["value"].is_null(), "{model}");
}

#[test]
fn a_file_to_begin_with_is_written_once() {
    let dir = Folder::new();
    let file = dir.at("deep/down/config.toml");
    let run = |args: &[&str]| nino_with(args, &[("NINO_CONFIG", &file)]);
    assert_eq!(run(&["config", "--path"]).out.trim(), file);
    let said = run(&["config", "--init"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .contains("# sampler = ")
    );
    let said = run(&["config", "--init"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("--force"), "{}", said.err);
    assert_eq!(run(&["config", "--init", "--force"]).code, 0);
    // A broken file is still found.
    std::fs::write(&file, "steps = = 7").unwrap();
    assert_eq!(run(&["config", "--path"]).code, 0);
    assert_eq!(run(&["config"]).code, 2);
}

#[test]
fn settings_are_defaults_of_flags() {
    let dir = Folder::new();
    let out = dir.at("pictures");
    let config = format!(
        "model = \"nino-emoji\"\nsteps = 3\nsampler = \"DPM++ 2M Karras\"\nsize = \"64x72\"\n\
         output_dir = {out:?}\noutput_name = \"{{model}}-{{n}}\"\n"
    );
    let args = [
        "generate", "a cat", "--seed", "7", "--cfg", "1", "--device", "cpu", "--json",
    ];
    let said = with_config(&config, &args, &dir);
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    assert_eq!(json["steps"], 3);
    assert_eq!(
        (&json["sampler"], &json["scheduler"]),
        (&"dpmpp_2m".into(), &"karras".into())
    );
    assert_eq!((&json["width"], &json["height"]), (&64.into(), &72.into()));
    assert!(
        json["files"][0]
            .as_str()
            .unwrap()
            .ends_with("nino-emoji-1.png"),
        "{json:#}"
    );
    let more = [&args[..], &["--scheduler", "simple", "--steps", "2"]].concat();
    let json = with_config(&config, &more, &dir).json();
    assert_eq!(
        (&json["scheduler"], &json["steps"]),
        (&"simple".into(), &2.into())
    );
    assert!(
        json["files"][0]
            .as_str()
            .unwrap()
            .ends_with("nino-emoji-2.png"),
        "{json:#}"
    );
    let said = with_config("sampler = \"eulr\"", &args, &dir);
    assert_eq!(said.code, 2);
    assert!(
        said.err.contains("config.toml") && said.err.contains("euler"),
        "{}",
        said.err
    );
}

#[test]
fn a_setting_that_is_not_known_is_told() {
    let dir = Folder::new();
    let said = with_config("modell = \"x\"", &["config"], &dir);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("did you mean model"), "{}", said.err);
    let mut doctor = command(&["doctor"]);
    let output = doctor
        .env("NINO_SAMPLER", "heun")
        .env("NINO_SEMPLER", "x")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("default of --sampler"), "{text}");
}
