//! Who may ask: the right name of the server, no page of another site, the token where there is
//! one.
//!
//! A page of another site can make a browser send requests to a server on this machine, and a name
//! that it owns can be made to mean this machine. So the name that was asked for is checked against
//! the server's own, and the site that the request comes from against that name.

use crate::app::App;
use crate::error::Refused;
use axum::extract::{Query, Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue,
    ORIGIN, REFERRER_POLICY, SET_COOKIE, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

const COOKIE_NAME: &str = "nino_token";

/// What an address may carry.
#[derive(Deserialize)]
struct Given {
    token: Option<String>,
}

pub(crate) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    app.counts.requests.fetch_add(1, Ordering::Relaxed);
    let since = Instant::now();
    // Without its query, which may have the token.
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = answered(&app, request, next).await;
    let (status, took) = (
        response.status().as_u16(),
        since.elapsed().as_millis() as u64,
    );
    tracing::debug!(%method, path, status, took_ms = took, "request");
    response
}

async fn answered(app: &Arc<App>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(ORIGIN).cloned();
    let allowed = origin.filter(|origin| is_listed(app, origin));
    let mut response = match admitted(app, &request, allowed.is_some()) {
        Err(refused) => refused.into_response(),
        Ok(_) if request.method() == Method::OPTIONS && allowed.is_some() => {
            StatusCode::NO_CONTENT.into_response()
        }
        Ok(cookie) => {
            let mut response = next.run(request).await;
            if let Some(cookie) = cookie {
                response.headers_mut().insert(SET_COOKIE, cookie);
            }
            response
        }
    };
    let headers = response.headers_mut();
    let fixed = [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "SAMEORIGIN"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some(origin) = allowed {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let fixed = [
            (VARY, "Origin"),
            (
                ACCESS_CONTROL_ALLOW_METHODS,
                "POST, GET, DELETE, PUT, PATCH, OPTIONS",
            ),
            (
                ACCESS_CONTROL_ALLOW_HEADERS,
                "Content-Type, Authorization, Comfy-User",
            ),
            (ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
        ];
        for (name, value) in fixed {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    response
}

/// Lets a request in, or says why not. A token that was in the address is answered with a cookie,
/// so that the page's own requests have it.
fn admitted(
    app: &App,
    request: &Request,
    is_other_site: bool,
) -> Result<Option<HeaderValue>, Refused> {
    let headers = request.headers();
    let host = host_of(headers, request.uri());
    let host = host.ok_or_else(|| Refused::bad("the request does not say which host it is for"))?;
    if !is_own(app, host) {
        return Err(Refused::forbidden(
            "the server does not go by this name; start it with --host-name to allow it",
        ));
    }
    if !is_other_site {
        from_own_site(headers, host)?;
    }
    // A browser asks before it sends the token.
    let asks_first = request.method() == Method::OPTIONS && is_other_site;
    match &app.config.token {
        Some(token) if !asks_first => authorized(token, headers, request.uri()),
        _ => Ok(None),
    }
}

fn host_of<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> Option<&'r str> {
    let header = headers.get(HOST).and_then(|host| host.to_str().ok());
    uri.authority().map(Authority::as_str).or(header)
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty() => name,
        _ => host,
    }
}

fn address_of(name: &str) -> Option<IpAddr> {
    let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
    bare.unwrap_or(name).parse().ok()
}

/// Whether a name means this server. Addresses cannot be made to mean something else; other names
/// can, so they have to be known or there has to be a token.
fn is_own(app: &App, host: &str) -> bool {
    let name = name_of(host);
    let is_named = |known: &String| known.eq_ignore_ascii_case(name);
    if name.eq_ignore_ascii_case("localhost") || app.config.hosts.iter().any(is_named) {
        return true;
    }
    let is_local = app.config.listen.ip().is_loopback();
    match address_of(name) {
        Some(address) => address.is_loopback() || !is_local,
        None => !is_local && app.config.token.is_some(),
    }
}

fn is_listed(app: &App, origin: &HeaderValue) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    let mut origins = app.config.origins.iter();
    origins.any(|known| known.eq_ignore_ascii_case(origin))
}

/// An error where a browser says that another site's page sent the request.
fn from_own_site(headers: &HeaderMap, host: &str) -> Result<(), Refused> {
    let refused = || Refused::forbidden("a page of another site may not ask this server");
    let says = |name: &'static str, value: &str| {
        let said = headers.get(HeaderName::from_static(name));
        said.is_some_and(|said| said == value)
    };
    // A link on another site's page may lead here, but what that page embeds may not.
    let is_link = says("sec-fetch-mode", "navigate") && !headers.contains_key(ORIGIN);
    if says("sec-fetch-site", "cross-site") && !is_link {
        return Err(refused());
    }
    let Some(origin) = headers.get(ORIGIN) else {
        return Ok(());
    };
    let origin = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.parse::<Uri>().ok());
    let site = origin.as_ref().and_then(Uri::authority);
    match site {
        Some(site) if site.as_str().eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(refused()),
    }
}

