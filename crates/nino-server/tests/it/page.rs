//! Our own page: its files, and what it asks.

use crate::client::{graph, start, start_with};
use crate::made;
use crate::models::put_in;
use nino_engine::device::{DeviceChoice, DeviceName, open};
use serde_json::{Value, json};

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
    for script in [
        "app.js",
        "gallery.js",
        "models.js",
        "paint.js",
        "references.js",
    ] {
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
    assert_eq!(error["error"]["type"], "over-budget");
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

/// A diffusion model alone is told with the files that belong to it, and what the page makes of
/// them runs: pictures that look at another, and clips.
#[test]
fn models_in_parts_have_their_files_found() {
    let data = tempfile::tempdir().unwrap();
    let (folder, here) = (data.path().to_owned(), data.path());
    let net = "model.diffusion_model.";
    for (folder, name, model) in [
        (
            "diffusion_models",
            "klein.safetensors",
            format!("tiny_klein#{net}"),
        ),
        (
            "text_encoders",
            "qwen_3_4b.safetensors",
            "tiny_klein#text_encoders.qwen3_4b.transformer.".into(),
        ),
        ("vae", "flux2-vae.safetensors", "tiny_klein#vae.".into()),
        (
            "diffusion_models",
            "wan.safetensors",
            format!("tiny_wan#{net}"),
        ),
        ("text_encoders", "umt5_xxl.safetensors", "tiny_wan".into()),
        ("vae", "wan_2.1_vae.safetensors", "tiny_wan#vae.".into()),
    ] {
        put_in(here, folder, name, &model);
    }
    let vocabulary = made::goldens().join("../text/small/spiece.model");
    std::fs::copy(vocabulary, folder.join("models/text_encoders/spiece.model")).unwrap();
    let picture = nino_engine::Picture {
        width: 64,
        height: 64,
        rgb: (0..64 * 64 * 3).map(|i| (i * 31 % 251) as u8).collect(),
    };
    std::fs::create_dir_all(folder.join("input")).unwrap();
    nino_engine::media::write_picture(&folder.join("input/look.png"), &picture, &[]).unwrap();
    let server = start_with(data, |_| {});
    let about = |name: &str| {
        let path = format!("/nino/model?name={name}.safetensors&folder=diffusion_models");
        server.json(&path)
    };
    let klein = about("klein");
    let parts = json!({
        "clip": ["qwen_3_4b.safetensors"], "vae": "flux2-vae.safetensors", "type": "flux2",
    });
    assert_eq!(klein["parts"], parts, "{klein}");
    assert_eq!(
        (&klein["references"], &klein["video"], &klein["side"]),
        (&json!(true), &json!(false), &json!(16))
    );
    let wan = about("wan");
    assert_eq!(wan["parts"]["vae"], "wan_2.1_vae.safetensors", "{wan}");
    assert_eq!(
        (&wan["video"], &wan["from_picture"]),
        (&json!(true), &json!(false))
    );

    let load = |about: &Value| {
        json!({
            "4": { "class_type": "UNETLoader",
                   "inputs": { "unet_name": about["name"], "weight_dtype": "default" } },
            "50": { "class_type": "CLIPLoader", "inputs": {
                "clip_name": about["parts"]["clip"][0], "type": about["parts"]["type"] } },
            "51": { "class_type": "VAELoader", "inputs": { "vae_name": about["parts"]["vae"] } },
            "6": { "class_type": "CLIPTextEncode", "inputs": { "text": "a boat", "clip": ["50", 0] } },
            "7": { "class_type": "CLIPTextEncode", "inputs": { "text": "", "clip": ["50", 0] } },
            "3": { "class_type": "KSampler", "inputs": {
                "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0],
                "latent_image": ["5", 0], "seed": 1, "steps": 1, "cfg": 1.0,
                "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0 } },
            "8": { "class_type": "VAEDecode", "inputs": { "samples": ["3", 0], "vae": ["51", 0] } },
        })
    };
    let mut looks = load(&klein);
    looks["60"] = json!({ "class_type": "LoadImage", "inputs": { "image": "look.png" } });
    looks["80"] =
        json!({ "class_type": "VAEEncode", "inputs": { "pixels": ["60", 0], "vae": ["51", 0] } });
    looks["90"] = json!({ "class_type": "ReferenceLatent",
        "inputs": { "conditioning": ["6", 0], "latent": ["80", 0] } });
    looks["3"]["inputs"]["positive"] = json!(["90", 0]);
    looks["5"] = json!({ "class_type": "EmptyFlux2LatentImage",
        "inputs": { "width": 64, "height": 64, "batch_size": 1 } });
    looks["9"] = json!({ "class_type": "SaveImage",
        "inputs": { "images": ["8", 0], "filename_prefix": "nino" } });
    let mut clip = load(&wan);
    clip["5"] = json!({ "class_type": "EmptyHunyuanLatentVideo",
        "inputs": { "width": 64, "height": 48, "length": 5, "batch_size": 1 } });
    clip["9"] = json!({ "class_type": "SaveAnimatedWEBP", "inputs": {
        "images": ["8", 0], "filename_prefix": "nino", "fps": 8, "lossless": false,
        "quality": 90, "method": "default" } });
    for (prompt, end) in [(looks, ".png"), (clip, ".webp")] {
        let id = server.prompt(&prompt, "parts");
        let entry = server.wait(&id);
        assert_eq!(entry["status"]["status_str"], "success", "{entry}");
        let name = entry["outputs"]["9"]["images"][0]["filename"]
            .as_str()
            .unwrap();
        assert!(name.ends_with(end), "{name}");
        // The gallery shows clips, too, and what they were made with.
        let about = server.json(&format!("/nino/picture?filename={name}"));
        assert_eq!(
            about["settings"]["prompt"],
            json!(["a boat"]),
            "{name}: {about}"
        );
        let thumb = server.get(&format!("/nino/thumb?filename={name}&side=32"));
        assert_eq!((thumb.status, &*thumb.kind), (200, "image/jpeg"), "{name}");
    }
}
