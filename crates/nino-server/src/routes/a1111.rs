//! A1111's calls, as far as programs use them to make pictures.

mod extras;
mod numbers;

use super::{Routes, blocking, json, unpacking};
use crate::app::App;
use crate::chosen::{self, ChosenModel};
use crate::error::{Body, Refused};
use crate::gallery;
use crate::pictures;
use crate::recipe::{self, Hires, Inputs, Made, Recipe, Start};
use crate::routes::bodies::Room;
use crate::routes::view::read_made;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use nino_engine::media::Limits;
use nino_engine::{Picture, SAMPLER_NAMES, SCHEDULER_NAMES, SamplerInfo, Scheduler};
use nino_files::AtomicFile;
use numbers::{count, float, scale, seed};
use serde_json::{Value, json};
use std::sync::Arc;

/// The setting that names the model, kept with the user's others.
const MODEL: &str = "sd_model_checkpoint";
const MOST_PICTURES: usize = 64;
/// The side of a picture of which only the other one is given.
const SIDE: usize = 512;

pub(crate) fn routes() -> Routes {
    Router::new()
        .route("/sdapi/v1/txt2img", post(txt2img))
        .route("/sdapi/v1/img2img", post(img2img))
        .route("/sdapi/v1/progress", get(progress))
        .route("/sdapi/v1/interrupt", post(interrupt))
        .route("/sdapi/v1/options", get(options).post(set_options))
        .route("/sdapi/v1/sd-models", get(models))
        .route("/sdapi/v1/samplers", get(samplers))
        .route("/sdapi/v1/schedulers", get(schedulers))
        .route("/sdapi/v1/loras", get(loras))
        .route("/sdapi/v1/upscalers", get(extras::upscalers))
        .route(
            "/sdapi/v1/latent-upscale-modes",
            get(extras::latent_upscale_modes),
        )
        .route("/sdapi/v1/extra-single-image", post(extras::single_image))
        .route("/sdapi/v1/embeddings", get(embeddings))
        .route("/sdapi/v1/png-info", post(png_info))
}

/// A1111's form of an error.
fn told(refused: Refused) -> Refused {
    let detail = refused.body.sentence();
    let error = if refused.status.is_client_error() {
        "HTTPException"
    } else {
        "Error"
    };
    let body = json!({ "error": error, "detail": detail, "errors": detail, "body": "" });
    Refused {
        status: refused.status,
        body: Body::Json(body),
    }
}

fn unprocessable(text: impl Into<String>) -> Refused {
    Refused::new(StatusCode::UNPROCESSABLE_ENTITY, text)
}

async fn txt2img(
    State(app): State<Arc<App>>,
    Extension(room): Extension<Room>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    run(app, &room, body, false).await.map(Json).map_err(told)
}

async fn img2img(
    State(app): State<Arc<App>>,
    Extension(room): Extension<Room>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    run(app, &room, body, true).await.map(Json).map_err(told)
}

async fn run(
    app: Arc<App>,
    room: &Room,
    bytes: Bytes,
    from_picture: bool,
) -> Result<Value, Refused> {
    let body = json(&bytes)?;
    drop(bytes);
    let mut recipe = recipe_of(&body)?;
    let (mut recipe, mut body) = if from_picture {
        unpacking(&app, move |app| {
            let (start, size) = start(app, &body)?;
            recipe.start = Some(start);
            recipe.size = recipe.size.or(Some(size));
            Ok((recipe, body))
        })
        .await?
    } else {
        (recipe, body)
    };
    if recipe.model.is_none() {
        let app = Arc::clone(&app);
        recipe.model = blocking(move || chosen_model(&app)).await?;
    }
    // While the job is waited for, nothing large is kept. A1111 sends pictures back no more than
    // this, unless it is asked to.
    for pictures in ["init_images", "mask"] {
        if let Some(pictures) = body.get_mut(pictures) {
            *pictures = Value::Null;
        }
    }
    room.leave();
    let prompts = (recipe.prompt.clone(), recipe.negative.clone());
    let made = recipe::make(&app, recipe).await?;
    let sends = body["send_images"] != false;
    blocking(move || {
        let images = made.files.iter().filter(|_| sends);
        let images = images.map(|file| Ok(BASE64.encode(read_made(&app, file)?)));
        let images = images.collect::<Result<Vec<String>, Refused>>()?;
        let info = info(&made, &prompts.0, &prompts.1);
        Ok(json!({ "images": images, "parameters": body, "info": info.to_string() }))
    })
    .await
}

