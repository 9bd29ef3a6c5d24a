//! `nino decode`, `encode` and `plan decode` as a user meets them: what is wrong is one sentence
//! with the numbers, and nothing half-written is left.

use crate::shell::{Said, command, nino, nino_with};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

fn golden(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/models");
    let path = root.join(format!("{name}.safetensors"));
    path.to_str().unwrap().to_owned()
}

/// A safetensors file of one f32 tensor.
fn latent(dir: &Path, key: &str, shape: &[usize], value: impl Fn(usize) -> f32) -> String {
    let n: usize = shape.iter().product();
    let header = format!(
        r#"{{"{key}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[0,{}]}}}}"#,
        n * 4
    );
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((0..n).flat_map(|i| value(i).to_le_bytes()));
    let path = dir.join("in.safetensors");
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn wave(i: usize) -> f32 {
    (i as f32 * 0.37).sin()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|e| e.unwrap().path()).collect()
}

fn decode(vae: &str, input: &str, output: &Path, more: &[&str]) -> Said {
    let output = output.to_str().unwrap();
    let args = [
        "decode", input, "--vae", vae, "-o", output, "--device", "cpu",
    ];
    nino(&[&args[..], more].concat())
}

#[test]
fn a_picture_is_decoded_and_encoded_back() {
    let dir = tempfile::tempdir().unwrap();
    let input = latent(dir.path(), "samples", &[1, 4, 6, 4], wave);
    let (picture, back) = (dir.path().join("a.png"), dir.path().join("a.latent"));
    let said = decode(&golden("taesd"), &input, &picture, &["--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    for key in [
        "predicted_peak_bytes",
        "measured_peak_bytes",
        "load_ms",
        "decode_ms",
    ] {
        assert!(json[key].as_f64().unwrap() > 0.0, "{key}: {json:#}");
    }
    assert_eq!((&json["width"], &json["height"]), (&32.into(), &48.into()));
    assert_eq!(
        (&json["retries"], &json["recoveries"]),
        (&0.into(), &0.into())
    );
    assert_eq!(
        (&json["strategy"], &json["precision"]),
        (&"untiled".into(), &"f32".into())
    );
    let (picture, back) = (picture.to_str().unwrap(), back.to_str().unwrap());
    let said = nino(&[
        "encode",
        picture,
        "--vae",
        &golden("taesd"),
        "-o",
        back,
        "--device",
        "cpu",
        "--json",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.json()["shape"], serde_json::json!([1, 4, 6, 4]));
}

#[test]
fn a_clip_is_decoded_and_encoded_back() {
    let dir = tempfile::tempdir().unwrap();
    let input = latent(dir.path(), "samples", &[1, 4, 2, 2, 3], wave);
    let there = |program: &str| Command::new(program).arg("-version").output().is_ok();
    for name in ["clip.y4m", "clip.gif", "frames", "clip.mp4"] {
        let clip = dir.path().join(name);
        if name == "clip.mp4" && !there("ffmpeg") {
            println!("skipped: no ffmpeg on the PATH for {name}");
            continue;
        }
        let said = decode(&golden("wan21"), &input, &clip, &["--json"]);
        assert_eq!(said.code, 0, "{}", said.err);
        assert_eq!(said.json()["frames"], 5, "{name}");
        let back = dir.path().join("back.latent");
        let said = nino(&[
            "encode",
            clip.to_str().unwrap(),
            "--vae",
            &golden("wan21"),
            "-o",
            back.to_str().unwrap(),
            "--device",
            "cpu",
            "--json",
        ]);
        assert_eq!(said.code, 0, "{name}: {}", said.err);
        assert_eq!(said.json()["shape"], serde_json::json!([1, 4, 2, 2, 3]));
        if name == "clip.mp4" && there("ffprobe") {
            let args = "-v error -count_frames -select_streams v -of csv=p=0 -show_entries \
                        stream=width,height,color_space,r_frame_rate,nb_read_frames";
            let mut probe = Command::new("ffprobe");
            let found = probe.args(args.split_whitespace()).arg(&clip).output();
            let found = String::from_utf8(found.unwrap().stdout).unwrap();
            assert_eq!(found.trim(), "24,16,bt709,16/1,5");
        }
    }
}

/// One latent frame is one frame: a picture or a clip, as the file's name says.
#[test]
fn a_clip_of_one_frame_is_written_either_way() {
    let dir = tempfile::tempdir().unwrap();
    let input = latent(dir.path(), "samples", &[1, 4, 1, 2, 3], wave);
    for name in ["one.png", "one.jpg", "one.y4m", "one.gif", "one"] {
        let output = dir.path().join(name);
        let said = decode(&golden("wan21"), &input, &output, &[]);
        assert_eq!(said.code, 0, "{name}: {}", said.err);
    }
    assert!(dir.path().join("one/00000.png").is_file());
}

/// Names of files are bytes on most systems; JSON says what can be said of them.
#[test]
#[cfg(target_os = "linux")]
fn names_that_are_no_text_are_told_in_json_all_the_same() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let input = latent(dir.path(), "samples", &[1, 4, 2, 2], wave);
    let output = dir.path().join(std::ffi::OsStr::from_bytes(b"\xff.png"));
    let run = command(&["decode", &input, "--vae", &golden("taesd"), "--json"])
        .args(["--device", "cpu", "-o"])
        .arg(&output)
        .output()
        .unwrap();
    assert!(run.status.success());
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert!(json["files"][0].is_string(), "{json}");
    assert!(output.is_file());
}

/// An ffmpeg that ends well and early has not written what it was given.
/// Decodes a Wan latent to `a.mp4`, with programs found in `path` alone.
fn to_mp4(input: &str, folder: &Path, path: &Path) -> Said {
    let (vae, output) = (golden("wan21"), folder.join("a.mp4"));
    let output = output.to_str().unwrap();
    let args = [
        "decode", input, "--vae", &vae, "-o", output, "--device", "cpu",
    ];
    nino_with(&args, &[("PATH", path.to_str().unwrap())])
}

#[test]
#[cfg(unix)]
fn an_ffmpeg_that_ends_early_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let input = latent(dir.path(), "samples", &[1, 4, 9, 8, 8], wave);
    let bin = tempfile::tempdir().unwrap();
    let fake = bin.path().join("ffmpeg");
    std::fs::write(&fake, "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    let said = to_mp4(&input, dir.path(), bin.path());
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("ended before it had all"), "{}", said.err);
    assert_eq!(files(dir.path()).len(), 1, "only the latent");
}

