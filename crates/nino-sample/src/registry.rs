//! The samplers by ComfyUI's names, in its order.

use crate::Error;
use crate::brownian::path_bytes;
use crate::error::Stop;
use crate::sampler::Run;
use crate::samplers::{
    adams, cfg_pp, ddpm, deis, dpm_2, dpm_solver, dpmpp_2m, dpmpp_2s, dpmpp_multistep_sde,
    dpmpp_sde, er_sde, euler, gradient_estimation, heun, ipndm, lcm, lms, res_multistep, seeds,
    uni_pc,
};

type SamplerFn = fn(&mut Run<'_>, &mut [f32]) -> Result<(), Stop>;

/// The noise a sampler draws at each step. Where it draws any, its result depends on the seed also
/// through these draws, and not through the initial noise alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepNoiseKind {
    None,
    /// Each step draws independent noise.
    Fresh,
    /// The steps share one Brownian path, which is drawn on the CPU whatever the device.
    Brownian,
    /// The steps share one Brownian path, which is drawn on the device.
    DeviceBrownian,
}

/// How a run that was stopped compares with one that was not, when it goes on from the latent that
/// [`crate::Step`] reported for its last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The result is the same: the sampler draws no noise and keeps no history.
    Same,
    /// The result differs but belongs to the same noise levels: the sampler's history, or its
    /// position in a stream of noise, is lost.
    Like,
    /// The sampler cannot start in the middle, because its steps are not the schedule's.
    Never,
}

/// A sampler with what its callers must know about it.
#[derive(Debug, Clone, Copy)]
pub struct Sampler {
    pub name: &'static str,
    pub run: SamplerFn,
    /// The schedule is made for one step more, and its penultimate level is dropped.
    pub drops_penultimate: bool,
    /// The level that stands in for a last level of 0, for the sampler and for the scaling of its
    /// result.
    pub floor: f32,
    /// Inpainting draws new noise for what is kept, instead of using the initial noise.
    pub fresh_inpaint_noise: bool,
    pub step_noise: StepNoiseKind,
    /// The sampler needs the negative prompt's prediction even at cfg 1.
    pub cfg_pp: bool,
    pub restart: Restart,
}

impl Sampler {
    pub fn find(name: &str) -> Result<&'static Self, Error> {
        SAMPLERS
            .iter()
            .find(|s| s.name == name)
            .ok_or_else(|| Error::UnknownSampler {
                name: name.to_owned(),
                nearest: nearest(name, SAMPLERS.iter().map(|s| s.name)),
            })
    }

    /// Bytes that the noise of its steps takes, where a latent takes `latent` bytes.
    pub fn noise_bytes(&self, latent: usize) -> usize {
        match self.step_noise {
            StepNoiseKind::None => 0,
            StepNoiseKind::Fresh => latent,
            StepNoiseKind::Brownian | StepNoiseKind::DeviceBrownian => path_bytes(latent),
        }
    }
}

