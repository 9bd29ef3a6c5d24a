//! What changed is run again, and nothing else.

use crate::host::{Folders, executor, graph, run, sd1};
use nino_engine::{Event, Stage};
use nino_workflow::{Executor, Folder, Graph, Limits, Progress, Watch, check};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

fn nodes() -> Value {
    json!({
        "1": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "m" } },
        "2": { "class_type": "CLIPTextEncode", "inputs": { "text": "a fox", "clip": ["1", 1] } },
        "3": { "class_type": "CLIPTextEncode", "inputs": { "text": "", "clip": ["1", 1] } },
        "4": { "class_type": "EmptyLatentImage",
               "inputs": { "width": 64, "height": 64, "batch_size": 1 } },
        "5": { "class_type": "KSampler", "inputs": {
            "model": ["1", 0], "positive": ["2", 0], "negative": ["3", 0],
            "latent_image": ["4", 0], "seed": 1, "steps": 2, "cfg": 5.0,
            "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0 } },
        "6": { "class_type": "VAEDecode", "inputs": { "samples": ["5", 0], "vae": ["1", 2] } },
        "7": { "class_type": "SaveImage",
               "inputs": { "images": ["6", 0], "filename_prefix": "x" } },
    })
}

/// The nodes that were run, and how often text was encoded and latents sampled.
fn ran(
    executor: &mut Executor,
    graph: &Graph,
    host: &mut Folders,
) -> (BTreeSet<String>, usize, usize) {
    let events = run(executor, graph, host);
    let started = events
        .iter()
        .filter(|(_, _, what)| matches!(what, Progress::Started));
    let nodes = started.map(|(node, _, _)| node.clone()).collect();
    let of = |stage: Stage| {
        let is = |what: &Progress| matches!(what, Progress::Engine(Event::Stage(s)) if *s == stage);
        events.iter().filter(|(_, _, what)| is(what)).count()
    };
    (nodes, of(Stage::Text), of(Stage::Sample))
}

fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn only_what_changed_runs_again() {
    let mut host = Folders::default().with(Folder::Checkpoints, "m", &sd1());
    let mut executor = executor();
    let mut json = nodes();
    let all = set(&["1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(
        ran(&mut executor, &graph(json.clone()), &mut host),
        (all, 2, 1)
    );
    let nothing = (BTreeSet::new(), 0, 0);
    assert_eq!(ran(&mut executor, &graph(json.clone()), &mut host), nothing);
    assert_eq!(
        host.made.len(),
        1,
        "an output that did not change is not made again"
    );

    json["5"]["inputs"]["seed"] = json!(2);
    let again = (set(&["5", "6", "7"]), 0, 1);
    assert_eq!(ran(&mut executor, &graph(json.clone()), &mut host), again);

    json["2"]["inputs"]["text"] = json!("a cat");
    let again = (set(&["2", "5", "6", "7"]), 1, 1);
    assert_eq!(ran(&mut executor, &graph(json.clone()), &mut host), again);

    json["7"]["inputs"]["filename_prefix"] = json!("y");
    let again = (set(&["7"]), 0, 0);
    assert_eq!(ran(&mut executor, &graph(json.clone()), &mut host), again);

    // Another id is no other node.
    let text = json.to_string().replace("\"6\"", "\"66\"");
    let moved = graph(serde_json::from_str(&text).unwrap());
    assert_eq!(
        ran(&mut executor, &moved, &mut host),
        (BTreeSet::new(), 0, 0)
    );

    // The picture of two runs ago is not kept.
    json["5"]["inputs"]["seed"] = json!(1);
    let again = (set(&["5", "6", "7"]), 0, 1);
    assert_eq!(ran(&mut executor, &graph(json), &mut host), again);
}

#[test]
fn a_file_that_changed_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("i.png");
    let picture = |value: u8| nino_engine::Picture {
        width: 8,
        height: 8,
        rgb: vec![value; 8 * 8 * 3],
    };
    let write = |value: u8| {
        let text = "x".repeat(usize::from(value));
        nino_engine::media::write_picture(&file, &picture(value), &[("note", text)]).unwrap();
    };
    write(10);
    let mut host = Folders::default().with(Folder::InputImages, "i", &file);
    let graph = graph(json!({
        "1": { "class_type": "LoadImage", "inputs": { "image": "i" } },
        "2": { "class_type": "ImageInvert", "inputs": { "image": ["1", 0] } },
        "3": { "class_type": "PreviewImage", "inputs": { "images": ["2", 0] } },
    }));
    let mut executor = executor();
    run(&mut executor, &graph, &mut host);
    write(200);
    run(&mut executor, &graph, &mut host);
    let found: Vec<u8> = host.pictures("3").iter().map(|p| p.rgb[0]).collect();
    assert_eq!(found, [245, 54]);
}

#[test]
fn a_run_can_be_stopped_and_says_where() {
    let mut host = Folders::default().with(Folder::Checkpoints, "m", &sd1());
    let checked = check(&graph(nodes()), &host, &Limits::default()).unwrap();
    let cancel = AtomicBool::new(false);
    let mut watch = Watch {
        cancel: &cancel,
        on_event: &mut |event| {
            if matches!(
                event.what,
                Progress::Engine(Event::Progress { done: 1, .. })
            ) {
                cancel.store(true, Ordering::Relaxed);
            }
        },
    };
    let stopped = executor().run(&checked, &mut host, &mut watch);
    let error = stopped.map(|_| ()).unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    assert_eq!((&*error.node, error.class), ("5", "KSampler"));
}

#[test]
fn a_node_that_fails_is_named_with_the_engines_words() {
    let mut host = Folders::default().with(Folder::Checkpoints, "m", &sd1());
    let mut json = nodes();
    json["5"] = json!({ "class_type": "SamplerCustom", "inputs": {
        "model": ["1", 0], "positive": ["2", 0], "negative": ["3", 0], "latent_image": ["4", 0],
        "add_noise": true, "noise_seed": 1, "cfg": 5.0, "sampler": ["8", 0], "sigmas": ["9", 0] } });
    json["8"] = json!({ "class_type": "KSamplerSelect", "inputs": { "sampler_name": "euler" } });
    json["9"] = json!({ "class_type": "FlipSigmas", "inputs": { "sigmas": ["10", 0] } });
    json["10"] = json!({ "class_type": "KarrasScheduler", "inputs": {
        "steps": 3, "sigma_max": 14.6, "sigma_min": 0.03, "rho": 7.0 } });
    let checked = check(&graph(json), &host, &Limits::default()).unwrap();
    let cancel = AtomicBool::new(false);
    let mut watch = Watch {
        cancel: &cancel,
        on_event: &mut |_| {},
    };
    let failed = executor().run(&checked, &mut host, &mut watch);
    let error = failed.map(|_| ()).unwrap_err().to_string();
    assert!(
        error.starts_with("node 5 (SamplerCustom): sigmas must decrease"),
        "{error}"
    );
}
