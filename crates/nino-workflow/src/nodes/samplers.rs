//! Samplers by name, and samplers with what they can be told.

use super::sampler::{sampler, sampler_names};
use crate::NodeError;
use crate::node::table::{boolean, combo, float, int, link, out};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{Sampler, Value};
use nino_engine::{AdamsOptions, AdaptiveOptions, SamplerInfo, SamplerOptions, Solver};
use std::sync::Arc;

const UP_TO_100: (f64, f64) = (0.0, 100.0);
const ETA: InputDef = float("eta", 1.0, UP_TO_100, 0.01);
const S_NOISE: InputDef = float("s_noise", 1.0, UP_TO_100, 0.01);
const DEVICE: InputDef = combo("noise_device", || vec!["gpu", "cpu"]);

/// A node that gives a sampler.
macro_rules! sampler {
    ($class:literal, [$($input:expr),* $(,)?], $run:expr) => {
        NodeDef {
            class: $class,
            display_name: $class,
            category: "model/sampling/samplers",
            inputs: &[$($input),*],
            outputs: &[out(Socket::Sampler)],
            is_output: false,
            run: $run,
        }
    };
}

pub(super) static NODES: &[NodeDef] = &[
    sampler!(
        "KSamplerSelect",
        [combo("sampler_name", sampler_names)],
        |call| {
            let info = sampler(call)?;
            let options = SamplerOptions::default();
            Ok(vec![Value::Sampler(Arc::new(Sampler { info, options }))])
        }
    ),
    sampler!("SamplerEulerAncestral", [ETA, S_NOISE], |call| {
        made("euler_ancestral", noisy(call)?)
    }),
    sampler!(
        "SamplerEulerAncestralCFGPP",
        [
            float("eta", 1.0, (0.0, 1.0), 0.01),
            float("s_noise", 1.0, (0.0, 10.0), 0.01),
        ],
        |call| made("euler_ancestral_cfg_pp", noisy(call)?)
    ),
    sampler!(
        "SamplerLCM",
        [
            float("s_noise", 1.0, (0.0, 64.0), 0.01),
            float("s_noise_end", 1.0, (0.0, 64.0), 0.01),
            float("noise_clip_std", 0.0, (0.0, 10.0), 0.01),
        ],
        |call| {
            let options = SamplerOptions {
                s_noise: call.float("s_noise")? as f32,
                s_noise_end: Some(call.float("s_noise_end")? as f32),
                noise_clip_std: call.float("noise_clip_std")? as f32,
                ..SamplerOptions::default()
            };
            made("lcm", options)
        }
    ),
    sampler!("SamplerDPMPP_2S_Ancestral", [ETA, S_NOISE], |call| {
        made("dpmpp_2s_ancestral", noisy(call)?)
    }),
    sampler!(
        "SamplerDPMPP_SDE",
        [ETA, S_NOISE, float("r", 0.5, UP_TO_100, 0.01), DEVICE],
        |call| {
            let options = SamplerOptions {
                r: call.float("r")? as f32,
                ..noisy(call)?
            };
            made(on_device(call, "dpmpp_sde", "dpmpp_sde_gpu")?, options)
        }
    ),
    sampler!(
        "SamplerDPMPP_2M_SDE",
        [
            combo("solver_type", || vec!["midpoint", "heun"]),
            ETA,
            S_NOISE,
            DEVICE,
        ],
        |call| {
            let options = SamplerOptions {
                solver: Some(match &*call.text("solver_type")? {
                    "heun" => Solver::Heun,
                    _ => Solver::Midpoint,
                }),
                ..noisy(call)?
            };
            made(
                on_device(call, "dpmpp_2m_sde", "dpmpp_2m_sde_gpu")?,
                options,
            )
        }
    ),
    sampler!("SamplerDPMPP_3M_SDE", [ETA, S_NOISE, DEVICE], |call| {
        let options = noisy(call)?;
        made(
            on_device(call, "dpmpp_3m_sde", "dpmpp_3m_sde_gpu")?,
            options,
        )
    }),
    sampler!("SamplerLMS", [int("order", 4, (1, 100), 1)], |call| {
        let options = SamplerOptions {
            order: Some(call.size("order")?),
            ..SamplerOptions::default()
        };
        made("lms", options)
    }),
    sampler!(
        "SamplerDPMAdaptative",
        [
            int("order", 3, (2, 3), 1),
            float("rtol", 0.05, UP_TO_100, 0.01),
            float("atol", 0.0078, UP_TO_100, 0.01),
            float("h_init", 0.05, UP_TO_100, 0.01),
            float("pcoeff", 0.0, UP_TO_100, 0.01),
            float("icoeff", 1.0, UP_TO_100, 0.01),
            float("dcoeff", 0.0, UP_TO_100, 0.01),
            float("accept_safety", 0.81, UP_TO_100, 0.01),
            float("eta", 0.0, UP_TO_100, 0.01),
            S_NOISE,
        ],
        adaptive
    ),
    sampler!(
        "SamplerSASolver",
        [
            link("model", Socket::Model),
            float("eta", 1.0, (0.0, 10.0), 0.01),
            float("sde_start_percent", 0.2, (0.0, 1.0), 0.001),
            float("sde_end_percent", 0.8, (0.0, 1.0), 0.001),
            S_NOISE,
            int("predictor_order", 3, (1, 6), 1),
            int("corrector_order", 4, (0, 6), 1),
            boolean("use_pece", false),
            boolean("simple_order_2", false),
        ],
        sa_solver
    ),
    sampler!(
        "SamplerSEEDS2",
        [
            combo("solver_type", || vec!["phi_1", "phi_2"]),
            ETA,
            S_NOISE,
            float("r", 0.5, (0.01, 1.0), 0.01),
        ],
        |call| {
            let options = SamplerOptions {
                r: call.float("r")? as f32,
                solver: Some(match &*call.text("solver_type")? {
                    "phi_2" => Solver::Phi2,
                    _ => Solver::Phi1,
                }),
                ..noisy(call)?
            };
            made("seeds_2", options)
        }
    ),
];

