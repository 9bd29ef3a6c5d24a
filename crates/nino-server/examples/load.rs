//! Load on a server with the built-in model: clients by WebSocket, some of which never read, and a
//! queue of jobs, while `GET /queue` is timed. Fails where a job is lost or the answer is late.
//!
//! ```sh
//! cargo run --release -p nino-server --example load              # 1000 clients, 200 slow
//! cargo run --release -p nino-server --example load -- 50 10 5
//! cargo run --release -p nino-server --example load -- soak 500    # does memory grow?
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use nino_engine::device::{DeviceChoice, DeviceName, open, resident_bytes};
use nino_engine::{Library, LibraryPaths};
use nino_server::{Config, Place, Server, Stop};
use nino_workflow::Settings;
use serde_json::{Value, json};
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tungstenite::stream::MaybeTlsStream;

/// `GET /queue` is to be answered within this time, for 99 of 100.
const LATE: Duration = Duration::from_millis(50);
/// How much memory may grow in a soak after its first tenth.
const GROWTH: f64 = 1.05;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: usize| -> usize {
        args.get(i).map_or(default, |text| text.parse().unwrap())
    };
    let data = tempfile::tempdir().unwrap();
    let (address, stop, thread) = start(data.path());
    if args.first().is_some_and(|first| first == "soak") {
        soak(address, number(1, 500));
    } else {
        load(address, number(0, 1000), number(1, 200), number(2, 100));
    }
    stop.stop();
    thread.join().unwrap();
}

fn start(data: &std::path::Path) -> (SocketAddr, Stop, std::thread::JoinHandle<()>) {
    let choice = DeviceChoice {
        device: Some(DeviceName::Auto),
        ..DeviceChoice::default()
    };
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
        devices: vec![open(&choice).unwrap()],
        settings: Settings::default(),
        front_end: None,
        max_upload: 1 << 20,
        keep_alive: None,
        grace: Duration::ZERO,
        version: "load",
    });
    let server = server.unwrap();
    let (address, stop) = (server.address(), server.stopper());
    let thread = std::thread::spawn(move || server.run().unwrap());
    (address, stop, thread)
}

fn load(address: SocketAddr, clients: usize, slow: usize, jobs: usize) {
    let sockets: Vec<TcpStream> = (0..clients).map(|i| connect(address, i)).collect();
    println!("{clients} clients are connected, {slow} of them do not read");
    let done = AtomicBool::new(false);
    let heard = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        threads.spawn(|| read_all(&sockets[slow.min(clients)..], &done, &heard));
        let ids: Vec<String> = (0..jobs).map(|i| send(address, i, clients)).collect();
        println!("{jobs} jobs are queued");
        let mut times = Vec::new();
        let agent = ureq::Agent::new_with_defaults();
        let url = format!("http://{address}/queue");
        loop {
            let since = Instant::now();
            let queue: Value = read(&mut agent.get(&url).call().unwrap());
            times.push(since.elapsed());
            let count = |key: &str| queue[key].as_array().unwrap().len();
            if count("queue_running") + count("queue_pending") == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        done.store(true, Ordering::Relaxed);
        times.sort_unstable();
        let p99 = times[times.len() * 99 / 100];
        println!(
            "GET /queue: n {}, median {:?}, p99 {p99:?}",
            times.len(),
            times[times.len() / 2]
        );
        for id in &ids {
            let entry: Value = get(address, &format!("/history/{id}"));
            assert_eq!(entry[id]["status"]["status_str"], "success", "{id} is lost");
        }
        println!(
            "every job is done; clients read {} bytes",
            heard.load(Ordering::Relaxed)
        );
        let resident = resident_bytes().unwrap_or(0);
        println!("memory of the process: {} MiB", resident >> 20);
        assert!(p99 <= LATE, "GET /queue took {p99:?}");
    });
}

fn soak(address: SocketAddr, pictures: usize) {
    let mut first = None;
    for i in 0..pictures {
        let id = send(address, i, 1);
        while get(address, &format!("/history/{id}"))[&id].is_null() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let resident = resident_bytes().unwrap_or(0);
        if i + 1 == (pictures / 10).max(1) {
            first = Some(resident);
        }
        if (i + 1) % (pictures / 10).max(1) == 0 {
            println!("{} pictures: {} MiB", i + 1, resident >> 20);
        }
    }
    let (first, last) = (first.unwrap_or(0), resident_bytes().unwrap_or(0));
    assert!(
        last as f64 <= first as f64 * GROWTH,
        "memory grew from {first} to {last} bytes"
    );
}

/// A connected client's socket.
fn connect(address: SocketAddr, i: usize) -> TcpStream {
    let (socket, _) = tungstenite::connect(format!("ws://{address}/ws?clientId=c{i}")).unwrap();
    match socket.get_ref() {
        MaybeTlsStream::Plain(stream) => stream.try_clone().unwrap(),
        _ => unreachable!("there is no TLS here"),
    }
}

/// Reads what comes to clients until all is done.
fn read_all(sockets: &[TcpStream], done: &AtomicBool, heard: &AtomicUsize) {
    let mut bytes = vec![0; 64 << 10];
    for socket in sockets {
        socket.set_nonblocking(true).unwrap();
    }
    while !done.load(Ordering::Relaxed) {
        for mut socket in sockets {
            match socket.read(&mut bytes) {
                Ok(0) => panic!("a client that reads was disconnected"),
                Ok(read) => drop(heard.fetch_add(read, Ordering::Relaxed)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => panic!("{e}"),
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(address: SocketAddr, i: usize, clients: usize) -> String {
    let side = [128, 192][i % 2];
    let graph = json!({
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
    });
    let body = json!({ "prompt": graph, "client_id": format!("c{}", i * 7 % clients) });
    let url = format!("http://{address}/prompt");
    let answer: Value = read(&mut ureq::post(url).send(body.to_string().as_bytes()).unwrap());
    answer["prompt_id"].as_str().unwrap().to_owned()
}

fn get(address: SocketAddr, path: &str) -> Value {
    read(&mut ureq::get(format!("http://{address}{path}")).call().unwrap())
}

fn read(response: &mut ureq::http::Response<ureq::Body>) -> Value {
    serde_json::from_slice(&response.body_mut().read_to_vec().unwrap()).unwrap()
}
