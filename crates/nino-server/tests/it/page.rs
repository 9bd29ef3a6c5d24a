//! Our own page: its files, and what it asks.

use crate::client::{graph, start, start_with};
use nino_engine::device::{DeviceChoice, DeviceName, open};
use serde_json::json;

#[test]
fn the_page_is_inside_the_program() {
    let server = start();
    let home = server.get("/");
    assert_eq!(home.kind, "text/html; charset=utf-8");
    let html = String::from_utf8(home.bytes).unwrap();
    assert!(
        !html.contains("http://") && !html.contains("https://"),
        "it loads from elsewhere"
    );
    let files = html.split('"').filter(|part| part.starts_with("/page/"));
    for file in files {
        assert_eq!(server.get(file).status, 200, "{file}");
    }
    // Every id that the scripts name is there, and every script that they import.
    for script in ["app.js", "gallery.js", "models.js", "paint.js"] {
        let script = String::from_utf8(server.get(&format!("/page/{script}")).bytes).unwrap();
        for part in script.split("$(\"").skip(1) {
            let id = part.split('"').next().unwrap();
            assert!(html.contains(&format!("id=\"{id}\"")), "#{id}");
        }
        for part in script.split("from \"./").skip(1) {
            let file = part.split('"').next().unwrap();
            assert_eq!(server.get(&format!("/page/{file}")).status, 200, "{file}");
        }
    }
    assert_eq!(server.get("/page/none.js").status, 404);
    assert_eq!(server.get("/comfy/").status, 404);
}

#[test]
fn needs_are_told_before_a_request_is_sent() {
    let server = start();
    let status = server.json("/nino/status");
    assert_eq!(status["devices"][0]["name"], "cpu");
    let model = server.json("/nino/model?name=nino-emoji");
    assert_eq!(
        (&model["size"], &model["encodes"]),
        (&json!(256), &json!(false))
    );
    let plan = server
        .post("/nino/plan", &json!({ "prompt": graph(1, 4) }))
        .json();
    let need = &plan["devices"][0];
    assert_eq!(need["fits"], true, "{plan}");
    let peak = need["peak"].as_u64().unwrap();
    let id = server.prompt(&graph(1, 4), "p");
    server.wait(&id);
    let device = &server.json("/nino/status")["devices"][0];
    let held = device["weights"].as_u64().unwrap() + device["arena"].as_u64().unwrap();
    assert!(held > 0 && held <= peak, "{held} of {peak}");
    server.post("/free", &json!({ "unload_models": true }));
    let since = std::time::Instant::now();
    while server.json("/nino/status")["devices"][0]["weights"] != 0 {
        assert!(since.elapsed().as_secs() < 10);
    }
}

/// A job that can never fit is refused at once, with the numbers.
#[test]
fn what_never_fits_is_refused() {
    let server = start_with(tempfile::tempdir().unwrap(), |config| {
        let choice = DeviceChoice {
            device: Some(DeviceName::Cpu),
            budget: Some(2 << 20),
            ..DeviceChoice::default()
        };
        config.devices = vec![open(&choice).unwrap()];
    });
    let refused = server.post("/prompt", &json!({ "prompt": graph(1, 1) }));
    assert_eq!(refused.status, 400);
    let error = refused.json();
    assert_eq!(error["error"]["type"], "over_budget");
    assert!(
        error["error"]["details"].as_str().unwrap().contains("MiB"),
        "{error}"
    );
    assert_eq!(server.json("/prompt")["exec_info"]["queue_remaining"], 0);
}

#[test]
fn pictures_are_found_by_what_they_show() {
    let server = start();
    for (seed, words) in [(1, "a red heart"), (2, "a green tree")] {
        let mut graph = graph(seed, 1);
        graph["6"]["inputs"]["text"] = json!(words);
        let id = server.prompt(&graph, "g");
        server.wait(&id);
    }
    let all = server.json("/nino/gallery");
    assert_eq!(all["total"], 2);
    assert_eq!(all["pictures"][0]["filename"], "ComfyUI_00002_.png");
    let found = server.json("/nino/gallery?search=RED%20emoji");
    assert_eq!(found["total"], 1);
    let name = found["pictures"][0]["filename"].as_str().unwrap();
    let about = server.json(&format!("/nino/picture?filename={name}"));
    assert_eq!(about["settings"]["prompt"], json!(["a red heart"]));
    assert_eq!(about["settings"]["seed"], json!(["1"]));
    assert_eq!(about["files"][0]["name"], "nino-emoji");
    let thumb = server.get(&format!("/nino/thumb?filename={name}&side=32"));
    assert_eq!(thumb.kind, "image/jpeg");
    server.post(
        "/nino/delete",
        &json!({ "filename": name, "subfolder": "" }),
    );
    assert_eq!(server.json("/nino/gallery")["total"], 1);
    assert_eq!(
        server
            .post(
                "/nino/delete",
                &json!({ "filename": "../user/nino.sqlite" })
            )
            .status,
        400
    );
}
