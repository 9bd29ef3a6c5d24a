//! Graphs of rocm-ninodes: its nodes make the pictures of the core's, and its monitors measure.

use crate::host::{Folders, executor, graph, run, sd1};
use nino_engine::Picture;
use nino_workflow::{Folder, Made, Progress};
use serde_json::{Value, json};

fn host() -> Folders {
    Folders::default().with(Folder::Checkpoints, "m", &sd1())
}

/// Text to image with nodes of these classes.
fn nodes(loader: &str, sampler: &str, decode: &str, more: &Value) -> Value {
    let mut decoded = json!({ "samples": ["5", 0], "vae": ["1", 2] });
    for (name, value) in more.as_object().unwrap() {
        decoded[name] = value.clone();
    }
    json!({
        "1": { "class_type": loader, "inputs": { "ckpt_name": "m" } },
        "2": { "class_type": "CLIPTextEncode", "inputs": { "text": "a fox", "clip": ["1", 1] } },
        "3": { "class_type": "CLIPTextEncode", "inputs": { "text": "", "clip": ["1", 1] } },
        "4": { "class_type": "EmptyLatentImage",
               "inputs": { "width": 64, "height": 48, "batch_size": 2 } },
        "5": { "class_type": sampler, "inputs": {
            "model": ["1", 0], "positive": ["2", 0], "negative": ["3", 0],
            "latent_image": ["4", 0], "seed": 5, "steps": 2, "cfg": 6.0,
            "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0 } },
        "6": { "class_type": decode, "inputs": decoded },
        "7": { "class_type": "SaveImage",
               "inputs": { "images": ["6", 0], "filename_prefix": "x" } },
    })
}

fn pictures(nodes: Value) -> Vec<Picture> {
    let mut host = host();
    run(&mut executor(), &graph(nodes), &mut host);
    host.pictures("7")
}

#[test]
fn its_nodes_make_the_cores_pictures() {
    let stock = nodes(
        "CheckpointLoaderSimple",
        "KSampler",
        "VAEDecode",
        &json!({}),
    );
    let wanted = pictures(stock);
    assert_eq!(wanted.len(), 2);
    let whole = json!({ "tile_size": 768, "overlap": 96, "use_rocm_optimizations": true,
        "precision_mode": "fp32", "batch_optimization": true });
    let tiled = json!({ "tile_size": 768, "overlap": 96, "temporal_size": 64,
        "temporal_overlap": 8, "rocm_optimizations": true });
    // As its workflows of before have it.
    let old = |precision: &str| {
        json!({ "tile_size": 768, "precision_mode": precision, "video_chunk_size": 8,
            "memory_prefetching": true })
    };
    for (decode, more) in [
        ("ROCMOptimizedVAEDecode", whole),
        ("ROCMOptimizedVAEDecodeTiled", tiled),
        ("ROCMOptimizedVAEDecodeV2", json!({})),
        ("ROCMOptimizedVAEDecodeV2Phase2", old("auto")),
        ("ROCMOptimizedVAEDecodeV2Phase3", old("fp32")),
    ] {
        let loader = "ROCMOptimizedCheckpointLoader";
        let found = pictures(nodes(loader, "ROCMOptimizedKSampler", decode, &more));
        assert!(found == wanted, "{decode}");
    }
    let decoded = |precision| {
        let decode = "ROCMOptimizedVAEDecodeV2Phase3";
        let graph = nodes(
            "CheckpointLoaderSimple",
            "KSampler",
            decode,
            &old(precision),
        );
        pictures(graph)
    };
    let mixed = decoded("mixed");
    assert!(
        mixed == decoded("fp16") && mixed != wanted,
        "sums are f32, storage is f16"
    );
}

#[test]
fn a_window_of_steps_is_the_cores() {
    let advanced = |class: &str| {
        let mut nodes = nodes("CheckpointLoaderSimple", class, "VAEDecode", &json!({}));
        let inputs = nodes["5"]["inputs"].as_object_mut().unwrap();
        inputs.remove("seed");
        inputs.remove("denoise");
        for (name, value) in [
            ("noise_seed", json!(3)),
            ("add_noise", json!("enable")),
            ("steps", json!(3)),
            ("start_at_step", json!(0)),
            ("end_at_step", json!(2)),
            ("return_with_leftover_noise", json!("enable")),
        ] {
            inputs.insert(name.to_owned(), value);
        }
        pictures(nodes)
    };
    assert!(advanced("ROCMOptimizedKSamplerAdvanced") == advanced("KSamplerAdvanced"));
}

fn texts(host: &Folders, node: &str) -> Vec<String> {
    let found = host.made.iter().rev().find(|(id, _)| id == node);
    match found {
        Some((_, Made::Texts(texts))) => texts.clone(),
        _ => panic!("node {node} told nothing"),
    }
}

/// The median that a line such as `fp32: 0.012 s (n=3, …` tells.
fn seconds(line: &str) -> f64 {
    let before = line.split(" s (n=").next().unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn monitors_measure() {
    let monitors = json!({
        "1": { "class_type": "ROCMOptimizedCheckpointLoader", "inputs": { "ckpt_name": "m" } },
        "2": { "class_type": "ROCMVAEPerformanceMonitor",
               "inputs": { "vae": ["1", 2], "test_resolution": 256 } },
        "3": { "class_type": "ROCMSamplerPerformanceMonitor",
               "inputs": { "model": ["1", 0], "test_steps": 3 } },
        "4": { "class_type": "ROCMFluxBenchmark", "inputs": {
            "model": ["1", 0], "vae": ["1", 2], "clip": ["1", 1],
            "test_resolutions": "64x64, 128x64", "test_steps": 2, "test_cfg_values": "1.0,4.0",
            "test_hipblas": true, "generate_report": true } },
        "5": { "class_type": "ROCMMemoryOptimizer", "inputs": {
            "optimization_level": "balanced", "enable_gc": true, "clear_cache": true,
            "cleanup_frequency": 1 } },
    });
    let (mut host, mut executor) = (host(), executor());
    let begin = std::time::Instant::now();
    run(&mut executor, &graph(monitors.clone()), &mut host);
    let whole = begin.elapsed().as_secs_f64();
    let vae = texts(&host, "2");
    assert_eq!(vae.len(), 3);
    for (line, precision) in vae[1].lines().zip(["fp32", "fp16", "bf16"]) {
        assert!(line.starts_with(precision), "{line}");
        let time = seconds(line);
        assert!(time > 0.0 && time < whole, "{line}");
    }
    assert!(
        vae[1].contains("inf dB"),
        "fp32 differs from itself: {}",
        vae[1]
    );
    let steps = texts(&host, "3");
    assert!(steps[1].contains("n=3"), "{}", steps[1]);
    let all = texts(&host, "4");
    assert_eq!(all[0].matches("a step").count(), 4, "{}", all[0]);
    assert_eq!(all[0].matches("decode").count(), 2, "{}", all[0]);
    assert!(all[1].contains('█'), "{}", all[1]);
    assert!(texts(&host, "5")[1].contains("given back"));
    assert_eq!(executor.store().usage().weight_bytes, 0);

    // What measures is kept like any result; what acts is done again.
    let events = run(&mut executor, &graph(monitors), &mut host);
    let started = |node: &str| {
        let of_node = |(id, _, what): &(String, &str, Progress)| {
            id == node && matches!(what, Progress::Started)
        };
        events.iter().any(of_node)
    };
    assert!(!started("2") && !started("3") && started("5"));
}

#[test]
fn wrong_sizes_are_told() {
    let nodes = json!({
        "1": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "m" } },
        "2": { "class_type": "ROCMFluxBenchmark", "inputs": {
            "model": ["1", 0], "vae": ["1", 2], "clip": ["1", 1], "test_resolutions": "large",
            "test_steps": 1, "test_cfg_values": "1.0", "test_hipblas": true,
            "generate_report": true } },
    });
    let host = host();
    let checked = nino_workflow::check(&graph(nodes), &host, &nino_workflow::Limits::default());
    let mut host = host;
    let cancel = std::sync::atomic::AtomicBool::new(false);
    let mut watch = nino_workflow::Watch {
        cancel: &cancel,
        on_event: &mut |_| {},
    };
    let ran = executor().run(&checked.unwrap(), &mut host, &mut watch);
    let error = ran.map(drop).unwrap_err().to_string();
    assert!(error.contains("WIDTHxHEIGHT"), "{error}");
}