fn recipe_of(body: &Value) -> Result<Recipe, Refused> {
    let text = |key: &str| body[key].as_str().filter(|text| !text.is_empty());
    let size = match (count(body, "width")?, count(body, "height")?) {
        (None, None) => None,
        (width, height) => Some((width.unwrap_or(SIDE), height.unwrap_or(SIDE))),
    };
    let of_each = count(body, "n_iter")?.unwrap_or(1);
    let pictures = count(body, "batch_size")?
        .unwrap_or(1)
        .saturating_mul(of_each);
    if pictures > MOST_PICTURES {
        return Err(unprocessable(format!(
            "{MOST_PICTURES} pictures are the most of a request"
        )));
    }
    let sampler = text("sampler_name").or(text("sampler_index"));
    let sampler = sampler.map(SamplerInfo::parse).transpose();
    let sampler = sampler.map_err(|e| unprocessable(e.to_string()))?;
    let scheduler = text("scheduler").filter(|s| !s.eq_ignore_ascii_case("automatic"));
    let scheduler = scheduler.map(Scheduler::parse).transpose();
    let scheduler = scheduler.map_err(|e| unprocessable(e.to_string()))?;
    // A sampler without a schedule has the one that A1111 gives it.
    let implied = sampler.map(|s| {
        s.scheduler
            .unwrap_or_else(|| Scheduler::automatic(s.sampler))
    });
    let scheduler = scheduler.or(implied);
    let hires = (body["enable_hr"] == true).then(|| {
        Ok::<_, Refused>(Hires {
            scale: scale(body, "hr_scale")?.unwrap_or(2.0),
            upscaler: text("hr_upscaler").map(str::to_owned),
            steps: count(body, "hr_second_pass_steps")?,
            denoise: float(body, "denoising_strength")?.unwrap_or(0.7),
        })
    });
    Ok(Recipe {
        prompt: text("prompt").unwrap_or_default().to_owned(),
        negative: text("negative_prompt").unwrap_or_default().to_owned(),
        model: body["override_settings"][MODEL].as_str().map(str::to_owned),
        size,
        count: pictures,
        seed: seed(body, "seed")?,
        steps: count(body, "steps")?,
        cfg: float(body, "cfg_scale")?,
        // The name that Forge gave it.
        guidance: float(body, "distilled_cfg_scale")?,
        sampler: sampler.map(|s| s.sampler.name.to_owned()),
        scheduler: scheduler.map(|s| s.name().to_owned()),
        start: None,
        hires: hires.transpose()?,
    })
}

/// A picture in a request: base64, perhaps as a `data:` address.
fn decoded(text: &str) -> Result<Vec<u8>, Refused> {
    let data = match text.split_once(";base64,") {
        Some((head, data)) if head.starts_with("data:") => data,
        _ => text,
    };
    let bytes = BASE64.decode(data.trim());
    bytes.map_err(|_| unprocessable("a picture is not in base64"))
}

fn start(app: &App, body: &Value) -> Result<(Start, (usize, usize)), Refused> {
    let mut inputs = Inputs::default();
    let image = body["init_images"][0].as_str();
    let image = image.ok_or_else(|| unprocessable("init_images has no picture"))?;
    let (image, picture) = kept(app, &mut inputs, &decoded(image)?)?;
    let mask = match body["mask"].as_str().filter(|mask| !mask.is_empty()) {
        None => None,
        Some(mask) => {
            let mut mask = read(app, &decoded(mask)?)?;
            // What is white is painted; a mask in color counts by its brightness.
            let inverts = count(body, "inpainting_mask_invert")? == Some(1);
            for pixel in mask.rgb.chunks_exact_mut(3) {
                let grey = (u16::from(pixel[0]) + u16::from(pixel[1]) + u16::from(pixel[2])) / 3;
                let grey = if inverts {
                    255 - grey as u8
                } else {
                    grey as u8
                };
                pixel.fill(grey);
            }
            Some(inputs.keep(app, &nino_engine::media::png(&mask))?)
        }
    };
    let denoise = float(body, "denoising_strength")?;
    let start = Start {
        image,
        mask,
        denoise: denoise.unwrap_or(0.75).clamp(0.01, 1.0),
        inputs: Arc::new(inputs),
    };
    let whole = |side: usize| (side / 8 * 8).max(8);
    Ok((start, (whole(picture.width), whole(picture.height))))
}

