//! Jobs that ended, in ComfyUI's older form.

use super::queue::ids;
use super::{blocking, json};
use crate::app::App;
use crate::error::Refused;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct Part {
    max_items: Option<i64>,
    offset: Option<i64>,
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Query(part): Query<Part>,
) -> Result<Json<Value>, Refused> {
    let number = |n: Option<i64>| n.and_then(|n| usize::try_from(n).ok());
    let (most, offset) = (number(part.max_items), number(part.offset));
    let history = blocking(move || Ok(app.queue.journal.history(most, offset)?)).await?;
    Ok(Json(history))
}

pub(crate) async fn one(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refused> {
    let history = blocking(move || Ok(app.queue.journal.history_of(&id)?)).await?;
    Ok(Json(history))
}

pub(crate) async fn change(State(app): State<Arc<App>>, body: Bytes) -> Result<(), Refused> {
    let body = json(&body)?;
    blocking(move || {
        if body["clear"] == true {
            app.queue.journal.forget_all()?;
        }
        if let Some(ids) = ids(&body["delete"]) {
            app.queue.journal.forget(&ids)?;
        }
        Ok(())
    })
    .await
}
