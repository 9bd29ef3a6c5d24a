//! `nino generate` with the model in the box, small and quick.

// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

#[cfg(unix)]
use crate::shell::command;
use crate::shell::{Folder, nino, nino_in};
use std::path::Path;
#[cfg(unix)]
use std::time::{Duration, Instant};

/// Two steps of 64x64 on the CPU.
const QUICK: [&str; 8] = [
    "--device", "cpu", "--steps", "2", "--cfg", "1", "--size", "64x64",
];

fn a_cat<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["generate", "a cat"], args].concat()
}

/// The same in a moment.
fn quick<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&a_cat(args)[..], &QUICK].concat()
}

pub(crate) fn pixels(path: &Path) -> Vec<u8> {
    let reader = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(path).unwrap()));
    let mut reader = reader.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut bytes).unwrap();
    bytes
}

/// A gray PNG with the right part white.
fn mask(path: &Path, width: u32, height: u32) {
    let file = std::fs::File::create(path).unwrap();
    let mut encoder = png::Encoder::new(file, width, height);
    encoder.set_color(png::ColorType::Grayscale);
    let bytes: Vec<u8> = (0..width * height)
        .map(|i| if i % width > width / 2 { 255 } else { 0 })
        .collect();
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&bytes).unwrap();
}

#[test]
fn a_count_is_as_many_seeds() {
    let dir = Folder::new();
    let (row, one, preview) = (dir.at("row.png"), dir.at("one.png"), dir.at("preview.png"));
    let more = ["--seed", "5", "--count", "2", "-o", &row, "--json"];
    let said = nino(&quick(&[&more[..], &["--preview", &preview]].concat()));
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    assert_eq!(json["seeds"], serde_json::json!([5, 6]));
    assert_eq!(json["files"].as_array().unwrap().len(), 2);
    let said = nino(&quick(&["--seed", "6", "-o", &one]));
    assert_eq!(said.code, 0, "{}", said.err);
    let (first, second) = (dir.at("row_00000.png"), dir.at("row_00001.png"));
    assert_eq!(pixels(Path::new(&second)), pixels(Path::new(&one)));
    assert_ne!(pixels(Path::new(&first)), pixels(Path::new(&one)));
    assert_eq!(pixels(Path::new(&preview)).len(), 8 * 8 * 3);
    let left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 4, "no latent or half a file stays: {left:?}");
}

#[test]
fn a_latent_goes_through_two_runs_and_a_mask() {
    let dir = Folder::new();
    let (whole, half, both) = (
        dir.at("whole.png"),
        dir.at("half.latent"),
        dir.at("both.png"),
    );
    let go = |more: &[&str]| {
        let mut args = a_cat(&[
            "--seed", "5", "--device", "cpu", "--steps", "4", "--cfg", "1",
        ]);
        args.extend(more);
        let said = nino(&args);
        assert_eq!(said.code, 0, "{args:?}: {}", said.err);
        said
    };
    go(&["--size", "64x64", "-o", &whole]);
    let first = dir.at("first.png");
    go(&[
        "--size",
        "64x64",
        "--end-at-step",
        "2",
        "--return-with-leftover-noise",
        "--save-latent",
        &half,
        "-o",
        &first,
    ]);
    go(&[
        "--latent",
        &half,
        "--start-at-step",
        "2",
        "--no-noise",
        "-o",
        &both,
    ]);
    let apart = pixels(Path::new(&whole))
        .iter()
        .zip(&pixels(Path::new(&both)))
        .map(|(a, b)| a.abs_diff(*b))
        .max();
    assert!(apart <= Some(1), "{apart:?}");
    // A mask of twice the size fits; one of another shape does not.
    let (fits, wide) = (dir.at("fits.png"), dir.at("wide.png"));
    mask(Path::new(&fits), 128, 128);
    mask(Path::new(&wide), 128, 64);
    let painted = dir.at("painted.png");
    go(&["--latent", &half, "--mask", &fits, "-o", &painted]);
    let said = nino(&a_cat(&["--latent", &half, "--mask", &wide]));
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(
        said.err.contains("128x64") && said.err.contains("64x64"),
        "{}",
        said.err
    );
}

