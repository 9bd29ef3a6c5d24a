//! Devices: several take jobs by turns, each only what fits it, and idle ones give models back.

use crate::client::{Heard, graph, start_with};
use nino_engine::device::{DeviceChoice, DeviceName, Opened, adapters, open};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn cpu(budget: Option<u64>) -> Opened {
    let choice = DeviceChoice {
        device: Some(DeviceName::Cpu),
        budget,
        ..DeviceChoice::default()
    };
    open(&choice).unwrap()
}

/// Asks until it holds.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn several_devices_take_jobs() {
    let server = start_with(tempfile::tempdir().unwrap(), |config| {
        config.devices = vec![cpu(None), cpu(None)];
    });
    let ids = [1, 2, 3].map(|seed| server.prompt(&graph(seed, 2000), "two"));
    let running = || {
        server.json("/queue")["queue_running"]
            .as_array()
            .unwrap()
            .len()
    };
    wait_until("two run at once", || running() == 2);
    assert_eq!(
        server.json("/system_stats")["devices"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    for id in &ids {
        wait_until("it ends", || {
            server.post(&format!("/api/jobs/{id}/cancel"), &json!({}));
            server.json("/api/jobs?status=in_progress,pending")["jobs"]
                .as_array()
                .unwrap()
                .iter()
                .all(|job| job["id"] != id.as_str())
        });
    }
}

/// Two cards and the processor: each takes some of the jobs, and all make their picture.
#[test]
fn gpus_and_the_cpu_take_jobs_by_turns() {
    let absent = adapters().unwrap().reason;
    nino_testing::gpu_or_skip(absent.as_deref());
    if absent.is_some() {
        return;
    }
    let gpu = || {
        let choice = DeviceChoice {
            device: Some(DeviceName::GpuAt(0)),
            ..DeviceChoice::default()
        };
        open(&choice).unwrap()
    };
    let server = start_with(tempfile::tempdir().unwrap(), |config| {
        config.devices = vec![gpu(), gpu(), cpu(None)];
    });
    let ids: Vec<String> = (0..6)
        .map(|seed| server.prompt(&graph(seed, 2), "three"))
        .collect();
    for id in ids {
        let entry = server.wait(&id);
        assert_eq!(entry["status"]["status_str"], "success", "{entry}");
    }
    let devices = server.json("/nino/status")["devices"].clone();
    for device in devices.as_array().unwrap() {
        assert!(device["weights"].as_u64().unwrap() > 0, "{devices}");
    }
}

/// A job that fits only one of the devices waits for that one.
#[test]
fn a_job_waits_for_the_device_that_it_fits() {
    let server = start_with(tempfile::tempdir().unwrap(), |config| {
        config.devices = vec![cpu(Some(2 << 20)), cpu(None)];
    });
    let plan = server.post("/nino/plan", &json!({ "prompt": graph(1, 1) }));
    let fits: Vec<Value> = plan.json()["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|device| device["fits"].clone())
        .collect();
    assert_eq!(fits, [json!(false), json!(true)]);
    let ids = [1, 2].map(|seed| server.prompt(&graph(seed, 1), "one"));
    for id in ids {
        assert_eq!(server.wait(&id)["status"]["status_str"], "success");
    }
    let devices = server.json("/nino/status")["devices"].clone();
    assert_eq!(devices[0]["weights"], 0);
    assert!(devices[1]["weights"].as_u64().unwrap() > 0);
}

#[test]
fn idle_models_are_given_back() {
    let server = start_with(tempfile::tempdir().unwrap(), |config| {
        config.keep_alive = Some(Duration::from_millis(300));
    });
    let weights = || {
        server.json("/nino/status")["devices"][0]["weights"]
            .as_u64()
            .unwrap()
    };
    let mut socket = server.socket("k");
    let id = server.prompt(&graph(1, 1), "k");
    socket.until_done(&id);
    wait_until("the models are gone", || weights() == 0);
    // The next one loads them again.
    let id = server.prompt(&graph(1, 1), "k");
    let (texts, _) = socket.until_done(&id);
    let cached = texts
        .iter()
        .find(|t| t["type"] == "execution_cached")
        .unwrap();
    assert_eq!(cached["data"]["nodes"], json!([]));
    assert_eq!(server.wait(&id)["status"]["status_str"], "success");
}

/// A status goes to everybody whenever the queue changes; the rest only to whose job it is.
#[test]
fn only_the_jobs_own_client_hears_of_it() {
    let server = start_with(tempfile::tempdir().unwrap(), |_| {});
    let (mut own, mut other) = (server.socket("own"), server.socket("other"));
    let id = server.prompt(&graph(1, 1), "own");
    own.until_done(&id);
    server.post("/queue", &json!({ "clear": true }));
    let mut heard = 0;
    // Start, queued, taken, done, cleared.
    while heard < 5 {
        let Heard::Text(text) = other.hear() else {
            panic!("a preview for somebody else");
        };
        assert_eq!(text["type"], "status", "{text}");
        heard += 1;
    }
}
