//! `nino plan` as a user meets it: every flag of the verb it plans, a verdict, and cards that are
//! not in this machine.

use crate::shell::{Folder, Said, nino, nino_with};
use nino_engine::Picture;
use nino_engine::media::write_picture;
use serde_json::Value;
use std::path::Path;

fn plan(args: &[&str]) -> Said {
    nino(&[&["plan"], args].concat())
}

#[track_caller]
fn planned(args: &[&str]) -> Value {
    let said = plan(&[args, &["--json"]].concat());
    assert_eq!(said.code, 0, "{args:?}: {}", said.err);
    said.json()
}

fn picture(path: &str, width: usize, height: usize) {
    write_picture(Path::new(path), &Picture::new(width, height), &[]).unwrap();
}

fn stages(plan: &Value) -> Vec<&str> {
    let stages = plan["stages"].as_array().unwrap().iter();
    stages.map(|s| s["stage"].as_str().unwrap()).collect()
}

const SMALL: [&str; 6] = ["--spec", "sd15", "--size", "256x256", "--steps", "4"];

#[test]
fn a_plan_for_a_card_is_marked_as_predicted() {
    let args = [&["generate"], &SMALL[..], &["--on", "rx580-4gb"]].concat();
    let said = plan(&args);
    assert_eq!(said.code, 0, "{}", said.err);
    for part in [
        "256x256, 4 steps on rx580-4gb (Radeon RX 580 4 GB, subgroup, predicted)",
        "predicted peak",
        "predicted time",
        "fits there (predicted): ",
        "of 3.6 GiB",
    ] {
        assert!(
            said.out.contains(part),
            "{part:?} is missing from:\n{}",
            said.out
        );
    }
    let json = planned(&args);
    assert_eq!(json["predicted"], true);
    assert_eq!(json["fits"], true);
    assert!(json["estimated_ms"].as_f64().unwrap() > 0.0);
    // A larger budget than the card has does not fit it.
    let json = planned(&[&args[..], &["--count", "2", "--budget", "20GiB"]].concat());
    assert_eq!(json["fits"], true, "the peak is small whatever the budget");
    let json = planned(&[
        "generate",
        "--spec",
        "sdxl",
        "--on",
        "rx580-4gb",
        "--steps",
        "2",
    ]);
    let streamed = json["streamed_bytes"].as_u64().unwrap();
    assert!(
        streamed > 0,
        "SDXL in f16 is larger than the card: {json:#}"
    );
    let faster = planned(&[
        "generate",
        "--spec",
        "sdxl",
        "--on",
        "rx7900xtx",
        "--steps",
        "2",
    ]);
    assert_eq!(faster["streamed_bytes"], 0);
    let ms = |plan: &Value| plan["estimated_ms"].as_f64().unwrap();
    assert!(ms(&faster) < ms(&json));
}

#[test]
fn the_same_plan_is_made_whatever_this_machine_says() {
    let args = [
        "plan", "generate", "--spec", "sd15", "--on", "rx6600", "--steps", "2", "--json",
    ];
    let plain = nino(&args);
    let set = nino_with(&args, &[("NINO_BUDGET", "1GiB"), ("NINO_DEVICE", "cpu")]);
    assert_eq!(plain.code, 0, "{}", plain.err);
    // What planning took of this machine's memory is its own.
    let plan = |out: &str| {
        let mut plan: Value = serde_json::from_str(out).unwrap();
        plan["resident_peak_bytes"].take();
        plan
    };
    assert_eq!(
        plan(&plain.out),
        plan(&set.out),
        "settings of this machine are not of the card"
    );
    let less = planned(&[
        "generate", "--spec", "sd15", "--on", "rx6600", "--budget", "1GiB",
    ]);
    assert_eq!(less["budget_bytes"], 1 << 30, "flags are");
}