fn authorized(token: &str, headers: &HeaderMap, uri: &Uri) -> Result<Option<HeaderValue>, Refused> {
    let header = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let bearer = header.and_then(|value| value.strip_prefix("Bearer "));
    let cookies = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut cookies = cookies.flat_map(|value| value.split(';')).map(str::trim);
    let cookie = cookies.find_map(|c| c.strip_prefix(COOKIE_NAME)?.strip_prefix('='));
    let pass = pass(token);
    if bearer.is_some_and(|given| is_same(given, token))
        || cookie.is_some_and(|given| is_same(given, &pass))
    {
        return Ok(None);
    }
    let given = Query::<Given>::try_from_uri(uri);
    let given = given.ok().and_then(|Query(given)| given.token);
    if given.is_some_and(|given| is_same(&given, token)) {
        let cookie = format!("{COOKIE_NAME}={pass}; HttpOnly; SameSite=Strict; Path=/");
        return Ok(HeaderValue::from_str(&cookie).ok());
    }
    Err(Refused::new(
        StatusCode::UNAUTHORIZED,
        "this server wants its token: add ?token=... to the address, or send it as a Bearer token",
    ))
}

/// What a browser keeps: a token may have characters that no cookie has.
fn pass(token: &str) -> String {
    let digest = Sha256::new()
        .chain_update("nino cookie ")
        .chain_update(token);
    let digest = digest.finalize();
    URL_SAFE_NO_PAD.encode(digest)
}

/// Compares digests, so that the time it takes says nothing of where the texts differ.
fn is_same(given: &str, token: &str) -> bool {
    Sha256::digest(given) == Sha256::digest(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_lose_their_ports() {
        assert_eq!(name_of("localhost:8188"), "localhost");
        assert_eq!(name_of("[::1]:8188"), "[::1]");
        assert_eq!(name_of("[::1]"), "[::1]");
        assert!(address_of("[::1]").unwrap().is_loopback());
        assert!(address_of("127.0.0.1").unwrap().is_loopback());
        assert!(address_of("localhost").is_none());
    }

    #[test]
    fn other_sites_are_told_apart() {
        let own = |origin: &str, fetched: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ORIGIN, origin.parse().unwrap());
            headers.insert("sec-fetch-site", fetched.parse().unwrap());
            from_own_site(&headers, "127.0.0.1:8188").is_ok()
        };
        assert!(own("http://127.0.0.1:8188", "same-origin"));
        assert!(!own("http://evil.example", "cross-site"));
        assert!(!own("http://127.0.0.1:9999", "same-site"));
        assert!(!own("null", "cross-site"));
        assert!(from_own_site(&HeaderMap::new(), "127.0.0.1:8188").is_ok());
        let embedded = |mode: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("sec-fetch-site", "cross-site".parse().unwrap());
            headers.insert("sec-fetch-mode", mode.parse().unwrap());
            from_own_site(&headers, "127.0.0.1:8188").is_ok()
        };
        assert!(embedded("navigate"), "a link");
        assert!(!embedded("no-cors"), "a picture or a script");
    }
}