impl PartialEq for Sampler {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

const fn ode(name: &'static str, run: SamplerFn) -> Sampler {
    Sampler {
        name,
        run,
        drops_penultimate: false,
        floor: 0.0,
        fresh_inpaint_noise: false,
        step_noise: StepNoiseKind::None,
        cfg_pp: false,
        restart: Restart::Like,
    }
}

const fn sde(name: &'static str, run: SamplerFn) -> Sampler {
    Sampler {
        step_noise: StepNoiseKind::Fresh,
        ..ode(name, run)
    }
}

const fn path(name: &'static str, run: SamplerFn) -> Sampler {
    Sampler {
        step_noise: StepNoiseKind::Brownian,
        ..ode(name, run)
    }
}

const fn device_path(name: &'static str, run: SamplerFn) -> Sampler {
    Sampler {
        step_noise: StepNoiseKind::DeviceBrownian,
        ..ode(name, run)
    }
}

const fn plus(sampler: Sampler) -> Sampler {
    Sampler {
        cfg_pp: true,
        ..sampler
    }
}

const fn same(sampler: Sampler) -> Sampler {
    Sampler {
        restart: Restart::Same,
        ..sampler
    }
}

const fn own_steps(sampler: Sampler) -> Sampler {
    Sampler {
        restart: Restart::Never,
        ..sampler
    }
}

const fn short(sampler: Sampler) -> Sampler {
    Sampler {
        drops_penultimate: true,
        ..sampler
    }
}

const fn unified(name: &'static str, run: SamplerFn) -> Sampler {
    Sampler {
        drops_penultimate: true,
        floor: uni_pc::LAST_LEVEL,
        ..own_steps(ode(name, run))
    }
}

pub static SAMPLERS: [Sampler; 45] = [
    same(ode("euler", euler::euler)),
    same(plus(ode("euler_cfg_pp", cfg_pp::euler_cfg_pp))),
    sde("euler_ancestral", euler::euler_ancestral),
    plus(sde(
        "euler_ancestral_cfg_pp",
        cfg_pp::euler_ancestral_cfg_pp,
    )),
    same(ode("heun", heun::heun)),
    ode("heunpp2", heun::heunpp2),
    same(ode("exp_heun_2_x0", seeds::exp_heun_2_x0)),
    sde("exp_heun_2_x0_sde", seeds::exp_heun_2_x0_sde),
    same(short(ode("dpm_2", dpm_2::dpm_2))),
    short(sde("dpm_2_ancestral", dpm_2::dpm_2_ancestral)),
    ode("lms", lms::lms),
    own_steps(ode("dpm_fast", dpm_solver::dpm_fast)),
    own_steps(ode("dpm_adaptive", dpm_solver::dpm_adaptive)),
    sde("dpmpp_2s_ancestral", dpmpp_2s::dpmpp_2s_ancestral),
    plus(sde(
        "dpmpp_2s_ancestral_cfg_pp",
        dpmpp_2s::dpmpp_2s_ancestral_cfg_pp,
    )),
    path("dpmpp_sde", dpmpp_sde::dpmpp_sde),
    device_path("dpmpp_sde_gpu", dpmpp_sde::dpmpp_sde),
    ode("dpmpp_2m", dpmpp_2m::dpmpp_2m),
    plus(ode("dpmpp_2m_cfg_pp", dpmpp_2m::dpmpp_2m_cfg_pp)),
    path("dpmpp_2m_sde", dpmpp_multistep_sde::dpmpp_2m_sde),
    device_path("dpmpp_2m_sde_gpu", dpmpp_multistep_sde::dpmpp_2m_sde),
    path("dpmpp_2m_sde_heun", dpmpp_multistep_sde::dpmpp_2m_sde_heun),
    device_path(
        "dpmpp_2m_sde_heun_gpu",
        dpmpp_multistep_sde::dpmpp_2m_sde_heun,
    ),
    path("dpmpp_3m_sde", dpmpp_multistep_sde::dpmpp_3m_sde),
    device_path("dpmpp_3m_sde_gpu", dpmpp_multistep_sde::dpmpp_3m_sde),
    sde("ddpm", ddpm::ddpm),
    sde("lcm", lcm::lcm),
    ode("ipndm", ipndm::ipndm),
    ode("ipndm_v", ipndm::ipndm_v),
    ode("deis", deis::deis),
    ode("cfgpp_ud10_ab", cfg_pp::cfgpp_ud10_ab),
    ode("res_multistep", res_multistep::res_multistep),
    plus(ode(
        "res_multistep_cfg_pp",
        res_multistep::res_multistep_cfg_pp,
    )),
    sde(
        "res_multistep_ancestral",
        res_multistep::res_multistep_ancestral,
    ),
    plus(sde(
        "res_multistep_ancestral_cfg_pp",
        res_multistep::res_multistep_ancestral_cfg_pp,
    )),
    ode(
        "gradient_estimation",
        gradient_estimation::gradient_estimation,
    ),
    plus(ode(
        "gradient_estimation_cfg_pp",
        gradient_estimation::gradient_estimation_cfg_pp,
    )),
    sde("er_sde", er_sde::er_sde),
    sde("seeds_2", seeds::seeds_2),
    sde("seeds_3", seeds::seeds_3),
    sde("sa_solver", adams::sa_solver),
    sde("sa_solver_pece", adams::sa_solver_pece),
    Sampler {
        fresh_inpaint_noise: true,
        ..same(ode("ddim", euler::euler))
    },
    unified("uni_pc", uni_pc::uni_pc),
    unified("uni_pc_bh2", uni_pc::uni_pc_bh2),
];

/// Up to three names near `name`, best first: by edits, after spaces, dashes, case and "++" are
/// evened out.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = plain(name);
    let mut scored: Vec<(usize, &str)> = names
        .map(|n| (distance(wanted.as_bytes(), n.as_bytes()), n))
        .collect();
    scored.sort_by_key(|&(d, _)| d);
    let best = scored.first().map_or(0, |s| s.0);
    scored
        .into_iter()
        .take_while(|s| s.0 <= best + 2)
        .take(3)
        .map(|s| s.1)
        .collect()
}

/// Other programs' spellings ("DPM++ 2M SDE", "euler_a", "dpm2") brought near ours.
fn plain(name: &str) -> String {
    let cut = name.char_indices().nth(64).map_or(name.len(), |(i, _)| i);
    let lower = name[..cut].trim().to_lowercase();
    let mut plain = lower
        .replace("++", "pp_")
        .replace([' ', '-'], "_")
        .replace("__", "_");
    if let Some(stem) = plain.strip_suffix("_a") {
        plain = format!("{stem}_ancestral");
    }
    plain
}

/// Levenshtein's distance.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
