//! Ten-step paths of every sampler on an analytic denoiser: each input the denoiser gets, and the
//! result.

use nino_sample::ksampler::{self, Job};
use nino_sample::noise::initial;
use nino_sample::{
    Adams, Adaptive, Inpaint, ModelSampling, Options, Output, Prediction, Rescale, SAMPLERS,
    Sampler, Scheduler, Seed, Solver, Stop, combine, combine_rescaled,
};

use crate::golden::{MODELS, error, model, read};

pub(crate) const SEED: u64 = 1_234_567;
pub(crate) const LEN: usize = 36;
const CFG: f32 = 2.0;
const TOLERANCE: f64 = 1e-5;

/// E[x0 | x] for x = alpha x0 + sigma n and x0 from two Gaussians at +-center.
fn posterior(x: f32, sigma: f64, alpha: f64, center: f64, variance: f64) -> f32 {
    let x = f64::from(x);
    let total = alpha * alpha * variance + sigma * sigma;
    let pull = (alpha * center * x / total).tanh();
    ((alpha * variance * x + sigma * sigma * center * pull) / total) as f32
}

/// Guided predictions as `make.py` makes them.
pub(crate) fn denoise(prediction: Prediction, x: &[f32], sigma: f32, out: Output<'_>) {
    let sigma = f64::from(sigma);
    let alpha = if prediction.is_flow() {
        1.0 - sigma
    } else {
        1.0
    };
    let center = |i: usize| f64::from(0.4 + 0.1 * (i % 7) as f32);
    let mut negative = vec![0.0; x.len()];
    let negative = out.uncond.unwrap_or(&mut negative);
    for (i, &x) in x.iter().enumerate() {
        out.denoised[i] = posterior(x, sigma, alpha, center(i), 0.25);
        negative[i] = posterior(x, sigma, alpha, -0.5 * center(i), 0.5);
    }
    combine(CFG, out.denoised, negative);
}

struct Case<'a> {
    model: &'a ModelSampling,
    sampler: &'a Sampler,
    sigmas: &'a [f32],
    options: Options,
    latent: Vec<f32>,
    mask: Option<Vec<f32>>,
}

impl Case<'_> {
    /// The denoiser's inputs, each after its sigma, and the result.
    fn run(&self) -> (Vec<f32>, Vec<f32>) {
        let seed = Seed::new(SEED);
        let noise = initial(seed, self.latent.len());
        let job = Job {
            model: self.model,
            sampler: self.sampler,
            sigmas: self.sigmas,
            seed,
            options: &self.options,
            latent: &self.latent,
            noise: &noise,
            mask: self.mask.as_deref(),
            clean: false,
        };
        let mut seen = Vec::new();
        let mut denoiser = |x: &[f32], sigma: f32, out: Output<'_>| -> Result<(), Stop> {
            seen.push(sigma);
            seen.extend(x);
            denoise(self.model.prediction, x, sigma, out);
            Ok(())
        };
        let result = ksampler::sample(&job, &mut denoiser, &mut |_| Ok(())).unwrap();
        (seen, result)
    }
}

