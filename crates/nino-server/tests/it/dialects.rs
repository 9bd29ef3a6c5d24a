//! OpenAI's and A1111's image calls.

use crate::client::{Running, start, start_with};
use crate::models;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use nino_engine::Picture;
use serde_json::{Value, json};
use std::path::Path;

/// A server that has the built-in model and one that can start from pictures.
fn with_tiny() -> Running {
    let data = tempfile::tempdir().unwrap();
    models::put(data.path(), "tiny.safetensors", "tiny_sd1");
    start_with(data, |_| {})
}

fn png() -> Vec<u8> {
    let rgb = (0..64 * 64 * 3).map(|i| (i * 31 % 251) as u8).collect();
    nino_engine::media::png(&Picture {
        width: 64,
        height: 64,
        rgb,
    })
}

fn size_of(base64: &Value) -> (u32, u32) {
    let bytes = BASE64.decode(base64.as_str().unwrap()).unwrap();
    let reader = png::Decoder::new(std::io::Cursor::new(bytes))
        .read_info()
        .unwrap();
    (reader.info().width, reader.info().height)
}

#[test]
fn openai_makes_edits_and_varies() {
    let server = with_tiny();
    let models = server.json("/v1/models");
    assert_eq!(models["data"][0]["id"], "nino-emoji");
    let body = json!({ "model": "dall-e-3", "prompt": "a heart", "n": 2, "size": "64x48",
                       "seed": 3, "steps": 1 });
    let made = server.post("/v1/images/generations", &body).json();
    assert_eq!(made["data"].as_array().unwrap().len(), 2, "{made}");
    assert_eq!(size_of(&made["data"][0]["b64_json"]), (64, 48));
    assert!(made["data"][0]["b64_json"] != made["data"][1]["b64_json"]);
    let again = server.post("/v1/images/generations", &body).json();
    assert_eq!(again["data"][0], made["data"][0]);
    let by_url = json!({ "prompt": "a heart", "size": "64x64", "steps": 1,
                         "response_format": "url" });
    let made = server.post("/v1/images/generations", &by_url).json();
    let url = made["data"][0]["url"].as_str().unwrap();
    let path = url
        .strip_prefix(&format!("http://{}", server.address))
        .unwrap();
    assert_eq!(server.get(path).kind, "image/png");
    let fields = [
        ("model", "tiny"),
        ("prompt", "blue"),
        ("steps", "2"),
        ("seed", "1"),
    ];
    let edited = server.upload("/v1/images/edits", "a.png", &png(), &fields);
    assert_eq!(
        edited.status,
        200,
        "{}",
        String::from_utf8_lossy(&edited.bytes)
    );
    assert_eq!(size_of(&edited.json()["data"][0]["b64_json"]), (64, 64));
    let fields = [("model", "tiny"), ("steps", "1"), ("n", "2")];
    let varied = server
        .upload("/v1/images/variations", "a.png", &png(), &fields)
        .json();
    assert_eq!(varied["data"].as_array().unwrap().len(), 2);
    // The built-in model cannot start from pictures, and says so in OpenAI's form.
    let fields = [("prompt", "x"), ("model", "nino-emoji")];
    let refused = server.upload("/v1/images/edits", "a.png", &png(), &fields);
    assert_eq!(refused.status, 500);
    assert_eq!(refused.json()["error"]["type"], "server_error");
    for wrong in [
        json!({}),
        json!({ "prompt": "x", "n": 99 }),
        json!({ "prompt": "x", "size": "big" }),
    ] {
        let refused = server.post("/v1/images/generations", &wrong);
        assert_eq!(refused.status, 400, "{wrong}");
        assert_eq!(refused.json()["error"]["type"], "invalid_request_error");
    }
}

/// How many inputs of requests are there.
fn kept(server: &Running) -> usize {
    let folder = std::fs::read_dir(server.data.path().join("input/api"));
    folder.map_or(0, std::iter::Iterator::count)
}

