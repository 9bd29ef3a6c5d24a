//! Graphs out of pictures' texts.

use super::*;

fn found(keyword: &str, text: &str) -> Result<Option<Found>, GraphError> {
    find(&[(keyword.to_owned(), text.to_owned())], &Limits::default())
}

/// The values of an input in all nodes of a class.
fn values(graph: &Graph, class: &str, input: &str) -> String {
    let nodes = graph
        .iter()
        .filter(|(_, node)| node.class.as_deref() == Some(class));
    let values = nodes.filter_map(|(_, node)| node.value(input));
    let texts = values.map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
    texts.collect::<Vec<_>>().join("|")
}

#[test]
fn a1111s_lines_become_graphs() {
    let text = "a fox, (snow:1.2) <lora:ink:0.8>\nsecond line\nNegative prompt: blurry, text\nSteps: 25, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 7, Seed: 1234, Size: 512x768, Model hash: 6ce0161689, Model: v1-5-pruned-emaonly, Clip skip: 2, Hires upscale: 2, Lora hashes: \"ink: 0123, x: 4\", Version: v1.10.1";
    let Found { graph, notes } = found("parameters", text).unwrap().unwrap();
    assert_eq!(notes, ["\"Hires upscale: 2\" is not repeated"]);
    for (class, input, value) in [
        (
            "CLIPTextEncode",
            "text",
            "a fox, (snow:1.2) \nsecond line|blurry, text",
        ),
        ("LoraLoader", "lora_name", "ink"),
        ("LoraLoader", "strength_model", "0.8"),
        ("LoraLoader", "strength_clip", "0.8"),
        ("KSampler", "sampler_name", "dpmpp_2m"),
        ("KSampler", "scheduler", "karras"),
        ("KSampler", "steps", "25"),
        ("KSampler", "cfg", "7.0"),
        ("KSampler", "seed", "1234"),
        ("KSampler", "nino_rng", "philox"),
        ("EmptyLatentImage", "width", "512"),
        ("EmptyLatentImage", "height", "768"),
        ("CheckpointLoaderSimple", "ckpt_name", "v1-5-pruned-emaonly"),
        ("CLIPSetLastLayer", "stop_at_clip_layer", "-2"),
    ] {
        assert_eq!(values(&graph, class, input), value, "{class}.{input}");
    }
    let old = "cat\nSteps: 20, Sampler: DPM++ SDE Karras, CFG scale: 7.5, Seed: 1, Size: 64x64, RNG: CPU, Model: m, VAE: v.pt";
    let graph = found("parameters", old).unwrap().unwrap().graph;
    assert_eq!(values(&graph, "KSampler", "sampler_name"), "dpmpp_sde");
    assert_eq!(values(&graph, "KSampler", "scheduler"), "karras");
    assert_eq!(values(&graph, "KSampler", "nino_rng"), "torch");
    assert_eq!(values(&graph, "VAELoader", "vae_name"), "v.pt");
    for wrong in [
        "just words",
        "Steps: 3, Size: 1x1",
        "Steps: x, Model: m, Size: 8x8",
        "Steps: 3, Model: m, Size: 8",
    ] {
        assert!(found("parameters", wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_page_alone_is_told_and_other_texts_are_none() {
    let page = r#"{"nodes":[{"id":1,"type":"VAELoader","widgets_values":["v"]}],"links":[]}"#;
    let page = found("workflow", page).unwrap().unwrap();
    assert_eq!(values(&page.graph, "VAELoader", "vae_name"), "v");
    assert!(page.notes[0].contains("ComfyUI's page"), "{:?}", page.notes);
    assert!(found("Software", "x").unwrap().is_none());
    let graph = found("prompt", r#"{"1":{"class_type":"A","inputs":{}}}"#).unwrap();
    assert_eq!(graph.unwrap().graph.len(), 1);
}
