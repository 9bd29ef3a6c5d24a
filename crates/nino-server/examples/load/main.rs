//! What a server with the built-in model holds up to, measured. Each part fails where a job is
//! lost, an answer is late or memory grows.
//!
//! ```sh
//! cargo run --release -p nino-server --example load              # 1000 clients, 200 slow
//! cargo run --release -p nino-server --example load -- 50 10 5
//! cargo run --release -p nino-server --example load -- soak 500  # does memory grow?
//! cargo run --release -p nino-server --example load -- kill 20   # is everything done after it?
//! cargo run --release -p nino-server --example load -- second 20 # what does HTTP add?
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod child;
mod clients;
mod kill;
mod second;
mod soak;

use nino_engine::device::{DeviceChoice, DeviceName, open};
use nino_engine::{Library, LibraryPaths};
use nino_server::{Config, Place, Server, Stop};
use nino_workflow::Settings;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: usize| -> usize {
        args.get(i).map_or(default, |text| text.parse().unwrap())
    };
    let data = tempfile::tempdir().unwrap();
    match args.first().map(String::as_str) {
        // What the parts start that have the server in a process of its own.
        Some("serve") => return child::serve(Path::new(&args[1])),
        Some("kill") => return kill::kill(data.path(), number(1, 20)),
        Some("soak" | "second") => {}
        _ => {
            return clients::load(data.path(), number(0, 1000), number(1, 200), number(2, 100));
        }
    }
    let (address, stop, thread) = start(data.path());
    match args.first().map(String::as_str) {
        Some("soak") => soak::soak(address, number(1, 500)),
        _ => second::second(address, data.path(), number(1, 20)),
    }
    stop.stop();
    thread.join().unwrap();
}

fn start(data: &Path) -> (SocketAddr, Stop, std::thread::JoinHandle<()>) {
    let server = bind(data);
    let (address, stop) = (server.address(), server.stopper());
    let thread = std::thread::spawn(move || server.run().unwrap());
    (address, stop, thread)
}

/// The CPU: the drivers of graphics cards take memory of their own.
fn choice() -> DeviceChoice {
    DeviceChoice {
        device: Some(DeviceName::Cpu),
        ..DeviceChoice::default()
    }
}

/// A server on a port that is free.
fn bind(data: &Path) -> Server {
    let server = Server::bind(Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        token: None,
        hosts: Vec::new(),
        origins: Vec::new(),
        place: Place {
            data: data.to_owned(),
            cache: data.to_owned(),
        },
        library: Library::new(LibraryPaths::default()),
        downloads: None,
        devices: vec![open(&choice()).unwrap()],
        settings: Settings::default(),
        front_end: None,
        max_upload: 1 << 20,
        keep_alive: None,
        grace: Duration::ZERO,
        version: "load",
    });
    server.unwrap()
}

/// The graph of picture `i`: two sizes and seven prompts by turns.
fn graph(i: usize) -> Value {
    let side = [128, 192][i % 2];
    json!({
        "3": { "class_type": "KSampler", "inputs": {
            "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0],
            "latent_image": ["5", 0], "seed": i, "steps": 4, "cfg": 4.0,
            "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0 } },
        "4": { "class_type": "CheckpointLoaderSimple",
               "inputs": { "ckpt_name": "nino-emoji" } },
        "5": { "class_type": "EmptyLatentImage",
               "inputs": { "width": side, "height": side, "batch_size": 1 } },
        "6": { "class_type": "CLIPTextEncode",
               "inputs": { "text": format!("a cat {}", i % 7), "clip": ["4", 1] } },
        "7": { "class_type": "CLIPTextEncode", "inputs": { "text": "", "clip": ["4", 1] } },
        "8": { "class_type": "VAEDecode", "inputs": { "samples": ["3", 0], "vae": ["4", 2] } },
        "9": { "class_type": "SaveImage",
               "inputs": { "images": ["8", 0], "filename_prefix": "load" } },
    })
}

/// Queues picture `i` for one of so many clients, and gives the job's id.
fn send(address: SocketAddr, i: usize, clients: usize) -> String {
    let body = json!({ "prompt": graph(i), "client_id": format!("c{}", i * 7 % clients) });
    let answer = post(address, "/prompt", &body);
    answer["prompt_id"].as_str().unwrap().to_owned()
}

fn post(address: SocketAddr, path: &str, body: &Value) -> Value {
    let url = format!("http://{address}{path}");
    read(&mut ureq::post(url).send(body.to_string().as_bytes()).unwrap())
}

fn get(address: SocketAddr, path: &str) -> Value {
    read(&mut ureq::get(format!("http://{address}{path}")).call().unwrap())
}

fn read(response: &mut ureq::http::Response<ureq::Body>) -> Value {
    serde_json::from_slice(&response.body_mut().read_to_vec().unwrap()).unwrap()
}
