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
    let refused = server.upload("/v1/images/edits", "a.png", &png(), &[("prompt", "x")]);
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
    let document = server.json("/openapi.json");
    assert_eq!(document["openapi"], "3.1.0");
    for (path, methods) in document["paths"].as_object().unwrap() {
        // Every route that is told is there.
        let wants_more = [
            "/ws",
            "/view",
            "/nino/model",
            "/nino/picture",
            "/nino/thumb",
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
        ("4x-Small", json!({ "upscaling_resize": 2 }), (32, 24)),
        ("Lanczos", json!({ "upscaling_resize": 3 }), (48, 36)),
        (
            "None",
            json!({ "resize_mode": 1, "upscaling_resize_w": 20, "upscaling_resize_h": 10 }),
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
    let answer = server.post("/sdapi/v1/txt2img", &hires);
    assert_eq!(
        answer.status,
        200,
        "{}",
        String::from_utf8_lossy(&answer.bytes)
    );
    let made = answer.json()["images"][0]
        .as_str()
        .map(|i| BASE64.decode(i).unwrap());
    assert_eq!(size(&made.unwrap()), (96, 96));
}

/// Width and height of a PNG.
fn size(png: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}
