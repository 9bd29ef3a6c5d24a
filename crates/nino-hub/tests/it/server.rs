//! A server that says exactly what a test wants, byte by byte.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    /// How many requests of this method came before.
    pub(crate) before: usize,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    pub(crate) fn is_list(&self) -> bool {
        self.path.starts_with("/api/")
    }

    /// The byte that was asked for.
    pub(crate) fn start(&self) -> usize {
        let range = self.header("range").unwrap_or("bytes=0-");
        range["bytes=".len()..]
            .trim_end_matches('-')
            .parse()
            .unwrap()
    }
}

/// What the server does with a connection, one after the other.
pub(crate) enum Act {
    Send(Vec<u8>),
    /// Sends one byte at a time.
    Drip(Vec<u8>, Duration),
    /// Keeps the connection open until the client goes.
    Hold,
}

pub(crate) type Handler = dyn Fn(&Seen) -> Vec<Act> + Send + Sync;

pub(crate) struct Server {
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    pub(crate) fn new(handler: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) -> Server {
        Server::on("127.0.0.1", handler)
    }

    pub(crate) fn on(
        host: &str,
        handler: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (all, handler): (_, Arc<Handler>) = (seen.clone(), Arc::new(handler));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (all, handler) = (all.clone(), handler.clone());
                std::thread::spawn(move || answer(&stream, &all, &*handler));
            }
        });
        Server { address, seen }
    }

    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// One request a connection.
fn answer(stream: &TcpStream, all: &Mutex<Vec<Seen>>, handler: &Handler) {
    let mut lines = BufReader::new(stream).lines();
    let Some(Ok(first)) = lines.next() else {
        return;
    };
    let lines = lines.map_while(Result::ok).take_while(|l| !l.is_empty());
    let headers: Vec<(String, String)> = lines
        .filter_map(|l| {
            l.split_once(": ")
                .map(|(n, v)| (n.to_lowercase(), v.to_owned()))
        })
        .collect();
    let mut words = first.split(' ');
    let method = words.next().unwrap().to_owned();
    let path = words.next().unwrap_or_default().to_owned();
    let seen = {
        let mut all = all.lock().unwrap();
        let before = all.iter().filter(|s| s.method == method).count();
        let seen = Seen {
            method,
            path,
            headers,
            before,
        };
        all.push(seen.clone());
        seen
    };
    let mut out = stream;
    for act in handler(&seen) {
        let done = match act {
            Act::Send(bytes) => out.write_all(&bytes),
            Act::Drip(bytes, pause) => bytes.iter().try_for_each(|b| {
                std::thread::sleep(pause);
                out.write_all(&[*b])
            }),
            Act::Hold => {
                let _ = out.read(&mut [0]);
                Ok(())
            }
        };
        if done.is_err() {
            return;
        }
    }
}

/// An answer with its length.
pub(crate) fn reply(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let length = body.len().to_string();
    let headers = [headers, &[("content-length", length.as_str())]].concat();
    raw(status, &headers, body)
}

/// An answer with exactly these headers.
pub(crate) fn raw(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// git's name of a file's content.
pub(crate) fn git_sha1(bytes: &[u8]) -> String {
    let mut hash = sha1::Sha1::new_with_prefix(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        write!(text, "{b:02x}").unwrap();
        text
    })
}