/// A picture that came in a request; an error where it is none.
fn read(app: &App, bytes: &[u8]) -> Result<Picture, Refused> {
    let read = pictures::unpacked(&app.folders, bytes);
    read.map(|(picture, _)| picture)
        .map_err(|e| unprocessable(e.to_string()))
}

/// Keeps a picture that came in a request; an error where it is none.
fn kept(app: &App, inputs: &mut Inputs, bytes: &[u8]) -> Result<(String, Picture), Refused> {
    let picture = read(app, bytes)?;
    Ok((inputs.keep(app, bytes)?, picture))
}

/// A1111's line of parameters.
fn line(made: &Made, prompt: &str, negative: &str, seed: u64) -> String {
    let negative = match negative {
        "" => String::new(),
        negative => format!("\nNegative prompt: {negative}"),
    };
    let stem = made
        .model
        .rsplit_once('.')
        .map_or(&*made.model, |(stem, _)| stem);
    let (sampler, scheduler) = labels(made);
    format!(
        "{prompt}{negative}\nSteps: {}, Sampler: {sampler}, Schedule type: {scheduler}, \
         CFG scale: {}, Seed: {seed}, Size: {}x{}, Model: {stem}",
        made.steps, made.cfg, made.size.0, made.size.1
    )
}

/// A1111's names of what was used.
fn labels(made: &Made) -> (String, String) {
    let sampler = SamplerInfo::parse(&made.sampler).map(|s| s.sampler.a1111_name());
    let scheduler = Scheduler::parse(&made.scheduler).map(Scheduler::a1111_name);
    (
        sampler.unwrap_or(&made.sampler).to_owned(),
        scheduler.unwrap_or(&made.scheduler).to_owned(),
    )
}

fn info(made: &Made, prompt: &str, negative: &str) -> Value {
    let count = made.files.len() as u64;
    let seeds: Vec<u64> = (0..count).map(|i| made.seed.wrapping_add(i)).collect();
    let lines = seeds.iter().map(|seed| line(made, prompt, negative, *seed));
    json!({
        "prompt": prompt,
        "all_prompts": vec![prompt; made.files.len()],
        "negative_prompt": negative,
        "seed": made.seed,
        "all_seeds": seeds,
        "width": made.size.0,
        "height": made.size.1,
        "sampler_name": labels(made).0,
        "cfg_scale": made.cfg,
        "steps": made.steps,
        "sd_model_name": made.model,
        "infotexts": lines.collect::<Vec<_>>(),
    })
}

async fn progress(State(app): State<Arc<App>>) -> Json<Value> {
    let progress = app.progress().clone();
    let runs = app.queue.is_active(&progress.id);
    let share = if runs && progress.total > 0 {
        progress.done as f64 / progress.total as f64
    } else {
        0.0
    };
    let since = progress
        .since
        .map_or(0.0, |since| since.elapsed().as_secs_f64());
    let left = if share > 0.0 {
        since / share - since
    } else {
        0.0
    };
    let image = (runs && !progress.jpeg.is_empty()).then(|| BASE64.encode(&progress.jpeg));
    Json(json!({
        "progress": share,
        "eta_relative": left,
        "state": {
            "skipped": false,
            "interrupted": false,
            "job": if runs { &progress.id } else { "" },
            "job_count": app.queue.remaining(),
            "job_no": 0,
            "sampling_step": progress.done,
            "sampling_steps": progress.total,
        },
        "current_image": image,
        "textinfo": null,
    }))
}

async fn interrupt(State(app): State<Arc<App>>) -> Json<Value> {
    app.queue.interrupt(None);
    Json(json!({}))
}

