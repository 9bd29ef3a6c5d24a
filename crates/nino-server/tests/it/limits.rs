//! What a request may cost: memory, time, and other requests.

use crate::client::{graph, start, start_with};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A server that takes large requests.
fn with_room() -> crate::client::Running {
    start_with(tempfile::tempdir().unwrap(), |config| {
        config.max_upload = 64 << 20;
    })
}

/// A graph with a text of `bytes` bytes in a node that no output needs.
fn padded(bytes: usize, fill: &str) -> Value {
    let mut prompt = graph(1, 1);
    let text = fill.repeat(bytes);
    prompt["99"] = json!({ "class_type": "PrimitiveString", "inputs": { "value": text } });
    prompt
}

/// Plans are remembered by what their graphs are, not with the whole of them.
#[cfg(target_os = "linux")]
#[test]
fn remembered_plans_take_little_memory() {
    const SIZE: usize = 4 << 20;
    const PLANS: usize = 16;
    let server = with_room();
    let plan = |fill: &str| {
        let body = json!({ "prompt": padded(SIZE, fill) });
        let answer = server.post("/nino/plan", &body);
        assert_eq!(answer.json()["devices"][0]["fits"], true);
    };
    // What the first ones bring into memory stays for the others.
    plan("x");
    plan("y");
    let before = nino_engine::device::resident_bytes().unwrap();
    for i in 0..PLANS {
        plan(&char::from(b'a' + i as u8).to_string());
    }
    let after = nino_engine::device::resident_bytes().unwrap();
    let more = after.saturating_sub(before);
    assert!(more < PLANS * SIZE / 2, "{more} bytes for {PLANS} plans");
}

#[test]
fn graphs_of_too_many_bytes_are_refused() {
    let server = with_room();
    let large = padded((16 << 20) + 1, "x");
    let refused = server.post("/nino/plan", &json!({ "prompt": large }));
    assert_eq!(refused.status, 400);
    let text = String::from_utf8_lossy(&refused.bytes).into_owned();
    assert!(text.contains("the limit is 16777216"), "{text}");
    let refused = server.post("/prompt", &json!({ "prompt": large }));
    assert_eq!(refused.status, 413);
    let error = refused.json()["error"].take();
    assert_eq!(error["type"], "invalid_prompt");
    // What a client sends along counts as well.
    let extra = json!({ "extra_pnginfo": { "workflow": "x".repeat(16 << 20) } });
    let body = json!({ "prompt": graph(1, 1), "extra_data": extra });
    assert_eq!(server.post("/prompt", &body).status, 413);
}

/// A plan is of the files as they are now.
#[test]
fn a_file_that_changed_is_planned_again() {
    let server = start();
    let picture = |side: usize| {
        let rgb = vec![128; side * side * 3];
        nino_engine::media::png(&nino_engine::Picture {
            width: side,
            height: side,
            rgb,
        })
    };
    let mut prompt = graph(1, 1);
    prompt["10"] = json!({ "class_type": "LoadImage", "inputs": { "image": "a.png" } });
    prompt["5"] = json!({ "class_type": "EmptyLatentImage",
                          "inputs": { "width": ["11", 0], "height": ["11", 1], "batch_size": 1 } });
    prompt["11"] = json!({ "class_type": "GetImageSize", "inputs": { "image": ["10", 0] } });
    let peak = |side: usize| {
        let sent = server.upload(
            "/upload/image",
            "a.png",
            &picture(side),
            &[("overwrite", "1")],
        );
        assert_eq!(sent.status, 200);
        let plan = server
            .post("/nino/plan", &json!({ "prompt": prompt }))
            .json();
        let device = plan["devices"][0].clone();
        device["peak"]
            .as_u64()
            .unwrap_or_else(|| panic!("{device}"))
    };
    let (small, large) = (peak(64), peak(256));
    assert!(large > small + (1 << 20), "{small} and {large}");
}

