//! Jobs that ended, in ComfyUI's older form.

use super::queue::ids;
use super::{blocking, json};
use crate::app::App;
use crate::error::Refused;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct Part {
    max_items: Option<i64>,
    offset: Option<i64>,
}

/// The history in pieces: it may be larger than memory.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Query(part): Query<Part>,
) -> Result<Response, Refused> {
    let number = |n: Option<i64>| n.and_then(|n| usize::try_from(n).ok());
    let (most, offset) = (number(part.max_items), number(part.offset));
    let own = Arc::clone(&app);
    let rows = blocking(move || Ok(own.queue.journal.history(most, offset)?)).await?;
    let body = Body::from_stream(pieces(app, rows));
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// The object of these rows, some at a time.
fn pieces(
    app: Arc<App>,
    rows: Vec<i64>,
) -> impl futures_util::Stream<Item = Result<String, rusqlite::Error>> {
    // With what goes before the next member.
    let start = Some((app, rows, 0, "{"));
    futures_util::stream::try_unfold(start, |state| async move {
        let Some((app, rows, at, before)) = state else {
            return Ok(None);
        };
        if at == rows.len() {
            let end = if before == "{" { "{}" } else { "}" };
            return Ok(Some((end.to_owned(), None)));
        }
        let read = tokio::task::spawn_blocking(move || {
            let (text, done) = app.queue.journal.entries(&rows[at..])?;
            // Rows that are gone are no members, and what goes before the next one stays.
            let (piece, next) = match &*text {
                "" => (text, before),
                members => (format!("{before}{members}"), ", "),
            };
            Ok((piece, Some((app, rows, at + done, next))))
        });
        let read = read.await;
        read.unwrap_or(Err(rusqlite::Error::InvalidQuery)).map(Some)
    })
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
