//! Jobs that outlive the server.

use crate::client::{graph, start, start_with};
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
