//! Plans, budgets, profiles, the config file, and what is kept when a picture cannot be written.

// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

use crate::generate::pixels;
use crate::made;
use crate::shell::{Folder, Said, nino, nino_with};
use nino_engine::Picture;
use nino_engine::media::write_picture;
use std::path::Path;

const MIB: u64 = 1 << 20;

/// Two steps of 64x64 of the model in the box, on the CPU.
const QUICK: [&str; 7] = [
    "a cat", "--device", "cpu", "--steps", "2", "--size", "64x64",
];

const BUILTIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nino-emoji.gguf");

fn verb<'a>(verb: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [verb, &QUICK, more].concat()
}

#[test]
fn a_four_gigabyte_card_makes_512_pixels_of_sd_21() {
    let said = nino(&[
        "plan",
        "generate",
        "--spec",
        "sd21",
        "--size",
        "512x512",
        "--profile",
        "rx580-4gb",
        "--device",
        "cpu",
        "--json",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    let plan = said.json();
    assert_eq!(plan["budget_bytes"], 3584 * MIB);
    assert!(plan["predicted_peak_bytes"].as_u64().unwrap() <= 3584 * MIB);
    let stages = plan["stages"].as_array().unwrap();
    let names: Vec<_> = stages
        .iter()
        .map(|s| s["stage"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["text", "sample", "decode"]);
    // 866 million weights in 8 bits.
    let unet = stages[1]["weights_bytes"].as_u64().unwrap() / MIB;
    assert!((860..960).contains(&unet), "{unet} MiB");
    for key in [
        "strategy",
        "largest_binding_bytes",
        "streamed_bytes",
        "estimated_ms",
    ] {
        assert!(!stages[1][key].is_null(), "{key}");
    }
}

/// A reference image of 1536x1024 is 18 MiB in floats, of which an encoder holds two copies.
#[test]
fn a_reference_image_counts_as_it_is_held() {
    let dir = Folder::new();
    let (model, seen, out) = (
        dir.at("klein.safetensors"),
        dir.at("a.png"),
        dir.at("b.png"),
    );
    made::write_list(&made::list("tiny_klein"), Path::new(&model));
    let (width, height) = (1536, 1024);
    let rgb = (0..width * height * 3).map(|i| i as u8).collect();
    let picture = Picture { width, height, rgb };
    write_picture(Path::new(&seen), &picture, &[]).unwrap();
    let request = ["--model", &model, "--reference", &seen, "--cfg", "1"];
    let flags = verb(&["generate"], &[&request[..], &["--json"]].concat());
    let refused = nino(&[&flags[..], &["-o", &out, "--budget", "64MiB"]].concat());
    assert_eq!(refused.code, 1, "{}", refused.err);
    let least = refused.out.split("give --budget ").nth(1).unwrap();
    let least = least.split("MiB").next().unwrap();
    let budget = format!("{least}MiB");
    let said = nino(&[&flags[..], &["-o", &out, "--budget", &budget]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let report = said.json();
    let Some(resident) = report["resident_peak_bytes"].as_u64() else {
        println!("skipped: this system does not tell resident memory");
        return;
    };
    let budget = least.parse::<u64>().unwrap() * MIB;
    assert!(resident <= budget, "{resident} of {budget}");
}

#[test]
fn a_picture_within_a_small_budget_is_the_same_picture() {
    let dir = Folder::new();
    let (whole, small) = (dir.at("whole.png"), dir.at("small.png"));
    let plan = nino(&verb(&["plan", "generate"], &["--json"])).json();
    let peak = plan["predicted_peak_bytes"].as_u64().unwrap();
    let wanted = peak * 6 / 10;
    let budget = format!("{}B", wanted + plan["program_bytes"].as_u64().unwrap());
    let plan = nino(&verb(
        &["plan", "generate"],
        &["--json", "--budget", &budget],
    ))
    .json();
    assert!(plan["streamed_bytes"].as_u64().unwrap() > 0);
    assert!(plan["predicted_peak_bytes"].as_u64().unwrap() < peak);
    for (file, more) in [(&whole, &[][..]), (&small, &["--budget", &budget])] {
        let more = [&["--seed", "3", "-o", file, "--json"], more].concat();
        let said = nino(&verb(&["generate"], &more));
        assert_eq!(said.code, 0, "{}", said.err);
        let used = said.json();
        let used = |key: &str| used[key].as_u64().unwrap();
        if file == &small {
            let total = used("peak_bytes") + used("program_bytes");
            assert!(total <= plan["budget_bytes"].as_u64().unwrap(), "{total}");
        }
    }
    assert_eq!(pixels(Path::new(&small)), pixels(Path::new(&whole)));
    let said = nino(&verb(&["plan", "generate"], &["--budget", "100KiB"]));
    assert_eq!(said.code, 1);
    assert!(said.err.contains("budget"), "{}", said.err);
}

/// A refusal tells the least budget for all stages of a request: with that it works at once.
#[test]
fn the_budget_that_is_told_is_enough() {
    for plan in [
        ["plan", "decode", "--spec", "sd-vae"],
        ["plan", "generate", "--spec", "sd15"],
    ] {
        let with = |budget: &str| {
            let more = ["--size", "256x256", "--device", "cpu", "--threads", "1"];
            nino(&[&plan[..], &more, &["--budget", budget]].concat())
        };
        let said = with("30MiB");
        assert_eq!(said.code, 1, "{}", said.err);
        let told = said.err.split("give --budget ").nth(1);
        let told = told.and_then(|text| text.split_whitespace().next());
        let told = told.unwrap_or_else(|| panic!("no budget is told: {}", said.err));
        let said = with(told);
        assert_eq!(said.code, 0, "{told}: {}", said.err);
    }
}

#[test]
fn what_was_used_is_what_was_planned() {
    let dir = Folder::new();
    let out = dir.at("a.png");
    let same = ["a cat", "--device", "cpu", "--json", "--steps", "1"];
    let run = |verb: &[&str], more: &[&str]| {
        let said = nino(&[verb, &same, more].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        said.json()
    };
    let planned = run(&["plan", "generate"], &[]);
    let used = run(&["generate"], &["-o", &out]);
    assert_eq!(used["peak_bytes"], planned["predicted_peak_bytes"]);
    assert_eq!(used["program_bytes"], planned["program_bytes"]);
    assert!(used["program_bytes"].as_u64() > Some(0));
}

#[test]
fn a_picture_that_cannot_be_written_leaves_its_latent() {
    let dir = Folder::new();
    let (out, good, again) = (dir.at("taken.png"), dir.at("good.png"), dir.at("again.png"));
    std::fs::create_dir(dir.at("taken_00001.png")).unwrap();
    let two = ["--seed", "4", "--count", "2", "-o", &out];
    let said = nino(&verb(&["generate"], &two));
    assert_eq!(said.code, 1);
    assert!(said.err.contains("nino decode"), "{}", said.err);
    let latent = dir.at("taken_00001.latent");
    let said = nino(&[
        "decode", &latent, "--vae", BUILTIN, "-o", &again, "--device", "cpu",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    let said = nino(&verb(&["generate"], &["--seed", "5", "-o", &good]));
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(pixels(Path::new(&again)), pixels(Path::new(&good)));
}

#[test]
fn the_config_file_is_used_and_its_mistakes_are_told() {
    let dir = Folder::new();
    let path = dir.path().join("nino.toml");
    let config = path.to_string_lossy().into_owned();
    let plan = |text: &str, more: &[&str]| {
        std::fs::write(&path, text).unwrap();
        let args = verb(&["plan", "generate"], &[&["--json"], more].concat());
        nino_with(&args, &[("NINO_CONFIG", &config)])
    };
    let said = plan("budget = \"900MiB\"", &[]);
    assert_eq!(said.json()["budget_bytes"], 900 * MIB);
    let said = plan("budget = \"900MiB\"", &["--budget", "800MiB"]);
    assert_eq!(said.json()["budget_bytes"], 800 * MIB, "a flag wins");
    let said = plan("bugdet = \"900MiB\"", &[]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("did you mean budget"), "{}", said.err);
    std::fs::write(&path, "threads = 1").unwrap();
    let said = nino_with(&["doctor"], &[("NINO_CONFIG", &config)]);
    assert!(said.out.contains("nino.toml"), "{}", said.out);
}

fn plan_decode(more: &[&str]) -> Said {
    nino(&[&["plan", "decode", "--device", "cpu"], more].concat())
}

/// The 128 MiB with which copies were measured were held to the budget of the plan, too.
#[test]
fn a_plan_that_fits_is_not_refused_because_of_its_estimate() {
    let more = [
        "--spec", "taesd", "--size", "512x512", "--budget", "128MiB", "--json",
    ];
    let said = plan_decode(&more);
    assert_eq!(said.code, 0, "{}", said.err);
    let plan = said.json();
    assert_eq!(plan["fits"], true);
    assert!(plan["estimated_ms"].as_f64().unwrap() > 0.0);
    if let Some(resident) = plan["resident_peak_bytes"].as_u64() {
        assert!(resident < 64 * MIB, "planning took {} MiB", resident / MIB);
    }
}

/// Going through the request moved its latents: 1.8 GB and 16 seconds.
#[test]
fn a_plan_takes_neither_the_memory_nor_the_time_of_its_pictures() {
    let started = std::time::Instant::now();
    let said = nino(&[
        "plan",
        "generate",
        "--spec",
        "sd15-inpaint",
        "--size",
        "4096x2048",
        "--batch",
        "64",
        "--quantize",
        "q4_k",
        "--precision",
        "fp16",
        "--device",
        "cpu",
        "--budget",
        "1TiB",
        "--json",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    let plan = said.json();
    let runs = |i: usize| plan["stages"][i]["runs"].as_u64();
    assert_eq!((runs(1), runs(2)), (Some(20), Some(64)));
    if let Some(resident) = plan["resident_peak_bytes"].as_u64() {
        assert!(resident < 64 * MIB, "planning took {} MiB", resident / MIB);
    }
    let seconds = started.elapsed().as_secs();
    assert!(seconds < 60, "{seconds} s");
}

/// A graph may ask for this; the plan of it took gigabytes before it was refused.
#[test]
fn a_picture_beyond_all_measure_is_refused_in_little_memory() {
    let said = nino(&[
        "plan",
        "generate",
        "--spec",
        "sd15",
        "--size",
        "16384x16384",
        "--device",
        "cpu",
        "--budget",
        "100MiB",
    ]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("budget"), "{}", said.err);
}

/// A CPU once had no budget, and 512 GiB were planned without a word.
#[test]
fn a_plan_for_the_cpu_keeps_to_what_is_free() {
    let size = ["--spec", "sd-vae", "--size", "16384x16384"];
    let said = plan_decode(&[&size[..], &["--json"]].concat());
    if said.code != 0 {
        assert!(said.err.contains("budget"), "{}", said.err);
        return;
    }
    let plan = said.json();
    let bytes = |key: &str| plan[key].as_u64().unwrap();
    let needed = bytes("predicted_peak_bytes") + bytes("program_bytes");
    let Some(available) = plan["available_bytes"].as_u64() else {
        println!("skipped: this system does not tell how much memory it has");
        return;
    };
    assert!(needed <= available, "{needed} of {available}");
    let outside = bytes("host_bytes");
    let disk = plan["outside_available_bytes"].as_u64();
    assert_eq!(plan["fits"], disk.is_none_or(|disk| outside <= disk));
    // More than the machine has is planned where it is asked for, and said not to fit.
    let said = plan_decode(&[&size[..], &["--budget", "1000TiB"]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("does not fit"), "{}", said.out);
}

/// `NINO_MODELS=/` searched in silence for more than ten seconds.
#[test]
fn models_below_the_root_folder_are_searched_in_a_moment() {
    let started = std::time::Instant::now();
    let args = ["inspect", "no-such-model"];
    let said = nino_with(&args, &[("NINO_MODELS", "/")]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("no file is called"), "{}", said.err);
    let seconds = started.elapsed().as_secs();
    assert!(seconds < 20, "{seconds} s");
}
