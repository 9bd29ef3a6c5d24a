//! What people call samplers and schedulers. ComfyUI's names are the canonical ones; those of
//! AUTOMATIC1111's web UI and of stable-diffusion.cpp are understood, in any case and with or
//! without spaces, dashes and underscores.

use crate::registry::{SAMPLERS, Sampler, nearest};
use crate::{Error, Scheduler};

/// A name with what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// ComfyUI's name.
    pub name: &'static str,
    /// A1111's name; `None` where it has no such thing.
    pub a1111: Option<&'static str>,
    /// What it does, in a line.
    pub about: &'static str,
}

const fn both(name: &'static str, a1111: &'static str, about: &'static str) -> Name {
    Name {
        name,
        a1111: Some(a1111),
        about,
    }
}

const fn only(name: &'static str, about: &'static str) -> Name {
    Name {
        name,
        a1111: None,
        about,
    }
}

/// The samplers, in the order of [`SAMPLERS`].
#[rustfmt::skip]
pub static SAMPLER_NAMES: [Name; 45] = [
    both("euler", "Euler", "plain and reliable"),
    only("euler_cfg_pp", "euler with CFG++ guidance: a cfg of about 1"),
    both("euler_ancestral", "Euler a", "euler with new noise at each step: varied"),
    only("euler_ancestral_cfg_pp", "euler_ancestral with CFG++ guidance"),
    both("heun", "Heun", "second order: accurate, twice as slow"),
    only("heunpp2", "heun with up to three evaluations per step"),
    only("exp_heun_2_x0", "exponential heun, twice as slow"),
    only("exp_heun_2_x0_sde", "exp_heun_2_x0 with noise"),
    both("dpm_2", "DPM2", "DPM-Solver of second order, twice as slow"),
    both("dpm_2_ancestral", "DPM2 a", "dpm_2 with new noise at each step"),
    both("lms", "LMS", "linear multistep of up to fourth order"),
    both("dpm_fast", "DPM fast", "DPM-Solver with its own step sizes"),
    both("dpm_adaptive", "DPM adaptive", "DPM-Solver with an adaptive number of steps"),
    both("dpmpp_2s_ancestral", "DPM++ 2S a", "DPM-Solver++ with new noise, twice as slow"),
    only("dpmpp_2s_ancestral_cfg_pp", "dpmpp_2s_ancestral with CFG++ guidance"),
    both("dpmpp_sde", "DPM++ SDE", "good at few steps, twice as slow"),
    only("dpmpp_sde_gpu", "dpmpp_sde with noise drawn as on a GPU"),
    both("dpmpp_2m", "DPM++ 2M", "a good first choice, with karras"),
    only("dpmpp_2m_cfg_pp", "dpmpp_2m with CFG++ guidance"),
    both("dpmpp_2m_sde", "DPM++ 2M SDE", "dpmpp_2m with noise: for 25 steps and more"),
    only("dpmpp_2m_sde_gpu", "dpmpp_2m_sde with noise drawn as on a GPU"),
    both("dpmpp_2m_sde_heun", "DPM++ 2M SDE Heun", "dpmpp_2m_sde with heun's correction"),
    only("dpmpp_2m_sde_heun_gpu", "dpmpp_2m_sde_heun with noise drawn as on a GPU"),
    both("dpmpp_3m_sde", "DPM++ 3M SDE", "third order with noise: for 30 steps and more"),
    only("dpmpp_3m_sde_gpu", "dpmpp_3m_sde with noise drawn as on a GPU"),
    only("ddpm", "that of the first diffusion models: many steps"),
    both("lcm", "LCM", "for models distilled to a few steps"),
    only("ipndm", "multistep of up to fourth order"),
    only("ipndm_v", "ipndm for uneven step sizes"),
    only("deis", "multistep of third order: good at few steps"),
    only("cfgpp_ud10_ab", "CFG++ guidance with a touch of history"),
    only("res_multistep", "refined exponential solver of second order"),
    only("res_multistep_cfg_pp", "res_multistep with CFG++ guidance"),
    only("res_multistep_ancestral", "res_multistep with new noise at each step"),
    only("res_multistep_ancestral_cfg_pp", "res_multistep with new noise and CFG++"),
    only("gradient_estimation", "euler that extrapolates its slope: few steps"),
    only("gradient_estimation_cfg_pp", "gradient_estimation with CFG++ guidance"),
    only("er_sde", "extended reverse SDE of third order"),
    only("seeds_2", "stochastic exponential solver, twice as slow"),
    only("seeds_3", "stochastic exponential solver, 3 times as slow"),
    only("sa_solver", "stochastic Adams predictor-corrector"),
    only("sa_solver_pece", "sa_solver with one more evaluation per step"),
    both("ddim", "DDIM", "euler; with a mask, other noise outside it"),
    both("uni_pc", "UniPC", "predictor-corrector: good at few steps"),
    only("uni_pc_bh2", "uni_pc with B2(h), for guided sampling"),
];

