//! What holds for any run: levels fall and end at 0, a seed decides everything, names are offered,
//! stopping stops.

use std::cell::Cell;

use nino_sample::ksampler::{self, Job};
use nino_sample::noise::initial;
use nino_sample::{
    Beside, Denoise, Error, Guided, Network, Options, Output, Rng, SAMPLERS, Sampler, Scheduler,
    Seed, StepNoiseKind, Stop,
};

use crate::golden::{MODELS, model};
use crate::paths::{LEN, denoise};

#[test]
fn levels_fall_to_zero() {
    for name in MODELS {
        let m = model(name);
        for scheduler in Scheduler::ALL {
            for steps in [1, 2, 3, 7, 50, 999, 1000, 1001, 10_000] {
                let sigmas = scheduler.sigmas(&m, steps).unwrap();
                let what = format!("{}/{name}/{steps}", scheduler.name());
                assert_eq!(sigmas.last(), Some(&0.0), "{what}");
                assert!(sigmas.iter().all(|s| s.is_finite()), "{what}");
                // Repeats are possible when there are more steps than table entries, never a rise.
                let rises = sigmas.windows(2).filter(|w| w[1] > w[0] * 1.000_01).count();
                assert_eq!(rises, 0, "{what}");
                assert!(
                    sigmas[0] <= m.sigma_max() * 1.000_01,
                    "{what}: {}",
                    sigmas[0]
                );
            }
        }
    }
}

fn run(sampler: &Sampler, kind: &str, seed: Seed, steps: usize) -> Vec<f32> {
    let m = model(kind);
    let sigmas = ksampler::sigmas(&m, sampler, Scheduler::Normal, steps, 1.0).unwrap();
    let job = Job {
        model: &m,
        sampler,
        sigmas: &sigmas,
        seed,
        options: &Options::default(),
        latent: &[0.0; LEN],
        noise: &initial(Seed::new(1), LEN),
        mask: None,
        clean: false,
    };
    let mut denoiser = |x: &[f32], sigma: f32, out: Output<'_>| -> Result<(), Stop> {
        denoise(m.prediction, x, sigma, out);
        Ok(())
    };
    ksampler::sample(&job, &mut denoiser, &mut |_| Ok(())).unwrap()
}

#[test]
fn a_seed_decides_the_result() {
    for sampler in &SAMPLERS {
        let at = |value| run(sampler, "eps", Seed::new(value), 5);
        assert_eq!(at(1), at(1), "{}", sampler.name);
        let depends = sampler.step_noise != StepNoiseKind::None;
        assert_eq!(at(1) != at(2), depends, "{}", sampler.name);
    }
}

#[test]
fn philox_changes_step_noise_where_cudas_would() {
    for sampler in &SAMPLERS {
        let at = |rng| run(sampler, "eps", Seed { value: 1, rng }, 5);
        let depends = matches!(
            sampler.step_noise,
            StepNoiseKind::Fresh | StepNoiseKind::DeviceBrownian
        );
        assert_eq!(
            at(Rng::Torch) != at(Rng::Philox),
            depends,
            "{}",
            sampler.name
        );
    }
}

#[test]
fn short_runs_work() {
    for sampler in &SAMPLERS {
        for kind in ["eps", "flow_3"] {
            for steps in [1, 2, 3, 4] {
                let x = run(sampler, kind, Seed::new(1), steps);
                assert!(
                    x.iter().all(|v| v.is_finite()),
                    "{} {kind} {steps}: {x:?}",
                    sampler.name
                );
            }
        }
    }
}

#[test]
fn stopping_stops_at_once() {
    let m = model("eps");
    for sampler in &SAMPLERS {
        let sigmas = ksampler::sigmas(&m, sampler, Scheduler::Normal, 8, 1.0).unwrap();
        let job = Job {
            model: &m,
            sampler,
            sigmas: &sigmas,
            seed: Seed::new(1),
            options: &Options::default(),
            latent: &[0.0; LEN],
            noise: &initial(Seed::new(1), LEN),
            mask: None,
            clean: false,
        };
        let calls = Cell::new(0);
        let mut denoiser = |x: &[f32], sigma: f32, out: Output<'_>| -> Result<(), Stop> {
            calls.set(calls.get() + 1);
            denoise(m.prediction, x, sigma, out);
            Ok(())
        };
        let mut told = 0;
        let mut stop_in_third = |_: &nino_sample::Step<'_>| {
            told += 1;
            if told == 2 { Err(Stop) } else { Ok(()) }
        };
        let result = ksampler::sample(&job, &mut denoiser, &mut stop_in_third);
        assert_eq!(result, Err(Error::Stopped(Stop)), "{}", sampler.name);
        assert_eq!(told, 2, "{}", sampler.name);
        assert!(calls.get() <= 7, "{}: {} calls", sampler.name, calls.get());
    }
}

