//! Jobs that outlive the server.

use crate::client::{config, graph, start, start_with};
use nino_server::{Server, ServerError};
use serde_json::json;

#[test]
fn queue_and_history_outlive_a_restart() {
    let server = start();
    let done = server.prompt(&graph(1, 1), "r");
    server.wait(&done);
    // It runs when the server is stopped, and the other one waits.
    let cut = server.prompt(&graph(2, 3000), "r");
    let waits = server.prompt(&graph(3, 1), "r");
    while server.json("/queue")["queue_running"]
        .as_array()
        .unwrap()
        .is_empty()
    {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let data = server.end();
    let server = start_with(data, |_| {});
    let history = server.json("/history");
    assert_eq!(history[&done]["status"]["status_str"], "success");
    let mut socket = server.socket("r");
    let status = socket.hear();
    drop(status);
    let queue = server.json("/queue");
    let listed = queue.to_string();
    assert!(listed.contains(&cut), "{listed}");
    server.post("/interrupt", &json!({ "prompt_id": cut }));
    // It may not have begun when it was interrupted.
    server.post("/queue", &json!({ "delete": [cut] }));
    while server.json("/queue").to_string().contains(&cut) {
        server.post("/interrupt", &json!({ "prompt_id": cut }));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(server.wait(&waits)["status"]["status_str"], "success");
}

/// A second server on the same folder would remove the first one's pictures and run its jobs.
#[test]
fn a_folder_has_one_server() {
    let server = start();
    let shown = server.data.path().join("temp/shown.png");
    std::fs::write(&shown, "x").unwrap();
    let second = Server::bind(config(server.data.path()));
    let error = second.err().expect("the folder is in use");
    assert!(matches!(error, ServerError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("another server uses"), "{error}");
    assert!(shown.exists());
    let data = server.end();
    start_with(data, |_| {});
}

/// A picture that a client waited for is not made for nobody after the next start.
#[test]
fn jobs_of_clients_that_waited_do_not_come_back() {
    let server = start();
    let address = server.address;
    let asked = std::thread::spawn(move || {
        let body = json!({ "prompt": "x", "steps": 4000, "width": 64, "height": 64,
                           "batch_size": 2 });
        let request = ureq::post(format!("http://{address}/sdapi/v1/txt2img"));
        let request = request.config().http_status_as_error(false).build();
        let answer = request.send(body.to_string().as_bytes());
        answer.map(|answer| answer.status().as_u16())
    });
    while server.json("/sdapi/v1/progress")["progress"] == 0.0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let data = server.end();
    assert_eq!(asked.join().unwrap().unwrap(), 503);
    let server = start_with(data, |_| {});
    assert_eq!(server.json("/prompt")["exec_info"]["queue_remaining"], 0);
    assert_eq!(server.json("/history"), json!({}));
}

/// Rows as an older server left them: `jobs` ended jobs of `size` bytes each.
fn filled(data: &std::path::Path, jobs: usize, size: usize) {
    let db = rusqlite::Connection::open(data.join("user/nino.sqlite")).unwrap();
    let text = "x".repeat(size);
    let job = |i: usize| json!([i, format!("job{i}"), { "1": text }, {}, []]).to_string();
    let entry = json!({ "outputs": {}, "status": { "status_str": "success" }, "meta": {} });
    for i in 0..jobs {
        db.execute(
            "INSERT INTO jobs (id, status, job, entry, summary, ended)
             VALUES (?1, 'completed', ?2, ?3, '{}', ?4)",
            rusqlite::params![format!("job{i}"), job(i), entry.to_string(), i as i64 + 1],
        )
        .unwrap();
    }
}

/// A history of gigabytes is sent in pieces, and neither fills memory nor holds up new jobs.
#[cfg(target_os = "linux")]
#[test]
fn a_long_history_is_sent_in_pieces() {
    const SIZE: usize = 1 << 20;
    const JOBS: usize = 200;
    use std::io::{Read, Write};
    let server = start();
    filled(server.data.path(), JOBS, SIZE);
    // What the model brings into memory is no history's.
    server.wait(&server.prompt(&graph(7, 1), "h"));
    let before = nino_engine::device::resident_bytes().unwrap();
    let mut asked = std::net::TcpStream::connect(server.address).unwrap();
    let request = "GET /history HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    asked.write_all(request.as_bytes()).unwrap();
    let mut first = [0; 1024];
    asked.read_exact(&mut first).unwrap();
    // Half read, it is in nobody's way.
    let id = server.prompt(&graph(1, 1), "h");
    assert_eq!(server.wait(&id)["status"]["status_str"], "success");
    let mut bytes = 0;
    let mut most = 0;
    let mut piece = vec![0; 1 << 20];
    loop {
        let read = asked.read(&mut piece).unwrap();
        bytes += read;
        most = most.max(nino_engine::device::resident_bytes().unwrap());
        if read == 0 {
            break;
        }
    }
    assert!(bytes > JOBS * SIZE, "{bytes}");
    let more = most.saturating_sub(before);
    assert!(more < JOBS * SIZE / 2, "{more} bytes for {bytes}");
    // What is asked for in parts is whole, in the order in which jobs ended.
    let part = server.json("/history?max_items=2&offset=7");
    let ids: Vec<&String> = part.as_object().unwrap().keys().collect();
    assert_eq!(ids, ["job7", "job8"]);
    assert_eq!(part["job7"]["prompt"][2]["1"].as_str().unwrap().len(), SIZE);
    assert_eq!(part["job7"]["status"]["status_str"], "success");
    assert_eq!(server.json("/history?max_items=0"), json!({}));
    // The room of forgotten jobs is given back.
    let size = || {
        let files = ["nino.sqlite", "nino.sqlite-wal"].iter();
        let files = files.map(|name| server.data.path().join("user").join(name));
        files
            .map(|path| path.metadata().map_or(0, |m| m.len()))
            .sum::<u64>()
    };
    assert!(size() > (JOBS * SIZE) as u64);
    server.post("/history", &json!({ "clear": true }));
    assert_eq!(server.json("/history"), json!({}));
    assert!(size() < (JOBS * SIZE / 4) as u64, "{}", size());
}

/// What waits when the server is asked to stop is not started any more, also while requests end.
#[test]
fn no_job_starts_after_the_stop() {
    let server = start();
    let address = server.address;
    let asked = std::thread::spawn(move || {
        let body = json!({ "prompt": "x", "steps": 40, "width": 64, "height": 64,
                           "batch_size": 30 });
        let request = ureq::post(format!("http://{address}/sdapi/v1/txt2img"));
        let request = request.config().http_status_as_error(false).build();
        request
            .send(body.to_string().as_bytes())
            .map(|answer| answer.status().as_u16())
    });
    let made = |data: &std::path::Path| {
        std::fs::read_dir(data.join("output/api")).map_or(0, std::iter::Iterator::count)
    };
    while made(server.data.path()) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let before = made(server.data.path());
    let data = server.end();
    let more = made(data.path()) - before;
    assert!(more <= 2, "{more} pictures after the stop");
    // Its client is given what is done, at once.
    assert_eq!(asked.join().unwrap().unwrap(), 200);
}
