//! `nino serve` as a process: its pictures are the command line's, and what was queued when it was
//! killed is done after the next start.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // clippy knows test functions, not their helpers

use crate::loras::{EMOJI, write_lora};
use crate::made;
use crate::shell::{Folder, command};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Serving {
    child: Child,
    address: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(data: &Folder) -> Serving {
    serve_with(data, &[])
}

fn serve_with(data: &Folder, env: &[(&str, &str)]) -> Serving {
    let folder = data.at("data");
    let args = ["serve", "--port", "0", "--device", "cpu", "--data", &folder];
    let mut nino = command(&args);
    nino.envs(env.iter().copied());
    nino.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = nino.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.find_map(|line| {
        let line = line.unwrap();
        let url = line.split("http://").nth(1)?;
        Some(url.split('/').next().unwrap().to_owned())
    });
    // Whoever does not read must not keep the server from writing.
    std::thread::spawn(move || lines.for_each(drop));
    Serving {
        child,
        address: line.unwrap(),
    }
}

impl Serving {
    fn ask(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        answer.split_off(end + 4)
    }

    fn json(&self, method: &str, path: &str, body: &Value) -> Value {
        serde_json::from_slice(&self.ask(method, path, &body.to_string())).unwrap()
    }

    fn prompt(&self, graph: &Value) -> String {
        let answer = self.json("POST", "/prompt", &json!({ "prompt": graph }));
        answer["prompt_id"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned()
    }

    fn wait(&self, id: &str) -> Value {
        let since = Instant::now();
        loop {
            let history = self.json("GET", &format!("/history/{id}"), &json!({}));
            if history[id].is_object() {
                return history[id].clone();
            }
            assert!(since.elapsed() < Duration::from_mins(1), "{id} did not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn picture(&self, entry: &Value) -> Vec<u8> {
        let name = entry["outputs"]["9"]["images"][0]["filename"].as_str();
        let name = name.unwrap_or_else(|| panic!("{entry}"));
        self.ask("GET", &format!("/view?filename={name}"), "")
    }
}

fn graph(prompt: &str, seed: u64, steps: usize, (width, height): (usize, usize)) -> Value {
    json!({
        "3": { "class_type": "KSampler", "inputs": {
            "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0],
            "latent_image": ["5", 0], "seed": seed, "steps": steps, "cfg": 4.0,
            "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0 } },
        "4": { "class_type": "CheckpointLoaderSimple",
               "inputs": { "ckpt_name": "nino-emoji" } },
        "5": { "class_type": "EmptyLatentImage",
               "inputs": { "width": width, "height": height, "batch_size": 1 } },
        "6": { "class_type": "CLIPTextEncode", "inputs": { "text": prompt, "clip": ["4", 1] } },
        "7": { "class_type": "CLIPTextEncode", "inputs": { "text": "", "clip": ["4", 1] } },
        "8": { "class_type": "VAEDecode", "inputs": { "samples": ["3", 0], "vae": ["4", 2] } },
        "9": { "class_type": "SaveImage",
               "inputs": { "images": ["8", 0], "filename_prefix": "x" } },
    })
}

/// The bytes of a PNG without its texts, which say how it was made.
fn without_texts(png: &[u8]) -> Vec<u8> {
    let (mut kept, mut rest) = (png[..8].to_vec(), &png[8..]);
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        let (chunk, after) = rest.split_at(12 + length);
        if !matches!(&chunk[4..8], b"tEXt" | b"iTXt" | b"zTXt") {
            kept.extend(chunk);
        }
        rest = after;
    }
    assert!(kept.len() > 8 && kept.len() < png.len());
    kept
}

/// A picture that is made twice.
struct Request {
    prompt: &'static str,
    seed: u64,
    size: (usize, usize),
    model: &'static str,
    /// A LoRA with its strength.
    lora: Option<f64>,
}

impl Request {
    /// As a client sends it.
    fn graph(&self) -> Value {
        let mut nodes = graph(self.prompt, self.seed, 2, self.size);
        nodes["4"]["inputs"]["ckpt_name"] = json!(self.model);
        if let Some(strength) = self.lora {
            nodes["10"] = json!({ "class_type": "LoraLoader", "inputs": {
                "model": ["4", 0], "clip": ["4", 1], "lora_name": "ink.safetensors",
                "strength_model": strength, "strength_clip": strength } });
            nodes["3"]["inputs"]["model"] = json!(["10", 0]);
            nodes["6"]["inputs"]["clip"] = json!(["10", 1]);
            nodes["7"]["inputs"]["clip"] = json!(["10", 1]);
        }
        nodes
    }

    /// The same on the command line.
    fn args(&self, out: &str) -> Vec<String> {
        let (width, height) = self.size;
        let line = format!(
            "--seed {} --steps 2 --size {width}x{height} --cfg 4 --sampler euler \
             --scheduler simple --device cpu --model {}",
            self.seed, self.model
        );
        let mut args = vec!["generate".to_owned(), self.prompt.to_owned()];
        args.extend(line.split_whitespace().map(str::to_owned));
        let lora = self.lora.map(|strength| format!("ink:{strength}"));
        args.extend(
            lora.into_iter()
                .flat_map(|lora| ["--lora".to_owned(), lora]),
        );
        args.extend(["-o".to_owned(), out.to_owned()]);
        args
    }
}

/// Requests that alternate models, LoRAs and sizes are not mixed up.
#[test]
fn its_pictures_are_the_command_lines() {
    let folder = Folder::new();
    let models = folder.at("models");
    for kind in ["checkpoints", "loras"] {
        std::fs::create_dir_all(folder.path().join("models").join(kind)).unwrap();
    }
    let tiny = folder.path().join("models/checkpoints/tiny.safetensors");
    made::write_list(&made::list("tiny_sd1"), &tiny);
    let lora = folder.path().join("models/loras/ink.safetensors");
    write_lora(&lora, EMOJI, 256, 256);
    let env = [("NINO_MODELS", models.as_str())];
    let server = serve_with(&folder, &env);
    let (emoji, tiny) = ("nino-emoji", "tiny.safetensors");
    let requests = [
        ("a red heart", (64, 64), emoji, None),
        ("a red heart", (64, 64), tiny, None),
        ("a red heart", (64, 64), emoji, Some(0.9)),
        ("a smiling sun", (96, 64), emoji, None),
        ("a smiling sun", (96, 64), tiny, None),
        ("a smiling sun", (96, 64), emoji, Some(0.5)),
        ("a red heart", (64, 64), emoji, Some(0.9)),
        ("a red heart", (64, 64), emoji, None),
        ("a boat", (64, 96), tiny, None),
        ("a boat", (64, 96), emoji, None),
    ];
    for (i, (prompt, size, model, lora)) in requests.into_iter().enumerate() {
        let request = Request {
            prompt,
            seed: i as u64 % 3,
            size,
            model,
            lora,
        };
        let entry = server.wait(&server.prompt(&request.graph()));
        let served = server.picture(&entry);
        let out = folder.at(&format!("{i}.png"));
        let args = request.args(&out);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let said = command(&args).envs(env).output().unwrap();
        let told = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{i}: {told}");
        let drawn = std::fs::read(&out).unwrap();
        assert!(
            without_texts(&served) == without_texts(&drawn),
            "{i}: {prompt} with {model}, {lora:?}"
        );
    }
}

#[test]
fn a_killed_server_does_its_jobs_after_the_next_start() {
    let folder = Folder::new();
    let mut server = serve(&folder);
    let long = server.prompt(&graph("x", 1, 120, (64, 64)));
    let waits = server.prompt(&graph("y", 2, 1, (64, 64)));
    let running =
        |server: &Serving| server.json("GET", "/queue", &json!({}))["queue_running"].clone();
    while running(&server)[0][1] != long.as_str() {
        std::thread::sleep(Duration::from_millis(5));
    }
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let again = serve(&folder);
    for id in [&long, &waits] {
        assert_eq!(again.wait(id)["status"]["status_str"], "success", "{id}");
    }
}

#[test]
fn sigterm_stops_it_and_its_job() {
    let folder = Folder::new();
    let mut server = serve(&folder);
    let job = server.prompt(&graph("x", 1, 10_000, (64, 64)));
    let progress = || server.json("GET", "/sdapi/v1/progress", &json!({}))["progress"].as_f64();
    while progress().unwrap() == 0.0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = server.child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    let told = Instant::now();
    let status = loop {
        if let Some(status) = server.child.try_wait().unwrap() {
            break status;
        }
        assert!(told.elapsed() < Duration::from_secs(20), "it did not end");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0));
    let kept = folder
        .path()
        .join(format!("data/output/unfinished_{job}.latent"));
    assert!(kept.is_file(), "what it had come to is not kept");
    let again = serve(&folder);
    let queue = again.json("GET", "/queue", &json!({})).to_string();
    assert!(queue.contains("10000"), "the job is gone: {queue}");
}
