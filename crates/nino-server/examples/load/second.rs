//! What HTTP adds to a picture when the model is there: a graph that is sent and waited for by
//! WebSocket, against the same graph run in this process, by turns.

use crate::{choice, graph, post};
use nino_engine::Store;
use nino_engine::device::open;
use nino_workflow::{
    Executor, Folder, Graph, Host, HostError, Limits, Output, Settings, Watch, check,
};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What it may add.
const MOST: Duration = Duration::from_millis(10);

/// A program that has the built-in model, and keeps nothing.
struct Own {
    model: PathBuf,
}

impl Host for Own {
    fn find(&self, _: Folder, _: &str) -> Result<PathBuf, HostError> {
        Ok(self.model.clone())
    }

    fn list(&self, _: Folder) -> Option<Vec<String>> {
        None
    }

    fn embeddings(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn output(&mut self, _: &Output<'_>) -> Result<Value, HostError> {
        Ok(Value::Null)
    }
}

/// Picture `i` with a seed of its own, of one size and one prompt.
fn picture(i: usize) -> Value {
    let mut nodes = graph(1);
    nodes["3"]["inputs"]["seed"] = json!(i);
    nodes
}

pub(crate) fn second(address: SocketAddr, data: &Path, runs: usize) {
    let mut own = Own {
        model: nino_engine::builtin_model(data).unwrap(),
    };
    let device = open(&choice()).unwrap().device;
    let mut executor = Executor::new(Store::new(device), Settings::default());
    let (mut socket, _) = tungstenite::connect(format!("ws://{address}/ws?clientId=s")).unwrap();
    let mut in_process = |i: usize| {
        let graph = Graph::from_value(picture(i), &Limits::default()).unwrap();
        let since = Instant::now();
        let checked = check(&graph, &own, &Limits::default()).unwrap();
        let mut watch = Watch {
            cancel: &AtomicBool::new(false),
            on_event: &mut |_| {},
        };
        executor.run(&checked, &mut own, &mut watch).unwrap();
        since.elapsed()
    };
    let mut by_http = |i: usize| {
        // Pictures on the way are work of the engine, which the other run does not do.
        let extra = json!({ "preview_method": "none" });
        let body = json!({ "prompt": picture(i), "client_id": "s", "extra_data": extra });
        let since = Instant::now();
        let id = post(address, "/prompt", &body)["prompt_id"].clone();
        loop {
            let message = socket.read().unwrap();
            let Ok(text) = message.to_text() else {
                continue;
            };
            let told: Value = serde_json::from_str(text).unwrap_or_default();
            if told["type"] == "execution_success" && told["data"]["prompt_id"] == id {
                return since.elapsed();
            }
        }
    };
    // The first picture loads the model.
    in_process(0);
    by_http(0);
    let (mut own_times, mut times) = (Vec::new(), Vec::new());
    for i in 1..=runs {
        own_times.push(in_process(i));
        times.push(by_http(i));
    }
    let (own_time, time) = (median(own_times), median(times));
    println!("n {runs}: in this process {own_time:?}, by HTTP {time:?} (medians)");
    let added = time.saturating_sub(own_time);
    println!("HTTP, the picture's file and the journal add {added:?}");
    assert!(added <= MOST, "{added:?}");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
