//! OpenAI's image calls. Beside its own fields a request may have `seed`, `steps`, `cfg_scale`,
//! `guidance` and `negative_prompt`.

use super::{Routes, blocking, json, unpacking};
use crate::app::App;
use crate::chosen;
use crate::error::{Body, Refused};
use crate::job::now;
use crate::pictures;
use crate::recipe::{self, Inputs, Made, Recipe, Start};
use crate::routes::bodies::Room;
use crate::routes::view::read_made;
use axum::body::Bytes;
use axum::extract::multipart::MultipartRejection;
use axum::extract::{Multipart, State};
use axum::http::header::{HOST, HeaderMap};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use nino_engine::Picture;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// How much an edit without a mask, and a variation, changes.
const EDIT: f64 = 0.75;
const VARIATION: f64 = 0.6;
const MOST_PICTURES: u64 = 10;

pub(crate) fn routes() -> Routes {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/images/generations", post(generations))
        .route("/v1/images/edits", post(edits))
        .route("/v1/images/variations", post(variations))
}

/// OpenAI's form of an error.
fn told(refused: Refused) -> Refused {
    let message = refused.body.sentence();
    let kind = if refused.status.is_client_error() {
        "invalid_request_error"
    } else {
        "server_error"
    };
    let error = json!({ "message": message, "type": kind, "param": null, "code": null });
    Refused {
        status: refused.status,
        body: Body::Json(json!({ "error": error })),
    }
}

async fn models(State(app): State<Arc<App>>) -> Result<Json<Value>, Refused> {
    let names = blocking(move || Ok(chosen::names(&app.models))).await?;
    let each = names
        .iter()
        .map(|name| json!({ "id": name, "object": "model", "created": 0, "owned_by": "nino" }));
    Ok(Json(
        json!({ "object": "list", "data": each.collect::<Vec<_>>() }),
    ))
}

async fn generations(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    let answer = async {
        let Value::Object(body) = json(&body)? else {
            return Err(Refused::bad("the body is no object"));
        };
        if !body.get("prompt").is_some_and(Value::is_string) {
            return Err(Refused::bad("prompt is missing"));
        }
        let recipe = recipe_of(&body)?;
        answer(&app, recipe, &body, &headers).await
    };
    answer.await.map(Json).map_err(told)
}

async fn edits(
    State(app): State<Arc<App>>,
    Extension(room): Extension<Room>,
    headers: HeaderMap,
    form: Result<Multipart, MultipartRejection>,
) -> Result<Json<Value>, Refused> {
    from_form(&app, &room, &headers, form, EDIT)
        .await
        .map(Json)
        .map_err(told)
}

async fn variations(
    State(app): State<Arc<App>>,
    Extension(room): Extension<Room>,
    headers: HeaderMap,
    form: Result<Multipart, MultipartRejection>,
) -> Result<Json<Value>, Refused> {
    from_form(&app, &room, &headers, form, VARIATION)
        .await
        .map(Json)
        .map_err(told)
}

/// What a request says, in JSON or as a form whose values are texts.
fn recipe_of(body: &Map<String, Value>) -> Result<Recipe, Refused> {
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let number = |key: &str| {
        let value = body.get(key)?;
        value
            .as_f64()
            .or_else(|| value.as_str()?.trim().parse().ok())
    };
    let count = number("n").unwrap_or(1.0) as u64;
    if !(1..=MOST_PICTURES).contains(&count) {
        return Err(Refused::bad(format!(
            "n is a number from 1 to {MOST_PICTURES}"
        )));
    }
    let size = match text("size").filter(|size| *size != "auto") {
        None => None,
        Some(size) => {
            let sides = size
                .split_once('x')
                .and_then(|(w, h)| w.parse().ok().zip(h.parse().ok()));
            let sides = sides.ok_or_else(|| Refused::bad("size is WIDTHxHEIGHT or auto"))?;
            Some(sides)
        }
    };
    Ok(Recipe {
        prompt: text("prompt").unwrap_or_default().to_owned(),
        negative: text("negative_prompt").unwrap_or_default().to_owned(),
        model: text("model").map(str::to_owned),
        size,
        count: count as usize,
        // A seed may have more digits than a float.
        seed: body.get("seed").and_then(|seed| match seed {
            Value::String(text) => text.trim().parse().ok(),
            seed => seed.as_u64(),
        }),
        steps: number("steps").map(|steps| steps as usize),
        cfg: number("cfg_scale"),
        guidance: number("guidance"),
        ..Recipe::default()
    })
}

