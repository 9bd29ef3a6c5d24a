//! What our own page asks beside ComfyUI's routes: what a request needs, what models want, and the
//! pictures that were made.

use super::prompt::checked;
use super::{Routes, blocking, json, unpacking};
use crate::app::App;
use crate::chosen::ChosenModel;
use crate::error::Refused;
use crate::plan::{self, Key};
use crate::{folders, gallery, pictures};
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::Response;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::routing::{get, post};
use axum::{Json, Router};
use nino_engine::device::HostMemory;
use nino_engine::media::{Limits, load_picture};
use nino_engine::{Family, ModelKind};
use nino_workflow::Graph;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The largest side of a small picture.
const LARGEST_THUMB: usize = 1024;

pub(crate) fn routes() -> Routes {
    Router::new()
        .route("/nino/status", get(status))
        .route("/nino/plan", post(needs))
        .route("/nino/model", get(model))
        .route("/nino/models", get(models))
        .route("/nino/gallery", get(gallery_page))
        .route("/nino/picture", get(picture))
        .route("/nino/delete", post(delete))
        .route("/nino/thumb", get(thumb))
}

async fn status(State(app): State<Arc<App>>) -> Json<Value> {
    let devices = app.config.devices.iter().zip(&app.stores);
    let devices = devices.map(|(opened, store)| {
        let usage = store.usage();
        json!({
            "name": opened.name.to_string(),
            "model": opened.model,
            "budget": store.device().budget().total,
            "weights": usage.weight_bytes,
            "arena": usage.arena_bytes,
            "busy": usage.busy_bytes,
        })
    });
    let memory = HostMemory::read();
    Json(json!({
        "version": app.config.version,
        "devices": devices.collect::<Vec<_>>(),
        "memory": { "total": memory.total, "available": memory.available },
        "queue": app.queue.remaining(),
        "comfyui_page": app.config.front_end.is_some(),
    }))
}

/// What a graph needs on each device.
async fn needs(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Refused> {
    let own = Arc::clone(&app);
    let (key, graph) = blocking(move || {
        let mut body = json(&body)?;
        let prompt = body["prompt"].take();
        let limits = &own.config.settings.limits;
        let graph = Graph::from_value(prompt.clone(), limits);
        let graph = graph.map_err(|e| Refused::bad(e.to_string()))?;
        let checked = checked(&own, &graph, None, limits)?;
        Ok((Key::of(&prompt, &checked), Arc::new(checked)))
    })
    .await?;
    let needs = plan::needs(&app, key, &graph).await?;
    let each = needs.iter().zip(&app.stores);
    let each = each.map(|(need, store)| need.to_json(store.device().budget().total));
    Ok(Json(json!({ "devices": each.collect::<Vec<_>>() })))
}

#[derive(Deserialize)]
struct Named {
    /// The default model where it is not given.
    name: Option<String>,
    folder: Option<String>,
}

/// What a model is, the settings that it is best used with, and of a diffusion model alone, the
/// files that belong to it.
async fn model(
    State(app): State<Arc<App>>,
    Query(named): Query<Named>,
) -> Result<Json<Value>, Refused> {
    let about = blocking(move || {
        let folder = named.folder.as_deref().unwrap_or("checkpoints");
        let chosen = match &named.name {
            Some(name) => ChosenModel::open(&app.models, folder, name)?,
            None => ChosenModel::default_of(&app.models)?,
        };
        let model = &chosen.diffusion;
        let (family, defaults, wants) = (model.family, model.defaults(), model.net().wants());
        let parts = chosen.parts.as_ref().map(|parts| parts.to_json(family));
        let encodes = chosen.vae.as_ref().is_some_and(|vae| vae.can_encode());
        Ok(json!({
            "name": chosen.name,
            "family": family.name(),
            "whole": chosen.parts.is_none(),
            "parts": parts,
            "encodes": encodes,
            // Clips; from a picture where it has channels for one, or frames with own times.
            "video": wants.frames,
            "from_picture": wants.frames && (wants.extra > 0 || wants.frame_times),
            "references": matches!(family, Family::Flux | Family::Klein | Family::Flux2 | Family::QwenImage),
            "side": chosen.side(),
            "guidance": defaults.guidance,
            "steps": defaults.steps,
            "cfg": defaults.cfg,
            "sampler": defaults.sampler,
            "scheduler": defaults.scheduler,
            "size": defaults.size,
        }))
    });
    Ok(Json(about.await?))
}

/// Every model file, by kind.
async fn models(State(app): State<Arc<App>>) -> Result<Json<Value>, Refused> {
    let all = blocking(move || {
        let mut all = Vec::new();
        for kind in ModelKind::ALL {
            let Some(folder) = kind.folders().first() else {
                continue;
            };
            let found = app.models.in_folder(folder).unwrap_or_default();
            let own = found.iter().filter(|found| found.kind == Some(*kind));
            all.extend(own.map(
                |found| json!({ "name": found.name, "kind": kind.noun(), "size": found.size }),
            ));
        }
        let loose = app.models.in_folder("checkpoints").unwrap_or_default();
        let loose = loose.iter().filter(|found| found.kind.is_none());
        all.extend(
            loose.map(|found| json!({ "name": found.name, "kind": "file", "size": found.size })),
        );
        Ok(all)
    });
    Ok(Json(json!(all.await?)))
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    search: String,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

async fn gallery_page(
    State(app): State<Arc<App>>,
    Query(page): Query<Page>,
) -> Result<Json<Value>, Refused> {
    let limit = page.limit.unwrap_or(60).min(500);
    let found = blocking(move || Ok(gallery::page(&app, &page.search, page.offset, limit)));
    Ok(Json(found.await?))
}

#[derive(Deserialize)]
struct PictureName {
    filename: String,
    #[serde(default)]
    subfolder: String,
    side: Option<usize>,
}

/// What a picture was made with.
async fn picture(
    State(app): State<Arc<App>>,
    Query(name): Query<PictureName>,
) -> Result<Json<Value>, Refused> {
    let about = blocking(move || {
        let path = folders::file(&app.folders.output, &[&name.subfolder, &name.filename])?;
        Ok(gallery::made_with(&path))
    });
    Ok(Json(about.await?))
}

async fn delete(State(app): State<Arc<App>>, body: Bytes) -> Result<(), Refused> {
    let body = json(&body)?;
    blocking(move || {
        let text = |key: &str| body[key].as_str().unwrap_or_default();
        let names = [text("subfolder"), text("filename")];
        let path = folders::file(&app.folders.output, &names)?;
        std::fs::remove_file(path).map_err(|e| Refused::bad(e.to_string()))
    })
    .await
}

/// A picture in small. Its address has the time of the file in it, so it may be kept.
async fn thumb(
    State(app): State<Arc<App>>,
    Query(name): Query<PictureName>,
) -> Result<Response<Body>, Refused> {
    let jpeg = unpacking(&app, move |app| {
        let path = folders::file(&app.folders.output, &[&name.subfolder, &name.filename])?;
        let unreadable = |e: nino_engine::media::MediaError| Refused::bad(e.to_string());
        let picture = load_picture(&path, &Limits::default()).map_err(unreadable)?;
        let side = name.side.unwrap_or(320).clamp(16, LARGEST_THUMB);
        let side = side.min(picture.width.max(picture.height));
        pictures::encode(&pictures::fitted(&picture, side), "jpg", 85).map_err(unreadable)
    });
    let mut response = Response::new(Body::from(jpeg.await?));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("image/jpeg"));
    let keep = HeaderValue::from_static("private, max-age=31536000, immutable");
    headers.insert(CACHE_CONTROL, keep);
    Ok(response)
}
