//! Built-in descriptions of models, to plan with no file at hand.

use nino_dtype::DType;
use nino_graph::{Def, Graph};
use nino_models::{Family, FileParams, Params, clip, unet};
use nino_sample::Prediction;
use nino_weights::{Entry, Format, Index, TensorReader};
use std::sync::Arc;

/// Names that [`crate::Checkpoint::spec`] knows.
pub const MODEL_SPECS: [&str; 7] = [
    "sd15",
    "sd15-inpaint",
    "sd15-edit",
    "sd21",
    "sd21-768",
    "sdxl",
    "sdxl-turbo",
];

/// What a model is made of.
pub(super) struct Description {
    pub(super) family: Family,
    pub(super) prediction: Prediction,
    pub(super) unet: unet::Config,
    pub(super) text: Vec<clip::Config>,
    pub(super) vae: &'static str,
}

impl Description {
    pub(super) fn find(name: &str) -> Option<Description> {
        let sd15 = Description {
            family: Family::Sd1,
            prediction: Prediction::Eps,
            unet: unet::Config::sd15(),
            text: vec![clip::Config::clip_l()],
            vae: "sd-vae",
        };
        Some(match name {
            "sd15" => sd15,
            "sd15-inpaint" | "sd15-edit" => Description {
                unet: unet::Config {
                    in_channels: if name == "sd15-edit" { 8 } else { 9 },
                    ..unet::Config::sd15()
                },
                ..sd15
            },
            "sd21" | "sd21-768" => Description {
                family: Family::Sd2,
                prediction: if name == "sd21" {
                    Prediction::Eps
                } else {
                    Prediction::V
                },
                unet: unet::Config::sd21(),
                text: vec![clip::Config::clip_h()],
                ..sd15
            },
            "sdxl" | "sdxl-turbo" => Description {
                family: Family::Sdxl,
                unet: unet::Config::sdxl(),
                text: vec![clip::Config::clip_l(), clip::Config::clip_g()],
                vae: "sdxl-vae",
                ..sd15
            },
            _ => return None,
        })
    }

    /// Names and shapes of the UNet's weights, in f16 as most files have them, and no bytes.
    pub(super) fn unet_params(&self) -> FileParams {
        let c = &self.unet;
        params(|g, p| {
            let x = g.input("x", [1, 64, 64, c.in_channels], DType::F32);
            let t = g.input("t", [1], DType::F32);
            let context = g.input("context", [1, 77, c.context_dim], DType::F32);
            let y = c.adm_in.map(|n| g.input("y", [1, n], DType::F32));
            let guidance = None;
            let inputs = unet::Inputs {
                x,
                t,
                context,
                y,
                guidance,
            };
            unet::unet(g, p, c, inputs);
        })
    }

    /// The same of a text encoder.
    pub(super) fn text_params(c: &clip::Config) -> FileParams {
        let want = clip::Want {
            skip: 1,
            norm: true,
            pooled: true,
        };
        params(|g, p| {
            let ids = g.input("ids", [1, c.max_tokens], DType::I32);
            let end = g.input("end", [1, 1, c.max_tokens], DType::F32);
            let x = clip::embed(g, p, c, ids, DType::F32);
            clip::encoder(g, p, c, x, end, want);
        })
    }
}

/// The parameters that a recording declares, as a file would list them.
fn params(record: impl FnOnce(&mut Graph, &Params)) -> FileParams {
    let mut g = Graph::new();
    record(&mut g, &Params::uniform(DType::F16));
    let entries = g.values().filter_map(|(_, value)| match &value.def {
        Def::Param(spec) if spec.inline.is_none() => Some(Entry {
            name: spec.name.clone(),
            dtype: DType::F16,
            shape: stored(&spec.shape),
            spans: Vec::new(),
            strides: None,
            scale: None,
        }),
        _ => None,
    });
    let index = Index::new(Format::Safetensors, Vec::new(), entries.collect());
    FileParams::of(&Arc::new(TensorReader::without_files(index.clone())), index)
}

/// Kernels are `[cout, cin, kh, kw]` in files.
fn stored(shape: &[usize]) -> Vec<usize> {
    match shape {
        [cout, kernel @ .., cin] => [&[*cout, *cin], kernel].concat(),
        short => short.to_vec(),
    }
}
