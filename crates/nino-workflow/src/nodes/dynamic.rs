//! What `/object_info` says of inputs that change with others: choices with inputs below them,
//! lists that grow, and inputs that take whatever their twins take.

use super::{color_transfer, is_of_lists, resize, video};
use crate::node::{InputDef, NodeDef};
use serde_json::{Value as Json, json};

/// The type of an input or output that is whatever the others of its template are.
pub(crate) const MATCHED: &str = "COMFY_MATCHTYPE_V3";
const GROWN: &str = "COMFY_AUTOGROW_V3";
const CHOICE: &str = "COMFY_DYNAMICCOMBO_V3";

/// Classes that ComfyUI warns of, because others have taken their place.
const DEPRECATED: [&str; 6] = [
    "ControlNetApply",
    "ControlNetApplySD3",
    "ImageBatch",
    "ImageCrop",
    "LatentBatch",
    "PerpNeg",
];
/// Classes that ComfyUI may change.
const EXPERIMENTAL: [&str; 31] = [
    "CFGNorm",
    "CLIPAttentionMultiply",
    "ComfySwitchNode",
    "CustomCombo",
    "DifferentialDiffusion",
    "EasyCache",
    "FluxKVCache",
    "FluxKontextMultiReferenceLatentMethod",
    "ImageCompare",
    "LatentApplyOperation",
    "LatentOperationSharpen",
    "LatentOperationTonemapReinhard",
    "LazyCache",
    "ManualSigmas",
    "PerpNeg",
    "PerpNegGuider",
    "ModelPatchLoader",
    "QwenImageDiffsynthControlnet",
    "ResizeImagesByLongerEdge",
    "SaveWEBM",
    "ScaleROPE",
    "SelfAttentionGuidance",
    "ZImageFunControlnet",
    "SkipLayerGuidanceDiT",
    "SkipLayerGuidanceDiTSimple",
    "T5TokenizerOptions",
    "UNetCrossAttentionMultiply",
    "UNetSelfAttentionMultiply",
    "UNetTemporalAttentionMultiply",
    "AnimaLLLiteApply",
    "USOStyleReference",
];

/// What else `/object_info` says of a class.
pub(crate) fn flags(class: &str, info: &mut Json) {
    for (flag, classes) in [
        ("deprecated", &DEPRECATED[..]),
        ("experimental", &EXPERIMENTAL),
    ] {
        if classes.contains(&class) {
            info[flag] = json!(true);
        }
    }
    if is_of_lists(class) {
        info["is_input_list"] = json!(true);
        info["output_is_list"] = json!([true]);
    }
    if class == "Painter" {
        info["has_intermediate_output"] = json!(true);
    }
    if let Some(template) = matched(class) {
        info["output_matchtypes"] = json!([template]);
    }
}

/// The description of an input; `None` of one that never changes.
pub(crate) fn describe(class: &str, input: &str) -> Option<Json> {
    Some(match (class, input) {
        ("SaveVideo", "codec") => video::codecs(),
        ("ColorTransfer", "source_stats") => choice(&color_transfer::sources()),
        ("Video Slice", "duration") => {
            json!(["FLOAT", { "default": 0.0, "min": 0.0, "step": 0.001 }])
        }
        ("ComfySwitchNode", "on_false" | "on_true") => {
            let mut described = matched_input("switch", "*");
            described[1]["lazy"] = json!(true);
            described
        }
        ("ComfyMathExpression", "values") => {
            let letters: Vec<String> = ('a'..='z').map(String::from).collect();
            let input = json!({ "required": { "value": ["FLOAT,INT,BOOLEAN", {}] } });
            json!([GROWN, { "template": { "input": input, "names": letters, "min": 1 } }])
        }
        ("BatchImagesNode", "images") => grows("image", "IMAGE"),
        ("ResizeImageMaskNode", "input") => matched_input("input_type", "IMAGE,MASK"),
        ("ResizeImageMaskNode", "resize_type") => choice(&resize::ways()),
        ("ResizeImageMaskNode", "scale_method") => {
            json!([resize::METHODS, { "default": "area" }])
        }
        ("SaveImageAdvanced", "format") => {
            let choice_of =
                |value: &str| json!(["COMBO", { "default": value, "options": [value] }]);
            let below = json!({ "bit_depth": choice_of("8-bit"),
                                "input_color_space": choice_of("sRGB") });
            choice(&json!([{ "key": "png", "inputs": { "required": below } }]))
        }
        // ComfyUI names no limits.
        ("StringSubstring", "start" | "end") => json!(["INT", {}]),
        // The page paints in a widget of its own, and sets these.
        ("Painter", "mask") => json!(["STRING", {
            "widgetType": "PAINTER", "image_upload": true, "default": "", "socketless": true,
            "multiline": false,
        }]),
        ("Painter", "width" | "height") => json!(["INT", {
            "hidden": true, "default": 512, "socketless": true, "min": 64, "max": 4096, "step": 64,
        }]),
        ("Painter", "bg_color") => json!(["COLOR", { "default": "#000000", "socketless": true }]),
        ("WanMoveTracksFromCoords", "track_coords") => json!(["STRING", {
            "default": "[]", "forceInput": true, "multiline": false,
        }]),
        ("CustomCombo", "choice") => json!([[], {}]),
        ("ImageCompare", "compare_view") => json!(["IMAGECOMPARE", { "socketless": true }]),
        _ => return None,
    })
}

/// The inputs of a class that a page shows below another once that has a value, in their order.
pub(crate) fn below(def: &NodeDef, input: &str, value: &Json) -> Vec<&'static InputDef> {
    let described = describe(def.class, input).unwrap_or_default();
    let options = described[1]["options"].as_array();
    let chosen = options.and_then(|all| all.iter().find(|option| option["key"] == *value));
    let is_shown = |below: &&InputDef| match (def.class, below.name) {
        ("CustomCombo", "index") => input == "choice",
        (_, name) => {
            let name = name.strip_prefix(input).and_then(|n| n.strip_prefix('.'));
            name.is_some_and(|name| {
                let inputs = chosen.map(|option| &option["inputs"]);
                let has = |need: &str| inputs.is_some_and(|all| all[need].get(name).is_some());
                has("required") || has("optional")
            })
        }
    };
    def.inputs.iter().filter(is_shown).collect()
}

/// The template that the output of a class has in common with its inputs.
pub(crate) fn matched(class: &str) -> Option<&'static str> {
    match class {
        "ComfySwitchNode" => Some("switch"),
        "ResizeImageMaskNode" => Some("input_type"),
        _ => None,
    }
}

fn matched_input(template: &str, allowed: &str) -> Json {
    json!([MATCHED, { "template": { "template_id": template, "allowed_types": allowed } }])
}

fn grows(name: &str, kind: &str) -> Json {
    let input = json!({ "required": { name: [kind, {}] } });
    json!([GROWN, { "template": { "input": input, "prefix": name, "min": 1, "max": 50 } }])
}

fn choice(options: &Json) -> Json {
    json!([CHOICE, { "options": options }])
}
