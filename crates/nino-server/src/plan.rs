//! What a graph will need, before it runs: the engine goes through it on a device that computes
//! nothing.

use crate::app::App;
use crate::host::ServerHost;
use nino_engine::{EngineError, ErrorKind, GeneratePlan, Store, plan_work};
use nino_workflow::{Checked, Executor, NodeError, Watch};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// Plans that are remembered.
const REMEMBERED: usize = 256;

/// What a graph needs on a device.
#[derive(Clone, Debug)]
pub(crate) enum Need {
    /// It fits, with these figures. The plan itself is the store's, and may be large.
    Fits(Arc<Figures>),
    /// It does not, and why, with the numbers.
    TooMuch(String),
    /// The graph cannot be planned: what is wrong with it is told when it runs.
    Unknown(String),
}

/// What a plan comes to.
#[derive(Debug)]
pub(crate) struct Figures {
    peak: usize,
    beside: usize,
    stages: Vec<StageFigures>,
}

#[derive(Debug)]
struct StageFigures {
    stage: &'static str,
    weights: usize,
    residency: &'static str,
}

impl Figures {
    fn of(plan: &GeneratePlan) -> Figures {
        let stages = plan.stages.iter().map(|stage| StageFigures {
            stage: stage.stage.name(),
            weights: stage.plan.weight_bytes(),
            residency: stage.residency.name(),
        });
        Figures {
            peak: plan.peak_bytes(),
            beside: plan.beside_bytes(),
            stages: stages.collect(),
        }
    }
}

/// The needs of graphs, by device and graph.
#[derive(Default)]
pub(crate) struct Needs(Mutex<HashMap<(usize, String), Need>>);

impl Need {
    pub(crate) fn fits(&self) -> bool {
        !matches!(self, Need::TooMuch(_))
    }

    pub(crate) fn to_json(&self, budget: Option<usize>) -> Value {
        match self {
            Need::Fits(figures) => {
                let stages = figures.stages.iter().map(|stage| {
                    json!({
                        "stage": stage.stage,
                        "weights": stage.weights,
                        "residency": stage.residency,
                    })
                });
                json!({
                    "fits": true,
                    "peak": figures.peak,
                    "beside": figures.beside,
                    "budget": budget,
                    "stages": stages.collect::<Vec<_>>(),
                })
            }
            Need::TooMuch(why) => json!({ "fits": false, "budget": budget, "why": why }),
            Need::Unknown(why) => json!({ "fits": null, "budget": budget, "why": why }),
        }
    }
}

/// Plans a graph for every device. Seeds change no plan, so that the next picture is not planned
/// again.
pub(crate) fn needs(app: &App, prompt: &Value, graph: &Checked) -> Vec<Need> {
    let key = without_seeds(prompt);
    let stores = app.stores.iter().enumerate();
    stores
        .map(|(device, store)| {
            let key = (device, key.clone());
            let known = lock(&app.needs).get(&key).cloned();
            known.unwrap_or_else(|| {
                let need = plan(app, store, graph);
                let mut known = lock(&app.needs);
                if known.len() >= REMEMBERED {
                    known.clear();
                }
                known.insert(key, need.clone());
                need
            })
        })
        .collect()
}

fn lock(needs: &Needs) -> std::sync::MutexGuard<'_, HashMap<(usize, String), Need>> {
    needs.0.lock().unwrap_or_else(PoisonError::into_inner)
}

fn without_seeds(prompt: &Value) -> String {
    let mut prompt = prompt.clone();
    for node in prompt
        .as_object_mut()
        .into_iter()
        .flat_map(|nodes| nodes.values_mut())
    {
        for seed in ["seed", "noise_seed"] {
            let seed = node
                .get_mut("inputs")
                .and_then(|inputs| inputs.get_mut(seed));
            seed.into_iter()
                .filter(|seed| seed.is_number() || seed.is_string())
                .for_each(|seed| *seed = json!(0));
        }
    }
    prompt.to_string()
}

fn plan(app: &App, store: &Store, graph: &Checked) -> Need {
    let never = AtomicBool::new(false);
    let mut of_node = None;
    let mut host = ServerHost::to_check(app);
    // The store uses these plans when the graph runs.
    let planned = plan_work(store, |store| {
        let mut watch = Watch {
            cancel: &never,
            on_event: &mut |_| {},
        };
        let mut executor = Executor::new(store.clone(), app.config.settings.clone());
        let ran = executor.run(graph, &mut host, &mut watch);
        ran.map(drop).map_err(|error| match *error.source {
            NodeError::Engine(engine) => engine,
            other => {
                of_node = Some(format!("node {} ({}): {other}", error.node, error.class));
                EngineError::Cancelled
            }
        })
    });
    match (planned, of_node) {
        (_, Some(why)) => Need::Unknown(why),
        (Ok(plan), None) => Need::Fits(Arc::new(Figures::of(&plan))),
        (Err(e), None) if e.kind() == ErrorKind::OverBudget => Need::TooMuch(e.to_string()),
        (Err(e), None) => Need::Unknown(e.to_string()),
    }
}
