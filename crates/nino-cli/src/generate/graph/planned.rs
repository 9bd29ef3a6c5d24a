//! A graph whose memory is planned: it runs on a device that computes nothing, and nothing of it
//! is kept.

use super::{change, host, quantize};
use crate::args::GenerateArgs;
use crate::decode::precision_of;
use crate::device::Choice;
use crate::env::Env;
use crate::generate::from::Flags;
use anyhow::Result;
use nino_engine::{EngineError, GeneratePlan, ModelKind, Store, plan_work};
use nino_workflow::{
    Executor, Folder, Graph, Host, HostError, Limits, NodeError, Output, Settings, Watch, check,
    fill_defaults,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// A graph with the flags beside it put in.
pub(crate) struct PlannedGraph {
    graph: Graph,
    settings: Settings,
}

impl PlannedGraph {
    pub(crate) fn nodes(&self) -> usize {
        self.graph.len()
    }
}

pub(crate) fn planned(
    args: &GenerateArgs,
    mut graph: Graph,
    given: &Flags,
    choice: &Choice,
    env: &Env,
) -> Result<PlannedGraph> {
    let limits = Limits::of_this_machine();
    fill_defaults(&mut graph);
    change::apply(&mut graph, given)?;
    check(&graph, &PlanHost { env }, &limits)?;
    let settings = Settings {
        precision: precision_of(args.precision, &choice.settings)?,
        quantize: quantize(args.model.quantize, &choice.settings)?,
        preview: None,
        limits,
    };
    Ok(PlannedGraph { graph, settings })
}

/// Plans a graph. The inner error is the engine's, such as that the budget is too small.
pub(crate) fn plan(
    planned: &PlannedGraph,
    store: &Store,
    env: &Env,
) -> Result<Result<GeneratePlan, EngineError>> {
    let mut host = PlanHost { env };
    let checked = check(&planned.graph, &host, &planned.settings.limits)?;
    let never = AtomicBool::new(false);
    // What went wrong in a node that is not the engine's.
    let mut of_node = None;
    let plan = plan_work(store, |store| {
        let mut watch = Watch {
            cancel: &never,
            on_event: &mut |_| {},
        };
        let mut executor = Executor::new(store.clone(), planned.settings.clone());
        let ran = executor.rehearse(&checked, &mut host, &mut watch);
        ran.map_err(|error| match *error.source {
            NodeError::Engine(engine) => engine,
            other => {
                let (node, class) = (error.node, error.class);
                of_node = Some(anyhow::anyhow!("node {node} ({class}): {other}"));
                EngineError::Cancelled
            }
        })
    });
    match of_node {
        Some(error) => Err(error),
        None => Ok(plan),
    }
}

/// Finds files as the command line does, and keeps nothing.
struct PlanHost<'a> {
    env: &'a Env,
}

impl Host for PlanHost<'_> {
    fn find(&self, folder: Folder, name: &str) -> Result<PathBuf, HostError> {
        host::find(self.env, folder, name)
    }

    fn list(&self, _: Folder) -> Option<Vec<String>> {
        None
    }

    fn embeddings(&self) -> Vec<PathBuf> {
        let library = self.env.library();
        library.folders(ModelKind::Embedding).unwrap_or_default()
    }

    fn output(&mut self, _: &Output<'_>) -> Result<Value, HostError> {
        Ok(json!({}))
    }
}
