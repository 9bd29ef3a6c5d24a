//! A server for a test, and a client for it.

use nino_engine::device::{DeviceChoice, DeviceName, open};
use nino_engine::{Library, LibraryPaths};
use nino_server::{Config, Place, Server, Stop};
use nino_workflow::Settings;
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket};

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) data: TempDir,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

/// A server in a folder of its own.
pub(crate) fn start() -> Running {
    start_with(tempfile::tempdir().unwrap(), |_| {})
}

/// What a server in this folder is told.
pub(crate) fn config(data: &Path) -> Config {
    let choice = DeviceChoice {
        device: Some(DeviceName::Cpu),
        ..DeviceChoice::default()
    };
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        token: None,
        hosts: Vec::new(),
        origins: Vec::new(),
        place: Place {
            data: data.to_owned(),
            // Unpacked once for all tests.
            cache: Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned(),
        },
        library: Library::new(LibraryPaths {
            models: vec![data.join("models")],
            ..LibraryPaths::default()
        }),
        downloads: None,
        devices: vec![open(&choice).unwrap()],
        settings: Settings::default(),
        front_end: None,
        max_upload: 1 << 20,
        keep_alive: None,
        grace: Duration::from_millis(100),
        version: "test",
    }
}

/// A server in this folder, with changes.
pub(crate) fn start_with(data: TempDir, change: impl FnOnce(&mut Config)) -> Running {
    let mut config = config(data.path());
    change(&mut config);
    let server = Server::bind(config).unwrap();
    let (address, stop) = (server.address(), server.stopper());
    let thread = std::thread::spawn(move || server.run().unwrap());
    Running {
        address,
        data,
        stop,
        thread: Some(thread),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

/// An answer: its status and its body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) bytes: Vec<u8>,
    pub(crate) kind: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.bytes);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {} {text}", self.status))
    }
}

impl Running {
    /// Stops the server and gives its folder back.
    pub(crate) fn end(mut self) -> TempDir {
        let empty = tempfile::tempdir().unwrap();
        std::mem::replace(&mut self.data, empty)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        let request = ureq::get(self.url(path));
        answer(request.config().http_status_as_error(false).build().call())
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(
            answer.status,
            200,
            "{path}: {}",
            String::from_utf8_lossy(&answer.bytes)
        );
        answer.json()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(path, "application/json", body.to_string().as_bytes())
    }

    pub(crate) fn send(&self, path: &str, kind: &str, body: &[u8]) -> Answer {
        let request = ureq::post(self.url(path)).header("content-type", kind);
        let request = request.config().http_status_as_error(false).build();
        answer(request.send(body))
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        let request = ureq::delete(self.url(path));
        answer(request.config().http_status_as_error(false).build().call())
    }

    /// Uploads a file with more fields of a form.
    pub(crate) fn upload(
        &self,
        path: &str,
        name: &str,
        file: &[u8],
        fields: &[(&str, &str)],
    ) -> Answer {
        let mut body = Vec::new();
        for (field, value) in fields {
            let head = format!("--XX\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n");
            body.extend(head.bytes().chain(value.bytes()).chain(*b"\r\n"));
        }
        let head = format!(
            "--XX\r\nContent-Disposition: form-data; name=\"image\"; filename=\"{name}\"\r\n\
             Content-Type: image/png\r\n\r\n"
        );
        body.extend(head.bytes());
        body.extend(file);
        body.extend(*b"\r\n--XX--\r\n");
        self.send(path, "multipart/form-data; boundary=XX", &body)
    }

    /// Sends a graph and gives its id.
    pub(crate) fn prompt(&self, prompt: &Value, client: &str) -> String {
        let answer = self.post("/prompt", &json!({ "prompt": prompt, "client_id": client }));
        let body = answer.json();
        assert_eq!(answer.status, 200, "{body}");
        body["prompt_id"].as_str().unwrap().to_owned()
    }

