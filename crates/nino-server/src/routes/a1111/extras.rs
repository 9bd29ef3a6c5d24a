//! Upscalers, and the call that enlarges a picture.

use super::numbers::{count, float};
use super::{blocking, decoded, kept, told, unprocessable};
use crate::app::App;
use crate::error::Refused;
use crate::recipe::{self, Inputs, RESIZERS, SAVES, upscaler_of};
use crate::routes::bodies::Room;
use crate::routes::view::read_made;
use crate::routes::{json as parsed, unpacking};
use axum::body::Bytes;
use axum::extract::State;
use axum::{Extension, Json};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use std::sync::Arc;

/// The most times that a picture is enlarged.
const MOST: f64 = 16.0;
/// The longest side of a result.
const MOST_PIXELS: u64 = 16_384;

pub(super) async fn upscalers(State(app): State<Arc<App>>) -> Result<Json<Value>, Refused> {
    let names = blocking(move || Ok(app.models.names("upscale_models").unwrap_or_default()));
    let row = |name: &str, file: Option<&str>| {
        json!({
            "name": name, "model_name": file, "model_path": file, "model_url": null, "scale": 4,
        })
    };
    let plain = RESIZERS.iter().map(|(name, _)| row(name, None));
    let names = names.await?;
    let files = names.iter().map(|file| {
        let stem = file.rsplit_once('.').map_or(&**file, |(stem, _)| stem);
        row(stem, Some(file))
    });
    Ok(Json(plain.chain(files).collect()))
}

pub(super) async fn latent_upscale_modes() -> Json<Value> {
    Json(json!([{ "name": "Latent" }]))
}

pub(super) async fn single_image(
    State(app): State<Arc<App>>,
    Extension(room): Extension<Room>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    enlarged(app, &room, body).await.map(Json).map_err(told)
}

async fn enlarged(app: Arc<App>, room: &Room, bytes: Bytes) -> Result<Value, Refused> {
    let body = parsed(&bytes)?;
    drop(bytes);
    let (graph, inputs) = unpacking(&app, move |app| graph(app, &body)).await?;
    room.leave();
    let files = recipe::run(&app, vec![graph], Arc::new(inputs)).await?;
    blocking(move || {
        let file = files
            .first()
            .ok_or_else(|| unprocessable("nothing was made"))?;
        let image = BASE64.encode(read_made(&app, file)?);
        Ok(json!({ "html_info": "", "image": image }))
    })
    .await
}

/// The graph that enlarges the picture of a request.
fn graph(app: &App, body: &Value) -> Result<(Value, Inputs), Refused> {
    let image = body["image"].as_str().unwrap_or_default();
    let mut inputs = Inputs::default();
    let (name, picture) = kept(app, &mut inputs, &decoded(image)?)?;
    let (width, height) = size(body, picture.width, picture.height)?;
    let wanted = body["upscaler_1"].as_str().unwrap_or("None");
    let plain = RESIZERS.iter().find(|(name, _)| *name == wanted);
    let method = plain.map_or("lanczos", |(_, method)| method);
    let mut nodes = json!({
        "1": { "class_type": "LoadImage", "inputs": { "image": name } },
        "4": { "class_type": "ImageScale", "inputs": {
            "image": ["1", 0], "upscale_method": method, "width": width, "height": height,
            "crop": if body["upscaling_crop"] == false { "disabled" } else { "center" },
        } },
        SAVES: { "class_type": "SaveImage", "inputs": {
            "images": ["4", 0], "filename_prefix": "extras",
        } },
    });
    if plain.is_none() {
        let file = upscaler_of(app, wanted);
        let file = file.ok_or_else(|| unprocessable(format!("there is no upscaler {wanted:?}")))?;
        nodes["2"] = json!({
            "class_type": "UpscaleModelLoader", "inputs": { "model_name": file },
        });
        nodes["3"] = json!({
            "class_type": "ImageUpscaleWithModel",
            "inputs": { "upscale_model": ["2", 0], "image": ["1", 0] },
        });
        nodes["4"]["inputs"]["image"] = json!(["3", 0]);
    }
    Ok((nodes, inputs))
}

/// The size that is asked for: by a factor, or where `resize_mode` is 1 in pixels.
fn size(body: &Value, width: usize, height: usize) -> Result<(u64, u64), Refused> {
    let sides = if count(body, "resize_mode")? == Some(1) {
        let side = |key: &str| Ok::<_, Refused>(count(body, key)?.unwrap_or(512) as u64);
        (side("upscaling_resize_w")?, side("upscaling_resize_h")?)
    } else {
        let by = float(body, "upscaling_resize")?.unwrap_or(2.0);
        let by = by.clamp(0.01, MOST);
        let side = |n: usize| (n as f64 * by).round().max(1.0) as u64;
        (side(width), side(height))
    };
    let fits = |side: u64| (1..=MOST_PIXELS).contains(&side);
    if fits(sides.0) && fits(sides.1) {
        return Ok(sides);
    }
    Err(unprocessable(format!(
        "a result of {}x{} pixels is not made: sides have 1 to {MOST_PIXELS}",
        sides.0, sides.1
    )))
}
