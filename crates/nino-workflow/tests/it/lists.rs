//! Batches of another size, and nodes that run once for each.

use crate::host::{Folders, executor, graph, run};
use nino_workflow::Made;
use serde_json::{Value, json};

fn pictures(n: usize, color: u32) -> Value {
    json!({ "class_type": "EmptyImage",
            "inputs": { "width": 4, "height": 4, "batch_size": n, "color": color } })
}

/// Sizes of the batches that a node was given, in order.
fn batches(host: &Folders, node: &str) -> Vec<usize> {
    let found = host.made.iter().filter(|(id, _)| id == node);
    let sizes = found.map(|(_, made)| match made {
        Made::Previews(images) => images.len(),
        Made::Latent(latents) => latents.latent.batch,
        _ => panic!("{node} gave something else"),
    });
    sizes.collect()
}

#[test]
fn nodes_run_for_every_batch_of_a_list() {
    let nodes = json!({
        "1": pictures(5, 0xFF_0000),
        "2": { "class_type": "RebatchImages", "inputs": { "images": ["1", 0], "batch_size": 2 } },
        "3": { "class_type": "ImageInvert", "inputs": { "image": ["2", 0] } },
        "4": { "class_type": "PreviewImage", "inputs": { "images": ["3", 0] } },
        // A list is put together again.
        "5": { "class_type": "RebatchImages", "inputs": { "images": ["3", 0], "batch_size": 4 } },
        "6": { "class_type": "PreviewImage", "inputs": { "images": ["5", 0] } },
        "7": { "class_type": "RebatchImages", "inputs": { "images": ["3", 0], "batch_size": 9 } },
        "8": { "class_type": "PreviewImage", "inputs": { "images": ["7", 0] } },
        // A value beside a list is used for each of its entries.
        "9": { "class_type": "ImageBatch", "inputs": { "image1": ["3", 0], "image2": ["1", 0] } },
        "10": { "class_type": "PreviewImage", "inputs": { "images": ["9", 0] } },
        "11": { "class_type": "GetImageSize", "inputs": { "image": ["2", 0] } },
        "12": { "class_type": "PreviewAny", "inputs": { "source": ["11", 2] } },
    });
    let mut host = Folders::default();
    run(&mut executor(), &graph(nodes), &mut host);
    assert_eq!(batches(&host, "4"), [2, 2, 1]);
    assert_eq!(batches(&host, "6"), [4, 1]);
    assert_eq!(batches(&host, "8"), [5]);
    assert_eq!(batches(&host, "10"), [7, 7, 6]);
    let texts = host.made.iter().filter(|(id, _)| id == "12");
    let texts: Vec<String> = texts
        .map(|(_, made)| match made {
            Made::Texts(texts) => texts.join(""),
            _ => panic!("no text"),
        })
        .collect();
    assert_eq!(texts, ["2", "2", "1"]);
    let cyan = host
        .pictures("8")
        .iter()
        .all(|p| p.rgb[..3] == [0, 255, 255]);
    assert!(cyan);
}

#[test]
fn latents_keep_their_places_and_masks() {
    let nodes = json!({
        "1": { "class_type": "EmptyLatentImage",
               "inputs": { "width": 64, "height": 64, "batch_size": 3 } },
        "2": { "class_type": "SolidMask", "inputs": { "value": 0.5, "width": 64, "height": 64 } },
        "3": { "class_type": "SetLatentNoiseMask",
               "inputs": { "samples": ["1", 0], "mask": ["2", 0] } },
        "4": { "class_type": "RebatchLatents", "inputs": { "latents": ["3", 0], "batch_size": 2 } },
        "5": { "class_type": "SaveLatent",
               "inputs": { "samples": ["4", 0], "filename_prefix": "x" } },
        "6": { "class_type": "RebatchLatents", "inputs": { "latents": ["4", 0], "batch_size": 3 } },
        "7": { "class_type": "SaveLatent",
               "inputs": { "samples": ["6", 0], "filename_prefix": "x" } },
    });
    let mut host = Folders::default();
    run(&mut executor(), &graph(nodes), &mut host);
    assert_eq!(batches(&host, "5"), [2, 1]);
    assert_eq!(batches(&host, "7"), [3]);
    let found: Vec<_> = host
        .made
        .iter()
        .filter_map(|(id, made)| match made {
            Made::Latent(latents) => Some((id.as_str(), latents)),
            _ => None,
        })
        .collect();
    let places = |i: usize| found[i].1.batch_index.clone().unwrap();
    assert_eq!(
        [places(0), places(1), places(2)],
        [vec![0, 1], vec![2], vec![0, 1, 2]]
    );
    let masks = found[2].1.noise_mask.as_ref().unwrap();
    assert_eq!(masks.len(), 3);
    let gray = |mask: &nino_engine::Mask| (mask.values[0] - 0.5).abs() < 1e-6;
    assert!(masks.iter().all(gray));
}