fn made(name: &str, options: SamplerOptions) -> Result<Vec<Value>, NodeError> {
    let info = SamplerInfo::find(name).map_err(|e| NodeError::Input(e.to_string()))?;
    Ok(vec![Value::Sampler(Arc::new(Sampler { info, options }))])
}

/// Options with the node's `eta` and `s_noise`.
fn noisy(call: &Call<'_, '_>) -> Result<SamplerOptions, NodeError> {
    Ok(SamplerOptions {
        eta: Some(call.float("eta")? as f32),
        s_noise: call.float("s_noise")? as f32,
        ..SamplerOptions::default()
    })
}

/// The name of the sampler whose noise is drawn where the node says.
fn on_device(
    call: &Call<'_, '_>,
    cpu: &'static str,
    gpu: &'static str,
) -> Result<&'static str, NodeError> {
    let device = call.text("noise_device")?;
    Ok(if &*device == "cpu" { cpu } else { gpu })
}

fn adaptive(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let options = SamplerOptions {
        order: Some(call.size("order")?),
        adaptive: AdaptiveOptions {
            rtol: call.float("rtol")? as f32,
            atol: call.float("atol")? as f32,
            h_init: call.float("h_init")?,
            pcoeff: call.float("pcoeff")?,
            icoeff: call.float("icoeff")?,
            dcoeff: call.float("dcoeff")?,
            accept_safety: call.float("accept_safety")?,
        },
        ..noisy(call)?
    };
    made("dpm_adaptive", options)
}

fn sa_solver(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let options = SamplerOptions {
        adams: AdamsOptions {
            predictor_order: call.size("predictor_order")?,
            corrector_order: call.size("corrector_order")?,
            start_percent: call.float("sde_start_percent")?,
            end_percent: call.float("sde_end_percent")?,
            simple_order_2: call.boolean("simple_order_2")?,
        },
        ..noisy(call)?
    };
    let name = if call.boolean("use_pece")? {
        "sa_solver_pece"
    } else {
        "sa_solver"
    };
    made(name, options)
}
