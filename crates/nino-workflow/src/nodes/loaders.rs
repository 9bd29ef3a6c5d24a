//! Models, text encoders, VAEs and LoRAs out of files.

use crate::NodeError;
use crate::host::Folder;
use crate::node::NodeDef;
use crate::node::table::{combo, file, float, link, optional, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{
    Applied, Checkpoint, DType, DiffusionModel, EngineError, Event, Family, LoraSpec, TextEncoders,
    VaeFile, apply_lora,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOADERS: &str = "model/loaders";
const STRENGTH: (f64, f64) = (-100.0, 100.0);

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "CheckpointLoaderSimple",
        display_name: "Load Checkpoint",
        category: LOADERS,
        inputs: &[file("ckpt_name", Folder::Checkpoints)],
        outputs: &[out(Socket::Model), out(Socket::Clip), out(Socket::Vae)],
        is_output: false,
        run: checkpoint,
    },
    NodeDef {
        class: "UNETLoader",
        display_name: "Load Diffusion Model",
        category: LOADERS,
        inputs: &[
            file("unet_name", Folder::DiffusionModels),
            combo("weight_dtype", || {
                vec!["default", "fp8_e4m3fn", "fp8_e4m3fn_fast", "fp8_e5m2"]
            }),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| unet(call, "unet_name"),
    },
    NodeDef {
        class: "UnetLoaderGGUF",
        display_name: "Unet Loader (GGUF)",
        category: "bootleg",
        inputs: &[file("unet_name", Folder::DiffusionModels)],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| unet(call, "unet_name"),
    },
    NodeDef {
        class: "CLIPLoader",
        display_name: "Load CLIP",
        category: LOADERS,
        inputs: &[
            file("clip_name", Folder::TextEncoders),
            combo("type", clip_types),
            optional(combo("device", devices)),
        ],
        outputs: &[out(Socket::Clip)],
        is_output: false,
        run: |call| clip(call, &["clip_name"]),
    },
    NodeDef {
        class: "DualCLIPLoader",
        display_name: "Load CLIP (Dual)",
        category: LOADERS,
        inputs: &[
            file("clip_name1", Folder::TextEncoders),
            file("clip_name2", Folder::TextEncoders),
            combo("type", || vec!["sdxl", "flux"]),
            optional(combo("device", devices)),
        ],
        outputs: &[out(Socket::Clip)],
        is_output: false,
        run: |call| clip(call, &["clip_name1", "clip_name2"]),
    },
    NodeDef {
        class: "CLIPLoaderGGUF",
        display_name: "CLIPLoader (GGUF)",
        category: "bootleg",
        inputs: &[
            file("clip_name", Folder::TextEncoders),
            combo("type", clip_types),
        ],
        outputs: &[out(Socket::Clip)],
        is_output: false,
        run: |call| clip(call, &["clip_name"]),
    },
    NodeDef {
        class: "DualCLIPLoaderGGUF",
        display_name: "DualCLIPLoader (GGUF)",
        category: "bootleg",
        inputs: &[
            file("clip_name1", Folder::TextEncoders),
            file("clip_name2", Folder::TextEncoders),
            combo("type", || vec!["sdxl", "flux"]),
        ],
        outputs: &[out(Socket::Clip)],
        is_output: false,
        run: |call| clip(call, &["clip_name1", "clip_name2"]),
    },
    NodeDef {
        class: "VAELoader",
        display_name: "Load VAE",
        category: LOADERS,
        inputs: &[file("vae_name", Folder::Vae)],
        outputs: &[out(Socket::Vae)],
        is_output: false,
        run: |call| Ok(vec![vae(&call.file("vae_name")?)?]),
    },
    NodeDef {
        class: "LoraLoader",
        display_name: "Load LoRA (Model and CLIP)",
        category: LOADERS,
        inputs: &[
            link("model", Socket::Model),
            link("clip", Socket::Clip),
            file("lora_name", Folder::Loras),
            float("strength_model", 1.0, STRENGTH, 0.01),
            float("strength_clip", 1.0, STRENGTH, 0.01),
        ],
        outputs: &[out(Socket::Model), out(Socket::Clip)],
        is_output: false,
        run: lora,
    },
    NodeDef {
        class: "LoraLoaderModelOnly",
        display_name: "Load LoRA",
        category: LOADERS,
        inputs: &[
            link("model", Socket::Model),
            file("lora_name", Folder::Loras),
            float("strength_model", 1.0, STRENGTH, 0.01),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: lora_of_model,
    },
];

/// What the encoders are for. Their own kinds say it but for a few; others are accepted because
/// graphs have them.
fn clip_types() -> Vec<&'static str> {
    vec![
        "stable_diffusion",
        "chroma",
        "wan",
        "lumina2",
        "flux2",
        "qwen_image",
        "krea2",
    ]
}

/// Both mean the device that the program runs on.
fn devices() -> Vec<&'static str> {
    vec!["default", "cpu"]
}

