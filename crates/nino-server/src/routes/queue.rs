//! The queue: what waits and runs, and changes of it.

use super::{blocking, json};
use crate::app::App;
use crate::error::Refused;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn remaining(State(app): State<Arc<App>>) -> Json<Value> {
    Json(app.status()["status"].take())
}

pub(crate) async fn list(State(app): State<Arc<App>>) -> Json<Value> {
    let active = app.queue.active();
    let each = |items: &[Arc<crate::job::Item>]| -> Vec<Value> {
        items.iter().map(|item| item.to_json()).collect()
    };
    Json(json!({
        "queue_running": each(&active.running),
        "queue_pending": each(&active.pending),
    }))
}

pub(crate) async fn change(State(app): State<Arc<App>>, body: Bytes) -> Result<(), Refused> {
    let body = json(&body)?;
    blocking(move || {
        if body["clear"] == true {
            app.queue.remove(None);
        }
        if let Some(ids) = ids(&body["delete"]) {
            app.queue.remove(Some(&ids));
        }
        app.tell_status();
        Ok(())
    })
    .await
}

/// A list of ids.
pub(super) fn ids(list: &Value) -> Option<Vec<String>> {
    let ids = list.as_array()?.iter().filter_map(Value::as_str);
    Some(ids.map(str::to_owned).collect())
}

pub(crate) async fn interrupt(State(app): State<Arc<App>>, body: Bytes) {
    // The body may be anything, as ComfyUI has it.
    let body = json(&body).unwrap_or_default();
    match &body["prompt_id"] {
        // What Python takes for nothing is no id.
        Value::Null | Value::Bool(false) => app.queue.interrupt(None),
        Value::String(id) if id.is_empty() => app.queue.interrupt(None),
        Value::String(id) => app.queue.interrupt(Some(id)),
        // No job has such an id.
        _ => false,
    };
}

pub(crate) async fn free(State(app): State<Arc<App>>, body: Bytes) -> Result<(), Refused> {
    let body = json(&body)?;
    if body["unload_models"] == true || body["free_memory"] == true {
        app.queue.free();
    }
    Ok(())
}
