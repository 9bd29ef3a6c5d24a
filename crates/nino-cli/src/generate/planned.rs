//! What `nino plan generate` plans: the request or the graph that `nino generate` would run with
//! the same flags.

use super::from::{self, Wanted};
use super::graph::{self, PlannedGraph};
use super::jobs::{self, Job};
use super::model;
use crate::args::{BatchArg, GenerateArgs};
use crate::device::Choice;
use crate::env::Env;
use anyhow::Result;
pub(crate) use graph::plan as graph_plan;
use nino_engine::{Checkpoint, GenerateRequest};

/// Work to plan.
pub(crate) enum Work {
    Request {
        model: Box<Checkpoint>,
        request: Box<GenerateRequest>,
        /// Pictures one after the other.
        count: usize,
        /// Whether as many are made at a time as stay on the device.
        fill: bool,
    },
    Graph(PlannedGraph),
}

/// What the flags ask for; `spec` is a description that stands for the model's files.
pub(crate) fn work(
    args: &GenerateArgs,
    spec: Option<&str>,
    choice: &Choice,
    env: &Env,
) -> Result<Work> {
    let line: Vec<_> = std::env::args_os().collect();
    let (repeated, flags) = match from::wanted(args, &line)? {
        Wanted::Graph { graph, given } => {
            let planned = graph::planned(args, graph, &given, choice, env)?;
            return Ok(Work::Graph(planned));
        }
        Wanted::Flags { args, flags } => (args, flags),
    };
    let args = repeated.as_deref().unwrap_or(args);
    let model = match spec {
        Some(name) => {
            let model = Checkpoint::spec(name)?;
            model::quantized(model, args.model.quantize, &choice.settings)?
        }
        None => model::open(&args.model, choice, env)?,
    };
    let jobs = jobs::read(args, model, choice, &flags, env)?;
    let count = jobs.len() * args.count as usize;
    // Longer prompts take more memory.
    let longest = jobs.into_iter().max_by_key(|job| job.request.prompt.len());
    let Job { model, request, .. } = longest.expect("there is at least one prompt");
    Ok(Work::Request {
        model: Box::new(model),
        request: Box::new(request),
        count,
        fill: args.batch == BatchArg::Max,
    })
}
