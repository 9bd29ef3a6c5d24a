//! Pictures made larger by a network. ComfyUI cuts a picture into tiles of 512 pixels whose seams
//! it blends; here the result is that of the whole picture.

use crate::NodeError;
use crate::host::Folder;
use crate::node::NodeDef;
use crate::node::table::{file, link, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{Image, UpscaleModel, UpscaleOptions, upscale};
use std::sync::Arc;

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "UpscaleModelLoader",
        display_name: "Load Upscale Model",
        category: "model/loaders",
        inputs: &[file("model_name", Folder::UpscaleModels)],
        outputs: &[out(Socket::UpscaleModel)],
        is_output: false,
        run: |call| {
            let model = UpscaleModel::open(&call.file("model_name")?)?;
            Ok(vec![Value::UpscaleModel(Arc::new(model))])
        },
    },
    NodeDef {
        class: "ImageUpscaleWithModel",
        display_name: "Upscale Image (using Model)",
        category: "image/upscaling",
        inputs: &[
            link("upscale_model", Socket::UpscaleModel),
            link("image", Socket::Image),
        ],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: with_model,
    },
];

fn with_model(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let model = call.upscale_model("upscale_model")?;
    let images = call.images("image")?;
    let mut made: Vec<Image> = Vec::with_capacity(images.len());
    for image in images.iter() {
        let (width, height) = (image.width * model.scale(), image.height * model.scale());
        call.room_for("a batch of pictures", &[images.len(), width, height, 3])?;
        let done = made
            .iter()
            .map(|image| image.values.len() * size_of::<f32>());
        let options = UpscaleOptions {
            precision: call.settings.precision,
            beside: call.held_bytes + done.sum::<usize>(),
        };
        let larger = upscale(call.store, &model, image, &options, &mut call.control)?;
        made.push(larger.image);
    }
    Ok(vec![Value::from(made)])
}
