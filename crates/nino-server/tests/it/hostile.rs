//! Requests that mean harm, or are broken.

use crate::client::{config, graph, start, start_with};
use nino_server::{Server, ServerError};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The first line of the answer to raw bytes.
fn raw(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = vec![0; 4096];
    let read = stream.read(&mut answer).unwrap_or(0);
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

fn status(answer: &str) -> u16 {
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    code.unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

#[test]
fn other_names_and_other_sites_are_refused() {
    let server = start();
    let port = server.address.port();
    let ask = |host: &str, more: &str| {
        let request = format!("GET /queue HTTP/1.1\r\nHost: {host}\r\n{more}\r\n");
        status(&raw(server.address, &request))
    };
    let own = format!("127.0.0.1:{port}");
    assert_eq!(ask(&own, ""), 200);
    assert_eq!(ask(&format!("localhost:{port}"), ""), 200);
    assert_eq!(ask(&format!("[::1]:{port}"), ""), 200);
    assert_eq!(ask("evil.example", ""), 403);
    assert_eq!(ask("192.168.0.7", ""), 403);
    assert_eq!(ask(&own, &format!("Origin: http://{own}\r\n")), 200);
    assert_eq!(ask(&own, "Origin: http://evil.example\r\n"), 403);
    assert_eq!(ask(&own, "Origin: null\r\n"), 403);
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let socket = |more: &str| {
        let request = format!("GET /ws HTTP/1.1\r\nHost: {own}\r\n{upgrade}{more}\r\n");
        status(&raw(server.address, &request))
    };
    assert_eq!(socket(""), 101);
    assert_eq!(socket("Origin: http://evil.example\r\n"), 403);
    assert_eq!(status(&raw(server.address, "GET / HTTP/1.1\r\n\r\n")), 400);
}

#[test]
fn a_token_is_wanted() {
    let server = start_with(tempfile::tempdir().unwrap(), |config| {
        // Whatever a user may choose, in an address and in a cookie.
        config.token = Some("a secret; +ü".to_owned());
        config.origins = vec!["http://friend.example".to_owned()];
    });
    let own = server.address;
    let ask = |path: &str, more: &str| {
        raw(
            own,
            &format!("GET {path} HTTP/1.1\r\nHost: {own}\r\n{more}\r\n"),
        )
    };
    assert_eq!(status(&ask("/queue", "")), 401);
    assert_eq!(
        status(&ask("/queue", "Authorization: Bearer wrong\r\n")),
        401
    );
    assert_eq!(status(&ask("/?token=secret", "")), 401);
    assert_eq!(status(&ask("/queue", "Cookie: nino_token=secret\r\n")), 401);
    let first = ask("/?a=b&token=a%20secret%3B%20%2B%C3%BC", "");
    let cookie = first
        .split("set-cookie: ")
        .nth(1)
        .unwrap_or_else(|| panic!("{first}"));
    let (cookie, rest) = cookie.split_once("; ").unwrap();
    assert!(rest.starts_with("HttpOnly; SameSite=Strict"), "{first}");
    assert_eq!(
        status(&ask("/queue", &format!("Cookie: a=b; {cookie}\r\n"))),
        200
    );
    let friend = format!("Origin: http://friend.example\r\nCookie: {cookie}\r\n");
    let answer = ask("/queue", &friend);
    assert!(
        answer.contains("access-control-allow-origin: http://friend.example"),
        "{answer}"
    );
    let before =
        format!("OPTIONS /prompt HTTP/1.1\r\nHost: {own}\r\nOrigin: http://friend.example\r\n\r\n");
    assert_eq!(status(&raw(own, &before)), 204);
}

#[test]
fn files_outside_the_folders_stay_there() {
    let server = start();
    let secret = server.data.path().join("secret.png");
    std::fs::write(&secret, "x").unwrap();
    let paths = [
        "/view?filename=../secret.png",
        "/view?filename=secret.png&subfolder=..",
        "/view?filename=secret.png&subfolder=%2Fetc",
        "/view?filename=%2Fetc%2Fpasswd",
        "/view?filename=..%2Fsecret.png&type=input",
        "/view?filename=secret.png&type=%2E%2E",
        "/view?filename=%00",
        "/userdata/..%2F..%2F..%2Fsecret.png",
        "/userdata?dir=..%2F..",
        "/v2/userdata?path=..%2F..",
        "/view_metadata/checkpoints?filename=..%2Fsecret.safetensors",
        "/experiment/models/preview/checkpoints/0/..%2Fsecret.png",
        "/internal/files/..",
        "/comfy/..%2Fsecret.png",
    ];
    for path in paths {
        let answer = server.get(path);
        assert!(
            matches!(answer.status, 400 | 403 | 404),
            "{path}: {}",
            answer.status
        );
    }
    for (name, subfolder) in [("../x.png", ""), ("x.png", "../.."), ("x.png", "/etc/x")] {
        let answer = server.upload("/upload/image", name, b"x", &[("subfolder", subfolder)]);
        assert_eq!(answer.status, 400, "{name} {subfolder}");
    }
    let mut outside = graph(1, 1);
    outside["9"]["inputs"]["filename_prefix"] = json!("../../x");
    let id = server.prompt(&outside, "h");
    assert_eq!(server.wait(&id)["status"]["status_str"], "error");
    let mut outside = graph(1, 1);
    outside["10"] = json!({ "class_type": "LoadImage", "inputs": { "image": "../secret.png" } });
    outside["9"]["inputs"]["images"] = json!(["10", 0]);
    assert_eq!(
        server.post("/prompt", &json!({ "prompt": outside })).status,
        400
    );
}

#[test]
fn nothing_that_was_brought_is_a_page() {
    let server = start();
    for name in ["a.html", "a.svg", "a.js", "a.xml", "a"] {
        let answer = server.upload("/upload/image", name, b"<script>1</script>", &[]);
        assert_eq!(answer.status, 200, "{name}");
        let seen = server.get(&format!("/view?filename={name}&type=input"));
        assert_eq!(seen.kind, "application/octet-stream", "{name}");
        server.send(
            &format!("/userdata/{name}"),
            "text/html",
            b"<script>1</script>",
        );
        let seen = server.get(&format!("/userdata/{name}"));
        assert_eq!(seen.kind, "application/octet-stream", "{name}");
    }
}

#[test]
fn what_is_too_large_or_too_deep_is_refused() {
    let server = start();
    let deep = format!("{{\"prompt\": {}1{}}}", "[".repeat(5000), "]".repeat(5000));
    let answer = server.send("/prompt", "application/json", deep.as_bytes());
    assert_eq!(answer.status, 400);
    // Small in bytes, large once it is read.
    let many = format!("[{}0]", "0,".repeat(600_000));
    let server_with_room = start_with(tempfile::tempdir().unwrap(), |config| {
        config.max_upload = 8 << 20;
    });
    let many = format!("[{many},{many}]");
    let answer = server_with_room.send("/prompt", "application/json", many.as_bytes());
    assert_eq!(answer.status, 413);
    drop(server_with_room);
    let big = vec![b'x'; (1 << 20) + 1];
    assert_eq!(server.send("/userdata/big", "text/plain", &big).status, 413);
    assert_eq!(
        server.upload("/upload/image", "big.png", &big, &[]).status,
        413
    );
    for body in [
        "",
        "[]",
        "1",
        "{\"prompt\": []}",
        "{\"prompt\": {\"1\": 5}}",
        "{",
        "\u{0}",
    ] {
        let answer = server.send("/prompt", "application/json", body.as_bytes());
        assert_eq!(answer.status, 400, "{body:?}");
    }
    let many: Value = (0..6000)
        .map(|i| {
            (
                i.to_string(),
                json!({ "class_type": "SaveImage", "inputs": {} }),
            )
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    let answer = server.post("/prompt", &json!({ "prompt": many }));
    assert_eq!(answer.json()["error"]["type"], "invalid_prompt");
    // Everything still works.
    let id = server.prompt(&graph(1, 1), "x");
    assert_eq!(server.wait(&id)["status"]["status_str"], "success");
}

#[test]
fn a_flood_of_messages_ends_the_connection() {
    let server = start();
    let mut socket = server.socket("flood");
    let sent = (0..300).take_while(|_| socket.try_say(&json!({ "type": "noise" })));
    assert!(sent.count() < 300 || socket.is_closed());
    assert_eq!(server.get("/queue").status, 200);
}

#[test]
fn a_second_connection_takes_the_place_of_the_first() {
    let server = start();
    let mut first = server.socket("same");
    first.hear();
    let mut second = server.socket("same");
    second.hear();
    assert!(first.is_closed());
    let id = server.prompt(&graph(1, 1), "same");
    second.until_done(&id);
}

/// A thousand clients are not to cost what a model does: the library's own buffers would take 128
/// KiB for each.
#[cfg(target_os = "linux")]
#[test]
fn a_connected_client_costs_little_memory() {
    const CLIENTS: usize = 200;
    let server = start();
    let connect = |i: usize| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let request = format!(
            "GET /ws?clientId=c{i} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let mut text = String::new();
        // The answer and the first message, which comes when the connection is set up.
        while !text.contains("\"sid\"") {
            let read = stream.read(&mut answer).unwrap();
            assert!(read > 0, "client {i} was turned away: {text}");
            text += &String::from_utf8_lossy(&answer[..read]);
        }
        stream
    };
    // What a first connection brings into memory is no client's.
    let first: Vec<TcpStream> = (0..8).map(connect).collect();
    let before = nino_engine::device::resident_bytes().unwrap();
    let more: Vec<TcpStream> = (8..8 + CLIENTS).map(connect).collect();
    let after = nino_engine::device::resident_bytes().unwrap();
    let each = after.saturating_sub(before) / CLIENTS;
    println!("{each} bytes a client");
    assert!(each < 48 << 10, "{each} bytes a client");
    drop((first, more));
}

/// An empty token would be one that everybody has.
#[test]
fn an_empty_token_is_refused() {
    for token in ["", " \t"] {
        let data = tempfile::tempdir().unwrap();
        let mut config = config(data.path());
        config.token = Some(token.to_owned());
        let error = Server::bind(config).err();
        assert!(matches!(error, Some(ServerError::EmptyToken)), "{token:?}");
    }
}

/// A number that anybody may have uploaded does not make the numbers begin anew.
#[test]
fn a_number_beyond_all_measure_replaces_no_picture() {
    let server = start();
    let upload = |name: &str| {
        let sent = server.upload("/upload/image", name, b"x", &[("type", "output")]);
        assert_eq!(sent.status, 200);
    };
    upload("r_18446744073709551615_.png");
    let mut made = Vec::new();
    for seed in 0..2 {
        let mut prompt = graph(seed, 1);
        prompt["9"]["inputs"]["filename_prefix"] = json!("r");
        let entry = server.wait(&server.prompt(&prompt, "n"));
        made.push(entry["outputs"]["9"]["images"][0]["filename"].clone());
    }
    assert_eq!(made, ["r_00001_.png", "r_00002_.png"]);
}

/// Settings that cannot be read are not replaced by those of one request.
#[test]
fn damaged_settings_are_left_alone() {
    let server = start();
    let path = server.data.path().join("user/default/comfy.settings.json");
    let damaged = "{\"a\": 1, \"b\" 2}";
    std::fs::write(&path, damaged).unwrap();
    let refused = server.post("/settings/x", &json!(1));
    assert_eq!(refused.status, 500);
    let text = String::from_utf8_lossy(&refused.bytes).into_owned();
    assert!(text.contains("comfy.settings.json"), "{text}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
    assert_eq!(server.get("/settings").status, 500);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(server.post("/settings/x", &json!(1)).status, 200);
    assert_eq!(server.json("/settings/x"), 1);
}