#[test]
fn names_are_comfyuis_and_near_ones_are_offered() {
    let names: Vec<&str> = SAMPLERS.iter().map(|s| s.name).collect();
    assert_eq!(names.len(), 45);
    assert_eq!(
        (names[0], names[30], names[44]),
        ("euler", "cfgpp_ud10_ab", "uni_pc_bh2")
    );
    let short: Vec<&str> = SAMPLERS
        .iter()
        .filter(|s| s.drops_penultimate)
        .map(|s| s.name)
        .collect();
    assert_eq!(short, ["dpm_2", "dpm_2_ancestral", "uni_pc", "uni_pc_bh2"]);
    for (typed, first) in [
        ("eular", "euler"),
        ("Euler a", "euler_ancestral"),
        ("DPM++ 2M", "dpmpp_2m"),
        ("DPM++ 2M SDE", "dpmpp_2m_sde"),
        ("dpm2", "dpm_2"),
        ("unipc", "uni_pc"),
    ] {
        let Err(Error::UnknownSampler { nearest, .. }) = Sampler::find(typed) else {
            panic!("{typed} is known")
        };
        assert_eq!(nearest[0], first, "{typed}: {nearest:?}");
    }
    assert_eq!(
        Scheduler::find("karas").unwrap_err().to_string(),
        "no scheduler is called \"karas\"; did you mean karras?"
    );
    assert!(Sampler::find(&"x".repeat(1 << 20)).is_err());
    assert!(Sampler::find("").is_err());
}

/// A network that counts what it is asked.
struct Counting {
    positive: usize,
    negative: usize,
    weaker: usize,
}

impl Network for &mut Counting {
    fn forward(
        &mut self,
        input: &[f32],
        timestep: f32,
        positive: &mut [f32],
        negative: Option<&mut [f32]>,
    ) -> Result<(), Stop> {
        self.positive += 1;
        positive
            .iter_mut()
            .zip(input)
            .for_each(|(p, i)| *p = i + timestep * 1e-3);
        if let Some(negative) = negative {
            self.negative += 1;
            negative
                .iter_mut()
                .zip(input)
                .for_each(|(p, i)| *p = i - timestep * 1e-3);
        }
        Ok(())
    }

    fn beside(
        &mut self,
        what: Beside,
        input: &[f32],
        timestep: f32,
        out: &mut [f32],
    ) -> Result<(), Stop> {
        assert_eq!(what, Beside::Weaker);
        self.weaker += 1;
        out.iter_mut()
            .zip(input)
            .for_each(|(p, i)| *p = i + timestep * 5e-4);
        Ok(())
    }
}

#[test]
fn the_negative_is_skipped_at_cfg_1_unless_forced() {
    let m = model("eps");
    let x = initial(Seed::new(1), 8);
    for (cfg, want, force, ran) in [
        (1.0, false, false, 0),
        (1.0, true, false, 0),
        (1.0, true, true, 1),
        (7.0, false, false, 1),
        (7.0, true, true, 1),
    ] {
        let mut network = Counting {
            positive: 0,
            negative: 0,
            weaker: 0,
        };
        let (mut denoised, mut uncond) = (vec![0.0; 8], vec![0.0; 8]);
        let out = Output {
            denoised: &mut denoised,
            uncond: want.then_some(&mut uncond[..]),
            force_uncond: force,
        };
        Guided::new(&mut network, &m, cfg)
            .denoise(&x, 2.0, out)
            .unwrap();
        assert_eq!((network.positive, network.negative), (1, ran), "cfg {cfg}");
        if want && ran == 0 {
            assert_eq!(uncond, denoised);
        }
        // eps = input +- t/1000 and x0 = x - sigma * eps, so guidance moves x0 by cfg times the
        // difference.
        let t = m.timestep(2.0) * 1e-3;
        let eps = x[0] / 5.0f32.sqrt() + (2.0 * cfg - 1.0) * t;
        assert!((denoised[0] - (x[0] - 2.0 * eps)).abs() < 1e-5, "cfg {cfg}");
    }
}
