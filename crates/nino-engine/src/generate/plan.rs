//! What a request needs, before anything is allocated: every stage's plan, and what can stay on the
//! device from one picture to the next.

use super::dry::Dry;
use super::{Checkpoint, GenerateRequest, generate};
use crate::decode::part::strategy;
use crate::fit::{Room, whole_request};
use crate::{Control, EngineError, Strategy};
use nino_graph::{Device, Load, Plan};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A request that is known to fit.
#[derive(Clone, Debug)]
pub struct GeneratePlan {
    pub stages: Vec<StagePlan>,
}

/// One network of the request.
#[derive(Clone, Debug)]
pub struct StagePlan {
    /// `text`, `unet`, `encode` or `decode`.
    pub stage: &'static str,
    pub residency: Residency,
    /// Runs that make one batch of pictures.
    pub runs: usize,
    pub plan: Arc<Plan>,
}

/// Where a stage's weights are when the stage does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// On the device, for the next picture.
    Resident,
    /// In the file: the stages take turns.
    InTurn,
    /// Some are never there as a whole, but pass through while the stage runs.
    Streamed,
}

impl Residency {
    pub fn name(self) -> &'static str {
        match self {
            Residency::Resident => "resident",
            Residency::InTurn => "in-turn",
            Residency::Streamed => "streamed",
        }
    }
}

impl StagePlan {
    /// How activations pass through memory.
    pub fn strategy(&self) -> Strategy {
        strategy(std::iter::once(&*self.plan))
    }

    /// What all its runs take.
    pub fn load(&self) -> Load {
        self.plan.load(self.runs)
    }
}

impl GeneratePlan {
    /// The most that is on the device at once.
    pub fn peak_bytes(&self) -> usize {
        let peaks = self.stages.iter().enumerate().map(|(i, stage)| {
            let others = self.stages.iter().enumerate().filter(|(j, _)| *j != i);
            let kept: usize = others
                .filter(|(_, s)| s.residency == Residency::Resident)
                .map(|(_, s)| s.plan.device_weight_bytes())
                .sum();
            stage.plan.device_bytes() + kept
        });
        peaks.max().unwrap_or(0)
    }

    pub fn largest_binding(&self) -> usize {
        let largest = self.stages.iter().map(|s| s.plan.largest_binding());
        largest.max().unwrap_or(0)
    }

    /// Bytes of all stages' weights.
    pub fn weight_bytes(&self) -> usize {
        self.stages.iter().map(|s| s.plan.weight_bytes()).sum()
    }

    /// Bytes of weights brought to the device while the stages run, all runs together.
    pub fn streamed_bytes(&self) -> usize {
        let each = self.stages.iter();
        each.map(|s| s.plan.streamed().in_runs(s.runs)).sum()
    }

    /// Keeps what fits beside every stage, the largest first.
    fn keep(&mut self, budget: Option<usize>) {
        let mut order: Vec<usize> = (0..self.stages.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(self.stages[i].plan.weight_bytes()));
        for i in order {
            if self.stages[i].residency == Residency::InTurn {
                self.stages[i].residency = Residency::Resident;
                if budget.is_some_and(|b| self.peak_bytes() > b) {
                    self.stages[i].residency = Residency::InTurn;
                }
            }
        }
    }
}

/// Plans `pictures` runs of a request, by going through one without computing anything.
pub fn plan_generate(
    device: &dyn Device,
    model: &Checkpoint,
    request: &GenerateRequest,
    pictures: usize,
) -> Result<GeneratePlan, EngineError> {
    let sessions = whole_request(device, |device| {
        let dry = Dry::new(device);
        let never = AtomicBool::new(false);
        let mut control = Control {
            cancel: &never,
            on_event: &mut |_| {},
        };
        generate(&dry, model, request, &mut control, &mut |_| Ok(()))?;
        Ok(dry.sessions())
    })?;
    // Sessions of one network with one plan are one stage: tiles, or the encoder of both prompts.
    let mut stages: BTreeMap<(usize, usize), StagePlan> = BTreeMap::new();
    for opened in sessions {
        let (order, stage) = stage(&opened.plan);
        let residency = if opened.plan.fetches().is_empty() {
            Residency::InTurn
        } else {
            Residency::Streamed
        };
        let same = stages
            .values_mut()
            .find(|s| s.stage == stage && s.plan.weight_bytes() == opened.plan.weight_bytes());
        if let Some(known) = same {
            known.runs += opened.runs();
            if opened.plan.device_bytes() > known.plan.device_bytes() {
                (known.plan, known.residency) = (opened.plan, residency);
            }
            continue;
        }
        let planned = StagePlan {
            stage,
            residency,
            runs: opened.runs(),
            plan: opened.plan,
        };
        stages.insert((order, stages.len()), planned);
    }
    let mut plan = GeneratePlan {
        stages: stages.into_values().collect(),
    };
    if pictures > 1 {
        plan.keep(Room::default().bytes(device));
    }
    Ok(plan)
}

/// Which network a plan is of, by the canonical names of its weights, and its place in a request.
fn stage(plan: &Plan) -> (usize, &'static str) {
    let has = |part: &str| plan.graph().params().any(|(_, p)| p.name.starts_with(part));
    if has("text_model.") {
        (0, "text")
    } else if has("input_blocks.") {
        (2, "unet")
    } else if has("encoder.") {
        (1, "encode")
    } else {
        (3, "decode")
    }
}

#[cfg(test)]
mod tests;