/// A picture that came in a request is there as long as its jobs, also where it comes to none.
#[test]
fn inputs_of_requests_go_with_their_jobs() {
    let data = tempfile::tempdir().unwrap();
    models::put(data.path(), "tiny.safetensors", "tiny_sd1");
    // As a server leaves them that is killed, and what is not a server's.
    let folder = data.path().join("input/api");
    std::fs::create_dir_all(&folder).unwrap();
    let left = "0b8a2e6e-3c1f-4a57-9d52-8a9a1a6f2f11.png";
    for name in [left, "mine.png"] {
        std::fs::write(folder.join(name), png()).unwrap();
    }
    let server = start_with(data, |_| {});
    assert!(!folder.join(left).exists());
    std::fs::remove_file(folder.join("mine.png")).unwrap();
    let picture = BASE64.encode(png());
    let body = json!({ "init_images": [picture], "mask": picture, "prompt": "x", "steps": 1,
                       "override_settings": { "sd_model_checkpoint": "tiny" } });
    let made = server.post("/sdapi/v1/img2img", &body);
    assert_eq!(made.status, 200);
    // As A1111, pictures are not sent back.
    assert_eq!(made.json()["parameters"]["init_images"], Value::Null);
    assert_eq!(kept(&server), 0);
    let mut wrong = body.clone();
    wrong["prompt"] = json!("<lora:none:1>");
    assert_eq!(server.post("/sdapi/v1/img2img", &wrong).status, 400);
    wrong["mask"] = json!("aGk=");
    assert_eq!(server.post("/sdapi/v1/img2img", &wrong).status, 422);
    let body = json!({ "image": picture, "upscaling_resize": 2 });
    assert_eq!(
        server.post("/sdapi/v1/extra-single-image", &body).status,
        200
    );
    let fields = [("model", "tiny"), ("steps", "1")];
    let varied = server.upload("/v1/images/variations", "a.png", &png(), &fields);
    assert_eq!(varied.status, 200);
    assert_eq!(kept(&server), 0);
}

/// A mask that says nothing of where to paint is not taken for a whole picture.
#[test]
fn a_mask_that_is_clear_nowhere_is_refused() {
    let server = with_tiny();
    let part = |name: &str, bytes: &[u8]| {
        let head = format!(
            "--XX\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"a.png\"\r\n\r\n"
        );
        [head.as_bytes(), bytes, b"\r\n"].concat()
    };
    let body = [
        part("image", &png()),
        part("mask", &png()),
        b"--XX--\r\n".to_vec(),
    ];
    let kind = "multipart/form-data; boundary=XX";
    let refused = server.send("/v1/images/edits", kind, &body.concat());
    assert_eq!(refused.status, 400);
    let message = refused.json()["error"]["message"].to_string();
    assert!(message.contains("clear nowhere"), "{message}");
}

#[test]
fn openai_says_what_is_wrong() {
    let server = start();
    let message = |body: &Value| {
        let refused = server.post("/v1/images/generations", body);
        assert_eq!(refused.status, 400, "{body}");
        let error = refused.json()["error"].take();
        error["message"].as_str().unwrap().to_owned()
    };
    let found = message(&json!({ "prompt": "x", "steps": -3 }));
    assert!(found.contains("smaller than min of 1 (steps)"), "{found}");
    let found = message(&json!({ "prompt": "x", "size": "99999x64" }));
    assert!(
        found.contains("bigger than max of 16384 (width)"),
        "{found}"
    );
    // What is no form at all.
    let refused = server.post("/v1/images/edits", &json!({ "prompt": "x" }));
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()["error"]["type"], "invalid_request_error");
    // A picture that is none is not kept.
    let refused = server.upload("/v1/images/edits", "a.png", b"none", &[("prompt", "x")]);
    assert_eq!(refused.status, 400);
    assert_eq!(kept(&server), 0);
    // Seeds have up to 64 bits.
    let seed = (1_u64 << 60) + 1;
    let body = json!({ "prompt": "x", "size": "64x64", "steps": 1, "seed": seed });
    let made = server.post("/v1/images/generations", &body).json();
    assert_eq!(made["seed"], seed);
}

#[test]
fn a1111_takes_numbers_in_every_form() {
    let server = start();
    let body = json!({ "prompt": "x", "width": "64", "height": 64.0, "steps": "1" });
    for seed in [json!(5), json!(5.0), json!("5")] {
        let mut body = body.clone();
        body["seed"] = seed;
        let made = server.post("/sdapi/v1/txt2img", &body).json();
        assert_eq!(size_of(&made["images"][0]), (64, 64));
        let info: Value = serde_json::from_str(made["info"].as_str().unwrap()).unwrap();
        assert_eq!(info["seed"], 5, "{}", body["seed"]);
    }
    for (name, value) in [
        ("width", json!(-64)),
        ("steps", json!("many")),
        ("batch_size", json!(65)),
        ("cfg_scale", json!([])),
        ("seed", json!(5.5)),
    ] {
        let mut wrong = body.clone();
        wrong[name] = value;
        let refused = server.post("/sdapi/v1/txt2img", &wrong);
        assert_eq!(refused.status, 422, "{name}");
    }
    let mut wrong = body.clone();
    (wrong["enable_hr"], wrong["hr_scale"]) = (json!(true), json!(1e30));
    wrong["hr_upscaler"] = json!("Lanczos");
    assert_eq!(server.post("/sdapi/v1/txt2img", &wrong).status, 422);
}