#[test]
fn formats_that_cannot_be_written_are_told_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let input = latent(dir.path(), "samples", &[1, 4, 2, 2, 3], wave);
    let said = decode(&golden("wan21"), &input, &dir.path().join("a.xyz"), &[]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(
        said.err
            .contains("\"xyz\" is not a supported output format"),
        "{}",
        said.err
    );
    let said = to_mp4(&input, dir.path(), Path::new(""));
    assert_eq!(said.code, 1);
    assert!(said.err.contains("ffmpeg, which is not"), "{}", said.err);
    assert!(said.err.contains("hint: install ffmpeg"), "{}", said.err);
    assert_eq!(files(dir.path()).len(), 1, "only the latent");
}

/// Key, shape, values, the VAE's golden, and what must be said.
type BadLatent = (
    &'static str,
    &'static [usize],
    fn(usize) -> f32,
    &'static str,
    &'static [&'static str],
);

#[test]
fn bad_latents_are_one_sentence_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    let nan = |i: usize| if i == 5 { f32::NAN } else { 0.5 };
    let cases: &[BadLatent] = &[
        (
            "samples",
            &[1, 16, 4, 4],
            wave,
            "taesd",
            &["16 channels", "expects 4", "hint: "],
        ),
        (
            "samples",
            &[1, 4, 2, 2],
            nan,
            "taesd",
            &["1 of 16 values", "NaN", "hint: "],
        ),
        (
            "samples",
            &[1, 4, 0, 4, 4],
            wave,
            "wan21",
            &["[1, 4, 0, 4, 4]", "[b, c, t, h, w]"],
        ),
        (
            "samples",
            &[4, 4],
            wave,
            "taesd",
            &["[4, 4]", "[b, c, h, w]"],
        ),
        (
            "samples",
            &[1, 4, 3, 4, 4],
            wave,
            "taesd",
            &["3 latent frames", "single images"],
        ),
        (
            "noise",
            &[1, 4, 4, 4],
            wave,
            "taesd",
            &["contains no latent", "found noise"],
        ),
    ];
    for (key, shape, value, vae, parts) in cases {
        let input = latent(dir.path(), key, shape, value);
        let said = decode(&golden(vae), &input, &out.path().join("a.png"), &[]);
        assert_eq!(said.code, 1, "{shape:?}: {}", said.err);
        for part in *parts {
            assert!(
                said.err.contains(part),
                "{part:?} is missing from:\n{}",
                said.err
            );
        }
        let errors = said
            .err
            .lines()
            .filter(|l| l.starts_with("error: "))
            .count();
        assert_eq!(errors, 1, "{}", said.err);
        assert!(files(out.path()).is_empty(), "{:?}", files(out.path()));
    }
}