/// The schedulers, in the order of [`Scheduler::ALL`].
pub static SCHEDULER_NAMES: [Name; 9] = [
    both("simple", "Simple", "even steps through the model's sigmas"),
    both(
        "sgm_uniform",
        "SGM Uniform",
        "even, without the last: for Lightning and Turbo",
    ),
    both(
        "karras",
        "Karras",
        "many small steps at low noise: fine detail",
    ),
    both(
        "exponential",
        "Exponential",
        "even in the logarithm of sigma",
    ),
    both(
        "ddim_uniform",
        "DDIM",
        "every n-th of the model's sigmas, as DDIM",
    ),
    both("beta", "Beta", "dense at both ends: structure and detail"),
    both("normal", "Normal", "even in time: the usual one"),
    only(
        "linear_quadratic",
        "small steps, then growing: for video models",
    ),
    both(
        "kl_optimal",
        "KL Optimal",
        "even in the arctangent of sigma: few steps",
    ),
];

/// Other programs' names that are not in the tables: A1111's "Uniform" and stable-diffusion.cpp's
/// "discrete" are both ComfyUI's `normal`.
const SCHEDULER_ALIASES: [(&str, &str); 2] = [("uniform", "normal"), ("discrete", "normal")];

/// What a label says: a sampler and, where the name ends in one, a scheduler. Before its version
/// 1.9, A1111 had both in one name ("DPM++ 2M Karras").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Labelled {
    pub sampler: &'static Sampler,
    pub scheduler: Option<Scheduler>,
}

impl Sampler {
    /// Reads a name of any of these programs.
    pub fn parse(label: &str) -> Result<Labelled, Error> {
        let wanted = plain(label);
        if let Some(sampler) = sampler(&wanted) {
            return Ok(Labelled {
                sampler,
                scheduler: None,
            });
        }
        let both = schedulers().find_map(|(suffix, scheduler)| {
            let sampler = sampler(wanted.strip_suffix(&suffix)?)?;
            Some((sampler, scheduler))
        });
        let (sampler, scheduler) = both.ok_or_else(|| Error::UnknownSampler {
            name: label.to_owned(),
            nearest: nearest(label, SAMPLERS.iter().map(|s| s.name)),
        })?;
        Ok(Labelled {
            sampler,
            scheduler: Some(scheduler),
        })
    }

    /// A1111's name where it has one, else ComfyUI's.
    pub fn a1111_name(&self) -> &'static str {
        let found = SAMPLER_NAMES.iter().find(|n| n.name == self.name);
        found.and_then(|n| n.a1111).unwrap_or(self.name)
    }
}

impl Scheduler {
    /// Reads a name of any of these programs.
    pub fn parse(label: &str) -> Result<Scheduler, Error> {
        let wanted = plain(label);
        let found = schedulers().find(|(name, _)| *name == wanted);
        found
            .map(|(_, scheduler)| scheduler)
            .ok_or_else(|| Error::UnknownScheduler {
                name: label.to_owned(),
                nearest: nearest(label, Self::ALL.into_iter().map(Self::name)),
            })
    }

    /// What A1111 uses with a sampler when its schedule is "Automatic".
    pub fn automatic(sampler: &Sampler) -> Scheduler {
        match sampler.name {
            "dpmpp_2m" | "dpmpp_sde" | "dpmpp_2s_ancestral" | "dpm_2" | "dpm_2_ancestral" => {
                Scheduler::Karras
            }
            "dpmpp_2m_sde" | "dpmpp_2m_sde_heun" | "dpmpp_3m_sde" => Scheduler::Exponential,
            _ => Scheduler::Normal,
        }
    }

    /// A1111's name where it has one, else ComfyUI's.
    pub fn a1111_name(self) -> &'static str {
        let found = SCHEDULER_NAMES.iter().find(|n| n.name == self.name());
        found.and_then(|n| n.a1111).unwrap_or(self.name())
    }
}