#[test]
fn wrong_requests_are_named() {
    let dir = Folder::new();
    let picture = dir.path().join("picture.png");
    mask(&picture, 64, 64);
    let picture = picture.to_str().unwrap();
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["--sampler", "euler_ancestrall"],
            &["euler_ancestrall", "euler_ancestral"],
        ),
        (&["--scheduler", "karas"], &["karas", "karras"]),
        (&["--strength", "1.5"], &["1.5", "0 to 1"]),
        (&["--denoise", "-0.1"], &["-0.1"]),
        (&["--steps", "10001"], &["10001", "10000"]),
        (&["--steps", "0"], &["from 1 to 10000"]),
        (
            &["--steps", "4.5"],
            &["4.5", "a whole number from 1 to 10000"],
        ),
        (
            &["--steps", "-1"],
            &["'-1'", "a whole number from 1 to 10000"],
        ),
        (
            &["--seed", "18446744073709551616"],
            &["18446744073709551616"],
        ),
        (&["--seed", "-2"], &["-2", "-1 for a random one"]),
        (&["--cfg", "1e30"], &["1e30", "from -100 to 100"]),
        (
            &["--size", "1000000x64"],
            &["a side has from 1 to 16384 pixels"],
        ),
        (&["--size", "-5x64"], &["WIDTHxHEIGHT"]),
        (&["--budget", "-1GiB"], &["more than zero"]),
        (&["--lora", "ink:abc"], &["strength of ink", "abc"]),
        (
            &["--sampler", "eulr"],
            &["\"eulr\"", "did you mean euler", "dpmpp_2m"],
        ),
        (&["--prediction", "v"], &["--prediction", "nino-emoji"]),
        (&["--width", "64", "--latent", picture], &["--height"]),
        (&["-o", "a.bmp"], &["bmp", "png"]),
        (&["-o", "{sead}.png"], &["{sead}", "{seed}"]),
        (&["--cfg", "NaN"], &["NaN"]),
        (&["--mask", picture], &["--image"]),
        (&["--paste"], &["--mask"]),
        (&["--no-noise"], &["--latent"]),
        (&["--return-with-leftover-noise"], &["--end-at-step"]),
        (
            &["--start-at-step", "2", "--denoise", "0.5"],
            &["--denoise"],
        ),
        (
            &["--steps", "4", "--start-at-step", "4"],
            &["none of 4 steps"],
        ),
        (&["--image", picture, "--mask", "alpha"], &["transparency"]),
        (
            &["--image", picture, "--outpaint", "32x32"],
            &["32x32", "64x64"],
        ),
        (
            &["--image", picture, "--outpaint", "0,0,0,0"],
            &["adds nothing"],
        ),
        (
            &["--image", picture, "--outpaint", "8,8"],
            &["LEFT,TOP,RIGHT,BOTTOM"],
        ),
        (&["--hires", "0.5x"], &["1x to 8x"]),
        (&["--hires-steps", "4"], &["--hires"]),
        (&["--rng", "dice"], &["torch and philox"]),
        (&["--count", "0"], &["from 1 to 100000"]),
    ];
    for (args, wanted) in cases {
        let said = nino(&a_cat(args));
        assert_eq!(said.code, 2, "{args:?}: {}{}", said.out, said.err);
        for part in *wanted {
            assert!(
                said.err.contains(part),
                "{args:?}: {part:?} is missing from:\n{}",
                said.err
            );
        }
    }
}

#[test]
fn failures_come_before_the_work() {
    let dir = Folder::new();
    let picture = dir.path().join("picture.png");
    mask(&picture, 64, 64);
    let cases: &[(&[&str], &[&str])] = &[
        (&["-o", "/dev/null/folder/a.png"], &["/dev/null/folder"]),
        (&["--image", "nothing.png"], &["nothing.png"]),
        (&["--latent", "nothing.latent"], &["nothing.latent"]),
        (
            &["--image", picture.to_str().unwrap()],
            &["no encoder", "hint:", "--latent"],
        ),
    ];
    for (args, wanted) in cases {
        let mut args = a_cat(args);
        args.extend(["--device", "cpu"]);
        let said = nino(&args);
        assert_eq!(said.code, 1, "{args:?}: {}{}", said.out, said.err);
        for part in *wanted {
            assert!(
                said.err.contains(part),
                "{args:?}: {part:?} is missing from:\n{}",
                said.err
            );
        }
    }
}

