//! What a graph will need, before it runs: the engine goes through it on a device that computes
//! nothing. Nodes of pictures compute even so, as far as a network comes after them. So graphs are
//! planned one after the other, each for a while at most, and no longer than somebody waits for it.

use crate::app::App;
use crate::error::Refused;
use crate::host::ServerHost;
use crate::routes::blocking;
use axum::http::StatusCode;
use nino_engine::media::Stop;
use nino_engine::{EngineError, ErrorKind, GeneratePlan, Store, plan_work};
use nino_workflow::{Checked, Executor, NodeError, Watch};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Semaphore;

/// Plans that are remembered.
const REMEMBERED: usize = 256;
/// How long a graph is planned for one device. One that takes longer runs without a plan.
const LONGEST: Duration = Duration::from_secs(30);

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
pub(crate) struct Needs {
    known: Mutex<HashMap<(usize, Key), Need>>,
    /// Held by who plans.
    turn: Arc<Semaphore>,
}

impl Default for Needs {
    fn default() -> Needs {
        Needs {
            known: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }
}

/// What the plan of a graph depends on, in few bytes however long the graph is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 32]);

impl Key {
    /// The key of a graph without its seeds, which change no plan, and with its files as they are
    /// now.
    pub(crate) fn of(prompt: &Value, graph: &Checked) -> Key {
        let mut hash = Hashed(Sha256::new());
        // Hashing cannot fail.
        let _ = serde_json::to_writer(&mut hash, &without_seeds(prompt));
        let _ = serde_json::to_writer(&mut hash, &graph.outputs);
        let mut files: Vec<&Path> = graph.files().collect();
        files.sort_unstable();
        for path in files {
            let about = std::fs::metadata(path).ok();
            let modified = about.as_ref().and_then(|about| about.modified().ok());
            let modified = modified.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
            let bytes = about.map(|about| about.len());
            hash.0.update(path.as_os_str().as_encoded_bytes());
            hash.0.update(format!("\0{bytes:?} {modified:?}\0"));
        }
        Key(hash.0.finalize().into())
    }
}

struct Hashed(Sha256);

impl io::Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// For how long somebody waits for a plan.
#[derive(Clone)]
struct Patience {
    over: Arc<AtomicBool>,
    until: Instant,
}

impl Patience {
    fn new() -> Patience {
        Patience {
            over: Arc::default(),
            until: Instant::now() + LONGEST,
        }
    }

    /// Looks at the clock, and says whether it is over.
    fn is_over(&self) -> bool {
        if Instant::now() >= self.until {
            self.end();
        }
        self.over.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn stop(&self) -> Stop {
        let own = self.clone();
        Stop::when(move || own.is_over())
    }
}

/// Ends the patience of a request with the request.
struct EndWhenDropped(Patience);

impl Drop for EndWhenDropped {
    fn drop(&mut self) {
        self.0.end();
    }
}

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

/// What a graph needs on each device, for a request that waits for its turn to plan.
pub(crate) async fn needs(
    app: &Arc<App>,
    key: Key,
    graph: &Arc<Checked>,
) -> Result<Vec<Need>, Refused> {
    let mut needs = Vec::new();
    for device in 0..app.stores.len() {
        let need = match known(app, device, key) {
            Some(need) => need,
            None => plan_in_turn(app, device, key, graph).await?,
        };
        needs.push(need);
    }
    Ok(needs)
}

async fn plan_in_turn(
    app: &Arc<App>,
    device: usize,
    key: Key,
    graph: &Arc<Checked>,
) -> Result<Need, Refused> {
    let turn = Arc::clone(&app.needs.turn).acquire_owned().await;
    let stopping = |_| Refused::new(StatusCode::SERVICE_UNAVAILABLE, "the server stops");
    let turn = turn.map_err(stopping)?;
    let patience = Patience::new();
    let _ends = EndWhenDropped(patience.clone());
    let (app, graph) = (Arc::clone(app), Arc::clone(graph));
    blocking(move || {
        // Who has left plans on until the node that runs has ended, and has the turn until then.
        let _turn = turn;
        Ok(need(&app, device, key, &graph, &patience))
    })
    .await
}

/// What a graph needs on each device, before the server answers requests.
pub(crate) fn needs_at_start(app: &App, key: Key, graph: &Checked) -> Vec<Need> {
    let devices = 0..app.stores.len();
    let each = devices.map(|device| need(app, device, key, graph, &Patience::new()));
    each.collect()
}

fn known(app: &App, device: usize, key: Key) -> Option<Need> {
    lock(&app.needs).get(&(device, key)).cloned()
}

/// What a graph needs on a device, as it is known, or else planned.
fn need(app: &App, device: usize, key: Key, graph: &Checked, patience: &Patience) -> Need {
    // Another request may have planned it before this one had its turn.
    if let Some(need) = known(app, device, key) {
        return need;
    }
    let need = plan(app, &app.stores[device], graph, patience);
    // What kept it from being planned may be another matter the next time.
    if !matches!(need, Need::Unknown(_)) {
        let mut known = lock(&app.needs);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert((device, key), need.clone());
    }
    need
}

fn lock(needs: &Needs) -> std::sync::MutexGuard<'_, HashMap<(usize, Key), Need>> {
    needs.known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn without_seeds(prompt: &Value) -> Value {
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
    prompt
}

fn plan(app: &App, store: &Store, graph: &Checked, patience: &Patience) -> Need {
    let mut of_node = None;
    let mut host = ServerHost::to_plan(app, patience.stop());
    // The store uses these plans when the graph runs.
    let planned = plan_work(store, |store| {
        let mut watch = Watch {
            cancel: &patience.over,
            on_event: &mut |_| {
                patience.is_over();
            },
        };
        let mut executor = Executor::new(store.clone(), app.config.settings.clone());
        let ran = executor.rehearse(graph, &mut host, &mut watch);
        ran.map_err(|error| match *error.source {
            NodeError::Engine(engine) => engine,
            other => {
                of_node = Some(format!("node {} ({}): {other}", error.node, error.class));
                EngineError::Cancelled
            }
        })
    });
    match (planned, of_node) {
        (Ok(plan), None) => Need::Fits(Arc::new(Figures::of(&plan))),
        (Err(e), None) if e.kind() == ErrorKind::OverBudget => Need::TooMuch(e.to_string()),
        _ if patience.is_over() => {
            let seconds = LONGEST.as_secs();
            Need::Unknown(format!("planning it takes more than {seconds} seconds"))
        }
        (_, Some(why)) => Need::Unknown(why),
        (Err(e), None) => Need::Unknown(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_with_the_request_and_with_time() {
        let patience = Patience::new();
        let (stop, ends) = (patience.stop(), EndWhenDropped(patience.clone()));
        assert!(!patience.is_over() && !stop.is_asked());
        drop(ends);
        assert!(patience.is_over() && stop.is_asked());
        let late = Patience {
            over: Arc::default(),
            until: Instant::now(),
        };
        assert!(late.stop().is_asked() && late.over.load(Ordering::Relaxed));
    }
}
