//! A WebSocket connection: what the hub has for the client goes out, and the client may say what it
//! understands.

use crate::app::App;
use crate::hub::{self, Connection, Flags};
use crate::listen::Place;
use crate::routes::info::feature_flags;
use axum::Extension;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::response::Response;
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest message that a client may send.
const LONGEST: usize = 64 << 10;
/// Bytes that each connection sets aside for reading, and gathers before it writes. Clients say
/// next to nothing; the library's 128 KiB would be filled with zeros for every one of them.
const BUFFER: usize = 4 << 10;
/// Messages that a client may send in [`FLOOD_SPAN`].
const FLOOD: usize = 200;
const FLOOD_SPAN: Duration = Duration::from_secs(10);
/// How long a client may take to read a message.
const PATIENCE: Duration = Duration::from_secs(30);
/// A client that answers nothing for two of these is gone.
const PING_EVERY: Duration = Duration::from_secs(45);
/// The longest id of a client.
const LONGEST_ID: usize = 128;

#[derive(Deserialize)]
pub(crate) struct Asked {
    #[serde(rename = "clientId", default)]
    client: String,
}

pub(crate) async fn connect(
    State(app): State<Arc<App>>,
    Query(asked): Query<Asked>,
    Extension(place): Extension<Place>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let client = match asked.client.len() {
        1..=LONGEST_ID => asked.client,
        _ => uuid::Uuid::new_v4().simple().to_string(),
    };
    upgrade
        .max_message_size(LONGEST)
        .max_frame_size(LONGEST)
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        .on_upgrade(async move |socket| {
            talk(app, client, socket).await;
            drop(place);
        })
}

async fn talk(app: Arc<App>, client: String, socket: WebSocket) {
    let Some(mut connection) = app.hub.connect(&client) else {
        tracing::warn!("a client is turned away: too many are connected");
        return;
    };
    let id = connection.id;
    exchange(&app, &client, &mut connection, socket).await;
    app.hub.disconnect(&client, id);
}

async fn exchange(app: &App, client: &str, connection: &mut Connection, socket: WebSocket) {
    let (mut out, mut incoming) = socket.split();
    let mut status = app.status();
    status["sid"] = json!(client);
    let mut first = vec![hub::text("status", &status)];
    if let Some(node) = app.queue.node_of(client) {
        first.push(hub::text("executing", &json!({ "node": node })));
    }
    for text in first {
        if out.send(Message::Text(text)).await.is_err() {
            return;
        }
    }
    let mut ping = tokio::time::interval(PING_EVERY);
    ping.tick().await;
    let mut answered = true;
    let mut flood = Flood::new();
    let mut is_first = true;
    loop {
        let message = tokio::select! {
            message = connection.receive.recv() => match message {
                Some(message) => message,
                // The hub let the client go: another took its place, or it did not read.
                None => break,
            },
            received = incoming.next() => {
                let Some(Ok(received)) = received else { break };
                answered = true;
                if flood.is_too_much() {
                    tracing::warn!("client {client} sends too much and is disconnected");
                    break;
                }
                let Message::Text(text) = received else { continue };
                let Some(answer) = hear(app, client, connection.id, &text, is_first) else {
                    is_first = false;
                    continue;
                };
                is_first = false;
                answer
            }
            _ = ping.tick() => {
                if !std::mem::take(&mut answered) {
                    break;
                }
                Message::Ping(bytes::Bytes::new())
            }
        };
        let sent = tokio::time::timeout(PATIENCE, out.send(message)).await;
        if !matches!(sent, Ok(Ok(()))) {
            break;
        }
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), out.close()).await;
}

/// The answer to a message. Only the first one can be a question: what the server understands.
fn hear(app: &App, client: &str, connection: u64, text: &str, is_first: bool) -> Option<Message> {
    let message: Value = serde_json::from_str(text).ok()?;
    if !is_first || message["type"] != "feature_flags" {
        return None;
    }
    let flags = Flags {
        preview_metadata: message["data"]["supports_preview_metadata"] == true,
    };
    app.hub.set_flags(client, connection, flags);
    Some(Message::Text(hub::text(
        "feature_flags",
        &feature_flags(app),
    )))
}

/// Counts what a client sends.
struct Flood {
    since: Instant,
    messages: usize,
}

impl Flood {
    fn new() -> Flood {
        Flood {
            since: Instant::now(),
            messages: 0,
        }
    }

    fn is_too_much(&mut self) -> bool {
        if self.since.elapsed() > FLOOD_SPAN {
            *self = Flood::new();
        }
        self.messages += 1;
        self.messages > FLOOD
    }
}
