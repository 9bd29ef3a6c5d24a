//! Noise levels: of schedules, cut and turned around.

use super::sampler::{scheduler, scheduler_names};
use crate::NodeError;
use crate::node::table::{combo, float, int, link, named, out, text};
use crate::node::{InputDef, NodeDef, OutputDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::schedule::FoundLevels;
use nino_engine::{EngineError, schedule};

const SCHEDULERS: &str = "model/sampling/schedulers";
const SIGMAS: &str = "model/sampling/sigmas";
const MODEL: InputDef = link("model", Socket::Model);
const LEVELS: InputDef = link("sigmas", Socket::Sigmas);
const STEPS: InputDef = int("steps", 20, (1, 10_000), 1);
const DENOISE: InputDef = float("denoise", 1.0, (0.0, 1.0), 0.01);
const MAX: InputDef = float("sigma_max", 14.614_642, (0.0, 5000.0), 0.01);
const MIN: InputDef = float("sigma_min", 0.029_167_5, (0.0, 5000.0), 0.01);
const HALVES: &[OutputDef] = &[
    named("high_sigmas", Socket::Sigmas),
    named("low_sigmas", Socket::Sigmas),
];
/// What `FlipSigmas` begins with where the last level was 0.
const LEAST: f32 = 0.0001;

/// A node that gives noise levels.
macro_rules! levels {
    ($class:literal, $category:expr, [$($input:expr),* $(,)?], $outputs:expr, $run:expr) => {
        NodeDef {
            class: $class,
            display_name: $class,
            category: $category,
            inputs: &[$($input),*],
            outputs: $outputs,
            is_output: false,
            run: $run,
        }
    };
}

const ONE: &[OutputDef] = &[out(Socket::Sigmas)];

pub(super) static NODES: &[NodeDef] = &[
    levels!(
        "BasicScheduler",
        SCHEDULERS,
        [MODEL, combo("scheduler", scheduler_names), STEPS, DENOISE],
        ONE,
        basic
    ),
    levels!(
        "SetFirstSigma",
        SIGMAS,
        [LEVELS, float("sigma", 136.0, (0.0, 20_000.0), 0.001)],
        ONE,
        |call| {
            let mut sigmas = call.sigmas("sigmas")?.to_vec();
            let sigma = call.float("sigma")? as f32;
            sigmas
                .first_mut()
                .into_iter()
                .for_each(|first| *first = sigma);
            finite(sigmas)
        }
    ),
    levels!(
        "ManualSigmas",
        SIGMAS,
        [text("sigmas", "1, 0.5")],
        ONE,
        |call| {
            let text = call.text("sigmas")?;
            // Whatever stands between numbers parts them.
            let in_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
            let numbers = text
                .split(|c: char| !in_number(c))
                .filter(|n| !n.is_empty());
            let numbers = numbers.map(|n| n.parse::<f32>().map_err(|_| n));
            let numbers: Result<Vec<f32>, &str> = numbers.collect();
            let wrong = |n: &str| NodeError::Input(format!("{n} is no noise level"));
            finite(numbers.map_err(wrong)?)
        }
    ),
    levels!(
        "KarrasScheduler",
        SCHEDULERS,
        [STEPS, MAX, MIN, float("rho", 7.0, (0.0, 100.0), 0.01)],
        ONE,
        |call| {
            let (min, max) = range(call)?;
            let rho = call.float("rho")?;
            finite(schedule::karras(min, max, call.steps()?, rho))
        }
    ),
    levels!(
        "ExponentialScheduler",
        SCHEDULERS,
        [STEPS, MAX, MIN],
        ONE,
        |call| {
            let (min, max) = range(call)?;
            finite(schedule::exponential(min, max, call.steps()?))
        }
    ),
    levels!(
        "SDTurboScheduler",
        SCHEDULERS,
        [MODEL, int("steps", 1, (1, 10), 1), DENOISE],
        ONE,
        |call| {
            let (model, steps) = (call.model("model")?, call.steps()?);
            let sigmas = schedule::turbo(&model.sampling, steps, call.float("denoise")?);
            Ok(vec![Value::from(sigmas)])
        }
    ),
    levels!(
        "OptimalStepsScheduler",
        SCHEDULERS,
        [
            combo("model_type", || names(&schedule::OPTIMAL)),
            int("steps", 20, (3, 1000), 1),
            DENOISE
        ],
        ONE,
        |call| found(call, &schedule::OPTIMAL)
    ),
    levels!(
        "AlignYourStepsScheduler",
        SCHEDULERS,
        [
            combo("model_type", || names(&schedule::ALIGNED)),
            int("steps", 10, (1, 10_000), 1),
            DENOISE
        ],
        ONE,
        |call| found(call, &schedule::ALIGNED)
    ),
    levels!(
        "BetaSamplingScheduler",
        SCHEDULERS,
        [
            MODEL,
            STEPS,
            float("alpha", 0.6, (0.0, 50.0), 0.01),
            float("beta", 0.6, (0.0, 50.0), 0.01)
        ],
        ONE,
        |call| {
            let (model, steps) = (call.model("model")?, call.steps()?);
            let (alpha, beta) = (call.float("alpha")?, call.float("beta")?);
            if alpha <= 0.0 || beta <= 0.0 {
                let why = format!("alpha ({alpha}) and beta ({beta}) are more than 0");
                return Err(NodeError::Input(why));
            }
            finite(schedule::beta(&model.sampling, steps, alpha, beta))
        }
    ),
    levels!(
        "SplitSigmas",
        SIGMAS,
        [LEVELS, int("step", 0, (0, 10_000), 1)],
        HALVES,
        |call| {
            let (sigmas, step) = (call.sigmas("sigmas")?, call.size("step")?);
            let high = sigmas[..sigmas.len().min(step.saturating_add(1))].to_vec();
            let low = sigmas[sigmas.len().min(step)..].to_vec();
            Ok(vec![Value::from(high), Value::from(low)])
        }
    ),
    levels!(
        "SplitSigmasDenoise",
        SIGMAS,
        [LEVELS, DENOISE],
        HALVES,
        split_denoise
    ),
    levels!("FlipSigmas", SIGMAS, [LEVELS], ONE, |call| {
        let mut sigmas = call.sigmas("sigmas")?.to_vec();
        sigmas.reverse();
        if let Some(first) = sigmas.first_mut().filter(|first| **first == 0.0) {
            *first = LEAST;
        }
        Ok(vec![Value::from(sigmas)])
    }),
];

fn basic(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (model, scheduler) = (call.model("model")?, scheduler(call)?);
    let (steps, denoise) = (call.steps()?, call.float("denoise")?);
    if denoise <= 0.0 {
        return Ok(vec![Value::from(Vec::<f32>::new())]);
    }
    let total = if denoise < 1.0 {
        (steps as f64 / denoise) as usize
    } else {
        steps
    };
    let all = scheduler.sigmas(&model.sampling, total);
    let all = all.map_err(EngineError::from)?;
    let last = all.len().saturating_sub(steps + 1);
    Ok(vec![Value::from(all[last..].to_vec())])
}

fn names(tables: &[FoundLevels]) -> Vec<&'static str> {
    tables.iter().map(|table| table.name).collect()
}

