//! Who is connected by WebSocket, and what each is sent.
//!
//! Every client has a queue of its own, of bounded length. A client that does not read loses
//! previews first; when not even a message has room, it is disconnected, so that nobody holds up
//! the work or its memory.

use axum::extract::ws::{Message, Utf8Bytes};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// Messages that wait for one client.
const WAITING: usize = 256;
/// Previews are left out where fewer places than this are free.
const ROOM_FOR_PREVIEWS: usize = WAITING * 3 / 4;

pub(crate) struct Hub {
    /// Clients at once.
    most: usize,
    clients: Mutex<HashMap<String, Client>>,
    connections: AtomicU64,
}

struct Client {
    /// Tells connections of one client id apart.
    connection: u64,
    send: mpsc::Sender<Message>,
    flags: Flags,
}

/// What a client said that it understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) preview_metadata: bool,
}

/// A connection that was let in.
pub(crate) struct Connection {
    pub(crate) id: u64,
    pub(crate) receive: mpsc::Receiver<Message>,
}

/// A message as text. SwarmUI wants `type` to be the first key, so it is written by hand.
pub(crate) fn text(kind: &str, data: &Value) -> Utf8Bytes {
    format!("{{\"type\": {}, \"data\": {data}}}", json!(kind)).into()
}

impl Hub {
    /// A hub of so many clients at once.
    pub(crate) fn new(most: usize) -> Hub {
        Hub {
            most,
            clients: Mutex::default(),
            connections: AtomicU64::new(0),
        }
    }

    /// Lets a client in, in place of one that has the same id. `None` where there are too many.
    pub(crate) fn connect(&self, client: &str) -> Option<Connection> {
        let id = self.connections.fetch_add(1, Ordering::Relaxed);
        let (send, receive) = mpsc::channel(WAITING);
        let mut clients = self.clients();
        if clients.len() >= self.most && !clients.contains_key(client) {
            return None;
        }
        let flags = Flags::default();
        let entry = Client {
            connection: id,
            send,
            flags,
        };
        clients.insert(client.to_owned(), entry);
        Some(Connection { id, receive })
    }

    pub(crate) fn disconnect(&self, client: &str, connection: u64) {
        let mut clients = self.clients();
        if clients
            .get(client)
            .is_some_and(|c| c.connection == connection)
        {
            clients.remove(client);
        }
    }

    pub(crate) fn set_flags(&self, client: &str, connection: u64, flags: Flags) {
        let mut clients = self.clients();
        let found = clients.get_mut(client);
        if let Some(found) = found.filter(|c| c.connection == connection) {
            found.flags = flags;
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.clients().len()
    }

    /// Disconnects everybody.
    pub(crate) fn close(&self) {
        self.clients().clear();
    }

    /// Sends a message to one client.
    pub(crate) fn tell(&self, client: Option<&str>, kind: &str, data: &Value) {
        let Some(client) = client else { return };
        let mut clients = self.clients();
        let Some(found) = clients.get(client) else {
            return;
        };
        if found
            .send
            .try_send(Message::Text(text(kind, data)))
            .is_err()
        {
            clients.remove(client);
        }
    }

    /// Sends a message to everybody.
    pub(crate) fn tell_all(&self, kind: &str, data: &Value) {
        let message = text(kind, data);
        let send =
            |client: &mut Client| client.send.try_send(Message::Text(message.clone())).is_ok();
        self.clients().retain(|_, client| send(client));
    }

    /// Sends a preview to one client, in the form that it understands.
    pub(crate) fn preview(&self, client: Option<&str>, frames: &Preview<'_>) {
        let clients = self.clients();
        let Some(found) = client.and_then(|c| clients.get(c)) else {
            return;
        };
        if found.send.capacity() < ROOM_FOR_PREVIEWS {
            return;
        }
        let frame = if found.flags.preview_metadata {
            frames.with_metadata()
        } else {
            picture_frame(JPEG, frames.jpeg)
        };
        // A preview that has no room is left out.
        let _ = found.send.try_send(Message::Binary(frame));
    }

    /// Sends a finished picture to one client, as ComfyUI's `SaveImageWebsocket` does.
    pub(crate) fn picture(&self, client: Option<&str>, png: &[u8]) {
        let mut clients = self.clients();
        let Some(client) = client else { return };
        let Some(found) = clients.get(client) else {
            return;
        };
        let frame = Message::Binary(picture_frame(PNG, png));
        if found.send.try_send(frame).is_err() {
            clients.remove(client);
        }
    }

    /// Whether somebody would see previews.
    pub(crate) fn is_connected(&self, client: Option<&str>) -> bool {
        client.is_some_and(|c| self.clients().contains_key(c))
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<String, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const PREVIEW_IMAGE: u32 = 1;
const PREVIEW_IMAGE_WITH_METADATA: u32 = 4;
const JPEG: u32 = 1;
const PNG: u32 = 2;

/// A picture of an unfinished latent.
pub(crate) struct Preview<'a> {
    pub(crate) prompt: &'a str,
    pub(crate) node: &'a str,
    pub(crate) jpeg: &'a [u8],
}

impl Preview<'_> {
    fn with_metadata(&self) -> Bytes {
        let about = json!({
            "node_id": self.node,
            "prompt_id": self.prompt,
            "display_node_id": self.node,
            "parent_node_id": null,
            "real_node_id": self.node,
            "image_type": "image/jpeg",
        });
        let about = about.to_string();
        let mut frame = Vec::with_capacity(8 + about.len() + self.jpeg.len());
        frame.extend(PREVIEW_IMAGE_WITH_METADATA.to_be_bytes());
        frame.extend((about.len() as u32).to_be_bytes());
        frame.extend(about.as_bytes());
        frame.extend(self.jpeg);
        frame.into()
    }
}

fn picture_frame(format: u32, bytes: &[u8]) -> Bytes {
    let mut frame = Vec::with_capacity(8 + bytes.len());
    frame.extend(PREVIEW_IMAGE.to_be_bytes());
    frame.extend(format.to_be_bytes());
    frame.extend(bytes);
    frame.into()
}
