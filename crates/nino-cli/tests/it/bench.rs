//! `nino bench ops` on the CPU, which is always there.

use crate::shell::{command, nino};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

const SMALL: &str = "matmul 4096x320x1280";

#[test]
fn json_rows_carry_what_scripts_read() {
    let said = nino(&[
        "bench", "ops", "--device", "cpu", "--json", "--runs", "5", "--filter", SMALL,
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    assert!(json["copy_gbytes"].as_f64().unwrap() > 0.0);
    assert!(json["peak_gflops"].as_f64().unwrap() > 0.0);
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{json:#}");
    let row = &rows[0];
    assert_eq!(row["op"], "matmul");
    assert_eq!(row["shape"], "4096x320x1280");
    assert_eq!(row["dtype"], "f32");
    assert_eq!(row["device"], "cpu");
    assert!(row["tier"].is_null());
    assert_eq!(row["runs"], 5);
    assert!(row["median_ms"].as_f64().unwrap() > 0.0);
    let flops = 2.0 * 4096.0 * 320.0 * 1280.0;
    let gflops = flops / row["median_ms"].as_f64().unwrap() / 1e6;
    assert!(
        (row["gflops"].as_f64().unwrap() / gflops - 1.0).abs() < 1e-3,
        "{row}"
    );
    assert!(row["nmse"].as_f64().unwrap() < 1e-8, "{row}");
}

#[test]
fn the_table_names_its_columns() {
    let said = nino(&[
        "bench",
        "ops",
        "--device",
        "cpu",
        "--threads",
        "1",
        "--filter",
        SMALL,
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    for part in [
        "measured peak",
        "median ms",
        "GFLOP/s",
        "GB/s",
        "share",
        "matmul",
    ] {
        assert!(
            said.out.contains(part),
            "{part:?} is missing from:\n{}",
            said.out
        );
    }
    assert_eq!(said.err, "", "no progress bar in a pipe");
}

#[test]
fn a_budget_too_small_is_one_sentence_with_the_numbers() {
    let said = nino(&[
        "bench", "ops", "--device", "cpu", "--budget", "1MiB", "--filter", SMALL,
    ]);
    assert_eq!(said.code, 1, "{}", said.err);
    for part in [
        "matmul 4096x320x1280 on cpu",
        "the budget is 1 MiB",
        "hint: give --budget ",
    ] {
        assert!(
            said.err.contains(part),
            "{part:?} is missing from:\n{}",
            said.err
        );
    }
    assert_eq!(
        said.err.lines().count(),
        2,
        "a sentence and a hint:\n{}",
        said.err
    );
}

#[test]
fn a_device_that_is_not_there_is_a_failure() {
    for args in [
        &["bench", "ops", "--device", "gpu:99"][..],
        &["doctor", "--device", "gpu:99"],
    ] {
        let said = nino(args);
        assert_eq!(said.code, 1, "{args:?}: {}", said.err);
        assert!(
            said.err.contains("gpu:99") || said.err.contains("no GPU"),
            "{}",
            said.err
        );
        assert!(said.err.starts_with("error: "), "{}", said.err);
    }
}

#[test]
fn one_op_that_does_not_fit_does_not_lose_the_others() {
    let args = [
        "bench",
        "ops",
        "--device",
        "cpu",
        "--threads",
        "1",
        // 45 for the op, 28 for the program.
        "--budget",
        "73MiB",
        "--filter",
        "matmul 4096x320",
    ];
    let said = nino(&[&args[..], &["--json"]].concat());
    assert_eq!(said.code, 1, "{}", said.err);
    let json = said.json();
    assert_eq!(json["rows"].as_array().unwrap().len(), 1, "{json:#}");
    let failures = json["failures"].as_array().unwrap();
    assert!(
        failures[0].as_str().unwrap().contains("4096x320x2560"),
        "{json:#}"
    );
    assert!(said.err.contains("hint: give --budget "), "{}", said.err);
}

#[test]
fn ctrl_c_stops_between_ops() {
    if !cfg!(unix) {
        return;
    }
    let mut child = command(&["bench", "ops", "--device", "cpu"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("cpu"), "{line}");
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{err}");
    assert!(err.contains("interrupted"), "{err}");
}

#[test]
fn whole_decodes_are_timed_with_made_up_weights() {
    let args = [
        "bench",
        "decode",
        "--device",
        "cpu",
        "--spec",
        "taesd",
        "--runs",
        "1",
        "--profile",
    ];
    let said = nino(&[&args[..], &["--filter", "image 256x256", "--json"]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{json:#}");
    let row = &rows[0];
    assert_eq!(row["case"], "image 256x256");
    assert_eq!(row["vae"], "taesd");
    assert_eq!(row["strategy"], "untiled");
    assert_eq!(row["precision"], "f32");
    assert_eq!(row["quality"], "reference");
    assert_eq!(row["predicted_peak_bytes"], row["measured_peak_bytes"]);
    assert!(row["median_ms"].as_f64().unwrap() > 0.0);
    assert!(row["first_ms"].as_f64().unwrap() > 0.0);
    let share: f64 = row["ops"]
        .as_array()
        .unwrap()
        .iter()
        .map(|op| op["share"].as_f64().unwrap())
        .sum();
    assert!((share - 1.0).abs() < 1e-6, "{row:#}");
    let said = nino(&[&args[..], &["--filter", "hologram"]].concat());
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("320x320 17 frames"), "{}", said.err);
}

#[test]
fn networks_of_a_checkpoint_are_timed() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nino-emoji.gguf");
    let args = ["bench", "generate", "--device", "cpu", "--model", model];
    let rest = ["--filter", "text", "--runs", "2"];
    let more = ["--profile", "--quality", "--json"];
    let said = nino(&[&args[..], &rest[..], &more[..]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{json:#}");
    let row = &rows[0];
    let number = |name: &str| row[name].as_f64().unwrap();
    assert_eq!(row["runs"], 2);
    assert!((number("per_second") * number("median_ms") / 1e3 - 1.0).abs() < 1e-6);
    assert!(number("tflops") > 0.0);
    assert!(number("planned_bytes") > 0.0);
    // Ops take most of the time of a run, and not more than all of it.
    let overhead = number("overhead_share");
    assert!((0.0..0.5).contains(&overhead), "{row:#}");
    // Q8_0 weights and int8 activations against the same weights in f32.
    assert!(number("nmse") < 1e-3, "{row:#}");
    let kinds = row["kinds"].as_array().unwrap();
    assert!(kinds.iter().any(|k| k["op"] == "attention"), "{row:#}");
    let share: f64 = kinds.iter().map(|k| k["share"].as_f64().unwrap()).sum();
    assert!((share - 1.0).abs() < 1e-6, "{row:#}");
    let said = nino(&["bench", "generate", "--filter", "hologram"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(
        said.err.contains("unet sd15 512x512 batch 2 q8_0"),
        "{}",
        said.err
    );
}
