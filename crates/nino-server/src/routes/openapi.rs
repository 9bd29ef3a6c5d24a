//! What is served, as an OpenAPI document and as a page of it.

use super::Routes;
use crate::app::App;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Method, path, what it does. Paths of ComfyUI's are there under `/api` too.
const ROUTES: &[(&str, &str, &str, &str)] = &[
    ("comfyui", "get", "/prompt", "How many jobs wait or run"),
    (
        "comfyui",
        "post",
        "/prompt",
        "Check a graph and put it into the queue",
    ),
    ("comfyui", "get", "/queue", "Jobs that wait and run"),
    (
        "comfyui",
        "post",
        "/queue",
        "Remove jobs that wait: clear, or delete with ids",
    ),
    (
        "comfyui",
        "post",
        "/interrupt",
        "Stop what runs, or the job of prompt_id",
    ),
    (
        "comfyui",
        "post",
        "/free",
        "Give back the memory of idle models",
    ),
    (
        "comfyui",
        "get",
        "/history",
        "Jobs that ended: max_items, offset",
    ),
    (
        "comfyui",
        "post",
        "/history",
        "Forget jobs that ended: clear, or delete with ids",
    ),
    ("comfyui", "get", "/history/{id}", "One job that ended"),
    (
        "comfyui",
        "get",
        "/api/jobs",
        "Jobs of every state: status, sort_by, limit, offset",
    ),
    ("comfyui", "get", "/api/jobs/{id}", "One job of any state"),
    (
        "comfyui",
        "post",
        "/api/jobs/{id}/cancel",
        "Stop or remove a job",
    ),
    (
        "comfyui",
        "post",
        "/api/jobs/cancel",
        "Stop or remove jobs: job_ids",
    ),
    ("comfyui", "get", "/object_info", "All classes of nodes"),
    (
        "comfyui",
        "get",
        "/object_info/{class}",
        "One class of nodes",
    ),
    ("comfyui", "get", "/system_stats", "Memory and devices"),
    ("comfyui", "get", "/features", "What the server understands"),
    ("comfyui", "get", "/embeddings", "Textual inversions"),
    ("comfyui", "get", "/models", "Folders of models"),
    ("comfyui", "get", "/models/{folder}", "Models of a folder"),
    (
        "comfyui",
        "get",
        "/view_metadata/{folder}",
        "What a safetensors file says of itself",
    ),
    (
        "comfyui",
        "post",
        "/upload/image",
        "Bring a picture: multipart image, type, subfolder",
    ),
    (
        "comfyui",
        "post",
        "/upload/mask",
        "Bring a mask for original_ref",
    ),
    (
        "comfyui",
        "get",
        "/view",
        "A file: filename, type, subfolder, preview, channel",
    ),
    (
        "comfyui",
        "get",
        "/ws",
        "WebSocket: what happens to a client's jobs",
    ),
    ("openai", "get", "/v1/models", "Models"),
    (
        "openai",
        "post",
        "/v1/images/generations",
        "Pictures from words",
    ),
    (
        "openai",
        "post",
        "/v1/images/edits",
        "A picture changed, with a mask or without",
    ),
    (
        "openai",
        "post",
        "/v1/images/variations",
        "Pictures like one",
    ),
    ("a1111", "post", "/sdapi/v1/txt2img", "Pictures from words"),
    (
        "a1111",
        "post",
        "/sdapi/v1/img2img",
        "Pictures from a picture",
    ),
    (
        "a1111",
        "get",
        "/sdapi/v1/progress",
        "How far the present job is",
    ),
    ("a1111", "post", "/sdapi/v1/interrupt", "Stop what runs"),
    ("a1111", "get", "/sdapi/v1/options", "The chosen model"),
    (
        "a1111",
        "post",
        "/sdapi/v1/options",
        "Choose a model: sd_model_checkpoint",
    ),
    ("a1111", "get", "/sdapi/v1/sd-models", "Models"),
    ("a1111", "get", "/sdapi/v1/samplers", "Samplers"),
    ("a1111", "get", "/sdapi/v1/schedulers", "Schedulers"),
    ("a1111", "get", "/sdapi/v1/loras", "LoRAs"),
    ("a1111", "get", "/sdapi/v1/upscalers", "Upscalers"),
    (
        "a1111",
        "get",
        "/sdapi/v1/latent-upscale-modes",
        "Ways to enlarge a latent",
    ),
    (
        "a1111",
        "post",
        "/sdapi/v1/extra-single-image",
        "A picture made larger",
    ),
    ("a1111", "get", "/sdapi/v1/embeddings", "Textual inversions"),
    (
        "a1111",
        "post",
        "/sdapi/v1/png-info",
        "What a picture was made with",
    ),
    ("nino", "get", "/nino/status", "Devices and memory"),
    ("nino", "get", "/nino/downloads", "Downloads of models"),
    (
        "nino",
        "post",
        "/nino/downloads",
        "Download a model: what is a short name or a repository",
    ),
    (
        "nino",
        "post",
        "/nino/downloads/stop",
        "Stop a download by its id",
    ),
    (
        "nino",
        "post",
        "/nino/plan",
        "What a graph needs, before it runs",
    ),
    (
        "nino",
        "get",
        "/nino/model",
        "What a checkpoint is, and its best settings",
    ),
    ("nino", "get", "/nino/models", "Every model file"),
    (
        "nino",
        "get",
        "/nino/gallery",
        "Pictures of the output folder: search, offset, limit",
    ),
    (
        "nino",
        "get",
        "/nino/picture",
        "What a picture was made with",
    ),
    ("nino", "get", "/nino/thumb", "A picture in small"),
    ("nino", "post", "/nino/delete", "Delete a picture"),
    ("nino", "get", "/metrics", "Figures for Prometheus"),
];

pub(crate) fn routes() -> Routes {
    Router::new().route("/openapi.json", get(document))
}

async fn document(State(app): State<Arc<App>>) -> Json<Value> {
    let mut paths: Map<String, Value> = Map::new();
    for (tag, method, path, about) in ROUTES {
        let names = path
            .split('{')
            .skip(1)
            .filter_map(|rest| rest.split('}').next());
        let parameters = names.map(|name| {
            json!({
                "name": name, "in": "path", "required": true, "schema": { "type": "string" },
            })
        });
        let entry = paths.entry((*path).to_owned()).or_insert_with(|| json!({}));
        entry[*method] = json!({
            "tags": [tag],
            "summary": about,
            "parameters": parameters.collect::<Vec<_>>(),
            "responses": { "200": { "description": "done" } },
        });
    }
    Json(json!({
        "openapi": "3.1.0",
        "info": { "title": "nino serve", "version": app.config.version },
        "paths": paths,
    }))
}