#[test]
fn cards_are_listed_and_found() {
    let said = plan(&["--on", "list"]);
    assert_eq!(said.code, 0, "{}", said.err);
    for part in ["rx580-8gb", "8060s-128gb", "36.5*", "m2-16gb", "predicted"] {
        assert!(
            said.out.contains(part),
            "{part:?} is missing from:\n{}",
            said.out
        );
    }
    let json = planned(&["--on", "list"]);
    let strix = json["cards"].as_array().unwrap().iter();
    let mut strix = strix.filter(|c| c["name"] == "8060s-128gb");
    let strix = strix.next().unwrap();
    assert_eq!(strix["matrix_flops"]["source"], "measured");
    assert!(strix["matrix_flops"]["measured_at"].is_string());
    assert_eq!(strix["f32_flops"]["source"], "data sheet");
    let said = plan(&["--on", "RX 7900 XTX"]);
    assert!(said.out.contains("--on rx7900xtx"), "{}", said.out);
    for (name, part) in [
        ("rx580", "may be rx580-4gb or rx580-8gb"),
        ("voodoo2", "no card is called \"voodoo2\""),
    ] {
        let said = plan(&["decode", "--spec", "taesd", "--size", "64x64", "--on", name]);
        assert_eq!(said.code, 2, "{name}: {}", said.err);
        assert!(
            said.err.contains(part) && said.err.contains("--on list"),
            "{}",
            said.err
        );
    }
    let args = [
        "decode", "--spec", "taesd", "--size", "64x64", "--on", "rx6600",
    ];
    let said = plan(&[&args[..], &["--device", "cpu"]].concat());
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("leave one out"), "{}", said.err);
    let said = plan(&[&args[..], &["--gpu-tier", "coop"]].concat());
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err.contains("no device supports the tier coop"),
        "{}",
        said.err
    );
}

#[test]
fn what_does_not_fit_is_told_with_what_is_free() {
    let args = [
        &["generate"],
        &SMALL[..],
        &["--device", "cpu", "--budget", "100MiB"],
    ]
    .concat();
    let said = plan(&args);
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(
        said.err.contains("does not fit here: 100 MiB free"),
        "{}",
        said.err
    );
    let args = [
        &["generate"],
        &SMALL[..],
        &["--on", "rx6600", "--budget", "100MiB"],
    ]
    .concat();
    let said = plan(&args);
    let part = "does not fit the Radeon RX 6600 (predicted): 100 MiB free";
    assert!(said.err.contains(part), "{}", said.err);
    let args = [
        "decode", "--spec", "taesd", "--size", "64x64", "--device", "cpu",
    ];
    let said = plan(&args);
    assert!(said.out.contains("\nfits here: "), "{}", said.out);
    // More than there is may be allowed, and then does not fit.
    let huge = [
        "decode",
        "--spec",
        "sd-vae",
        "--size",
        "16384x16384",
        "--device",
        "cpu",
    ];
    let said = plan(&[&huge[..], &["--budget", "1000TiB"]].concat());
    assert!(said.out.contains("\ndoes not fit here: "), "{}", said.out);
}

#[test]
fn generate_is_planned_with_all_of_its_flags() {
    let dir = Folder::new();
    let start = dir.at("start.png");
    picture(&start, 256, 256);
    let plain = planned(&[&["generate", "a fox"], &SMALL[..], &["--device", "cpu"]].concat());
    assert_eq!(stages(&plain), ["text", "sample", "decode"]);
    // As it would be typed for `generate`, with flags that no plan depends on.
    let hires = [
        "--hires",
        "2x",
        "--hires-steps",
        "3",
        "-o",
        "x.png",
        "--seed",
        "7",
    ];
    let hires = planned(
        &[
            &["generate", "a fox"],
            &SMALL[..],
            &hires[..],
            &["--device", "cpu"],
        ]
        .concat(),
    );
    assert_eq!(
        (&hires["width"], &hires["height"]),
        (&512.into(), &512.into())
    );
    let peak = |plan: &Value| plan["predicted_peak_bytes"].as_u64().unwrap();
    assert!(peak(&hires) >= peak(&plain));
    let image = [
        "generate", "a fox", "--spec", "sd15", "--steps", "4", "--image", &start,
    ];
    let image = planned(&[&image[..], &["--outpaint", "64,0,64,0", "--device", "cpu"]].concat());
    assert_eq!(
        (&image["width"], &image["height"]),
        (&384.into(), &256.into())
    );
    assert!(stages(&image).contains(&"encode"), "{image:#}");
    let said = plan(&["generate", "--spec", "sd15", "--lora", "ink"]);
    assert_eq!(said.code, 2, "a description has no place for a LoRA");
}

