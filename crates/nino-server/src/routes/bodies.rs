//! Memory for the bodies of requests. Each may be large, so that all of them together are bounded:
//! who comes when the room is taken waits, and is sent away after a while.

use crate::app::App;
use crate::error::Refused;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::middleware::Next;
use axum::response::Response;
use http_body::Body;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// Bytes of a permit. A body that is smaller than one is not counted.
const PIECE: usize = 1 << 20;
/// How many of the largest bodies have room at once.
const LARGEST: usize = 4;
/// How long a request waits for room.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pieces that all bodies share, of a server whose largest body has so many bytes.
pub(crate) fn pieces(max_upload: usize) -> usize {
    pieces_of(max_upload).saturating_mul(LARGEST).min(1 << 20)
}

fn pieces_of(bytes: usize) -> usize {
    bytes.div_ceil(PIECE).max(1)
}

/// The room of a request's body, which handlers find among its extensions.
#[derive(Clone, Default)]
pub(crate) struct Room(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Room {
    /// Gives the room to others: the body was read, and nothing of it is kept.
    pub(crate) fn leave(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Lets a request in once there is room for its body.
pub(super) async fn hold(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refused> {
    let length = request.headers().get(CONTENT_LENGTH);
    let length = length.and_then(|text| text.to_str().ok()?.parse::<usize>().ok());
    let has_body = !request.body().is_end_stream();
    // One that does not say its length may have the most.
    let most = app.config.max_upload;
    let bytes = length.unwrap_or(if has_body { most } else { 0 }).min(most);
    if bytes < PIECE {
        request.extensions_mut().insert(Room::default());
        return Ok(next.run(request).await);
    }
    let pieces = u32::try_from(pieces_of(bytes)).unwrap_or(u32::MAX);
    let room = timeout(PATIENCE, Arc::clone(&app.bodies).acquire_many_owned(pieces)).await;
    let Ok(Ok(room)) = room else {
        let text = "too many large requests at once: try again later";
        return Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, text));
    };
    // It is given back by the handler, or when the last of these is gone.
    let room = Room(Arc::new(Mutex::new(Some(room))));
    request.extensions_mut().insert(room.clone());
    let response = next.run(request).await;
    room.leave();
    Ok(response)
}
