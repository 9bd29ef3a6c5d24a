//! What `nino plan generate` plans: the request or the graph that `nino generate` would run with
//! the same flags.

use super::from::{self, Wanted};
use super::graph::{self, PlannedGraph};
use super::{model, request};
use crate::args::GenerateArgs;
use crate::device::Choice;
use crate::env::Env;
use anyhow::Result;
pub(crate) use graph::plan as graph_plan;
use nino_engine::{Checkpoint, GenerateRequest, ModelKind};

/// Work to plan.
pub(crate) enum Work {
    Request {
        model: Box<Checkpoint>,
        request: Box<GenerateRequest>,
        /// Pictures one after the other.
        count: usize,
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
    let repeated = match from::wanted(args, &line)? {
        Wanted::Graph { graph, given } => {
            return Ok(Work::Graph(graph::planned(
                args, graph, &given, choice, env,
            )?));
        }
        Wanted::Flags { args, .. } => args,
    };
    let args = repeated.as_deref().unwrap_or(args);
    let mut model = match spec {
        Some(name) => {
            let model = Checkpoint::spec(name)?;
            model::quantized(model, args.model.quantize, &choice.settings)?
        }
        None => model::open(&args.model, choice, env)?,
    };
    model.diffusion.cfg_rescale = args.sampling.cfg_rescale as f32;
    let mut request = request::request(args, &model, &choice.settings, env)?;
    request.embeddings = env.library().folders(ModelKind::Embedding)?;
    Ok(Work::Request {
        model: Box::new(model),
        request: Box::new(request),
        count: args.count as usize,
    })
}
