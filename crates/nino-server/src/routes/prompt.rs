//! Prompts: read, checked and put into the queue.

use super::{blocking, json};
use crate::app::App;
use crate::error::{Body, Refused};
use crate::host::ServerHost;
use crate::job::{Ended, Item, Job, Outcome, now, number};
use crate::journal::STARTS;
use crate::plan::{self, Key, Need};
use crate::queue::{LARGEST_NUMBER, Refusal};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use nino_engine::ErrorKind;
use nino_workflow::summary::Summary;
use nino_workflow::{Checked, Graph, Limits, check_outputs, json_bytes};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What of a client's extra data is not kept: secrets of services that nino does not call.
const SECRETS: [&str; 2] = ["auth_token_comfy_org", "api_key_comfy_org"];

/// A graph and how it is to be run.
pub(crate) struct Submission {
    pub(crate) prompt: Value,
    /// The id that the client wants it to have.
    pub(crate) id: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) place: QueuePlace,
    pub(crate) extra: Map<String, Value>,
    /// The output nodes to run; all without it.
    pub(crate) targets: Option<Vec<String>>,
}

/// Where in the queue a job goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum QueuePlace {
    Behind,
    Front,
    Number(f64),
}

/// A job that is in the queue.
pub(crate) struct Queued {
    pub(crate) item: Arc<Item>,
    /// What is wrong with output nodes that do not run.
    pub(crate) problems: Value,
}

pub(crate) async fn post(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Refused> {
    let submission = blocking(move || read(json(&body)?)).await?;
    let queued = submit(&app, submission, |queued| queued).await?;
    Ok(Json(json!({
        "prompt_id": queued.item.id,
        "number": number(queued.item.number),
        "node_errors": queued.problems,
    })))
}

fn read(mut body: Value) -> Result<Submission, Refused> {
    let Some(prompt) = body.get_mut("prompt").map(Value::take) else {
        let text = "No prompt provided";
        return Err(Refused::prompt(
            StatusCode::BAD_REQUEST,
            "no_prompt",
            text,
            text,
        ));
    };
    let id = match body.get("prompt_id") {
        None | Some(Value::Null) => None,
        Some(id) => Some(prompt_id(id)?),
    };
    let place = match (body.get("number").and_then(Value::as_f64), &body["front"]) {
        (Some(number), _) if number.abs() <= LARGEST_NUMBER => QueuePlace::Number(number),
        (Some(number), _) => {
            let details = format!("{number} is not from -{LARGEST_NUMBER} to {LARGEST_NUMBER}");
            let message = "The number is too large";
            let status = StatusCode::BAD_REQUEST;
            return Err(Refused::prompt(status, "invalid_number", message, &details));
        }
        (_, front) if *front == true => QueuePlace::Front,
        _ => QueuePlace::Behind,
    };
    let extra = match body.get_mut("extra_data").map(Value::take) {
        Some(Value::Object(extra)) => extra,
        _ => Map::new(),
    };
    let targets = body["partial_execution_targets"].as_array();
    let targets = targets.map(|ids| ids.iter().filter_map(Value::as_str));
    let client = body["client_id"]
        .as_str()
        .or(extra.get("client_id").and_then(Value::as_str));
    Ok(Submission {
        prompt,
        id,
        client: client.map(str::to_owned),
        place,
        targets: targets.map(|ids| ids.map(str::to_owned).collect()),
        extra,
    })
}

/// An id as ComfyUI wants it: it is compared as text everywhere.
pub(super) fn prompt_id(id: &Value) -> Result<String, Refused> {
    let refused = || {
        let details = "prompt_id must be a UUID string in canonical lowercase hyphenated form; \
                       omit it to let the server generate one";
        Refused::prompt(
            StatusCode::BAD_REQUEST,
            "invalid_prompt_id",
            "prompt_id must be a valid UUID",
            details,
        )
    };
    let text = id.as_str().ok_or_else(refused)?;
    let uuid = uuid::Uuid::try_parse(text).map_err(|_| refused())?;
    if uuid.hyphenated().to_string() == text {
        Ok(text.to_owned())
    } else {
        Err(refused())
    }
}

/// A graph that was checked.
struct Prepared {
    submission: Submission,
    /// Bytes of what is kept of it.
    bytes: usize,
    graph: Arc<Checked>,
    models: String,
    nodes: usize,
    key: Key,
}

/// Checks a graph and puts it into the queue. Nothing is queued for a client that leaves before.
///
/// `hold` is given what is in the queue before anything else is done, so that it is not lost where
/// the client leaves at that moment.
pub(crate) async fn submit<T: Send + 'static>(
    app: &Arc<App>,
    submission: Submission,
    hold: impl FnOnce(Queued) -> T + Send + 'static,
) -> Result<T, Refused> {
    let own = Arc::clone(app);
    let prepared = blocking(move || prepare(&own, submission)).await?;
    let needs = plan::needs(app, prepared.key, &prepared.graph).await?;
    let own = Arc::clone(app);
    blocking(move || enqueue(&own, prepared, &needs).map(hold)).await
}

