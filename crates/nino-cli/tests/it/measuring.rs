//! `nino profile`, `optimize`, `bench compare`, captures and `replay`, with the built-in model.

use crate::shell::{Folder, command, nino, nino_in, nino_with};

const QUICK: [&str; 8] = [
    "a", "sun", "--device", "cpu", "--steps", "1", "--size", "64x64",
];

#[test]
fn a_profile_tells_where_time_and_memory_went() {
    let dir = Folder::new();
    let files = ["trace.json", "flame.svg", "memory.svg"].map(|name| dir.at(name));
    let [trace, flame, memory] = files.each_ref().map(String::as_str);
    let picture = dir.at("sun.png");
    let mut args = vec![
        "profile", "--trace", trace, "--flame", flame, "--memory", memory, "generate",
    ];
    args.extend(QUICK);
    args.extend(["-o", &picture]);
    let said = nino(&args);
    assert_eq!(said.code, 0, "{}", said.err);
    for part in [
        "text",
        "sample",
        "decode",
        "conv",
        "between ops",
        "MiB planned",
    ] {
        assert!(said.out.contains(part), "no {part} in\n{}", said.out);
    }
    let text = std::fs::read_to_string(trace).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = value["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|e| e["args"]["op"] == "conv"));
    assert!(events.iter().any(|e| e["ph"] == "C"));
    for svg in [flame, memory] {
        assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));
    }
    assert!(std::path::Path::new(&picture).is_file());
}

#[test]
fn captured_stages_are_the_same_again_and_differ_where_changed() {
    let dir = Folder::new();
    let folder = dir.at("captured");
    let mut args = vec!["generate"];
    args.extend(QUICK);
    let picture = dir.at("sun.png");
    args.extend(["-o", &picture]);
    let said = nino_with(&args, &[("NINO_CAPTURE", &folder)]);
    assert_eq!(said.code, 0, "{}", said.err);
    let said = nino(&["replay", &folder, "--device", "cpu", "--json"]);
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.err);
    let json = said.json();
    let stages = json["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 3, "{json}");
    assert!(stages.iter().all(|s| s["same"] == true), "{json}");
    // Nothing is as near as that.
    let said = nino(&["replay", &folder, "--device", "cpu", "--limit=-1"]);
    assert_eq!(said.code, 1, "{}", said.err);
    // Nothing is captured where nobody asked.
    let quiet = nino_in(dir.path(), &args);
    assert_eq!(quiet.code, 0, "{}", quiet.err);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
}

#[test]
fn optimize_writes_a_report_and_settings_that_are_used() {
    let dir = Folder::new();
    let (folder, cache) = (dir.at("out"), dir.at("cache"));
    let env = [("NINO_CACHE", cache.as_str())];
    let picture = dir.at("sun.png");
    let mut measured = vec!["generate"];
    measured.extend(QUICK);
    measured.extend(["-o", &picture, "--force", "--profile"]);
    let with = |profile: &str, more: &[&str]| {
        let args = [&measured[..], &[profile], more].concat();
        nino_with(&args, &env)
    };
    // Nothing is known yet, which is said and no error.
    let said = with("measured", &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.err.contains("there are no measurements"),
        "{}",
        said.err
    );
    let args = [
        "optimize",
        "--device",
        "cpu",
        "--steps",
        "2",
        "--runs",
        "1",
        "--size",
        "64x64",
        "--min-psnr",
        "1",
        "-o",
        &folder,
        "--json",
    ];
    let said = nino_with(&args, &env);
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    let rows = json["rows"].as_array().unwrap();
    assert!(
        rows.iter().any(|row| row["option"] == "steps 1"),
        "{rows:?}"
    );
    let page = std::fs::read_to_string(dir.at("out/report.html")).unwrap();
    assert!(page.contains("<td>base<td>"), "{page}");
    for file in ["out/base.png", "out/precision-bf16-difference.png"] {
        assert!(std::path::Path::new(&dir.at(file)).is_file(), "{file}");
    }
    // The settings are what a config file and a profile may have.
    let settings = dir.at("out/settings.toml");
    let said = nino_with(&["config"], &[("NINO_CONFIG", &settings)]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(with(&settings, &[]).code, 0);
    // Every setting that is used is told with its reason, unless a flag says another.
    for best in json["settings"].as_array().unwrap() {
        let (key, value) = (&best["key"], &best["value"]);
        let note = format!("{} is {}", key.as_str().unwrap(), value.as_str().unwrap());
        // Steps are a flag of this run.
        let is_flag = key == "steps";
        let said = with("measured", &[]);
        assert_eq!(said.err.contains(&note), !is_flag, "{note}: {}", said.err);
        let said = with("measured", &["--precision", "fp32"]);
        assert!(!said.err.contains("precision is"), "{}", said.err);
    }
    assert_eq!(with("a.profile", &[]).code, 2);
}

#[test]
fn documents_of_different_benches_cannot_be_compared() {
    let dir = Folder::new();
    let row = |case: &str| format!(r#"{{"rows":[{{"case":"{case}","runs":3,"median_ms":2.0}}]}}"#);
    let (a, b) = (dir.at("a.json"), dir.at("b.json"));
    std::fs::write(&a, row("one")).unwrap();
    std::fs::write(&b, row("two")).unwrap();
    assert_eq!(nino(&["bench", "compare", &a, &b]).code, 2);
    let said = nino(&["bench", "compare", &a, &a]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("1.000"), "{}", said.out);
    std::fs::write(&b, "{}").unwrap();
    assert_eq!(nino(&["bench", "compare", &a, &b]).code, 2);
}

#[test]
fn keys_of_earlier_programs_are_read_and_explained() {
    let dir = Folder::new();
    let file = dir.at("config.toml");
    let text = "max_vram_usage_mb = 6656\nuse_quantization = true\nquantization_bits = 4\n\
                memory_fraction = 0.9\nnum_inference_steps = 15\nsteps = 9\n\
                precision_mode = \"mixed\"\n";
    std::fs::write(&file, text).unwrap();
    let mut run = command(&["config", "--json"]);
    let output = run.env("NINO_CONFIG", &file).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let value = |name: &str| {
        let all = json["settings"].as_array().unwrap();
        all.iter().find(|s| s["name"] == name).unwrap()["value"].clone()
    };
    assert_eq!(value("budget"), "6656MiB");
    assert_eq!(value("quantize"), "q4_k");
    assert_eq!(value("steps"), "9");
    assert_eq!(value("precision"), "mixed");
    let said = nino(&["config", "explain", "offload_threshold_mb"]);
    assert!(said.out.contains("nothing: plans move"), "{}", said.out);
    let said = nino(&["config", "explain", "bugdet"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("budget"), "{}", said.err);
    assert!(nino(&["config", "explain"]).out.contains("chunk_size"));
}

#[test]
fn tiles_are_measured_on_gpus_for_networks_that_there_are() {
    let said = nino(&["tune", "--device", "cpu"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err.contains("cpu has no kernel tiles to tune"),
        "{}",
        said.err
    );
    let said = nino(&["tune", "--workload", "sd16"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("sd15, sdxl, sd-vae"), "{}", said.err);
}