/// The model that a client chose by `/options`.
fn chosen_model(app: &App) -> Result<Option<String>, Refused> {
    let setting = super::user::read_settings(app)?.remove(MODEL);
    Ok(setting.and_then(|setting| setting.as_str().map(str::to_owned)))
}

async fn options(State(app): State<Arc<App>>) -> Result<Json<Value>, Refused> {
    let model = blocking(move || match chosen_model(&app)? {
        Some(name) => Ok(name),
        None => Ok(ChosenModel::default_of(&app.models)?.name),
    });
    Ok(Json(
        json!({ "sd_model_checkpoint": model.await?, "samples_format": "png" }),
    ))
}

async fn set_options(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Refused> {
    let body = json(&body)?;
    if let Some(model) = body[MODEL].as_str() {
        let change = std::iter::once((MODEL.to_owned(), json!(model))).collect();
        super::user::change_settings(app, change).await?;
    }
    Ok(Json(Value::Null))
}

async fn models(State(app): State<Arc<App>>) -> Result<Json<Value>, Refused> {
    let names = blocking(move || Ok(chosen::names(&app.models))).await?;
    let each = names.iter().map(|name| {
        let stem = name.rsplit_once('.').map_or(&**name, |(stem, _)| stem);
        json!({
            "title": name, "model_name": stem, "hash": null, "sha256": null, "filename": name,
            "config": null,
        })
    });
    Ok(Json(each.collect()))
}

async fn samplers() -> Json<Value> {
    let each = SAMPLER_NAMES.iter().map(|name| {
        json!({ "name": name.a1111.unwrap_or(name.name), "aliases": [name.name], "options": {} })
    });
    Json(each.collect())
}

async fn schedulers() -> Json<Value> {
    let each = SCHEDULER_NAMES.iter().map(|name| {
        json!({
            "name": name.name, "label": name.a1111.unwrap_or(name.name), "aliases": null,
            "default_rho": -1, "need_inner_model": false,
        })
    });
    Json(each.collect())
}

async fn loras(State(app): State<Arc<App>>) -> Result<Json<Value>, Refused> {
    let names = blocking(move || Ok(app.models.names("loras").unwrap_or_default())).await?;
    let each = names.iter().map(|name| {
        let stem = name.rsplit_once('.').map_or(&**name, |(stem, _)| stem);
        json!({ "name": stem, "alias": stem, "path": name, "metadata": {} })
    });
    Ok(Json(each.collect()))
}

async fn embeddings(State(app): State<Arc<App>>) -> Result<Json<Value>, Refused> {
    let names = blocking(move || Ok(app.models.names("embeddings").unwrap_or_default())).await?;
    let each = names.iter().map(|name| {
        let stem = name.rsplit_once('.').map_or(&**name, |(stem, _)| stem);
        (
            stem.to_owned(),
            json!({ "step": null, "shape": null, "vectors": null }),
        )
    });
    let loaded: serde_json::Map<String, Value> = each.collect();
    Ok(Json(json!({ "loaded": loaded, "skipped": {} })))
}

/// What a picture says of how it was made.
async fn png_info(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Refused> {
    let body = json(&body)?;
    let found = blocking(move || {
        let bytes = decoded(body["image"].as_str().unwrap_or_default())?;
        let path = app
            .folders
            .temp
            .join(format!("info-{}", uuid::Uuid::new_v4()));
        let written = AtomicFile::replace(&path, &bytes);
        written.map_err(|e| Refused::bad(e.to_string()))?;
        let texts = nino_engine::media::read_text(
            &path,
            &["parameters", "prompt", "workflow"],
            &Limits::default(),
        );
        let about = gallery::made_with(&path);
        let _ = std::fs::remove_file(&path);
        let texts = texts.map_err(|e| unprocessable(e.to_string()))?.found;
        let items: serde_json::Map<String, Value> = texts
            .into_iter()
            .map(|(key, text)| (key, json!(text)))
            .collect();
        let info = items
            .get("parameters")
            .cloned()
            .unwrap_or_else(|| json!(""));
        Ok(json!({ "info": info, "items": items, "parameters": about["settings"] }))
    });
    found.await.map(Json).map_err(told)
}
