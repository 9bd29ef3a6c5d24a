//! Jobs of every state, in the form that ComfyUI's page reads now.

use super::prompt::prompt_id;
use super::queue::ids;
use super::{blocking, json};
use crate::app::App;
use crate::error::{Body, Refused};
use crate::job;
use crate::journal::Wanted;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

const STATUSES: [&str; 5] = ["pending", "in_progress", "completed", "failed", "cancelled"];
/// Jobs of an answer where no limit is asked for, and at most.
const MOST: usize = 1_000;

#[derive(Deserialize)]
pub(crate) struct Asked {
    status: Option<String>,
    workflow_id: Option<String>,
    sort_by: Option<String>,
    sort_order: Option<String>,
    limit: Option<String>,
    offset: Option<String>,
}

fn refused(status: StatusCode, text: &str) -> Refused {
    Refused {
        status,
        body: Body::Json(json!({ "error": text })),
    }
}

fn bad(text: &str) -> Refused {
    refused(StatusCode::BAD_REQUEST, text)
}

fn not_found() -> Refused {
    refused(StatusCode::NOT_FOUND, "Job not found")
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Query(asked): Query<Asked>,
) -> Result<Json<Value>, Refused> {
    let mut statuses = STATUSES.to_vec();
    if let Some(given) = asked.status.as_deref().filter(|s| !s.is_empty()) {
        let given = given.split(',').map(|s| s.trim().to_lowercase());
        let given: Vec<String> = given.filter(|s| !s.is_empty()).collect();
        let is_wrong = |status: &&String| !STATUSES.contains(&status.as_str());
        let wrong: Vec<&str> = given.iter().filter(is_wrong).map(String::as_str).collect();
        if !wrong.is_empty() {
            return Err(bad(&format!(
                "Invalid status value(s): {}. Valid values: {}",
                wrong.join(", "),
                STATUSES.join(", ")
            )));
        }
        statuses.retain(|status| given.iter().any(|given| given == status));
    }
    let lower = |text: Option<String>| text.map(|text| text.to_lowercase());
    let by_duration = match lower(asked.sort_by).as_deref() {
        None | Some("created_at") => false,
        Some("execution_duration") => true,
        Some(_) => return Err(bad("sort_by must be 'created_at' or 'execution_duration'")),
    };
    let ascending = match lower(asked.sort_order).as_deref() {
        None | Some("desc") => false,
        Some("asc") => true,
        Some(_) => return Err(bad("sort_order must be 'asc' or 'desc'")),
    };
    let number = |text: &Option<String>, what: &str| match text.as_deref() {
        None => Ok(None),
        Some(text) => match text.parse::<i64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(bad(&format!("{what} must be an integer"))),
        },
    };
    let limit = match number(&asked.limit, "limit")? {
        None => MOST,
        Some(limit) => match usize::try_from(limit) {
            Ok(limit) if limit > 0 => limit.min(MOST),
            _ => return Err(bad("limit must be a positive integer")),
        },
    };
    let offset = number(&asked.offset, "offset")?.unwrap_or(0);
    let offset = usize::try_from(offset).unwrap_or(0);
    let wanted = Wanted {
        statuses,
        workflow: asked.workflow_id,
        by_duration,
        ascending,
    };
    let page = blocking(move || page(&app, &wanted, limit, offset)).await?;
    Ok(Json(page))
}

/// Jobs that wait or run come before those that ended, as they were made later.
fn page(app: &App, wanted: &Wanted, limit: usize, offset: usize) -> Result<Value, Refused> {
    let active = app.queue.active();
    let is_wanted = |item: &&Arc<job::Item>| {
        wanted.workflow.is_none() || item.workflow_id() == wanted.workflow.as_deref()
    };
    let of = |items: &[Arc<job::Item>], status: &str| -> Vec<Value> {
        let items = items
            .iter()
            .filter(is_wanted)
            .filter(|_| wanted.statuses.contains(&status));
        items.map(|item| job::active(item, status)).collect()
    };
    let mut jobs = of(&active.running, "in_progress");
    jobs.extend(of(&active.pending, "pending"));
    if !wanted.by_duration {
        jobs.sort_by_key(|job| job["create_time"].as_u64());
        if !wanted.ascending {
            jobs.reverse();
        }
    }
    let before = jobs.len();
    // Of the ended ones, those of the page that follow, or go before, the others.
    let skip = offset.saturating_sub(if wanted.ascending { 0 } else { before });
    let (ended, count) = app.queue.journal.ended(wanted, limit + before, skip)?;
    let total = before + count;
    let (from, mut all) = if wanted.ascending {
        let mut all = ended;
        if skip + all.len() >= count {
            all.extend(jobs.into_iter().skip(skip.saturating_sub(count)));
        }
        (0, all)
    } else {
        let from = offset.min(before);
        jobs.extend(ended);
        (from, jobs)
    };
    all.drain(..from);
    all.truncate(limit);
    let has_more = offset + all.len() < total;
    Ok(json!({
        "jobs": all,
        "pagination": { "offset": offset, "limit": limit, "total": total, "has_more": has_more },
    }))
}

pub(crate) async fn one(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refused> {
    let found = blocking(move || Ok(find(&app, &id)?)).await?;
    found.map(Json).ok_or_else(not_found)
}

fn find(app: &App, id: &str) -> rusqlite::Result<Option<Value>> {
    let active = app.queue.active();
    for (items, status) in [(active.running, "in_progress"), (active.pending, "pending")] {
        if let Some(item) = items.iter().find(|item| item.id == id) {
            return Ok(Some(job::active(item, status)));
        }
    }
    let Some(mut job) = app.queue.journal.summary(id)? else {
        return Ok(None);
    };
    let mut history = app.queue.journal.history_of(id)?;
    let entry = &mut history[id];
    job["outputs"] = entry["outputs"].take();
    job["execution_status"] = entry["status"].take();
    let (prompt, extra) = (entry["prompt"][2].take(), entry["prompt"][3].take());
    job["workflow"] = json!({ "prompt": prompt, "extra_data": extra });
    Ok(Some(job))
}

pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refused> {
    // One that has ended, or that nobody knows, is no error.
    let cancelled = blocking(move || Ok(stop(&app, &id)));
    Ok(Json(json!({ "cancelled": cancelled.await? })))
}

pub(crate) async fn cancel_many(
    State(app): State<Arc<App>>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    let body = json(&body).map_err(|_| bad("Request body must be valid JSON"))?;
    let Some(ids) = ids(&body["job_ids"]) else {
        return Err(bad("job_ids must be a list"));
    };
    let all = body["job_ids"].as_array().into_iter().flatten();
    let wrong: Vec<&Value> = all.filter(|id| prompt_id(id).is_err()).collect();
    if !wrong.is_empty() {
        let text = "job_ids contains invalid id(s)";
        return Err(Refused {
            status: StatusCode::BAD_REQUEST,
            body: Body::Json(json!({ "error": text, "invalid_ids": wrong })),
        });
    }
    let cancelled = blocking(move || {
        let stopped = ids.iter().filter(|id| stop(&app, id)).count();
        Ok(stopped > 0)
    });
    Ok(Json(json!({ "cancelled": cancelled.await? })))
}

/// Stops a job that waits or runs. Says whether there was one.
fn stop(app: &App, id: &str) -> bool {
    let removed = app.queue.remove(Some(&[id.to_owned()])) > 0;
    if removed {
        app.tell_status();
    }
    removed || app.queue.interrupt(Some(id))
}