#[test]
fn a_picture_and_a_graph_are_planned_from_their_files() {
    let dir = Folder::new();
    let (file, json) = (dir.at("sun.png"), dir.at("sun.json"));
    let small = ["--size", "64x64", "--steps", "2", "--device", "cpu"];
    let said = nino(&[&["generate", "a sun", "-q", "-o", &file], &small[..]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let of_flags = planned(&[&["generate", "a sun"], &small[..]].concat());
    let of_file = planned(&["generate", "--from", &file, "--device", "cpu"]);
    assert_eq!(
        of_file["predicted_peak_bytes"],
        of_flags["predicted_peak_bytes"]
    );
    assert_eq!(of_file["steps"], 2);
    let text = nino_engine::media::read_text(
        Path::new(&file),
        &["prompt"],
        &nino_engine::media::Limits::default(),
    );
    std::fs::write(&json, &text.unwrap().found[0].1).unwrap();
    let of_graph = planned(&["generate", "--from", &json, "--device", "cpu"]);
    assert_eq!(
        of_graph["predicted_peak_bytes"],
        of_flags["predicted_peak_bytes"]
    );
    assert_eq!(of_graph["nodes"], 7);
    let there = planned(&["generate", "--from", &json, "--on", "rx6600"]);
    assert_eq!(there["predicted"], true);
    assert_eq!(
        dir.path().read_dir().unwrap().count(),
        2,
        "a plan writes nothing"
    );
}

#[test]
fn encode_and_decode_are_planned() {
    let dir = Folder::new();
    let start = dir.at("start.png");
    picture(&start, 64, 48);
    let of_file = planned(&["encode", &start, "--spec", "sd-vae", "--device", "cpu"]);
    let of_size = [
        "encode", "--spec", "sd-vae", "--size", "64x48", "--device", "cpu",
    ];
    let of_size = planned(&of_size);
    assert_eq!(
        of_file["predicted_peak_bytes"],
        of_size["predicted_peak_bytes"]
    );
    assert_eq!(stages(&of_size), ["encode"]);
    let clip = [
        "encode",
        "--spec",
        "wan21-vae",
        "--size",
        "64x64",
        "--frames",
        "9",
        "--device",
        "cpu",
    ];
    assert_eq!(planned(&clip)["frames"], 9);
    let said = plan(&[
        "encode", "--spec", "sd-vae", "--size", "64x64", "--frames", "9",
    ]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(
        said.err.contains("single images, not 9 frames"),
        "{}",
        said.err
    );
    let latent = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/weights/single.pt");
    let latent = latent.to_str().unwrap();
    let args = [
        "decode", latent, "--spec", "taesd", "-o", "x.png", "--device", "cpu",
    ];
    let plan = planned(&args);
    assert_eq!((&plan["width"], &plan["height"]), (&48.into(), &32.into()));
}

/// As many pictures at a time as stay on the device: more memory, more pictures.
#[test]
fn the_largest_batch_is_found() {
    let batch = |budget: &str| {
        let flags = [
            "plan", "generate", "--batch", "max", "--size", "64x64", "--device", "cpu", "--json",
        ];
        let said = nino(&[&flags[..], &["--budget", budget]].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        said.json()["batch"].as_u64().unwrap()
    };
    let found = ["110MiB", "150MiB", "200MiB", "250MiB", "1GiB"].map(batch);
    assert!(found.is_sorted(), "{found:?}");
    assert!(found.iter().any(|n| (2..64).contains(n)), "{found:?}");
    assert_eq!(found[4], 64);
    let said = nino(&["generate", "a", "sun", "--batch", "65"]);
    assert!(
        said.code == 2 && said.err.contains("or max"),
        "{}",
        said.err
    );
}

/// A first frame is no more than its size to a plan.
#[test]
fn a_video_that_needs_a_first_frame_is_planned_without_one() {
    let args = ["video", "--spec", "wan2.2-i2v-14b", "--quantize", "q4_k"];
    let small = ["--size", "480x320", "--frames", "17", "--on", "rx580-8gb"];
    let plan = planned(&[&args[..], &small].concat());
    assert_eq!((&plan["width"], &plan["frames"]), (&480.into(), &17.into()));
    // The frame is encoded.
    assert!(stages(&plan).contains(&"encode"), "{plan}");
}

/// The examples in the help texts of `plan`, as far as they need no file.
#[test]
fn the_examples_of_the_help_texts_work() {
    let mut count = 0;
    for verb in ["generate", "video", "decode", "encode"] {
        let help = plan(&[verb, "--help"]).out;
        let examples = help
            .lines()
            .filter_map(|l| l.trim().strip_prefix("nino plan "));
        for example in examples.filter(|l| l.contains("--spec")) {
            let said = plan(&example.split(' ').collect::<Vec<_>>());
            // 1: it does not fit here.
            let fits = "does not fit";
            assert!(
                said.code == 0 || (said.code == 1 && said.err.contains(fits)),
                "{example}: {}",
                said.err
            );
            count += 1;
        }
    }
    assert!(count > 8, "{count}");
}