#[test]
fn a1111_makes_pictures() {
    let server = with_tiny();
    let body = json!({ "prompt": "a heart", "negative_prompt": "blur", "seed": 7, "steps": 2,
                       "cfg_scale": 3, "width": 64, "height": 64, "sampler_name": "DPM++ 2M Karras",
                       "batch_size": 2 });
    let made = server.post("/sdapi/v1/txt2img", &body).json();
    assert_eq!(made["images"].as_array().unwrap().len(), 2, "{made}");
    assert_eq!(size_of(&made["images"][0]), (64, 64));
    let info: Value = serde_json::from_str(made["info"].as_str().unwrap()).unwrap();
    assert_eq!(info["seed"], 7);
    let line = info["infotexts"][0].as_str().unwrap();
    assert!(
        line.contains("Sampler: DPM++ 2M, Schedule type: Karras"),
        "{line}"
    );
    // Each picture has a seed of its own, which makes it again.
    assert_eq!(info["all_seeds"], json!([7, 8]));
    let mut second = body.clone();
    (second["seed"], second["batch_size"]) = (json!(8), json!(1));
    let again = server.post("/sdapi/v1/txt2img", &second).json();
    assert_eq!(
        again["images"][0], made["images"][1],
        "seed 8 is the second picture"
    );
    let second = json!({ "image": made["images"][1] });
    let about = server.post("/sdapi/v1/png-info", &second).json();
    assert_eq!(about["parameters"]["seed"], json!(["8"]));
    let picture = &made["images"][0];
    let about = server
        .post("/sdapi/v1/png-info", &json!({ "image": picture }))
        .json();
    assert_eq!(about["parameters"]["prompt"], json!(["a heart"]));
    assert_eq!(about["parameters"]["seed"], json!(["7"]));
    // A larger second pass.
    let hires = json!({ "prompt": "a heart", "steps": 1, "width": 64, "height": 64,
                        "enable_hr": true, "hr_scale": 1.5, "denoising_strength": 0.5 });
    let made = server.post("/sdapi/v1/txt2img", &hires).json();
    assert_eq!(size_of(&made["images"][0]), (96, 96));
    // From a picture with a mask, with the model that options chose.
    server.post(
        "/sdapi/v1/options",
        &json!({ "sd_model_checkpoint": "tiny.safetensors" }),
    );
    assert_eq!(
        server.json("/sdapi/v1/options")["sd_model_checkpoint"],
        "tiny.safetensors"
    );
    let start = format!("data:image/png;base64,{}", BASE64.encode(png()));
    let body = json!({ "init_images": [start], "mask": BASE64.encode(png()), "prompt": "x",
                       "denoising_strength": 0.5, "steps": 2, "seed": 1 });
    let made = server.post("/sdapi/v1/img2img", &body).json();
    assert_eq!(size_of(&made["images"][0]), (64, 64), "{made}");
    for wrong in [
        json!({}),
        json!({ "init_images": ["%%%"] }),
        json!({ "init_images": ["aGk="] }),
    ] {
        assert_eq!(
            server.post("/sdapi/v1/img2img", &wrong).status,
            422,
            "{wrong}"
        );
    }
    let wrong = json!({ "prompt": "x", "sampler_name": "nonsense" });
    let refused = server.post("/sdapi/v1/txt2img", &wrong);
    assert_eq!(refused.status, 422);
    assert!(
        refused.json()["detail"]
            .as_str()
            .unwrap()
            .contains("nonsense")
    );
    let wrong = json!({ "prompt": "x <lora:none:1>", "steps": 1 });
    assert_eq!(server.post("/sdapi/v1/txt2img", &wrong).status, 400);
}