    /// Asks for the history until the job has ended.
    pub(crate) fn wait(&self, id: &str) -> Value {
        let since = Instant::now();
        loop {
            let mut history = self.json(&format!("/history/{id}"));
            if history[id].is_object() {
                return history[id].take();
            }
            assert!(since.elapsed() < Duration::from_mins(1), "{id} did not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn socket(&self, client: &str) -> Socket {
        let url = format!("ws://{}/ws?clientId={client}", self.address);
        let (socket, _) = tungstenite::connect(url).unwrap();
        if let MaybeTlsStream::Plain(stream) = socket.get_ref() {
            stream
                .set_read_timeout(Some(Duration::from_mins(1)))
                .unwrap();
        }
        Socket(socket)
    }
}

fn answer(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Answer {
    let mut response = result.unwrap();
    let kind = response.headers().get("content-type");
    Answer {
        status: response.status().as_u16(),
        kind: kind.map_or(String::new(), |kind| kind.to_str().unwrap().to_owned()),
        bytes: response.body_mut().read_to_vec().unwrap(),
    }
}

pub(crate) struct Socket(WebSocket<MaybeTlsStream<TcpStream>>);

/// What came over a socket.
pub(crate) enum Heard {
    Text(Value),
    Binary(Vec<u8>),
}

impl Socket {
    pub(crate) fn say(&mut self, text: &Value) {
        assert!(self.try_say(text));
    }

    /// Whether the connection is there to say it.
    pub(crate) fn try_say(&mut self, text: &Value) -> bool {
        self.0.send(Message::text(text.to_string())).is_ok()
    }

    pub(crate) fn hear(&mut self) -> Heard {
        loop {
            match self.0.read().unwrap() {
                Message::Text(text) => {
                    // SwarmUI looks at the first eight bytes.
                    assert!(text.starts_with("{\"type\":"), "{text}");
                    return Heard::Text(serde_json::from_str(&text).unwrap());
                }
                Message::Binary(bytes) => return Heard::Binary(bytes.to_vec()),
                Message::Close(_) => panic!("the server closed the socket"),
                _ => {}
            }
        }
    }

    /// Everything until a job has ended: `executing` with no node.
    pub(crate) fn until_done(&mut self, id: &str) -> (Vec<Value>, Vec<Vec<u8>>) {
        let (mut texts, mut frames) = (Vec::new(), Vec::new());
        loop {
            match self.hear() {
                Heard::Binary(frame) => frames.push(frame),
                Heard::Text(text) => {
                    let data = &text["data"];
                    let is_last = text["type"] == "executing"
                        && data["node"].is_null()
                        && data["prompt_id"] == id;
                    texts.push(text);
                    if is_last {
                        return (texts, frames);
                    }
                }
            }
        }
    }

    /// Whether the server has closed the connection within a while.
    pub(crate) fn is_closed(&mut self) -> bool {
        loop {
            match self.0.read() {
                Ok(Message::Close(_)) | Err(_) => return true,
                Ok(_) => {}
            }
        }
    }
}

/// The graph of a small picture of the built-in model.
pub(crate) fn graph(seed: u64, steps: usize) -> Value {
    json!({
        "3": { "class_type": "KSampler", "inputs": {
            "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0],
            "latent_image": ["5", 0], "seed": seed, "steps": steps, "cfg": 3.0,
            "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0 } },
        "4": { "class_type": "CheckpointLoaderSimple",
               "inputs": { "ckpt_name": "nino-emoji" } },
        "5": { "class_type": "EmptyLatentImage",
               "inputs": { "width": 64, "height": 64, "batch_size": 1 } },
        "6": { "class_type": "CLIPTextEncode",
               "inputs": { "text": "a red heart", "clip": ["4", 1] } },
        "7": { "class_type": "CLIPTextEncode", "inputs": { "text": "", "clip": ["4", 1] } },
        "8": { "class_type": "VAEDecode", "inputs": { "samples": ["3", 0], "vae": ["4", 2] } },
        "9": { "class_type": "SaveImage",
               "inputs": { "images": ["8", 0], "filename_prefix": "ComfyUI" } },
    })
}
