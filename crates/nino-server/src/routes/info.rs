//! What the server is and can do.

use super::blocking;
use crate::app::App;
use crate::error::{Body, Refused};
use crate::host::ServerHost;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use nino_engine::device::HostMemory;
use nino_workflow::nodes;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The version of ComfyUI whose dialect this is.
const COMFYUI: &str = "0.30.0";

pub(crate) async fn all_nodes(State(app): State<Arc<App>>) -> Result<Json<Value>, Refused> {
    let all = blocking(move || {
        let host = ServerHost::to_check(&app);
        let entries = nodes::all().filter(|def| def.is_listed());
        let entries = entries.map(|def| (def.class.to_owned(), def.object_info(&host)));
        Ok(entries.collect::<Map<_, _>>())
    });
    Ok(Json(Value::Object(all.await?)))
}

pub(crate) async fn node(
    State(app): State<Arc<App>>,
    Path(class): Path<String>,
) -> Result<Json<Value>, Refused> {
    let info = blocking(move || {
        let host = ServerHost::to_check(&app);
        let def = nodes::find(&class);
        let entry = def.map(|def| (class, def.object_info(&host)));
        Ok(entry.into_iter().collect::<Map<_, _>>())
    });
    Ok(Json(Value::Object(info.await?)))
}

pub(crate) async fn system(State(app): State<Arc<App>>) -> Json<Value> {
    let memory = HostMemory::read();
    let devices = app.config.devices.iter().zip(&app.stores).enumerate();
    let devices = devices.map(|(index, (opened, store))| {
        let total = store.device().budget().total;
        let usage = store.usage();
        let used = usage.weight_bytes + usage.arena_bytes;
        let free = total.map(|total| total.saturating_sub(used));
        let kind = if opened.tier.is_some() { "gpu" } else { "cpu" };
        json!({
            "name": format!("{} {}", opened.name, opened.model),
            "type": kind,
            "index": index,
            "vram_total": total,
            "vram_free": free,
            "torch_vram_total": used,
            "torch_vram_free": used - usage.busy_bytes.min(used),
        })
    });
    let devices: Vec<Value> = devices.collect();
    Json(json!({
        "system": {
            "os": std::env::consts::OS,
            "ram_total": memory.total,
            "ram_free": memory.available,
            "comfyui_version": COMFYUI,
            "required_frontend_version": null,
            "installed_templates_version": null,
            "required_templates_version": null,
            "comfy_package_versions": [],
            "python_version": format!("none: nino {}", app.config.version),
            "pytorch_version": format!("none: nino {}", app.config.version),
            "embedded_python": false,
            "deploy_environment": "local",
            "argv": ["nino", "serve"],
        },
        "devices": devices,
    }))
}

pub(crate) fn feature_flags(app: &App) -> Value {
    json!({
        "supports_preview_metadata": true,
        "supports_model_type_tags": false,
        "max_upload_size": app.config.max_upload,
        "extension": { "manager": { "supports_v4": false } },
        "node_replacements": false,
        "assets": false,
    })
}

pub(crate) async fn features(State(app): State<Arc<App>>) -> Json<Value> {
    Json(feature_flags(&app))
}

pub(crate) async fn empty_list() -> Json<Value> {
    Json(json!([]))
}

pub(crate) async fn empty_object() -> Json<Value> {
    Json(json!({}))
}

pub(crate) async fn empty_text() -> Json<Value> {
    Json(json!(""))
}

pub(crate) async fn no_logs() -> Json<Value> {
    Json(json!({ "entries": [], "size": { "cols": 80, "rows": 24 } }))
}

pub(crate) async fn accepted() {}

pub(crate) async fn no_assets() -> Refused {
    let error = json!({ "code": "SERVICE_DISABLED", "message": "there are no assets here" });
    Refused {
        status: StatusCode::SERVICE_UNAVAILABLE,
        body: Body::Json(json!({ "error": error })),
    }
}
