//! A prompt on its way through the server, and what is told of it when it has ended.

use nino_workflow::Checked;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A prompt that was checked and waits to run.
pub(crate) struct Job {
    pub(crate) item: Arc<Item>,
    pub(crate) graph: Arc<Checked>,
    /// The models it loads: jobs of the same ones run after each other.
    pub(crate) models: String,
    /// How many later jobs ran before it.
    pub(crate) overtaken: usize,
    /// Bytes of JSON that it keeps while it waits.
    pub(crate) bytes: usize,
    /// Whether it fits each of the devices.
    pub(crate) fits: Vec<bool>,
}

/// What clients know of a job.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) id: String,
    /// Its place in the queue: the least runs first.
    pub(crate) number: f64,
    /// The graph as it was sent.
    pub(crate) prompt: Value,
    pub(crate) extra: Value,
    /// The output nodes that run.
    pub(crate) outputs: Vec<String>,
    pub(crate) client: Option<String>,
}

impl Item {
    /// ComfyUI's list of a job: number, id, prompt, extra data, outputs.
    pub(crate) fn to_json(&self) -> Value {
        json!([
            number(self.number),
            self.id,
            self.prompt,
            self.extra,
            self.outputs
        ])
    }

    /// Reads what [`Item::to_json`] wrote; `None` of anything else.
    pub(crate) fn from_json(json: Value) -> Option<Item> {
        let Value::Array(mut list) = json else {
            return None;
        };
        let [number, id, prompt, extra, outputs] = &mut list[..] else {
            return None;
        };
        let extra = extra.take();
        Some(Item {
            id: id.as_str()?.to_owned(),
            number: number.as_f64()?,
            prompt: prompt.take(),
            client: extra["client_id"].as_str().map(str::to_owned),
            extra,
            outputs: serde_json::from_value(outputs.take()).ok()?,
        })
    }

    pub(crate) fn created(&self) -> Option<u64> {
        self.extra["create_time"].as_u64()
    }

    pub(crate) fn workflow_id(&self) -> Option<&str> {
        self.extra["extra_pnginfo"]["workflow"]["id"].as_str()
    }
}

/// A number as Python writes it: whole ones without a point.
pub(crate) fn number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        json!(number as i64)
    } else {
        json!(number)
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Completed,
    Failed,
    Cancelled,
}

impl Ended {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Ended::Completed => "completed",
            Ended::Failed => "failed",
            Ended::Cancelled => "cancelled",
        }
    }
}

/// What became of a job.
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    /// What output nodes made, by node.
    pub(crate) outputs: Map<String, Value>,
    pub(crate) meta: Map<String, Value>,
    /// The messages that are kept: start, cached nodes, end.
    pub(crate) messages: Vec<(&'static str, Value)>,
}

impl Outcome {
    /// ComfyUI's entry of a history, without its `prompt`.
    pub(crate) fn entry(&self) -> Value {
        let messages = self.messages.iter().map(|(kind, data)| json!([kind, data]));
        let completed = self.ended == Ended::Completed;
        json!({
            "outputs": self.outputs,
            "status": {
                "status_str": if completed { "success" } else { "error" },
                "completed": completed,
                "messages": messages.collect::<Vec<_>>(),
            },
            "meta": self.meta,
        })
    }

    fn message(&self, kinds: &[&str]) -> Option<&Value> {
        let found = self.messages.iter().find(|(kind, _)| kinds.contains(kind));
        found.map(|(_, data)| data)
    }

    pub(crate) fn started(&self) -> Option<u64> {
        self.message(&["execution_start"])?["timestamp"].as_u64()
    }

    pub(crate) fn finished(&self) -> Option<u64> {
        let ends = [
            "execution_success",
            "execution_error",
            "execution_interrupted",
        ];
        self.message(&ends)?["timestamp"].as_u64()
    }

    /// ComfyUI's short form of an ended job, for `/api/jobs`.
    pub(crate) fn summary(&self, item: &Item) -> Value {
        let (count, preview) = self.preview();
        let mut summary = active(item, self.ended.name());
        summary["outputs_count"] = json!(count);
        let optional = [
            ("execution_start_time", self.started().map(Value::from)),
            ("execution_end_time", self.finished().map(Value::from)),
            (
                "execution_error",
                self.message(&["execution_error"]).cloned(),
            ),
            ("preview_output", preview),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                summary[key] = value;
            }
        }
        summary
    }

    /// How many files were made, and the one that stands for them: one that is kept, else any.
    fn preview(&self) -> (usize, Option<Value>) {
        let mut count = 0;
        let mut best: Option<Value> = None;
        for (node, output) in &self.outputs {
            let media = output.as_object().into_iter().flatten();
            for (media, items) in media.filter(|(media, _)| *media != "animated") {
                for item in items
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|i| i.is_object())
                {
                    count += 1;
                    let kept = |item: &Value| item["type"] == "output";
                    if best.as_ref().is_none_or(|best| !kept(best) && kept(item)) {
                        let mut item = item.clone();
                        item["nodeId"] = json!(node);
                        item["mediaType"] = json!(media);
                        best = Some(item);
                    }
                }
            }
        }
        (count, best)
    }
}

/// ComfyUI's short form of a job that waits or runs.
pub(crate) fn active(item: &Item, status: &str) -> Value {
    let mut summary = json!({
        "id": item.id,
        "status": status,
        "priority": number(item.number),
        "outputs_count": 0,
    });
    if let Some(created) = item.created() {
        summary["create_time"] = json!(created);
    }
    if let Some(workflow) = item.workflow_id() {
        summary["workflow_id"] = json!(workflow);
    }
    summary
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