fn prepare(app: &App, mut submission: Submission) -> Result<Prepared, Refused> {
    let invalid = |e: nino_workflow::GraphError| {
        let details = e.to_string();
        let status = match e {
            nino_workflow::GraphError::Bytes { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        };
        Refused::prompt(status, "invalid_prompt", "Cannot read prompt", &details)
    };
    submission.extra.retain(|key, _| !SECRETS.contains(&&**key));
    let extra = submission.extra.iter();
    let extra: usize = extra
        .map(|(key, value)| key.len() + json_bytes(value))
        .sum();
    let bytes = json_bytes(&submission.prompt) + extra;
    let limits = &app.config.settings.limits;
    if bytes > limits.bytes {
        return Err(invalid(nino_workflow::GraphError::Bytes {
            found: bytes,
            most: limits.bytes,
        }));
    }
    let graph = Graph::from_value(submission.prompt.clone(), limits).map_err(invalid)?;
    let checked = checked(app, &graph, submission.targets.as_deref(), limits)?;
    Ok(Prepared {
        bytes,
        models: models(&graph),
        nodes: graph.iter().count(),
        key: Key::of(&submission.prompt, &checked),
        graph: Arc::new(checked),
        submission,
    })
}

fn enqueue(app: &App, prepared: Prepared, needs: &[Need]) -> Result<Queued, Refused> {
    let fits = admit(app, needs)?;
    let Prepared {
        submission,
        graph: checked,
        nodes,
        ..
    } = prepared;
    let id = match submission.id {
        Some(id) if app.queue.is_active(&id) => {
            let details = "a job of this id is in the queue";
            let message = "Duplicate prompt_id";
            let status = StatusCode::BAD_REQUEST;
            return Err(Refused::prompt(
                status,
                "invalid_prompt_id",
                message,
                details,
            ));
        }
        Some(id) => id,
        None => uuid::Uuid::new_v4().to_string(),
    };
    let mut extra = submission.extra;
    extra.insert("create_time".to_owned(), json!(now()));
    if let Some(client) = &submission.client {
        extra.insert("client_id".to_owned(), json!(client));
    }
    let problems = checked.problems_json();
    let item = Arc::new(Item {
        id,
        number: match submission.place {
            QueuePlace::Number(number) => number,
            place => app.queue.number(place == QueuePlace::Front),
        },
        prompt: submission.prompt,
        extra: Value::Object(extra),
        outputs: checked.outputs.clone(),
        client: submission.client,
    });
    let job = Job {
        item: Arc::clone(&item),
        graph: checked,
        models: prepared.models,
        bytes: prepared.bytes,
        overtaken: 0,
        fits,
    };
    let id = item.id.clone();
    app.queue.put(job).map_err(|refusal| match refusal {
        Refusal::Full => {
            let (status, text) = (StatusCode::SERVICE_UNAVAILABLE, "the queue is full");
            let details = "too many jobs wait, or too large ones: try again when some have ended";
            Refused::prompt(status, "queue_full", text, details)
        }
        Refusal::Journal(error) => error.into(),
    })?;
    tracing::info!(job = %id, nodes, waiting = app.queue.remaining(), "queued");
    app.tell_status();
    Ok(Queued { item, problems })
}

/// Which devices a graph fits. A graph that fits none is refused, with the numbers.
fn admit(app: &App, needs: &[Need]) -> Result<Vec<bool>, Refused> {
    if needs.iter().any(Need::fits) {
        return Ok(needs.iter().map(Need::fits).collect());
    }
    let why = needs
        .iter()
        .zip(&app.config.devices)
        .filter_map(|(need, device)| match need {
            Need::TooMuch(why) => Some(format!("{}: {why}", device.name)),
            _ => None,
        });
    let why = why.collect::<Vec<_>>().join("; ");
    let message = "The prompt does not fit into the memory of any device";
    Err(Refused::prompt(
        StatusCode::BAD_REQUEST,
        ErrorKind::OverBudget.name(),
        message,
        &why,
    ))
}

pub(super) fn checked(
    app: &App,
    graph: &Graph,
    targets: Option<&[String]>,
    limits: &Limits,
) -> Result<Checked, Refused> {
    let host = ServerHost::to_check(app);
    check_outputs(graph, targets, &host, limits).map_err(|error| Refused {
        status: StatusCode::BAD_REQUEST,
        body: Body::Json(error.to_json()),
    })
}

/// The models that a graph loads, as one text.
fn models(graph: &Graph) -> String {
    let files = Summary::of(graph).files;
    let models = files
        .iter()
        .filter(|f| f.folder.is_none_or(|folder| !folder.is_input()));
    let names: Vec<String> = models
        .map(|f| format!("{}@{:?}", f.name, f.strength))
        .collect();
    names.join("\n")
}

/// Puts the jobs into the queue that the last server did not finish. One that was cut off as often
/// as it may be started has failed.
pub(crate) fn restore(app: &App) {
    let unfinished = app.queue.journal.unfinished().unwrap_or_else(|e| {
        tracing::warn!("jobs of the last run are lost: {e}");
        Vec::new()
    });
    for job in unfinished {
        let item = Arc::new(job.item);
        if job.starts >= STARTS {
            let text = "the server ended twice while the job ran";
            fail(app, &item, text);
            continue;
        }
        let limits = &app.config.settings.limits;
        let graph = Graph::from_value(item.prompt.clone(), limits);
        let host = ServerHost::to_check(app);
        let checked = graph.map_err(|e| e.to_string()).and_then(|graph| {
            let checked = check_outputs(&graph, Some(&item.outputs), &host, limits);
            checked
                .map(|checked| (graph, checked))
                .map_err(|e| e.to_string())
        });
        match checked {
            Ok((graph, checked)) => {
                let key = Key::of(&item.prompt, &checked);
                match admit(app, &plan::needs_at_start(app, key, &checked)) {
                    Ok(fits) => app.queue.restore(Job {
                        models: models(&graph),
                        graph: Arc::new(checked),
                        bytes: json_bytes(&item.prompt) + json_bytes(&item.extra),
                        overtaken: 0,
                        fits,
                        item,
                    }),
                    Err(_) => fail(app, &item, "the job does not fit into memory any more"),
                }
            }
            Err(why) => fail(app, &item, &why),
        }
    }
}

/// A job that cannot be run any more.
fn fail(app: &App, item: &Item, why: &str) {
    let error = json!({
        "prompt_id": item.id, "node_id": "", "node_type": "", "executed": [],
        "exception_message": why, "exception_type": "internal", "traceback": [],
        "current_inputs": {}, "current_outputs": [], "timestamp": now(),
    });
    let outcome = Outcome {
        ended: Ended::Failed,
        outputs: Map::new(),
        meta: Map::new(),
        messages: vec![("execution_error", error)],
    };
    app.queue.done(item, Some(&outcome));
}