async fn from_form(
    app: &Arc<App>,
    room: &Room,
    headers: &HeaderMap,
    form: Result<Multipart, MultipartRejection>,
    denoise: f64,
) -> Result<Value, Refused> {
    let mut form = form.map_err(|e| Refused::new(e.status(), e.body_text()))?;
    let (mut image, mut mask) = (None, None);
    let mut body = Map::new();
    let broken =
        |e: axum::extract::multipart::MultipartError| Refused::new(e.status(), e.body_text());
    while let Some(part) = form.next_field().await.map_err(broken)? {
        let field = part.name().unwrap_or_default().to_owned();
        match &*field {
            "image" | "image[]" => {
                let bytes = part.bytes().await.map_err(broken)?;
                // Of several pictures the first is the one to change.
                image.get_or_insert(bytes);
            }
            "mask" => mask = Some(part.bytes().await.map_err(broken)?),
            _ => {
                let text = part.text().await.map_err(broken)?;
                body.insert(field, json!(text));
            }
        }
    }
    let image = image.ok_or_else(|| Refused::bad("image is missing"))?;
    let mut recipe = recipe_of(&body)?;
    let start = unpacking(app, move |app| start(app, &image, mask.as_deref(), denoise)).await?;
    // The form's parts are files now.
    room.leave();
    recipe.size = recipe.size.or(start.1);
    recipe.start = Some(start.0);
    answer(app, recipe, &body, headers).await
}

/// The picture to start from, and its size in whole latents. What is clear in the mask, or in the
/// picture itself, is painted.
fn start(
    app: &App,
    image: &[u8],
    mask: Option<&[u8]>,
    denoise: f64,
) -> Result<(Start, Option<(usize, usize)>), Refused> {
    let load = |bytes: &[u8]| {
        let loaded = pictures::unpacked(&app.folders, bytes);
        loaded.map_err(|e| Refused::bad(e.to_string()))
    };
    let (picture, alpha) = load(image)?;
    let of_mask = mask.map(load).transpose()?;
    let alpha = of_mask
        .as_ref()
        .map_or(alpha.as_ref(), |(_, alpha)| alpha.as_ref());
    let alpha = alpha.filter(|alpha| !alpha.is_empty());
    if of_mask.is_some() && alpha.is_none() {
        let text = "the mask is clear nowhere, and what is clear in it is painted";
        return Err(Refused::bad(text));
    }
    let mut inputs = Inputs::default();
    let name = inputs.keep(app, image)?;
    let mask = alpha.map(|alpha| {
        let grey = alpha.values.iter().flat_map(|v| [*v; 3]);
        let grey: Vec<f32> = grey.collect();
        let picture = Picture::from_unit(alpha.width, alpha.height, &grey);
        inputs.keep(app, &nino_engine::media::png(&picture))
    });
    let mask = mask.transpose()?;
    let whole = |side: usize| (side / 8 * 8).max(8);
    let start = Start {
        image: name,
        denoise: if mask.is_some() { 1.0 } else { denoise },
        mask,
        inputs: Arc::new(inputs),
    };
    Ok((start, Some((whole(picture.width), whole(picture.height)))))
}

/// Makes the pictures, and answers with them or with where they are.
async fn answer(
    app: &Arc<App>,
    recipe: Recipe,
    body: &Map<String, Value>,
    headers: &HeaderMap,
) -> Result<Value, Refused> {
    let prompt = recipe.prompt.clone();
    let as_url = body
        .get("response_format")
        .is_some_and(|format| format == "url");
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.unwrap_or("localhost").to_owned();
    let Made { files, seed, .. } = recipe::make(app, recipe).await?;
    let app = Arc::clone(app);
    blocking(move || {
        let each = files.iter().map(|file| {
            if as_url {
                let text = |key: &str| file[key].as_str().unwrap_or_default().to_owned();
                let url = format!(
                    "http://{host}/view?filename={}&subfolder={}&type={}",
                    text("filename"),
                    text("subfolder").replace('/', "%2F"),
                    text("type"),
                );
                return Ok(json!({ "url": url, "revised_prompt": prompt }));
            }
            let bytes = read_made(&app, file)?;
            Ok(json!({ "b64_json": BASE64.encode(bytes), "revised_prompt": prompt }))
        });
        let data = each.collect::<Result<Vec<Value>, Refused>>()?;
        Ok(json!({ "created": now() / 1000, "data": data, "seed": seed }))
    })
    .await
}