#[test]
fn paths_of_all_samplers_are_comfyuis() {
    let golden = read("paths");
    let mut failures = Vec::new();
    for (kind, scheduler) in [("eps", Scheduler::Karras), ("flow_3", Scheduler::Simple)] {
        let model = model(kind);
        for sampler in &SAMPLERS {
            let sigmas = ksampler::sigmas(&model, sampler, scheduler, 10, 1.0).unwrap();
            let case = Case {
                model: &model,
                sampler,
                sigmas: &sigmas,
                options: Options::default(),
                latent: vec![0.0; LEN],
                mask: None,
            };
            let (seen, result) = case.run();
            let expected = &golden[&format!("{}/{kind}/seen", sampler.name)];
            let steps = seen.chunks(LEN + 1).zip(expected.chunks(LEN + 1));
            let errors = steps.map(|(f, e)| error(&f[..1], &e[..1]).max(error(&f[1..], &e[1..])));
            let errors: Vec<f64> = errors.collect();
            let last = error(&result, &golden[&format!("{}/{kind}/result", sampler.name)]);
            let worst = errors.iter().copied().fold(last, f64::max);
            println!("{:32} {kind:8} {worst:.1e}", sampler.name);
            if seen.len() != expected.len() || worst > TOLERANCE || worst.is_nan() {
                let calls = (seen.len() / (LEN + 1), expected.len() / (LEN + 1));
                let name = sampler.name;
                failures.push(format!(
                    "{name}/{kind}: {worst:.1e}, {last:.1e}, {calls:?}: {errors:?}"
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn partial_and_masked_runs_are_comfyuis() {
    let golden = read("paths");
    let mut failures = Vec::new();
    let latent: Vec<f32> = (0..LEN)
        .map(|i| -1.0 + 2.0 * i as f32 / (LEN - 1) as f32)
        .collect();
    let mask: Vec<f32> = (0..LEN).map(|i| (i % 5) as f32 / 4.0).collect();
    for kind in ["eps", "flow_3"] {
        let model = model(kind);
        for name in [
            "euler",
            "ddim",
            "dpmpp_2m_sde",
            "uni_pc",
            "sa_solver",
            "heunpp2",
        ] {
            let sampler = Sampler::find(name).unwrap();
            let all = ksampler::sigmas(&model, sampler, Scheduler::Normal, 6, 0.6).unwrap();
            for (what, sigmas, mask) in [
                ("partial", &all[..], None),
                ("leftover", &all[1..5], None),
                ("masked", &all[..], Some(mask.clone())),
            ] {
                let options = Options::default();
                let case = Case {
                    model: &model,
                    sampler,
                    sigmas,
                    options,
                    latent: latent.clone(),
                    mask,
                };
                let e = error(&case.run().1, &golden[&format!("{what}/{name}/{kind}")]);
                if e > TOLERANCE {
                    failures.push(format!("{what}/{name}/{kind}: {e:.1e}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What is grey in a mask is painted later.
#[test]
fn gradual_masks_are_comfyuis() {
    let golden = read("gradual");
    let mut failures = Vec::new();
    let latent: Vec<f32> = (0..LEN)
        .map(|i| -1.0 + 2.0 * i as f32 / (LEN - 1) as f32)
        .collect();
    let mask: Vec<f32> = (0..LEN).map(|i| (i % 5) as f32 / 4.0).collect();
    assert_eq!(golden.len(), 12);
    for (key, wanted) in &golden {
        let parts: Vec<&str> = key.split('/').collect();
        let (model, sampler) = (model(parts[1]), Sampler::find(parts[0]).unwrap());
        let case = Case {
            model: &model,
            sampler,
            sigmas: &ksampler::sigmas(&model, sampler, Scheduler::Normal, 6, 0.6).unwrap(),
            options: Options {
                gradual: Some(parts[2].parse().unwrap()),
                ..Options::default()
            },
            latent: latent.clone(),
            mask: Some(mask.clone()),
        };
        let e = error(&case.run().1, wanted);
        if e > TOLERANCE {
            failures.push(format!("{key}: {e:.1e}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn options_act_as_comfyuis() {
    let golden = read("paths");
    let model = model("eps");
    let mut failures = Vec::new();
    let o = Options::default;
    let churn = || Options {
        s_churn: 3.0,
        ..o()
    };
    let cases = [
        (
            "euler_churn",
            "euler",
            Options {
                s_noise: 1.1,
                s_tmin: 0.1,
                s_tmax: 10.0,
                ..churn()
            },
        ),
        ("heun_churn", "heun", churn()),
        ("dpm_2_churn", "dpm_2", churn()),
        (
            "euler_ancestral",
            "euler_ancestral",
            Options {
                eta: Some(0.5),
                s_noise: 0.9,
                ..o()
            },
        ),
        (
            "dpm_adaptive",
            "dpm_adaptive",
            Options {
                order: Some(2),
                adaptive: Adaptive {
                    rtol: 0.02,
                    ..Adaptive::default()
                },
                eta: Some(0.5),
                s_noise: 0.8,
                ..o()
            },
        ),
        (
            "dpmpp_sde",
            "dpmpp_sde",
            Options {
                r: 0.4,
                eta: Some(0.7),
                ..o()
            },
        ),
        (
            "dpmpp_2m_sde",
            "dpmpp_2m_sde",
            Options {
                solver: Some(Solver::Heun),
                eta: Some(0.0),
                ..o()
            },
        ),
        (
            "seeds_2",
            "seeds_2",
            Options {
                solver: Some(Solver::Phi2),
                r: 0.6,
                eta: Some(0.8),
                ..o()
            },
        ),
        (
            "seeds_3",
            "seeds_3",
            Options {
                eta: Some(0.5),
                r_3: [0.25, 0.75],
                ..o()
            },
        ),
        (
            "ipndm",
            "ipndm",
            Options {
                order: Some(3),
                ..o()
            },
        ),
        (
            "deis",
            "deis",
            Options {
                order: Some(4),
                ..o()
            },
        ),
        (
            "lms",
            "lms",
            Options {
                order: Some(2),
                ..o()
            },
        ),
        (
            "er_sde",
            "er_sde",
            Options {
                order: Some(2),
                s_noise: 0.5,
                ..o()
            },
        ),
        (
            "gradient_estimation",
            "gradient_estimation",
            Options {
                ge_gamma: 1.5,
                ..o()
            },
        ),
        (
            "sa_solver",
            "sa_solver",
            Options {
                adams: Adams {
                    predictor_order: 2,
                    corrector_order: 2,
                    simple_order_2: true,
                    ..Adams::default()
                },
                ..o()
            },
        ),
        (
            "lcm",
            "lcm",
            Options {
                s_noise: 0.9,
                s_noise_end: Some(0.5),
                noise_clip_std: 1.2,
                ..o()
            },
        ),
    ];
    for (key, name, options) in cases {
        let sampler = Sampler::find(name).unwrap();
        let sigmas = ksampler::sigmas(&model, sampler, Scheduler::Karras, 10, 1.0).unwrap();
        let latent = vec![0.0; LEN];
        let case = Case {
            model: &model,
            sampler,
            sigmas: &sigmas,
            options,
            latent,
            mask: None,
        };
        let e = error(&case.run().1, &golden[&format!("options/{key}")]);
        println!("{key:32} {e:.1e}");
        if e > TOLERANCE || e.is_nan() {
            failures.push(format!("{key}: {e:.1e}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn predictions_are_comfyuis() {
    let golden = read("paths");
    let (x, output) = (initial(Seed::new(3), 16), initial(Seed::new(4), 16));
    let sigma = 0.7;
    for name in MODELS {
        let m = model(name);
        let check = |what: &str, found: &[f32]| {
            let e = error(found, &golden[&format!("prediction/{name}/{what}")]);
            assert!(e < 1e-6, "{name} {what}: {e:e}");
        };
        let mut input = vec![0.0; 16];
        m.prediction.input(sigma, m.sigma_data, &x, &mut input);
        check("input", &input);
        let mut denoised = output.clone();
        m.prediction
            .denoised(sigma, m.sigma_data, m.timestep(sigma), &x, &mut denoised);
        check("denoised", &denoised);
        let (noise, latent) = m.prediction.noise_scales(sigma, false);
        let noised: Vec<f32> = output
            .iter()
            .zip(&x)
            .map(|(n, l)| noise * n + latent * l)
            .collect();
        check("noised", &noised);
    }
}

#[test]
fn rescaled_guidance_is_comfyuis() {
    let (mut positive, negative) = (initial(Seed::new(3), 16), initial(Seed::new(4), 16));
    let x: Vec<f32> = (0..16).map(|i| -2.0 + 4.0 * i as f32 / 15.0).collect();
    let rescale = Rescale {
        multiplier: 0.7,
        image_len: 8,
    };
    combine_rescaled(&x, 1.3, 5.0, rescale, &mut positive, &negative);
    let e = error(&positive, &read("paths")["rescale"]);
    assert!(e < 1e-5, "{e:e}");
}

#[test]
fn inpainting_refuses_a_mask_of_another_size() {
    let mut denoiser = |_: &[f32], _: f32, _: Output<'_>| -> Result<(), Stop> { Ok(()) };
    let latent = [0.0; 4];
    let made = Inpaint::new(&mut denoiser, Prediction::Eps, &[1.0; 3], &latent, &latent);
    assert_eq!(
        made.err().unwrap().to_string(),
        "the mask has 3 values where the latent has 4"
    );
}