/// The levels that were searched for a model.
fn found(call: &Call<'_, '_>, tables: &[FoundLevels]) -> Result<Vec<Value>, NodeError> {
    let (name, steps) = (call.text("model_type")?, call.steps()?);
    let table = tables.iter().find(|table| table.name == &*name);
    let table = table.ok_or_else(|| NodeError::Input(format!("no levels are known for {name}")))?;
    let sigmas = table.sigmas(steps, call.float("denoise")?);
    Ok(vec![Value::from(sigmas)])
}

fn range(call: &Call<'_, '_>) -> Result<(f32, f32), NodeError> {
    Ok((
        call.float("sigma_min")? as f32,
        call.float("sigma_max")? as f32,
    ))
}

/// Levels of a range that no schedule goes through, such as one from 0, are not numbers.
fn finite(sigmas: Vec<f32>) -> Result<Vec<Value>, NodeError> {
    if let Some(bad) = sigmas.iter().find(|s| !s.is_finite()) {
        return Err(NodeError::Input(format!(
            "its range gives a noise level of {bad}"
        )));
    }
    Ok(vec![Value::from(sigmas)])
}

/// The last part of the steps, and what is before it, cut where ComfyUI cuts.
fn split_denoise(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (sigmas, denoise) = (call.sigmas("sigmas")?, call.float("denoise")?);
    let steps = sigmas.len().saturating_sub(1);
    let last = (steps as f64 * denoise).round_ties_even() as usize;
    // `[:-0]` is empty in Python, not everything.
    let high = match last {
        0 => &[][..],
        last => &sigmas[..sigmas.len().saturating_sub(last)],
    };
    let low = &sigmas[sigmas.len().saturating_sub(last + 1)..];
    Ok(vec![Value::from(high.to_vec()), Value::from(low.to_vec())])
}