/// Large pictures are unpacked some at a time, and made small without a larger copy.
#[cfg(target_os = "linux")]
#[test]
fn large_pictures_are_unpacked_some_at_a_time() {
    const SIDE: usize = 4000;
    let server = start();
    let rgb = vec![200; SIDE * SIDE * 3];
    let png = nino_engine::media::png(&nino_engine::Picture {
        width: SIDE,
        height: SIDE,
        rgb,
    });
    std::fs::write(server.data.path().join("output/large.png"), &png).unwrap();
    drop(png);
    let resident = || nino_engine::device::resident_bytes().unwrap();
    let before = resident();
    let most = std::thread::scope(|threads| {
        let asked: Vec<_> = (0..6)
            .map(|_| threads.spawn(|| server.get("/nino/thumb?filename=large.png").status))
            .collect();
        let mut most = 0;
        while asked.iter().any(|asked| !asked.is_finished()) {
            most = most.max(resident());
            std::thread::sleep(Duration::from_millis(5));
        }
        for asked in asked {
            assert_eq!(asked.join().unwrap(), 200);
        }
        most
    });
    let each = SIDE * SIDE * 3;
    let more = most.saturating_sub(before);
    assert!(more < 6 * each, "{more} bytes, {each} for a picture");
}

fn connected(server: &crate::client::Running, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let wait = Some(Duration::from_secs(20));
    stream.set_read_timeout(wait).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// The room for bodies is for those who have one.
#[test]
fn requests_without_a_body_wait_for_no_room() {
    let server = start();
    let upload = format!(
        "POST /upload/image HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\
         Content-Type: multipart/form-data; boundary=X\r\n\r\n",
        1 << 20
    );
    let waiting: Vec<TcpStream> = (0..4).map(|_| connected(&server, &upload)).collect();
    std::thread::sleep(Duration::from_millis(200));
    let request = "POST /interrupt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut answer = [0; 12];
    connected(&server, request).read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    drop(waiting);
}

/// Who waits for a picture has given back the room of what he sent.
#[test]
fn who_waits_for_a_job_holds_no_room() {
    let server = start_with(tempfile::tempdir().unwrap(), |config| {
        config.max_upload = 2 << 20;
    });
    let body = json!({ "prompt": "x", "steps": 4000, "width": 64, "height": 64,
                       "more": "x".repeat(3 << 19) });
    let body = body.to_string();
    let ask = format!(
        "POST /sdapi/v1/txt2img HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let waiting: Vec<TcpStream> = (0..4).map(|_| connected(&server, &ask)).collect();
    let since = Instant::now();
    while server.json("/prompt")["exec_info"]["queue_remaining"] != 4 {
        assert!(since.elapsed() < Duration::from_secs(20));
    }
    let since = Instant::now();
    let sent = server.upload("/upload/image", "a.png", &vec![b'x'; 3 << 19], &[]);
    assert_eq!(sent.status, 200);
    assert!(since.elapsed() < Duration::from_secs(20));
    drop(waiting);
}

/// WebSockets leave files for everything else, where the system allows few.
#[cfg(target_os = "linux")]
#[test]
fn idle_sockets_leave_room_for_files() {
    const FILES: &str = "NINO_TEST_FILES";
    if std::env::var_os(FILES).is_none() {
        let test = "limits::idle_sockets_leave_room_for_files";
        let script = format!("ulimit -n 400 && exec \"$0\" {test} --exact --nocapture");
        let ran = std::process::Command::new("sh")
            .args(["-c", &script])
            .arg(std::env::current_exe().unwrap())
            .env(FILES, "")
            .status();
        assert!(ran.unwrap().success());
        return;
    }
    let server = start();
    let socket = |i: usize| {
        let request = format!(
            "GET /ws?clientId=c{i} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        let mut stream = connected(&server, &request);
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        stream
    };
    let sockets: Vec<TcpStream> = (0..240).map(socket).collect();
    let id = server.prompt(&graph(1, 1), "f");
    assert_eq!(server.wait(&id)["status"]["status_str"], "success");
    assert_eq!(server.post("/settings/a", &json!(1)).status, 200);
    drop(sockets);
}
