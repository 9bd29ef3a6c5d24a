//! Pictures that steer prompts through `ControlNet`s, and the edges of one.

use crate::NodeError;
use crate::host::Folder;
use crate::node::NodeDef;
use crate::node::table::{combo, file, float, link, named, optional, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{ModelPatch, Value};
use nino_engine::media::canny;
use nino_engine::{
    Conditioning, ControlNetFile, Hint, HintImage, HintPaint, Image, UNION_MODES, UsoModel,
};
use std::sync::Arc;

const CONTROL: &str = "model/conditioning/controlnet";
const STRENGTH: (f64, f64) = (0.0, 10.0);
const PATCH_STRENGTH: (f64, f64) = (-10.0, 10.0);
const PERCENT: (f64, f64) = (0.0, 1.0);
const THRESHOLD: (f64, f64) = (0.01, 0.99);
const AUTO: &str = "auto";

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "ControlNetLoader",
        display_name: "Load ControlNet Model",
        category: "model/loaders",
        inputs: &[file("control_net_name", Folder::ControlNets)],
        outputs: &[out(Socket::ControlNet)],
        is_output: false,
        run: |call| {
            let net = ControlNetFile::open(&call.file("control_net_name")?)?;
            Ok(vec![Value::ControlNet(Arc::new(net))])
        },
    },
    NodeDef {
        class: "DiffControlNetLoader",
        display_name: "Load ControlNet Model (diff)",
        category: "model/loaders",
        inputs: &[
            link("model", Socket::Model),
            file("control_net_name", Folder::ControlNets),
        ],
        outputs: &[out(Socket::ControlNet)],
        is_output: false,
        run: |call| {
            let path = call.file("control_net_name")?;
            let model = call.model("model")?;
            let net = ControlNetFile::open_for(&path, &model)?;
            Ok(vec![Value::ControlNet(Arc::new(net))])
        },
    },
    NodeDef {
        class: "SetUnionControlNetType",
        display_name: "Set Union ControlNet Type",
        category: CONTROL,
        inputs: &[
            link("control_net", Socket::ControlNet),
            combo("type", kinds),
        ],
        outputs: &[out(Socket::ControlNet)],
        is_output: false,
        run: told,
    },
    NodeDef {
        class: "ControlNetApply",
        display_name: "Apply ControlNet (DEPRECATED)",
        category: CONTROL,
        inputs: &[
            link("conditioning", Socket::Conditioning),
            link("control_net", Socket::ControlNet),
            link("image", Socket::Image),
            float("strength", 1.0, STRENGTH, 0.01),
        ],
        outputs: &[out(Socket::Conditioning)],
        is_output: false,
        run: apply,
    },
    NodeDef {
        class: "ControlNetApplyAdvanced",
        display_name: "Apply ControlNet",
        category: CONTROL,
        inputs: &[
            link("positive", Socket::Conditioning),
            link("negative", Socket::Conditioning),
            link("control_net", Socket::ControlNet),
            link("image", Socket::Image),
            float("strength", 1.0, STRENGTH, 0.01),
            float("start_percent", 0.0, PERCENT, 0.001),
            float("end_percent", 1.0, PERCENT, 0.001),
            optional(link("vae", Socket::Vae)),
        ],
        outputs: &[
            named("positive", Socket::Conditioning),
            named("negative", Socket::Conditioning),
        ],
        is_output: false,
        run: apply_advanced,
    },
    NodeDef {
        class: "ControlNetApplySD3",
        display_name: "Apply Controlnet with VAE",
        category: CONTROL,
        inputs: &[
            link("positive", Socket::Conditioning),
            link("negative", Socket::Conditioning),
            link("control_net", Socket::ControlNet),
            link("vae", Socket::Vae),
            link("image", Socket::Image),
            float("strength", 1.0, STRENGTH, 0.01),
            float("start_percent", 0.0, PERCENT, 0.001),
            float("end_percent", 1.0, PERCENT, 0.001),
        ],
        outputs: &[
            named("positive", Socket::Conditioning),
            named("negative", Socket::Conditioning),
        ],
        is_output: false,
        run: apply_advanced,
    },
    NodeDef {
        class: "ControlNetInpaintingAliMamaApply",
        display_name: "Apply ControlNet Inpainting (AliMama)",
        category: CONTROL,
        inputs: &[
            link("positive", Socket::Conditioning),
            link("negative", Socket::Conditioning),
            link("control_net", Socket::ControlNet),
            link("vae", Socket::Vae),
            link("image", Socket::Image),
            link("mask", Socket::Mask),
            float("strength", 1.0, STRENGTH, 0.01),
            float("start_percent", 0.0, PERCENT, 0.001),
            float("end_percent", 1.0, PERCENT, 0.001),
        ],
        outputs: &[
            named("positive", Socket::Conditioning),
            named("negative", Socket::Conditioning),
        ],
        is_output: false,
        run: apply_advanced,
    },
    NodeDef {
        class: "ModelPatchLoader",
        display_name: "Load Model Patch",
        category: "model/loaders",
        inputs: &[file("name", Folder::ModelPatches)],
        outputs: &[out(Socket::ModelPatch)],
        is_output: false,
        run: |call| {
            let path = call.file("name")?;
            let patch = match UsoModel::open(&path)? {
                Some(model) => ModelPatch::Uso(model),
                None => ModelPatch::ControlNet(Box::new(ControlNetFile::open(&path)?)),
            };
            Ok(vec![Value::ModelPatch(Arc::new(patch))])
        },
    },
    NodeDef {
        class: "ZImageFunControlnet",
        display_name: "Apply Z-Image Fun ControlNet",
        category: "model/patch/z-image",
        inputs: &[
            link("model", Socket::Model),
            link("model_patch", Socket::ModelPatch),
            link("vae", Socket::Vae),
            float("strength", 1.0, PATCH_STRENGTH, 0.01),
            optional(link("image", Socket::Image)),
            optional(link("inpaint_image", Socket::Image)),
            optional(link("mask", Socket::Mask)),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: patched,
    },
    NodeDef {
        class: "QwenImageDiffsynthControlnet",
        display_name: "Apply Qwen Image DiffSynth ControlNet",
        category: "model/patch/qwen",
        inputs: &[
            link("model", Socket::Model),
            link("model_patch", Socket::ModelPatch),
            link("vae", Socket::Vae),
            link("image", Socket::Image),
            float("strength", 1.0, PATCH_STRENGTH, 0.01),
            optional(link("mask", Socket::Mask)),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: patched,
    },
    NodeDef {
        class: "AnimaLLLiteApply",
        display_name: "Apply Anima LLLite",
        category: "model_patches/anima",
        inputs: &[
            link("model", Socket::Model),
            link("model_patch", Socket::ModelPatch),
            link("image", Socket::Image),
            float("strength", 1.0, PATCH_STRENGTH, 0.01),
            float("start_percent", 0.0, PERCENT, 0.001),
            float("end_percent", 1.0, PERCENT, 0.001),
            optional(link("mask", Socket::Mask)),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: patched,
    },
    NodeDef {
        class: "USOStyleReference",
        display_name: "Apply USO Style Reference",
        category: "model/patch/flux",
        inputs: &[
            link("model", Socket::Model),
            link("model_patch", Socket::ModelPatch),
            link("clip_vision_output", Socket::ClipVisionOutput),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: styled,
    },
    NodeDef {
        class: "Canny",
        display_name: "Detect Edges (Canny)",
        category: "image/filters",
        inputs: &[
            link("image", Socket::Image),
            float("low_threshold", 0.4, THRESHOLD, 0.01),
            float("high_threshold", 0.8, THRESHOLD, 0.01),
        ],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: edges,
    },
];

fn kinds() -> Vec<&'static str> {
    std::iter::once(AUTO)
        .chain(UNION_MODES.iter().map(|(name, _)| *name))
        .collect()
}

/// What kind of picture a union model is told that it sees.
fn told(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (net, kind) = (call.control_net("control_net")?, call.text("type")?);
    let mode = UNION_MODES.iter().find(|(name, _)| *name == &*kind);
    let net = net.with_mode(mode.map(|(_, mode)| *mode));
    Ok(vec![Value::ControlNet(Arc::new(net))])
}

/// A model that is steered by a picture, whatever its prompts.
fn patched(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let model = call.model("model")?;
    let patch = call.model_patch("model_patch")?;
    let ModelPatch::ControlNet(net) = &*patch else {
        let text = "model_patch: it gives the style of a picture, for USOStyleReference";
        return Err(NodeError::Input(text.to_owned()));
    };
    let percent = match call.get("start_percent") {
        Some(_) => (call.float("start_percent")?, call.float("end_percent")?),
        None => (0.0, 1.0),
    };
    let hint = Hint {
        percent,
        ..hint(call, net)?
    };
    Ok(vec![Value::from(model.with_hint(Arc::new(hint)))])
}

/// A model that makes everything in the style of a picture.
fn styled(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let patch = call.model_patch("model_patch")?;
    let ModelPatch::Uso(uso) = &*patch else {
        let text = "model_patch: it steers by a picture, and gives no style";
        return Err(NodeError::Input(text.to_owned()));
    };
    let (model, states) = (
        call.model("model")?,
        call.clip_states("clip_vision_output")?,
    );
    let style = uso.tokens(call.store, &states, &mut call.control)?;
    Ok(vec![Value::from(model.with_style(Arc::new(style))?)])
}

/// The picture of a node that steers prompts through a network, and what is painted over.
fn hint(call: &Call<'_, '_>, net: &ControlNetFile) -> Result<Hint, NodeError> {
    let under = call.images_if_linked("inpaint_image")?.first().cloned();
    let under = under.filter(|image| !image.values.is_empty());
    let mut images = call.images_if_linked("image")?;
    if let (true, Some(under)) = (images.is_empty(), &under) {
        // Without a picture that steers there is gray in its place.
        images = Arc::new(vec![Image {
            values: vec![0.5; under.values.len()],
            ..*under
        }]);
    }
    if images.first().is_none_or(|image| image.values.is_empty()) {
        return Err(NodeError::Input(
            "there is no picture to steer by".to_owned(),
        ));
    }
    let vae = match call.get("vae") {
        Some(_) => Some(call.vae("vae")?),
        None => None,
    };
    let mask = match call.get("mask") {
        Some(_) => call.masks("mask")?.first().cloned(),
        None => None,
    };
    let paint = HintPaint {
        image: under.map(Arc::new),
        // A mask that is all black is one: only without any is nothing kept.
        mask: mask.filter(|mask| !mask.values.is_empty()).map(Arc::new),
    };
    Ok(Hint {
        net: net.clone(),
        seen: HintImage::Pixels {
            images,
            vae,
            paint: Some(paint),
        },
        strength: call.float("strength")? as f32,
        percent: (0.0, 1.0),
        both_sides: false,
    })
}

fn steered(prompts: &[Conditioning], hint: &Arc<Hint>) -> Value {
    let steered = prompts.iter().map(|prompt| {
        if hint.strength == 0.0 {
            return prompt.clone();
        }
        prompt.with_hint(Arc::clone(hint))
    });
    Value::from(steered.collect::<Vec<_>>())
}

fn apply(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let hint = Arc::new(Hint {
        both_sides: true,
        ..hint(call, &*call.control_net("control_net")?)?
    });
    Ok(vec![steered(&call.prompts("conditioning")?, &hint)])
}

fn apply_advanced(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let hint = Arc::new(Hint {
        percent: (call.float("start_percent")?, call.float("end_percent")?),
        ..hint(call, &*call.control_net("control_net")?)?
    });
    let sides = [call.prompts("positive")?, call.prompts("negative")?];
    Ok(sides.iter().map(|side| steered(side, &hint)).collect())
}

fn edges(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let low = call.float("low_threshold")? as f32;
    let high = call.float("high_threshold")? as f32;
    if low > high {
        let text = format!("the lower threshold, {low}, is above the higher one, {high}");
        return Err(NodeError::Input(text));
    }
    let images = call.images("image")?;
    let found = images.iter().map(|image| Image {
        values: canny(&image.values, image.width, image.height, low, high)
            .into_iter()
            .flat_map(|v| [v; 3])
            .collect(),
        ..*image
    });
    Ok(vec![Value::from(found.collect::<Vec<_>>())])
}