#[test]
fn a1111_lists_and_interrupts() {
    let server = start();
    assert_eq!(server.json("/sdapi/v1/sd-models")[0]["title"], "nino-emoji");
    assert_eq!(server.json("/sdapi/v1/samplers")[2]["name"], "Euler a");
    assert_eq!(server.json("/sdapi/v1/schedulers")[2]["label"], "Karras");
    for path in ["loras", "upscalers", "embeddings"] {
        assert_eq!(
            server.get(&format!("/sdapi/v1/{path}")).status,
            200,
            "{path}"
        );
    }
    assert_eq!(server.json("/sdapi/v1/progress")["progress"], 0.0);
    std::thread::scope(|threads| {
        let long = json!({ "prompt": "x", "steps": 2000, "width": 64, "height": 64 });
        let server = &server;
        let asked = threads.spawn(move || server.post("/sdapi/v1/txt2img", &long));
        let progress = loop {
            let progress = server.json("/sdapi/v1/progress");
            if progress["progress"].as_f64().unwrap() > 0.0 && progress["current_image"].is_string()
            {
                break progress;
            }
        };
        assert_eq!(progress["state"]["sampling_steps"], 2000);
        server.post("/sdapi/v1/interrupt", &json!({}));
        assert_eq!(asked.join().unwrap().status, 500);
    });
    assert_eq!(server.get("/openapi").kind, "text/html; charset=utf-8");
    let document = server.json("/openapi.json");
    assert_eq!(document["openapi"], "3.1.0");
    for (path, methods) in document["paths"].as_object().unwrap() {
        // Every route that is told is there.
        let wants_more = [
            "/userdata",
            "/ws",
            "/view",
            "/nino/model",
            "/nino/picture",
            "/nino/thumb",
            // There are none.
            "/api/assets",
            "/api/tags",
        ];
        let is_plain = !path.contains('{') && !wants_more.contains(&&**path);
        if methods.get("get").is_some() && is_plain {
            assert_eq!(server.get(path).status, 200, "{path}");
        }
    }
}

#[test]
fn a1111_makes_pictures_larger() {
    let data = tempfile::tempdir().unwrap();
    let place = data.path().join("models/upscale_models");
    std::fs::create_dir_all(&place).unwrap();
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/models/esrgan_x4.safetensors");
    std::fs::copy(golden, place.join("4x-Small.safetensors")).unwrap();
    models::put(data.path(), "tiny.safetensors", "tiny_sd1");
    let server = start_with(data, |_| {});
    let names = server.json("/sdapi/v1/upscalers");
    let names: Vec<&str> = names
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|u| u["name"].as_str())
        .collect();
    assert_eq!(names, ["None", "Lanczos", "Nearest", "4x-Small"]);
    let picture = Picture {
        width: 16,
        height: 12,
        rgb: (0..16 * 12 * 3).map(|i| (i * 31 % 256) as u8).collect(),
    };
    let image = BASE64.encode(nino_engine::media::png(&picture));
    for (upscaler, more, wanted) in [
        ("4x-Small", json!({ "upscaling_resize": 4 }), (64, 48)),
        ("4x-Small", json!({ "upscaling_resize": "2" }), (32, 24)),
        ("Lanczos", json!({ "upscaling_resize": 3 }), (48, 36)),
        (
            "None",
            json!({ "resize_mode": "1", "upscaling_resize_w": 20.0, "upscaling_resize_h": "10" }),
            (20, 10),
        ),
    ] {
        let mut body = json!({ "image": image, "upscaler_1": upscaler });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let answer = server.post("/sdapi/v1/extra-single-image", &body);
        assert_eq!(
            answer.status,
            200,
            "{}",
            String::from_utf8_lossy(&answer.bytes)
        );
        let made = BASE64
            .decode(answer.json()["image"].as_str().unwrap())
            .unwrap();
        assert_eq!(size(&made), wanted, "{upscaler}");
    }
    let unknown = json!({ "image": image, "upscaler_1": "absent" });
    assert_eq!(
        server.post("/sdapi/v1/extra-single-image", &unknown).status,
        422
    );
    // Between two passes.
    let hires = json!({
        "prompt": "x", "steps": 1, "width": 64, "height": 64, "enable_hr": true, "hr_scale": 1.5,
        "hr_upscaler": "4x-Small", "hr_second_pass_steps": 1, "denoising_strength": 0.5,
        "override_settings": { "sd_model_checkpoint": "tiny" },
    });
    let enlarged = |upscaler: &str| {
        let mut body = hires.clone();
        body["hr_upscaler"] = json!(upscaler);
        server.post("/sdapi/v1/txt2img", &body)
    };
    let mut made = Vec::new();
    for upscaler in ["4x-Small", "Lanczos", "Latent (antialiased)"] {
        let picture = enlarged(upscaler).json()["images"][0].take();
        let picture = picture.as_str().map(|i| BASE64.decode(i).unwrap());
        assert_eq!(size(picture.as_ref().unwrap()), (96, 96), "{upscaler}");
        assert!(!made.contains(&picture), "{upscaler}");
        made.push(picture);
    }
    let refused = enlarged("R-ESRGAN 4x+");
    assert_eq!(refused.status, 400, "nothing else is used in its place");
}

