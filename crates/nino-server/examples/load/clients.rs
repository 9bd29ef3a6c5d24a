//! Clients by WebSocket, some of which never read, and a queue of jobs, while `GET /queue` is
//! timed.

use crate::child::Child;
use crate::{get, graph, post, read, send};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tungstenite::stream::MaybeTlsStream;

/// `GET /queue` is to be answered within this time, for 99 of 100.
const LATE: Duration = Duration::from_millis(50);
/// Bytes that the process may take beyond the plan of its larger job.
const MORE: usize = 100_000_000;

pub(crate) fn load(data: &Path, clients: usize, slow: usize, jobs: usize) {
    let server = Child::serving(data);
    let address = server.address;
    let sockets: Vec<TcpStream> = (0..clients).map(|i| connect(address, i)).collect();
    println!("{clients} clients are connected, {slow} of them do not read");
    let done = AtomicBool::new(false);
    let heard = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        threads.spawn(|| read_all(&sockets[slow.min(clients)..], &done, &heard));
        let ids: Vec<String> = (0..jobs).map(|i| send(address, i, clients)).collect();
        println!("{jobs} jobs are queued");
        let (mut times, mut held) = (Vec::new(), 0);
        let agent = ureq::Agent::new_with_defaults();
        let url = format!("http://{address}/queue");
        loop {
            let since = Instant::now();
            let queue: Value = read(&mut agent.get(&url).call().unwrap());
            times.push(since.elapsed());
            held = held.max(plans(address));
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
        let (most, planned) = (server.peak(), job(address));
        println!(
            "memory of the process: {} MB at most; {} MB planned for the larger job, {} MB with \
             what is kept for the other",
            most / 1_000_000,
            planned / 1_000_000,
            held / 1_000_000
        );
        assert!(p99 <= LATE, "GET /queue took {p99:?}");
        assert!(most <= planned + MORE, "{most} bytes, {planned} planned");
    });
}

/// What the larger of the two jobs needs, with pictures.
fn job(address: SocketAddr) -> usize {
    let plan = post(address, "/nino/plan", &json!({ "prompt": graph(1) }));
    let need = &plan["devices"][0];
    let bytes = |key: &str| need[key].as_u64().unwrap() as usize;
    bytes("peak") + bytes("beside")
}

/// What the device holds now by its plans: weights, and arenas of both sizes of pictures.
fn plans(address: SocketAddr) -> usize {
    let mut response = ureq::get(format!("http://{address}/metrics"))
        .call()
        .unwrap();
    let text = response.body_mut().read_to_string().unwrap();
    let figure = |name: &str| -> usize {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    figure("nino_device_weight_bytes{") + figure("nino_device_arena_bytes{")
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
