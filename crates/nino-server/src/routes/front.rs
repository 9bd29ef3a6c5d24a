//! Pages: our own, whose files are inside the program, and ComfyUI's where its package is here.

use super::Routes;
use crate::app::App;
use crate::error::Refused;
use crate::folders;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use axum::response::Redirect;
use axum::routing::get;
use std::sync::Arc;

pub(crate) fn own() -> Routes {
    Router::new()
        .route("/", get(home))
        .route("/page/{name}", get(own_file))
        .route("/comfy/", get(comfy_home))
        // ComfyUI's page names some of its files from the root.
        .route("/assets/{*path}", get(comfy_asset))
}

/// The files of our own page.
const PAGE: [(&str, &[u8]); 12] = [
    ("index.html", include_bytes!("../../page/index.html")),
    ("style.css", include_bytes!("../../page/style.css")),
    ("icon.svg", include_bytes!("../../page/icon.svg")),
    ("app.js", include_bytes!("../../page/app.js")),
    ("api.js", include_bytes!("../../page/api.js")),
    ("gallery.js", include_bytes!("../../page/gallery.js")),
    ("graph.js", include_bytes!("../../page/graph.js")),
    ("models.js", include_bytes!("../../page/models.js")),
    ("openapi.html", include_bytes!("../../page/openapi.html")),
    ("openapi.js", include_bytes!("../../page/openapi.js")),
    ("paint.js", include_bytes!("../../page/paint.js")),
    ("references.js", include_bytes!("../../page/references.js")),
];

/// Our own page loads nothing from elsewhere and runs nothing but its files.
const POLICY: &str = "default-src 'self'; img-src 'self' blob: data:; connect-src 'self'; \
                      frame-ancestors 'self'; base-uri 'none'; form-action 'none'";

async fn home() -> Result<Response<Body>, Refused> {
    own_file(Path("index.html".to_owned())).await
}

/// The page of all routes.
pub(crate) async fn openapi() -> Result<Response<Body>, Refused> {
    own_file(Path("openapi.html".to_owned())).await
}

async fn own_file(Path(name): Path<String>) -> Result<Response<Body>, Refused> {
    let found = PAGE.iter().find(|(known, _)| *known == name);
    let (name, bytes) = found.ok_or_else(|| Refused::not_found("there is no such file"))?;
    let mut response = answer(web_type(name), Body::from(*bytes));
    let policy = HeaderValue::from_static(POLICY);
    response
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}

/// ComfyUI's page.
pub(crate) fn comfy() -> Routes {
    Router::new()
        .route("/", get(|| async { Redirect::permanent("/comfy/") }))
        .route("/{*path}", get(comfy_file))
}

async fn comfy_home(app: State<Arc<App>>) -> Result<Response<Body>, Refused> {
    comfy_file(app, Path("index.html".to_owned())).await
}

async fn comfy_asset(
    app: State<Arc<App>>,
    Path(path): Path<String>,
) -> Result<Response<Body>, Refused> {
    comfy_file(app, Path(format!("assets/{path}"))).await
}

async fn comfy_file(
    State(app): State<Arc<App>>,
    Path(path): Path<String>,
) -> Result<Response<Body>, Refused> {
    let Some(root) = &app.config.front_end else {
        return Err(Refused::not_found(
            "ComfyUI's page is not here: install comfyui-frontend-package with pip and start the \
             server with --front-end-root and the package's static folder",
        ));
    };
    let missing = |_| Refused::not_found("there is no such file");
    let root = tokio::fs::canonicalize(root).await.map_err(missing)?;
    let file = folders::file(&root, &[&path])?;
    let bytes = tokio::fs::read(&file).await.map_err(missing)?;
    Ok(answer(web_type(&path), Body::from(bytes)))
}

fn answer(kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// The type of a page's own file. Only files of pages are sent as these.
fn web_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "woff" => "font/woff",
        "ttf" => "font/ttf",
        "wasm" => "application/wasm",
        "map" => "application/json",
        _ => crate::pictures::content_type(name),
    }
}
