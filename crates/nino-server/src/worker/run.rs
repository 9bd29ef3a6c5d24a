//! What the clients of a job hear while it runs, and what stays in the history.

use crate::app::{self, App};
use crate::hub::Preview;
use crate::job::{Ended, Item, Outcome, now};
use crate::pictures;
use nino_engine::{Event, Picture, Stage};
use nino_workflow::{NodeError, NodeEvent, Progress, RunError};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longer side of a preview, as ComfyUI has it.
const PREVIEW_SIDE: usize = 512;
const PREVIEW_QUALITY: u8 = 90;
/// Previews follow each other no faster than this.
const PREVIEW_EVERY: Duration = Duration::from_millis(80);

pub(super) struct Teller<'a> {
    app: &'a App,
    item: Arc<Item>,
    outputs: Map<String, Value>,
    meta: Map<String, Value>,
    messages: Vec<(&'static str, Value)>,
    /// The nodes that began, with how far they are.
    nodes: Map<String, Value>,
    executed: Vec<String>,
    stage: Option<Stage>,
    shown: Option<Instant>,
}

impl<'a> Teller<'a> {
    pub(super) fn new(app: &'a App, item: Arc<Item>) -> Teller<'a> {
        Teller {
            app,
            item,
            outputs: Map::new(),
            meta: Map::new(),
            messages: Vec::new(),
            nodes: Map::new(),
            executed: Vec::new(),
            stage: None,
            shown: None,
        }
    }

    pub(super) fn start(&mut self, cached: &[String]) {
        *self.app.progress() = app::Progress {
            id: self.item.id.clone(),
            ..app::Progress::default()
        };
        self.keep("execution_start", json!({}));
        self.keep("execution_cached", json!({ "nodes": cached }));
    }

    pub(super) fn hear(&mut self, event: NodeEvent<'_>) {
        let node = event.node;
        match event.what {
            Progress::Cached => self.executed.push(node.to_owned()),
            Progress::Started => {
                self.stage = None;
                self.app.queue.set_node(&self.item.id, Some(node));
                self.tell("executing", json!({ "node": node, "display_node": node }));
                self.state(node, "running", (0, 1));
            }
            Progress::Engine(event) => self.engine(node, event),
            Progress::Output(told) => {
                let output = json!({ "node": node, "display_node": node, "output": told });
                self.tell("executed", output);
                self.outputs.insert(node.to_owned(), told);
                let meta = json!({
                    "node_id": node, "display_node": node, "parent_node": null,
                    "real_node_id": node,
                });
                self.meta.insert(node.to_owned(), meta);
            }
            Progress::Finished => {
                self.executed.push(node.to_owned());
                let max = self.nodes[node]["max"].as_u64().unwrap_or(1);
                self.state(node, "finished", (max as usize, max as usize));
            }
        }
    }

    fn engine(&mut self, node: &str, event: Event) {
        match event {
            Event::Stage(stage) => self.stage = Some(stage),
            // Text encoders have nothing to count, and one tile is a whole picture.
            Event::Progress { done, total }
                if self.stage == Some(Stage::Sample) || total > 1 && self.counts() =>
            {
                self.tell(
                    "progress",
                    json!({ "value": done, "max": total, "node": node }),
                );
                self.state(node, "running", (done, total));
                let mut progress = self.app.progress();
                (progress.done, progress.total) = (done, total);
                progress.since.get_or_insert_with(Instant::now);
            }
            Event::Preview(picture) => self.preview(node, &picture),
            Event::PreviewClip(frames) => {
                frames
                    .first()
                    .into_iter()
                    .for_each(|f| self.preview(node, f));
            }
            Event::Note(text) => tracing::info!("node {node}: {text}"),
            _ => {}
        }
    }

    fn counts(&self) -> bool {
        matches!(self.stage, Some(Stage::Encode | Stage::Decode))
    }

    fn preview(&mut self, node: &str, picture: &Picture) {
        if self.shown.is_some_and(|at| at.elapsed() < PREVIEW_EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        let picture = pictures::fitted(picture, PREVIEW_SIDE);
        let Ok(jpeg) = pictures::encode(&picture, "jpg", PREVIEW_QUALITY) else {
            return;
        };
        self.app.progress().jpeg.clone_from(&jpeg);
        let preview = Preview {
            prompt: &self.item.id,
            node,
            jpeg: &jpeg,
        };
        self.app.hub.preview(self.item.client.as_deref(), &preview);
    }

    pub(super) fn succeeded(&mut self) -> Outcome {
        self.keep("execution_success", json!({}));
        self.outcome(Ended::Completed)
    }

    pub(super) fn interrupted(&mut self, error: &RunError) -> Outcome {
        let data = json!({
            "prompt_id": self.item.id,
            "node_id": error.node,
            "node_type": error.class,
            "executed": self.executed,
            "timestamp": now(),
        });
        self.app.hub.tell_all("execution_interrupted", &data);
        self.messages.push(("execution_interrupted", data));
        self.outcome(Ended::Cancelled)
    }

    pub(super) fn failed(&mut self, error: &RunError) -> Outcome {
        tracing::warn!("job {}: {error}", self.item.id);
        let kind = match &*error.source {
            NodeError::Engine(engine) => engine.kind().name(),
            _ => "node",
        };
        self.error(&error.node, error.class, kind, &error.source.to_string())
    }

    pub(super) fn panicked(&mut self) -> Outcome {
        let (node, class) = match self.nodes.keys().next_back() {
            Some(node) => (node.clone(), self.class(node)),
            None => (String::new(), String::new()),
        };
        let text = "this is a bug in nino: the node ended in a panic, which the log shows";
        self.error(&node, &class, "internal", text)
    }

    fn error(&mut self, node: &str, class: &str, kind: &str, message: &str) -> Outcome {
        let inputs = self.item.prompt[node]["inputs"].as_object();
        let inputs = inputs.into_iter().flatten();
        let inputs: Map<String, Value> = inputs
            .map(|(name, value)| (name.clone(), json!([value])))
            .collect();
        let state = self.nodes.get_mut(node);
        state
            .into_iter()
            .for_each(|state| state["state"] = json!("error"));
        let data = json!({
            "node_id": node,
            "node_type": class,
            "executed": self.executed,
            "exception_message": message,
            "exception_type": kind,
            "traceback": [],
            "current_inputs": inputs,
            "current_outputs": self.executed,
        });
        self.keep("execution_error", data);
        self.outcome(Ended::Failed)
    }

    /// The last message of a job: no node runs any more.
    pub(super) fn end(&self) {
        self.tell("executing", json!({ "node": null }));
    }

    fn class(&self, node: &str) -> String {
        let class = self.item.prompt[node]["class_type"].as_str();
        class.unwrap_or_default().to_owned()
    }

    fn outcome(&mut self, ended: Ended) -> Outcome {
        Outcome {
            ended,
            outputs: std::mem::take(&mut self.outputs),
            meta: std::mem::take(&mut self.meta),
            messages: std::mem::take(&mut self.messages),
        }
    }

    /// How far a node is, told with all others that began.
    fn state(&mut self, node: &str, state: &str, (value, max): (usize, usize)) {
        let entry = json!({
            "value": value,
            "max": max,
            "state": state,
            "node_id": node,
            "prompt_id": self.item.id,
            "display_node_id": node,
            "parent_node_id": null,
            "real_node_id": node,
        });
        self.nodes.insert(node.to_owned(), entry);
        self.tell("progress_state", json!({ "nodes": self.nodes }));
    }

    /// A message that the history keeps, with its time.
    fn keep(&mut self, kind: &'static str, mut data: Value) {
        data["prompt_id"] = json!(self.item.id);
        data["timestamp"] = json!(now());
        self.app.hub.tell(self.item.client.as_deref(), kind, &data);
        self.messages.push((kind, data));
    }

    fn tell(&self, kind: &str, mut data: Value) {
        data["prompt_id"] = json!(self.item.id);
        self.app.hub.tell(self.item.client.as_deref(), kind, &data);
    }
}