#[test]
fn outputs_that_cannot_be_written_are_told_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let input = latent(dir.path(), "samples", &[1, 4, 4, 4], wave);
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    for output in [
        file.join("such/a.png"),
        file.join("a.png"),
        "/proc/a.png".into(),
    ] {
        if output.starts_with("/proc") && !cfg!(target_os = "linux") {
            continue;
        }
        let said = decode(&golden("taesd"), &input, &output, &[]);
        assert_eq!(said.code, 1, "{}: {}", output.display(), said.err);
        assert!(said.err.contains("a.png"), "{}", said.err);
    }
    assert_eq!(files(dir.path()).len(), 2, "what was there before");
    let picture = dir.path().join("a.png");
    assert_eq!(decode(&golden("taesd"), &input, &picture, &[]).code, 0);
    let picture = picture.to_str().unwrap();
    for output in [file.join("b.latent"), file.join("no/a.latent")] {
        let output = output.to_str().unwrap();
        let said = nino(&["encode", picture, "--vae", &golden("taesd"), "-o", output]);
        assert_eq!(said.code, 1, "{output}: {}", said.err);
        assert!(said.err.contains(output), "{}", said.err);
        let notes = said.err.lines().filter(|l| l.starts_with("note: ")).count();
        assert_eq!(notes, 0, "before anything runs: {}", said.err);
    }
}

#[test]
fn a_budget_below_the_smallest_plan_is_told_with_the_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&str, &[usize], &str); 2] = [
        ("taesd", &[1, 4, 32, 32], "a.png"),
        ("wan21", &[1, 4, 3, 32, 32], "a.y4m"),
    ];
    for (vae, shape, name) in cases {
        let input = latent(dir.path(), "samples", shape, wave);
        let output = dir.path().join(name);
        let run = |budget: &str| decode(&golden(vae), &input, &output, &["--budget", budget]);
        let said = run("64KiB");
        assert_eq!(said.code, 1, "{}", said.err);
        for part in [
            "the plan needs",
            "the budget is 0 MiB",
            "hint: give --budget",
        ] {
            assert!(
                said.err.contains(part),
                "{part:?} is missing from:\n{}",
                said.err
            );
        }
        assert!(!output.exists());
        let hint = said.err.split("--budget ").nth(1).unwrap();
        let said = run(hint.split_whitespace().next().unwrap());
        assert_eq!(said.code, 0, "what the hint says does: {}", said.err);
    }
}

