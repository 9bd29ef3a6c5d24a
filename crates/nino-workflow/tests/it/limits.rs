//! Graphs that ask for too much are told so, soon and with numbers.

use crate::host::{Folders, executor, graph, sd1};
use nino_workflow::{Folder, Limits, Watch, check};
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Why a graph stops. Its last node is put into a node that saves.
fn error(nodes: Value) -> String {
    let mut host = Folders::default().with(Folder::Checkpoints, "m", &sd1());
    let checked = check(&graph(nodes), &host, &Limits::default());
    let checked = checked.unwrap_or_else(|error| panic!("{error}"));
    let cancel = AtomicBool::new(false);
    let mut watch = Watch {
        cancel: &cancel,
        on_event: &mut |_| {},
    };
    let started = Instant::now();
    let ran = executor().run(&checked, &mut host, &mut watch);
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    ran.map(|_| ()).unwrap_err().to_string()
}

fn empty(side: u32, batch: u32) -> Value {
    json!({ "class_type": "EmptyLatentImage",
            "inputs": { "width": side, "height": side, "batch_size": batch } })
}

fn save(of: &str) -> Value {
    json!({ "class_type": "SaveLatent",
            "inputs": { "samples": [of, 0], "filename_prefix": "x" } })
}

#[test]
fn latents_and_masks_have_a_largest_size() {
    let found = error(json!({ "1": empty(16_384, 4096), "9": save("1") }));
    let told = "node 1 (EmptyLatentImage): a latent of 68719476736 values; the limit for a node is 268435456";
    assert!(found.starts_with(told), "{found}");
    let scaled = json!({ "1": empty(4096, 1), "9": save("2"),
        "2": { "class_type": "LatentUpscaleBy",
               "inputs": { "samples": ["3", 0], "upscale_method": "bislerp", "scale_by": 8.0 } },
        "3": { "class_type": "RepeatLatentBatch", "inputs": { "samples": ["1", 0], "amount": 64 } } });
    let found = error(scaled);
    assert!(
        found.starts_with("node 2 (LatentUpscaleBy): a latent of"),
        "{found}"
    );
}

#[test]
fn prompts_have_a_largest_number_of_chunks() {
    let found = error(json!({
        "1": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "m" } },
        "2": { "class_type": "CLIPTextEncode",
               "inputs": { "text": "BREAK ".repeat(17_000), "clip": ["1", 1] } },
        "3": { "class_type": "KSampler", "inputs": {
            "model": ["1", 0], "positive": ["2", 0], "negative": ["2", 0],
            "latent_image": ["4", 0], "seed": 1, "steps": 1, "cfg": 1.0,
            "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0 } },
        "4": empty(64, 1),
        "9": save("3"),
    }));
    let told = "node 2 (CLIPTextEncode): a prompt has 17000 chunks of tokens; the limit is 400";
    assert_eq!(found, told);
}

fn number(value: u64) -> Value {
    json!({ "class_type": "PrimitiveInt", "inputs": { "value": value } })
}

/// A widget has a smallest and a largest number, a linked one has not.
#[test]
fn linked_numbers_are_held_to_what_can_be_made() {
    let karras = json!({ "class_type": "KarrasScheduler", "inputs": {
        "steps": ["1", 0], "sigma_max": 14.6, "sigma_min": 0.03, "rho": 7.0 } });
    let shown = json!({ "class_type": "PreviewAny", "inputs": { "source": ["2", 0] } });
    let found = error(json!({ "1": number(1_000_000_000_000), "2": karras, "9": shown }));
    let told = "node 2 (KarrasScheduler): its steps are 1000000000000, where 10000 are the most";
    assert_eq!(found, told);
    let none = json!({ "class_type": "EmptyLatentImage",
        "inputs": { "width": 64, "height": ["1", 0], "batch_size": 1 } });
    let found = error(json!({ "1": number(0), "2": none, "9": save("2") }));
    assert_eq!(
        found,
        "node 2 (EmptyLatentImage): a latent of 1x4x0x8 is empty"
    );
    let none = json!({ "class_type": "EmptyImage",
        "inputs": { "width": 64, "height": ["1", 0], "batch_size": 1, "color": 0 } });
    let shown = json!({ "class_type": "PreviewImage", "inputs": { "images": ["2", 0] } });
    let found = error(json!({ "1": number(0), "2": none, "9": shown }));
    assert_eq!(
        found,
        "node 2 (EmptyImage): a batch of pictures of 1x64x0x3 is empty"
    );
}