/// The sampler with this name, which is [`plain`].
fn sampler(wanted: &str) -> Option<&'static Sampler> {
    let mut rows = SAMPLER_NAMES.iter().zip(&SAMPLERS);
    let is = |name: &Name| {
        plain(name.name) == wanted || name.a1111.is_some_and(|label| plain(label) == wanted)
    };
    rows.find(|(name, _)| is(name)).map(|(_, sampler)| sampler)
}

/// Every name of a scheduler, as [`plain`] gives it.
fn schedulers() -> impl Iterator<Item = (String, Scheduler)> {
    let named = SCHEDULER_NAMES.iter().zip(Scheduler::ALL);
    let named = named.flat_map(|(name, scheduler)| {
        let labels = [Some(name.name), name.a1111].into_iter().flatten();
        labels.map(move |label| (plain(label), scheduler))
    });
    let aliases = SCHEDULER_ALIASES.iter().filter_map(|(alias, name)| {
        let scheduler = Scheduler::find(name).ok()?;
        Some(((*alias).to_owned(), scheduler))
    });
    named.chain(aliases)
}

/// The letters and digits of a name in lower case, "++" as "pp".
fn plain(label: &str) -> String {
    /// Longer than any name.
    const MOST: usize = 64;
    let lower = label.chars().take(MOST).collect::<String>().to_lowercase();
    let kept = lower.chars().filter(|c| !matches!(c, ' ' | '_' | '-'));
    kept.collect::<String>().replace("++", "pp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_follow_the_samplers_and_schedulers() {
        for (name, sampler) in SAMPLER_NAMES.iter().zip(&SAMPLERS) {
            assert_eq!(name.name, sampler.name);
        }
        for (name, scheduler) in SCHEDULER_NAMES.iter().zip(Scheduler::ALL) {
            assert_eq!(name.name, scheduler.name());
        }
        let all = SAMPLER_NAMES.iter().chain(&SCHEDULER_NAMES);
        for name in all.clone() {
            // A table of them has to fit a terminal.
            assert!((1..=48).contains(&name.about.len()), "{}", name.name);
        }
    }

    #[test]
    fn names_of_other_programs_are_understood() {
        let cases = [
            ("euler", "euler", None),
            ("Euler a", "euler_ancestral", None),
            ("euler_a", "euler_ancestral", None),
            ("DPM++ 2M", "dpmpp_2m", None),
            ("DPMPP_2M", "dpmpp_2m", None),
            ("dpmpp2m", "dpmpp_2m", None),
            ("dpm++2m", "dpmpp_2m", None),
            ("dpm++2s_a", "dpmpp_2s_ancestral", None),
            ("dpm2", "dpm_2", None),
            ("unipc", "uni_pc", None),
            ("DPM++ 2M Karras", "dpmpp_2m", Some(Scheduler::Karras)),
            (
                "dpm++ 2m sde exponential",
                "dpmpp_2m_sde",
                Some(Scheduler::Exponential),
            ),
            ("DPM++ SDE Karras", "dpmpp_sde", Some(Scheduler::Karras)),
            ("LMS Karras", "lms", Some(Scheduler::Karras)),
            ("DDIM", "ddim", None),
        ];
        for (label, name, scheduler) in cases {
            let found = Sampler::parse(label).unwrap();
            assert_eq!(
                (found.sampler.name, found.scheduler),
                (name, scheduler),
                "{label}"
            );
        }
        for name in &SAMPLER_NAMES {
            assert_eq!(Sampler::parse(name.name).unwrap().sampler.name, name.name);
        }
        for (label, scheduler) in [
            ("Karras", Scheduler::Karras),
            ("SGM Uniform", Scheduler::SgmUniform),
            ("Uniform", Scheduler::Normal),
            ("discrete", Scheduler::Normal),
            ("kl_optimal", Scheduler::KlOptimal),
            ("DDIM", Scheduler::DdimUniform),
        ] {
            assert_eq!(Scheduler::parse(label).unwrap(), scheduler, "{label}");
        }
        for wrong in ["eulr", "", "karras", "dpm++2mv2"] {
            assert!(Sampler::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Sampler::parse(&"x".repeat(1 << 20)).is_err());
        assert!(Scheduler::parse("karas").is_err());
    }
}