#[test]
fn odd_sizes_are_rounded_and_ten_thousand_steps_and_no_prompt_are_fine() {
    let dir = Folder::new();
    let out = dir.path().join("a.png");
    // Without noise to take away there is nothing to do in ten thousand steps.
    let said = nino(&[
        "generate",
        "",
        "--device",
        "cpu",
        "--size",
        "67x64",
        "--steps",
        "10000",
        "--denoise",
        "0",
        "-o",
        out.to_str().unwrap(),
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("67 becomes 64"), "{}", said.err);
    assert_eq!(pixels(&out).len(), 64 * 64 * 3);
}

#[test]
fn a_sampled_latent_outlives_a_picture_that_cannot_be_written() {
    let dir = Folder::new();
    let (out, latent, later) = (
        dir.at("taken.png"),
        dir.at("taken_00001.latent"),
        dir.at("later.png"),
    );
    std::fs::create_dir(dir.at("taken_00001.png")).unwrap();
    let said = nino(&quick(&["--count", "2", "-o", &out]));
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("nino decode"), "{}", said.err);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let vae = root.join("models/nino-emoji.gguf");
    let vae = vae.to_str().unwrap();
    let said = nino(&[
        "decode", &latent, "--vae", vae, "--device", "cpu", "-o", &later,
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(pixels(Path::new(&later)).len(), 64 * 64 * 3);
}

/// Runs until the first preview, of the second step, then presses Ctrl-C; the exit code and what
/// was said.
#[cfg(unix)]
fn interrupted(args: &[&str], preview: &Path) -> (Option<i32>, String) {
    let mut child = command(args)
        .args(["--preview", preview.to_str().unwrap()])
        .args(["--preview-every", "2"])
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !preview.exists() && started.elapsed() < Duration::from_mins(1) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let asked = Instant::now();
    let pid = child.id().to_string();
    std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status()
        .unwrap();
    let status = child.wait().unwrap();
    assert!(
        asked.elapsed() < Duration::from_secs(10),
        "{:?}",
        asked.elapsed()
    );
    let mut err = String::new();
    std::io::Read::read_to_string(&mut child.stderr.unwrap(), &mut err).unwrap();
    (status.code(), err)
}

/// The words of a command between backticks, in the line that contains `marker`.
#[cfg(unix)]
fn quoted(said: &str, marker: &str) -> Vec<String> {
    let line = said.lines().find(|l| l.contains(marker));
    let line = line.unwrap_or_else(|| panic!("{marker:?} is missing from:\n{said}"));
    let command = line.split('`').nth(1).unwrap();
    command.split(' ').map(str::to_owned).collect()
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_within_a_step_and_keeps_the_latent() {
    let dir = Folder::new();
    let (out, preview) = (dir.path().join("a.png"), dir.path().join("p.png"));
    let mut args = a_cat(&["--device", "cpu", "--steps", "1000", "--seed", "3"]);
    args.extend(["-o", out.to_str().unwrap()]);
    let first = [&args[..], &["--size", "64x64"]].concat();
    let (code, said) = interrupted(&first, &preview);
    assert_eq!(code, Some(130), "{said}");
    let latent = out.with_extension("latent");
    assert!(!out.exists() && latent.exists());
    assert!(
        said.contains("\nstopped: ") && said.contains("of 1000"),
        "{said}"
    );
    // What it says to type does what it says.
    let decode = quoted(&said, "decodes it");
    let decode: Vec<&str> = decode.iter().skip(1).map(String::as_str).collect();
    let shown = nino(&decode);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert_eq!(pixels(&out).len(), 64 * 64 * 3);
    let go_on = quoted(&said, "continues to the same image");
    let go_on: Vec<&str> = go_on.iter().map(String::as_str).collect();
    let start: usize = go_on[3].parse().unwrap();
    // The step it names is the one it had come to.
    let again = dir.path().join("again.latent");
    let until = start.to_string();
    let ends = ["--end-at-step", &until, "--return-with-leftover-noise"];
    let keeps = ["--save-latent", again.to_str().unwrap()];
    let same = nino(&[&first[..], &ends, &keeps, &["--force"]].concat());
    assert_eq!(same.code, 0, "{}", same.err);
    let is_same = tensor(&again, "latent_tensor") == tensor(&latent, "noisy_latent");
    assert!(is_same, "it did not stop at step {start}");
    let end = (start + 2).to_string();
    let two_more = [&args[..], &go_on, &["--end-at-step", &end]].concat();
    let went_on = nino(&two_more);
    assert_eq!(went_on.code, 0, "{}", went_on.err);
    assert!(
        latent.exists(),
        "what a run starts from is not its own to remove"
    );
}

/// The bytes of one tensor of a latent's file.
#[cfg(unix)]
fn tensor(path: &Path, name: &str) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap());
    let (header, data) = rest.split_at(length as usize);
    let header: serde_json::Value = serde_json::from_slice(header).unwrap();
    let range = &header[name]["data_offsets"];
    let [from, to] = [0, 1].map(|i| range[i].as_u64().unwrap() as usize);
    data[from..to].to_vec()
}

/// A graph keeps what its sampler had come to, and says how to look at it.
#[cfg(unix)]
#[test]
fn ctrl_c_in_a_graph_keeps_the_latent() {
    let dir = Folder::new();
    let (made, graph) = (dir.path().join("made.png"), dir.at("graph.json"));
    let said = nino(&quick(&["-q", "-o", made.to_str().unwrap()]));
    assert_eq!(said.code, 0, "{}", said.err);
    let limits = nino_engine::media::Limits::default();
    let text = nino_engine::media::read_text(&made, &["prompt"], &limits).unwrap();
    std::fs::write(&graph, &text.found[0].1).unwrap();
    let (out, preview) = (dir.path().join("a.png"), dir.path().join("p.png"));
    let args = [
        "generate",
        "--from",
        &graph,
        "--steps",
        "1000",
        "--device",
        "cpu",
        "-o",
        out.to_str().unwrap(),
    ];
    let (code, said) = interrupted(&args, &preview);
    assert_eq!(code, Some(130), "{said}");
    let latent = out.with_extension("latent");
    assert!(!out.exists() && latent.exists(), "{said}");
    assert!(said.contains("of 1000 steps"), "{said}");
    let decode = quoted(&said, "decodes it");
    let decode: Vec<&str> = decode.iter().skip(1).map(String::as_str).collect();
    let shown = nino(&decode);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert_eq!(pixels(&out).len(), 64 * 64 * 3);
}

#[test]
fn pictures_without_a_name_do_not_replace_each_other() {
    let dir = tempfile::tempdir().unwrap();
    for cfg in ["1", "2", "1"] {
        let args = [
            "generate", "a fox", "--seed", "7", "--steps", "1", "--size", "64x64",
        ];
        let made = nino_in(
            dir.path(),
            &[&args[..], &["--cfg", cfg, "--device", "cpu"]].concat(),
        );
        assert_eq!(made.code, 0, "{}", made.err);
    }
    for name in ["a-fox-7.png", "a-fox-7-2.png", "a-fox-7-3.png"] {
        assert!(dir.path().join(name).is_file(), "{name}");
    }
    let [first, third] = ["a-fox-7.png", "a-fox-7-3.png"].map(|n| pixels(&dir.path().join(n)));
    assert!(first == third);
}

/// A folder in which nobody can make files.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_without_room_for_the_picture_is_told_before_the_work() {
    let args = [
        "generate", "a fox", "--seed", "7", "--device", "cpu", "--steps", "900",
    ];
    let said = nino_in(Path::new("/proc"), &args);
    assert_eq!(said.code, 1, "{}", said.err);
    let text = said.err;
    assert!(
        text.contains("picture.png") && !text.contains("no image was made"),
        "{text}"
    );
}
