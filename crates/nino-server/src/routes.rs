//! The routes, by what they are about.
//!
//! ComfyUI's own are there under `/api` too, and all of them once more below `/comfy`, where its
//! page looks for them when it is served from there.

pub(crate) mod a1111;
pub(crate) mod bodies;
pub(crate) mod downloads;
pub(crate) mod files;
pub(crate) mod front;
pub(crate) mod history;
pub(crate) mod info;
pub(crate) mod jobs;
pub(crate) mod metrics;
pub(crate) mod openai;
pub(crate) mod openapi;
pub(crate) mod own;
pub(crate) mod prompt;
pub(crate) mod queue;
pub(crate) mod upload;
pub(crate) mod user;
pub(crate) mod view;

use crate::app::App;
use crate::error::Refused;
use crate::{guard, socket};
use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, patch, post};
use serde_json::Value;
use std::sync::Arc;

type Routes = Router<Arc<App>>;

/// Pictures that requests unpack at once.
pub(crate) const UNPACKING: usize = 2;
/// Values in the JSON of a request.
const MOST_VALUES: usize = 1 << 20;

pub(crate) fn router(app: Arc<App>) -> Router {
    let comfy = comfy().nest("/api", comfy().merge(jobs()));
    let below = comfy.clone().merge(front::comfy());
    Router::new()
        .merge(comfy)
        .nest("/comfy", below)
        .merge(front::own())
        .merge(own::routes())
        .merge(downloads::routes())
        .merge(openai::routes())
        .merge(a1111::routes())
        .merge(openapi::routes())
        .route("/metrics", get(metrics::metrics))
        .layer(DefaultBodyLimit::max(app.config.max_upload))
        .layer(from_fn_with_state(Arc::clone(&app), bodies::hold))
        .layer(from_fn_with_state(Arc::clone(&app), guard::check))
        .with_state(app)
}

/// ComfyUI's routes.
fn comfy() -> Routes {
    Router::new()
        .route("/ws", get(socket::connect))
        .route("/prompt", get(queue::remaining).post(prompt::post))
        .route("/queue", get(queue::list).post(queue::change))
        .route("/interrupt", post(queue::interrupt))
        .route("/free", post(queue::free))
        .route("/history", get(history::list).post(history::change))
        .route("/history/{id}", get(history::one))
        .route("/object_info", get(info::all_nodes))
        .route("/object_info/{class}", get(info::node))
        .route("/system_stats", get(info::system))
        .route("/features", get(info::features))
        .route("/embeddings", get(files::embeddings))
        .route("/models", get(files::folders))
        .route("/models/{folder}", get(files::models))
        .route("/experiment/models", get(files::folders_with_paths))
        .route("/experiment/models/{folder}", get(files::models_with_facts))
        .route(
            "/experiment/models/preview/{folder}/{index}/{*file}",
            get(files::preview),
        )
        .route("/view_metadata/{folder}", get(files::metadata))
        .route("/upload/image", post(upload::image))
        .route("/upload/mask", post(upload::mask))
        .route("/view", get(view::view))
        .route("/extensions", get(info::empty_list))
        .route("/settings", get(user::settings).post(user::set_settings))
        .route("/settings/{id}", get(user::setting).post(user::set_setting))
        .route("/users", get(user::users).post(user::add_user))
        .route("/userdata", get(user::list))
        .route("/v2/userdata", get(user::list_all))
        .route(
            "/userdata/{file}",
            get(user::read).post(user::write).delete(user::remove),
        )
        .route("/userdata/{file}/move/{dest}", post(user::rename))
        .route("/i18n", get(info::empty_object))
        .route("/workflow_templates", get(info::empty_object))
        .route("/global_subgraphs", get(info::empty_object))
        .route("/global_subgraphs/{id}", get(info::empty_object))
        .route("/node_replacements", get(info::empty_object))
        .route("/internal/logs", get(info::empty_text))
        .route("/internal/logs/raw", get(info::no_logs))
        .route("/internal/logs/subscribe", patch(info::accepted))
        .route("/internal/folder_paths", get(files::folder_paths))
        .route("/internal/files/{kind}", get(files::in_folder))
}

/// ComfyUI's routes that are there under `/api` only.
fn jobs() -> Routes {
    Router::new()
        .route("/jobs", get(jobs::list))
        .route("/jobs/cancel", post(jobs::cancel_many))
        .route("/jobs/{id}", get(jobs::one))
        .route("/jobs/{id}/cancel", post(jobs::cancel))
        .route("/assets", get(info::no_assets).post(info::no_assets))
        .route(
            "/assets/{*path}",
            get(info::no_assets).post(info::no_assets),
        )
        .route("/tags", get(info::no_assets))
}

/// The JSON of a body; an empty one is an empty object. It is nested no deeper than serde_json
/// reads, which is 128 levels.
pub(crate) fn json(body: &Bytes) -> Result<Value, Refused> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    // A number of two bytes takes forty times as much when it is read.
    let values = body.iter().filter(|b| matches!(b, b',' | b'[' | b'{'));
    if values.count() > MOST_VALUES {
        return Err(Refused::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body has more than {MOST_VALUES} values"),
        ));
    }
    let parsed = serde_json::from_slice(body).or_else(|error| {
        // Python writes NaN, which JSON does not have.
        let text = String::from_utf8_lossy(body).replace(": NaN", ": null");
        serde_json::from_str(&text).map_err(|_| error)
    });
    parsed.map_err(|e| Refused::bad(format!("the body is no JSON: {e}")))
}

/// Does work that reads disks or computes away from the threads that answer requests.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    tokio::task::spawn_blocking(work).await?
}

/// The same for work that unpacks pictures. Only some is done at once; who leaves before it is his
/// turn is not waited for.
pub(crate) async fn unpacking<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let turn = Arc::clone(&app.unpacking).acquire_owned().await;
    let stopping = |_| Refused::new(StatusCode::SERVICE_UNAVAILABLE, "the server stops");
    let turn = turn.map_err(stopping)?;
    let app = Arc::clone(app);
    blocking(move || {
        let _turn = turn;
        work(&app)
    })
    .await
}