/// Both dialects apply LoRAs that a prompt names.
#[test]
fn prompts_apply_loras() {
    let data = tempfile::tempdir().unwrap();
    let place = data.path().join("models/loras");
    std::fs::create_dir_all(&place).unwrap();
    write_lora(&place.join("ink.safetensors"));
    let server = start_with(data, |_| {});
    let a1111 = |prompt: &str| {
        let body = json!({ "prompt": prompt, "seed": 5, "steps": 2, "width": 64, "height": 64 });
        let made = server.post("/sdapi/v1/txt2img", &body).json();
        made["images"][0]
            .as_str()
            .unwrap_or_else(|| panic!("{made}"))
            .to_owned()
    };
    let openai = |prompt: &str| {
        let body = json!({ "prompt": prompt, "seed": 5, "steps": 2, "size": "64x64" });
        let made = server.post("/v1/images/generations", &body).json();
        made["data"][0]["b64_json"]
            .as_str()
            .unwrap_or_else(|| panic!("{made}"))
            .to_owned()
    };
    for draw in [&a1111 as &dyn Fn(&str) -> String, &openai] {
        let pixels = |prompt: &str| {
            let bytes = BASE64.decode(draw(prompt)).unwrap();
            let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
                .read_info()
                .unwrap();
            let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
            reader.next_frame(&mut pixels).unwrap();
            pixels
        };
        let (plain, full) = (pixels("a fox"), pixels("a fox <lora:ink:0.9>"));
        assert!(plain != full, "the LoRA changes nothing");
        assert!(full == pixels("a fox <lora:INK:0.9>"), "names have no case");
        assert!(
            full != pixels("a fox <lora:ink:0.4>"),
            "its strength changes nothing"
        );
    }
    assert_eq!(server.json("/sdapi/v1/loras")[0]["name"], "ink");
}

/// A LoRA of rank 1 for a layer of the built-in model's text encoder.
fn write_lora(path: &Path) {
    use nino_weights::safetensors::{NewTensor, Writer};
    let layer = "lora_te_text_model_encoder_layers_0_self_attn_v_proj";
    let tensor = |name: &str, shape: [usize; 2]| NewTensor {
        name: format!("{layer}.{name}.weight"),
        dtype: nino_dtype::DType::F32,
        shape: shape.to_vec(),
    };
    let tensors = [tensor("lora_down", [1, 256]), tensor("lora_up", [256, 1])];
    let mut writer = Writer::create(path, &tensors, &std::collections::BTreeMap::new()).unwrap();
    for i in 0..512u16 {
        let value = (f32::from(i) * 0.37).sin();
        writer.write(&value.to_le_bytes()).unwrap();
    }
    writer.finish().unwrap();
}

/// A client that goes away stops its picture, one that waits and one that runs.
#[test]
fn who_goes_away_stops_the_work() {
    use std::io::Write;
    let server = start();
    let body = json!({ "prompt": "x", "steps": 5000, "width": 64, "height": 64, "batch_size": 3 });
    let body = body.to_string();
    let mut client = std::net::TcpStream::connect(server.address).unwrap();
    let head = format!(
        "POST /sdapi/v1/txt2img HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
        server.address,
        body.len()
    );
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(body.as_bytes()).unwrap();
    let remaining = || server.json("/prompt")["exec_info"]["queue_remaining"].clone();
    let since = std::time::Instant::now();
    while remaining() != 3 {
        assert!(since.elapsed().as_secs() < 20);
    }
    drop(client);
    while remaining() != 0 {
        assert!(since.elapsed().as_secs() < 40, "the work goes on");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Width and height of a PNG.
fn size(png: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}