#[test]
fn plans_need_no_file_and_no_device() {
    let plan = |args: &[&str]| {
        let said = nino(&[&["plan", "decode", "--device", "cpu", "--json"][..], args].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        said.json()
    };
    let json = plan(&["--spec", "taesd", "--size", "512x512"]);
    for key in [
        "strategy",
        "predicted_peak_bytes",
        "largest_binding_bytes",
        "weights_bytes",
        "tile",
        "chunk",
        "estimated_ms",
    ] {
        assert!(json.get(key).is_some(), "{key} is missing from {json:#}");
    }
    let json = plan(&["--spec", "taesd", "--size", "1024x1024", "--tile", "fast"]);
    assert_eq!(json["tile"]["size"], 768);
    assert_eq!(json["tile"]["overlap"], 96);
}

#[test]
fn quantized_models_get_smaller_fast_tiles() {
    let dir = tempfile::tempdir().unwrap();
    let quantized = dir.path().join("q8.gguf");
    let path = quantized.to_str().unwrap();
    let said = nino(&["convert", &golden("kl_flux2"), path, "--type", "q8_0"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let said = nino(&[
        "plan",
        "decode",
        "--vae",
        path,
        "--size",
        "1024x1024",
        "--tile",
        "fast",
        "--device",
        "cpu",
        "--json",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.json()["tile"]["size"], 512);
}

/// What the process holds at its most, program and all, is within what it was given.
#[test]
fn resident_memory_stays_within_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    let input = latent(dir.path(), "samples", &[1, 4, 128, 160], wave);
    let run = |more: &[&str]| {
        let more = [&["--json"], more].concat();
        let said = decode(&golden("taesd"), &input, &dir.path().join("a.png"), &more);
        assert_eq!(said.code, 0, "{}", said.err);
        said.json()
    };
    let bytes = |json: &serde_json::Value, key: &str| json[key].as_u64();
    let whole = run(&[]);
    let peak = bytes(&whole, "predicted_peak_bytes").unwrap();
    let budget = peak / 2 + bytes(&whole, "program_bytes").unwrap();
    let small = run(&["--budget", &format!("{budget}B")]);
    assert_eq!(small["strategy"], "exact-tiles");
    assert!(bytes(&small, "predicted_peak_bytes").unwrap() <= peak / 2);
    // Asking for a GPU first leaves drivers in memory; the budget holds all the same.
    let more = peak / 2 + (96 << 20);
    let output = dir.path().join("b.png");
    let said = nino(&[
        "decode",
        &input,
        "--vae",
        &golden("taesd"),
        "-o",
        output.to_str().unwrap(),
        "--budget",
        &format!("{more}B"),
        "--json",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    let auto = said.json();
    let on_gpu = auto["device"].as_str().unwrap().starts_with("gpu");
    let limit = if on_gpu { u64::MAX } else { more };
    for (json, most) in [(&whole, peak * 2), (&small, budget), (&auto, limit)] {
        let Some(resident) = bytes(json, "resident_peak_bytes") else {
            println!("skipped: this system does not tell resident memory");
            return;
        };
        assert!(resident <= most, "{resident} of {most}");
    }
}

#[test]
fn ctrl_c_stops_within_a_picture_and_leaves_nothing_half_written() {
    stopped_by(&["-INT"]);
}

#[test]
fn being_told_to_end_is_like_ctrl_c() {
    stopped_by(&["-TERM"]);
}

#[test]
fn a_second_signal_leaves_nothing_half_written_either() {
    stopped_by(&["-INT", "-TERM"]);
}

/// A decode of many seconds, stopped once its first picture is there.
fn stopped_by(signals: &[&str]) {
    if !cfg!(unix) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    let input = latent(dir.path(), "samples", &[64, 4, 64, 64], wave);
    let output = out.path().join("a.png");
    let mut child = command(&[
        "decode",
        &input,
        "--vae",
        &golden("taesd"),
        "-o",
        output.to_str().unwrap(),
        "--device",
        "cpu",
        "--tile",
        "fast",
        "--tile-size",
        "256",
    ])
    .stdout(Stdio::null())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let whole = |p: &PathBuf| {
        p.file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with("a_"))
    };
    let pictures = || files(out.path()).iter().filter(|p| whole(p)).count();
    while pictures() == 0 {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before it was stopped"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = child.id().to_string();
    for signal in signals {
        let sent = Command::new("kill").args([*signal, &id]).status().unwrap();
        assert!(sent.success());
    }
    // The signal is there, and the engine stops within a tile: one more picture at most.
    let before = pictures();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(pictures() <= before + 1, "{before}, then {}", pictures());
    let left = files(out.path());
    assert!(left.iter().all(whole), "{left:?}");
}

/// What cannot be decoded is told before how its file is called, and before ffmpeg is looked for.
#[test]
fn the_latent_is_looked_at_before_the_file_to_write() {
    let dir = tempfile::tempdir().unwrap();
    let input = latent(dir.path(), "samples", &[1, 4, 3, 4, 4], wave);
    for name in ["clip.mp4", "clip.png", "clip.xyz"] {
        let said = decode(&golden("taesd"), &input, &dir.path().join(name), &[]);
        assert_eq!(said.code, 1, "{name}: {}", said.err);
        let part = "of 3 latent frames, and taesd.safetensors decodes single images";
        assert!(said.err.contains(part), "{name}: {}", said.err);
    }
}

#[test]
fn without_ffmpeg_other_formats_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let input = latent(dir.path(), "samples", &[1, 16, 2, 2, 2], wave);
    let (vae, out) = (golden("wan21"), dir.path().join("clip.mp4"));
    let args = [
        "decode",
        &input,
        "--vae",
        &vae,
        "-o",
        out.to_str().unwrap(),
        "--device",
        "cpu",
    ];
    let said = nino_with(&args, &[("PATH", "")]);
    assert_eq!(said.code, 1, "{}", said.err);
    for part in ["ffmpeg", "gif, webp, apng", "a folder"] {
        assert!(
            said.err.contains(part),
            "{part:?} is missing from {}",
            said.err
        );
    }
}
