//! What the page asks about downloads of models.

use super::{Routes, json};
use crate::app::App;
use crate::error::Refused;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) fn routes() -> Routes {
    Router::new()
        .route("/nino/downloads", get(list).post(begin))
        .route("/nino/downloads/stop", post(stop))
}

async fn list(State(app): State<Arc<App>>) -> Json<Value> {
    Json(app.downloads.to_json())
}

async fn begin(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Refused> {
    let body = json(&body)?;
    let id = app
        .downloads
        .begin(body["what"].as_str().unwrap_or_default().trim())?;
    Ok(Json(json!({ "id": id })))
}

async fn stop(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Refused> {
    let id = json(&body)?["id"].as_u64().unwrap_or(0);
    app.downloads.stop(id)?;
    Ok(Json(json!({})))
}
