//! ComfyUI's dialect: prompts, messages, history, files.

use crate::client::{Heard, graph, start};
use serde_json::{Value, json};

fn kinds(texts: &[Value]) -> Vec<String> {
    let kinds = texts
        .iter()
        .map(|text| text["type"].as_str().unwrap().to_owned());
    let mut kinds: Vec<String> = kinds.filter(|kind| kind != "progress_state").collect();
    kinds.dedup();
    kinds
}

#[test]
fn a_prompt_is_run_and_told() {
    let server = start();
    let mut socket = server.socket("one");
    let mut other = server.socket("two");
    let Heard::Text(first) = socket.hear() else {
        panic!()
    };
    assert_eq!(first["type"], "status");
    assert_eq!(first["data"]["sid"], "one");
    assert_eq!(first["data"]["status"]["exec_info"]["queue_remaining"], 0);
    other.hear();
    let id = server.prompt(&graph(1, 3), "one");
    let (texts, frames) = socket.until_done(&id);
    let kinds = kinds(&texts);
    let wanted = [
        "execution_start",
        "execution_cached",
        "executing",
        "progress",
        "executed",
    ];
    for kind in wanted {
        assert!(kinds.iter().any(|k| k == kind), "{kind} of {kinds:?}");
    }
    let last: Vec<&str> = kinds.iter().rev().take(3).map(String::as_str).collect();
    assert_eq!(last, ["executing", "status", "execution_success"]);
    let of = |kind: &str| {
        texts
            .iter()
            .filter(|t| t["type"] == kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("execution_cached")[0]["data"]["nodes"], json!([]));
    let progress = of("progress");
    assert_eq!(progress.last().unwrap()["data"]["value"], 3);
    assert_eq!(progress.last().unwrap()["data"]["max"], 3);
    assert_eq!(progress.last().unwrap()["data"]["node"], "3");
    let states = of("progress_state");
    let state = &states.last().unwrap()["data"]["nodes"]["9"];
    assert_eq!(state["state"], "finished");
    // Previews in the old form: event 1, format 1, a JPEG.
    assert!(!frames.is_empty());
    assert_eq!(frames[0][..10], [0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xd8]);
    // The other client hears of the queue and of nothing else.
    let id2 = server.prompt(&graph(2, 1), "two");
    let (texts, _) = other.until_done(&id2);
    let foreign = texts.iter().filter(|t| t["type"] != "status");
    for text in foreign {
        assert_eq!(text["data"]["prompt_id"], id2.as_str(), "{text}");
    }
    let image = &of("executed")[0]["data"]["output"]["images"][0];
    assert_eq!(image["type"], "output");
    assert_eq!(image["filename"], "ComfyUI_00001_.png");
    let entry = server.wait(&id);
    assert_eq!(entry["outputs"]["9"]["images"][0], *image);
    assert_eq!(entry["status"]["status_str"], "success");
    assert_eq!(entry["status"]["completed"], true);
    assert_eq!(entry["status"]["messages"][0][0], "execution_start");
    assert_eq!(entry["prompt"][1], id.as_str());
    assert_eq!(entry["prompt"][2], graph(1, 3));
    assert_eq!(entry["prompt"][4], json!(["9"]));
    assert_eq!(entry["meta"]["9"]["node_id"], "9");
    let picture = server.get("/view?filename=ComfyUI_00001_.png&type=output&subfolder=");
    assert_eq!((picture.status, &*picture.kind), (200, "image/png"));
    assert_eq!(picture.bytes[1..4], *b"PNG");
    assert!(String::from_utf8_lossy(&picture.bytes).contains("a red heart"));
    let small = server.get("/view?filename=ComfyUI_00001_.png%20%5Boutput%5D&preview=jpeg;80");
    assert_eq!(small.kind, "image/jpeg");
}

#[test]
fn previews_with_metadata_and_cached_nodes() {
    let server = start();
    let mut socket = server.socket("me");
    socket.say(&json!({ "type": "feature_flags",
                        "data": { "supports_preview_metadata": true } }));
    socket.hear();
    let Heard::Text(flags) = socket.hear() else {
        panic!()
    };
    assert_eq!(flags["type"], "feature_flags");
    assert_eq!(flags["data"]["supports_preview_metadata"], true);
    let id = server.prompt(&graph(5, 2), "me");
    let (_, frames) = socket.until_done(&id);
    let frame = &frames[0];
    assert_eq!(frame[..4], [0, 0, 0, 4]);
    let length = u32::from_be_bytes(frame[4..8].try_into().unwrap()) as usize;
    let about: Value = serde_json::from_slice(&frame[8..8 + length]).unwrap();
    assert_eq!(about["node_id"], "3");
    assert_eq!(about["prompt_id"], id.as_str());
    assert_eq!(about["image_type"], "image/jpeg");
    assert_eq!(frame[8 + length..8 + length + 2], [0xff, 0xd8]);
    // Another seed: text is not encoded again, the model not loaded.
    let id = server.prompt(&graph(6, 2), "me");
    let (texts, _) = socket.until_done(&id);
    let cached = texts
        .iter()
        .find(|t| t["type"] == "execution_cached")
        .unwrap();
    assert_eq!(cached["data"]["nodes"], json!(["4", "6", "7", "5"]));
    // The same graph: nothing runs, and the picture is told again.
    let id = server.prompt(&graph(6, 2), "me");
    let (texts, frames) = socket.until_done(&id);
    assert!(frames.is_empty());
    let told = texts.iter().find(|t| t["type"] == "executed").unwrap();
    assert_eq!(
        told["data"]["output"]["images"][0]["filename"],
        "ComfyUI_00002_.png"
    );
}

#[test]
fn what_is_wrong_is_told_as_comfyui_does() {
    let server = start();
    let refused = |body: Value| {
        let answer = server.post("/prompt", &body);
        assert_eq!(answer.status, 400);
        answer.json()
    };
    assert_eq!(refused(json!({}))["error"]["type"], "no_prompt");
    // Behind such a number there is no other one.
    let number = json!({ "prompt": graph(1, 1), "number": 1e300 });
    assert_eq!(refused(number)["error"]["type"], "invalid_number");
    let id = json!({ "prompt": graph(1, 1), "prompt_id": "7B1C3C50-0000-4000-8000-000000000000" });
    assert_eq!(refused(id)["error"]["type"], "invalid_prompt_id");
    let mut unknown = graph(1, 1);
    unknown["4"]["class_type"] = json!("OddLoader");
    let error = refused(json!({ "prompt": unknown }));
    assert_eq!(error["error"]["type"], "missing_node_type");
    assert_eq!(error["error"]["extra_info"]["class_type"], "OddLoader");
    let missing = &error["error"]["extra_info"]["missing_nodes"][0];
    assert_eq!(missing["node_id"], "4");
    assert_eq!(
        missing["would_serve"][0], "CheckpointLoaderSimple",
        "{error}"
    );
    assert_eq!(error["node_errors"], json!({}));
    let mut absent = graph(1, 1);
    absent["4"]["inputs"]["ckpt_name"] = json!("none.safetensors");
    let error = refused(json!({ "prompt": absent }));
    assert_eq!(error["error"]["type"], "prompt_outputs_failed_validation");
    let of_node = &error["node_errors"]["4"];
    assert_eq!(of_node["class_type"], "CheckpointLoaderSimple");
    assert_eq!(of_node["dependent_outputs"], json!(["9"]));
    assert_eq!(of_node["errors"][0]["type"], "value_not_in_list");
    let details = "ckpt_name: 'none.safetensors' not in ['nino-emoji']";
    assert_eq!(of_node["errors"][0]["details"], details);
    let mut no_output = graph(1, 1);
    no_output.as_object_mut().unwrap().remove("9");
    assert_eq!(
        refused(json!({ "prompt": no_output }))["error"]["type"],
        "prompt_no_outputs"
    );
    // One output is right and another is not: the right one runs.
    let mut half = graph(1, 1);
    half["10"] = json!({ "class_type": "SaveImage", "inputs": { "filename_prefix": "x" } });
    let answer = server.post("/prompt", &json!({ "prompt": half }));
    assert_eq!(answer.status, 200);
    let body = answer.json();
    assert_eq!(
        body["node_errors"]["10"]["errors"][0]["type"],
        "required_input_missing"
    );
    // Only what is asked for is looked at.
    let wanted = json!({ "prompt": half, "partial_execution_targets": ["9"] });
    let body = server.post("/prompt", &wanted).json();
    assert_eq!(body["node_errors"], json!({}));
}

#[test]
fn the_queue_is_listed_changed_and_interrupted() {
    let server = start();
    let mut socket = server.socket("q");
    let long = server.prompt(&graph(1, 2000), "q");
    let second = server.prompt(&graph(2, 1), "q");
    let third = server.prompt(&graph(3, 1), "q");
    let front = json!({ "prompt": graph(4, 1), "front": true });
    let front = server.post("/prompt", &front).json()["prompt_id"]
        .as_str()
        .unwrap()
        .to_owned();
    // The first one runs once it says so.
    loop {
        let Heard::Text(text) = socket.hear() else {
            continue;
        };
        if text["type"] == "progress" {
            break;
        }
    }
    let queue = server.json("/queue");
    assert_eq!(queue["queue_running"][0][1], long.as_str());
    let waiting: Vec<&str> = queue["queue_pending"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item[1].as_str().unwrap())
        .collect();
    assert_eq!(waiting, [&front, &second, &third]);
    assert_eq!(server.json("/prompt")["exec_info"]["queue_remaining"], 4);
    let jobs = server.json("/api/jobs?status=in_progress,pending");
    assert_eq!(jobs["pagination"]["total"], 4);
    server.post("/queue", &json!({ "delete": [third] }));
    // Another job's id interrupts nothing.
    for other in [json!(second), json!(5), json!(["x"])] {
        server.post("/interrupt", &json!({ "prompt_id": other }));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(server.json("/queue")["queue_running"][0][1], long.as_str());
    assert_eq!(server.json(&format!("/history/{long}")), json!({}));
    server.post("/interrupt", &json!({ "prompt_id": long }));
    let entry = server.wait(&long);
    assert_eq!(entry["status"]["status_str"], "error");
    let messages = entry["status"]["messages"].as_array().unwrap();
    assert_eq!(messages.last().unwrap()[0], "execution_interrupted");
    server.wait(&second);
    assert_eq!(server.json(&format!("/history/{third}")), json!({}));
    let jobs = server.json("/api/jobs?status=completed,cancelled&sort_order=asc");
    let ids: Vec<&Value> = jobs["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|j| &j["id"])
        .collect();
    assert_eq!(ids, [&json!(long), &json!(second), &json!(front)]);
    assert_eq!(jobs["jobs"][0]["status"], "cancelled");
    assert_eq!(jobs["jobs"][1]["outputs_count"], 1);
    assert_eq!(jobs["jobs"][1]["preview_output"]["mediaType"], "images");
    let one = server.json(&format!("/api/jobs/{second}"));
    assert_eq!(one["workflow"]["prompt"], graph(2, 1));
    let gone = server.post(&format!("/api/jobs/{second}/cancel"), &json!({}));
    assert_eq!(gone.json()["cancelled"], false);
    assert_eq!(server.get("/api/jobs/none").status, 404);
    // To cancel what is not there is no error.
    let unknown = "7b1c3c50-0000-4000-8000-000000000000";
    let gone = server.post(&format!("/api/jobs/{unknown}/cancel"), &json!({}));
    assert_eq!(
        (gone.status, gone.json()),
        (200, json!({ "cancelled": false }))
    );
    let gone = server.post("/api/jobs/cancel", &json!({ "job_ids": [unknown] }));
    assert_eq!(
        (gone.status, gone.json()),
        (200, json!({ "cancelled": false }))
    );
    let wrong = server.post("/api/jobs/cancel", &json!({ "job_ids": ["none", 5] }));
    assert_eq!(wrong.status, 400);
    assert_eq!(wrong.json()["invalid_ids"], json!(["none", 5]));
    for wrong in [
        "limit=0",
        "limit=x",
        "offset=x",
        "status=done",
        "sort_by=x",
        "sort_order=x",
    ] {
        assert_eq!(
            server.get(&format!("/api/jobs?{wrong}")).status,
            400,
            "{wrong}"
        );
    }
    let all = server.json("/api/jobs?offset=-3&status=Completed,&limit=1");
    assert_eq!(
        (
            all["jobs"].as_array().unwrap().len(),
            &all["pagination"]["has_more"]
        ),
        (1, &json!(true))
    );
    server.post("/history", &json!({ "delete": [long] }));
    // The oldest comes first, and the last ones are those that are asked for.
    let ended = |path: &str| -> Vec<String> {
        let history = server.json(path);
        history.as_object().unwrap().keys().cloned().collect()
    };
    let last = ended("/history?max_items=1");
    assert_eq!(last.len(), 1);
    assert_eq!(
        ended("/history"),
        [front, last[0].clone()],
        "in the order they ran"
    );
    server.post("/history", &json!({ "clear": true }));
    assert_eq!(server.json("/history"), json!({}));
}

/// Programs read the inputs of a class, and their values in saved graphs, in this order.
#[test]
fn what_clients_read_in_order_is_in_order() {
    let server = start();
    let info = server.json("/object_info");
    for (class, info) in info.as_object().unwrap() {
        for need in ["required", "optional"] {
            let keys: Vec<&String> = info["input"][need].as_object().unwrap().keys().collect();
            assert_eq!(json!(keys), info["input_order"][need], "{class}");
        }
    }
    let ids: Vec<String> = (0..8)
        .map(|seed| server.prompt(&graph(seed, 1), "o"))
        .collect();
    let entries: Vec<Value> = ids.iter().map(|id| server.wait(id)).collect();
    let history = server.json("/history");
    let found: Vec<&String> = history.as_object().unwrap().keys().collect();
    assert_eq!(found, ids.iter().collect::<Vec<_>>());
    let inputs = &entries[0]["prompt"][2]["3"]["inputs"];
    let names: Vec<&String> = inputs.as_object().unwrap().keys().collect();
    assert_eq!(
        names[..3],
        ["model", "positive", "negative"],
        "as they were sent"
    );
}

#[test]
fn a_failed_node_is_told() {
    let server = start();
    let mut socket = server.socket("f");
    let mut broken = graph(1, 1);
    // More numbers than a node may make.
    broken["5"]["inputs"]["width"] = json!(16384);
    broken["5"]["inputs"]["height"] = json!(16384);
    broken["5"]["inputs"]["batch_size"] = json!(4096);
    let id = server.prompt(&broken, "f");
    let (texts, _) = socket.until_done(&id);
    let error = texts
        .iter()
        .find(|t| t["type"] == "execution_error")
        .unwrap();
    let data = &error["data"];
    assert_eq!(data["node_id"], "5");
    assert_eq!(data["node_type"], "EmptyLatentImage");
    assert!(
        data["exception_message"]
            .as_str()
            .unwrap()
            .contains("the limit for a node is")
    );
    assert_eq!(data["current_inputs"]["batch_size"], json!([4096]));
    let job = server.json(&format!("/api/jobs/{id}"));
    assert_eq!(job["status"], "failed");
    assert_eq!(job["execution_error"]["node_id"], "5");
    // The next one runs.
    let id = server.prompt(&graph(1, 1), "f");
    assert_eq!(server.wait(&id)["status"]["status_str"], "success");
}

#[test]
fn pictures_go_to_the_socket_alone() {
    let server = start();
    let mut socket = server.socket("w");
    let mut graph = graph(1, 1);
    graph["9"] = json!({ "class_type": "SaveImageWebsocket", "inputs": { "images": ["8", 0] } });
    let id = server.prompt(&graph, "w");
    let (_, frames) = socket.until_done(&id);
    let last = frames.last().unwrap();
    assert_eq!(last[..8], [0, 0, 0, 1, 0, 0, 0, 2]);
    assert_eq!(last[9..12], *b"PNG");
    assert_eq!(
        std::fs::read_dir(server.data.path().join("output"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn uploads_are_kept_and_used() {
    let server = start();
    let id = server.prompt(&graph(1, 1), "u");
    server.wait(&id);
    let png = server.get("/view?filename=ComfyUI_00001_.png").bytes;
    let up = |name: &str, bytes: &[u8], fields: &[(&str, &str)]| {
        server.upload("/upload/image", name, bytes, fields)
    };
    let first = up("start.png", &png, &[("type", "input")]).json();
    assert_eq!(
        first,
        json!({ "name": "start.png", "subfolder": "", "type": "input" })
    );
    // The same bytes keep their name, others get a new one.
    assert_eq!(up("start.png", &png, &[]).json()["name"], "start.png");
    let mut other = png.clone();
    other.extend(*b"more");
    assert_eq!(up("start.png", &other, &[]).json()["name"], "start (1).png");
    let over = up(
        "start.png",
        &png,
        &[("overwrite", "true"), ("subfolder", "clip/space")],
    );
    assert_eq!(over.json()["subfolder"], "clip/space");
    let list = server.json("/object_info/LoadImage");
    let names = &list["LoadImage"]["input"]["required"]["image"][0];
    assert_eq!(*names, json!(["start (1).png", "start.png"]));
    // A mask becomes the transparency of the picture.
    let mask = {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 64, 64);
        encoder.set_color(png::ColorType::Rgba);
        let mut writer = encoder.write_header().unwrap();
        let rgba: Vec<u8> = (0..64 * 64)
            .flat_map(|i| [0, 0, 0, (i % 64 * 4) as u8])
            .collect();
        writer.write_image_data(&rgba).unwrap();
        writer.finish().unwrap();
        bytes
    };
    let original = json!({ "filename": "start.png", "subfolder": "", "type": "input" });
    let fields = [("type", "input"), ("original_ref", &*original.to_string())];
    let answer = server.upload("/upload/mask", "masked.png", &mask, &fields);
    assert_eq!(
        answer.status,
        200,
        "{}",
        String::from_utf8_lossy(&answer.bytes)
    );
    let alpha = server
        .get("/view?filename=masked.png&type=input&channel=a")
        .bytes;
    let mut reader = png::Decoder::new(std::io::Cursor::new(alpha))
        .read_info()
        .unwrap();
    let mut rgba = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut rgba).unwrap();
    assert_eq!([rgba[3], rgba[4 * 10 + 3], rgba[4 * 63 + 3]], [0, 40, 252]);
    // A graph that starts from it.
    let mut graph = graph(1, 2);
    graph["10"] = json!({ "class_type": "LoadImage", "inputs": { "image": "masked.png" } });
    graph["11"] = json!({ "class_type": "ImageInvert", "inputs": { "image": ["10", 0] } });
    graph["9"]["inputs"]["images"] = json!(["11", 0]);
    let id = server.prompt(&graph, "u");
    let entry = server.wait(&id);
    assert_eq!(entry["status"]["status_str"], "success", "{entry}");
    graph["10"]["inputs"]["image"] = json!("absent.png");
    let refused = server.post("/prompt", &json!({ "prompt": graph })).json();
    let error = &refused["node_errors"]["10"]["errors"][0];
    assert_eq!(error["type"], "custom_validation_failed");
    assert_eq!(error["details"], "image - Invalid image file: absent.png");
}

/// Players of videos jump by asking for a part of the file.
#[test]
fn parts_of_files_are_sent() {
    let server = start();
    let bytes: Vec<u8> = (0..=255).collect();
    server.upload("/upload/image", "clip.mp4", &bytes, &[]);
    let ask = |range: &str| {
        let url = server.url("/view?filename=clip.mp4&type=input");
        let request = ureq::get(url).header("range", range);
        let request = request.config().http_status_as_error(false).build();
        let mut response = request.call().unwrap();
        let header = |name: &str| {
            let value = response.headers().get(name);
            value.map(|value| value.to_str().unwrap().to_owned())
        };
        let (range, kind) = (header("content-range"), header("content-type"));
        assert_eq!(header("accept-ranges").as_deref(), Some("bytes"));
        // A browser's own page of a video loads it, which a sandbox would not let it.
        let policy = header("content-security-policy").unwrap();
        assert!(policy.contains("media-src 'self'") && !policy.contains("sandbox"));
        assert_eq!(kind.as_deref(), Some("video/mp4"));
        let status = response.status().as_u16();
        (status, range, response.body_mut().read_to_vec().unwrap())
    };
    let part = |text: &str| Some(text.to_owned());
    let found = ask("bytes=100-109");
    assert_eq!(
        found,
        (206, part("bytes 100-109/256"), bytes[100..110].to_vec())
    );
    let found = ask("bytes=250-");
    assert_eq!(
        found,
        (206, part("bytes 250-255/256"), bytes[250..].to_vec())
    );
    assert_eq!(ask("bytes=256-"), (416, part("bytes */256"), Vec::new()));
    assert_eq!(ask("bytes=0-1,4-5"), (200, None, bytes.clone()));
}

#[test]
fn what_the_server_is_and_has() {
    let server = start();
    for path in ["/object_info", "/api/object_info", "/comfy/api/object_info"] {
        let info = server.json(path);
        let sampler = &info["KSampler"];
        assert_eq!(sampler["input_order"]["required"][1], "seed");
        assert_eq!(sampler["input"]["required"]["steps"][1]["max"], 10000);
        for (class, entry) in info.as_object().unwrap() {
            for key in [
                "name",
                "display_name",
                "description",
                "category",
                "python_module",
            ] {
                assert!(entry[key].is_string(), "{class}: {key}");
            }
        }
    }
    let checkpoints = server.json("/object_info/CheckpointLoaderSimple");
    let names = &checkpoints["CheckpointLoaderSimple"]["input"]["required"]["ckpt_name"][0];
    assert_eq!(*names, json!(["nino-emoji"]));
    assert_eq!(server.json("/object_info/None"), json!({}));
    let stats = server.json("/system_stats");
    assert_eq!(stats["devices"][0]["type"], "cpu");
    assert!(stats["devices"][0]["vram_total"].as_u64().unwrap() > 0);
    assert_eq!(server.json("/models/checkpoints"), json!(["nino-emoji"]));
    assert_eq!(server.get("/models/none").status, 404);
    assert_eq!(server.json("/embeddings"), json!([]));
    assert_eq!(server.json("/features")["assets"], false);
    assert_eq!(server.json("/users")["storage"], "server");
    assert_eq!(server.get("/api/assets").status, 503);
    for path in [
        "/extensions",
        "/i18n",
        "/global_subgraphs",
        "/experiment/models",
    ] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    let metrics = String::from_utf8(server.get("/metrics").bytes).unwrap();
    assert!(metrics.contains("nino_queue_pending 0"), "{metrics}");
}

#[test]
fn users_keep_settings_and_files() {
    let server = start();
    assert_eq!(
        server.json("/settings"),
        json!({ "Comfy.TutorialCompleted": true })
    );
    assert_eq!(
        server
            .post("/settings", &json!({ "a": 1, "b": "x" }))
            .status,
        200
    );
    assert_eq!(
        server
            .send("/settings/c.d", "application/json", b"true")
            .status,
        200
    );
    let wanted = json!({ "Comfy.TutorialCompleted": true, "a": 1, "b": "x", "c.d": true });
    assert_eq!(server.json("/api/settings"), wanted);
    assert_eq!(server.json("/settings/b"), json!("x"));
    assert_eq!(server.get("/userdata?dir=workflows").status, 404);
    let file = "/userdata/workflows%2Fsub%2Fone.json";
    let written = server.send(&format!("{file}?full_info=true"), "text/plain", b"{}");
    assert_eq!(written.json()["path"], "workflows/sub/one.json");
    let again = server.send(&format!("{file}?overwrite=false"), "text/plain", b"{}");
    assert_eq!(again.status, 409);
    let list = server.json("/userdata?dir=workflows&recurse=true&split=false");
    assert_eq!(list, json!(["sub/one.json"]));
    let full = server.json("/api/userdata?dir=workflows&recurse=true&full_info=true");
    assert_eq!(full[0]["size"], 2);
    assert_eq!(server.get(file).bytes, b"{}");
    let to = "/userdata/workflows%2Fsub%2Fone.json/move/workflows%2Ftwo.json";
    assert_eq!(
        server.post(to, &json!({})).json(),
        json!("workflows/two.json")
    );
    assert_eq!(server.get(file).status, 404);
    assert_eq!(server.delete("/userdata/workflows%2Ftwo.json").status, 204);
    assert_eq!(server.delete("/userdata/workflows%2Ftwo.json").status, 404);
}
