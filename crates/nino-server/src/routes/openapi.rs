//! What is served, as an OpenAPI document. `/openapi` is a page of it.

mod table;

use super::Routes;
use crate::app::App;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use table::{FORMS, ROUTES, Route};

pub(crate) fn routes() -> Routes {
    Router::new()
        .route("/openapi.json", get(document))
        .route("/openapi", get(super::front::openapi))
}

async fn document(State(app): State<Arc<App>>) -> Json<Value> {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let entry = paths.entry(route.2.to_owned());
        entry.or_insert_with(|| json!({}))[route.1] = operation(route);
    }
    Json(json!({
        "openapi": "3.1.0",
        "info": { "title": "nino serve", "version": app.config.version },
        "paths": paths,
    }))
}

fn operation((tag, method, path, about, takes): &Route) -> Value {
    let names = path.split('{').skip(1);
    let names = names.filter_map(|rest| rest.split('}').next());
    let text = json!({ "type": "string" });
    let mut parameters: Vec<Value> = names
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": text }))
        .collect();
    let mut operation = json!({
        "tags": [tag],
        "summary": about,
        "responses": { "200": { "description": "done" } },
    });
    // What is written to is named by the address, too.
    let in_address = *method == "get" || path.starts_with("/userdata");
    if in_address {
        parameters.extend(takes.iter().map(
            |(name, about)| json!({ "name": name, "in": "query", "description": about, "schema": text }),
        ));
    } else if !takes.is_empty() {
        let field =
            |(name, about): &(&str, &str)| ((*name).to_owned(), json!({ "description": about }));
        let fields: Map<String, Value> = takes.iter().map(field).collect();
        let kind = if FORMS.contains(path) {
            "multipart/form-data"
        } else {
            "application/json"
        };
        let schema = json!({ "type": "object", "properties": fields });
        operation["requestBody"] = json!({ "content": { kind: { "schema": schema } } });
    }
    operation["parameters"] = json!(parameters);
    operation
}