/// The parts that the file has. One that it lacks is an error only where it is used.
pub(super) fn checkpoint(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let path = call.file("ckpt_name")?;
    match Checkpoint::open(&path, None) {
        Ok(model) => Ok(vec![
            held_model(call, model.diffusion),
            held_clip(call, model.text),
            Value::Vae(model.vae),
        ]),
        Err(EngineError::MissingVae { .. } | EngineError::Encoders { .. }) => {
            let model = DiffusionModel::open(&path)?;
            let missing = |error: &EngineError| Value::Missing(error.to_string().into());
            let clip = match TextEncoders::open(&[path.to_path_buf()]) {
                Ok(clip) => held_clip(call, clip),
                Err(error) => missing(&error),
            };
            let vae = vae(&path).unwrap_or_else(|error| missing(&error));
            Ok(vec![held_model(call, model), clip, vae])
        }
        Err(error) => Err(error.into()),
    }
}

fn held_model(call: &Call<'_, '_>, model: DiffusionModel) -> Value {
    Value::from(match call.settings.quantize {
        Some(dtype) => model.quantized(dtype),
        None => model,
    })
}

fn held_clip(call: &Call<'_, '_>, clip: TextEncoders) -> Value {
    Value::from(match call.settings.quantize {
        Some(dtype) => clip.quantized(dtype),
        None => clip,
    })
}

pub(super) fn unet(call: &mut Call<'_, '_>, input: &'static str) -> Result<Vec<Value>, NodeError> {
    let model = DiffusionModel::open(&call.file(input)?)?;
    let dtype = match call.text("weight_dtype").as_deref() {
        // The fast one also rounds activations to eight bits in ComfyUI.
        Ok("fp8_e4m3fn" | "fp8_e4m3fn_fast") => DType::F8E4M3,
        Ok("fp8_e5m2") => DType::F8E5M2,
        _ => return Ok(vec![held_model(call, model)]),
    };
    Ok(vec![Value::from(model.quantized(dtype))])
}

fn clip(call: &mut Call<'_, '_>, inputs: &[&'static str]) -> Result<Vec<Value>, NodeError> {
    let paths = inputs
        .iter()
        .map(|input| Ok(call.file(input)?.to_path_buf()));
    let paths = paths.collect::<Result<Vec<PathBuf>, NodeError>>()?;
    let clip = match (TextEncoders::open(&paths), &paths[..]) {
        // Encoders without a family of their own belong to the model that they are in a file with,
        // as those of the built-in one.
        (Err(error @ EngineError::Encoders { .. }), [path]) => {
            let whole = Checkpoint::open(path, None).map_err(|_| error)?;
            whole.text
        }
        (opened, _) => opened?,
    };
    // One encoder serves Z-Image and klein, with other templates; Flux.2 dev has its own.
    let clip = match call.text("type")?.as_ref() {
        "flux2" if clip.family != Family::Flux2 => clip.for_family(Family::Klein)?,
        _ => clip,
    };
    Ok(vec![held_clip(call, clip)])
}

fn vae(path: &Path) -> Result<Value, EngineError> {
    Ok(Value::Vae(Arc::new(VaeFile::open(path)?)))
}

pub(super) fn lora(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let model = call.model("model")?;
    // Where a node lets it out, so does what it gives.
    let clip = match call.get("clip") {
        Some(_) => Some(call.clip("clip")?),
        None => None,
    };
    let unchanged = match &clip {
        Some(clip) => Value::Clip(Arc::clone(clip)),
        None => Value::Missing("no clip was given to the loader of the LoRA".into()),
    };
    let spec = LoraSpec {
        path: call.file("lora_name")?.to_path_buf(),
        unet: call.float("strength_model")? as f32,
        clip: call.float("strength_clip")? as f32,
    };
    if spec.unet == 0.0 && spec.clip == 0.0 {
        return Ok(vec![Value::Model(model), unchanged]);
    }
    let with = apply_lora(Some(&model), clip.as_deref(), &spec)?;
    tell(call, &spec, &with.applied);
    Ok(vec![
        with.diffusion.map_or(Value::Model(model), Value::from),
        with.text.map_or(unchanged, Value::from),
    ])
}

fn lora_of_model(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let model = call.model("model")?;
    let spec = LoraSpec {
        path: call.file("lora_name")?.to_path_buf(),
        unet: call.float("strength_model")? as f32,
        clip: 0.0,
    };
    if spec.unet == 0.0 {
        return Ok(vec![Value::Model(model)]);
    }
    let with = apply_lora(Some(&model), None, &spec)?;
    Ok(vec![
        with.diffusion.map_or(Value::Model(model), Value::from),
    ])
}

/// Says what of a LoRA had no place.
fn tell(call: &mut Call<'_, '_>, spec: &LoraSpec, applied: &Applied) {
    let name = spec.path.display();
    if let Some(first) = applied.unmatched.first() {
        let n = applied.unmatched.len();
        let text = format!("{name}: updates without a place in the model: {n}, such as {first}");
        (call.control.on_event)(Event::Note(text));
    }
    if applied.widened > 0 {
        let text = format!("{name}: layers held as f16: {}", applied.widened);
        (call.control.on_event)(Event::Note(text));
    }
}
