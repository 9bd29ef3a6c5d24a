//! Runs that are stopped and go on from the latent of their last step.

use nino_sample::ksampler::{self, Job};
use nino_sample::noise::initial;
use nino_sample::{
    ModelSampling, Options, Output, Restart, SAMPLERS, Sampler, Scheduler, Seed, Stop,
};

use crate::golden::{error, model};
use crate::paths::{LEN, denoise};

const STEPS: usize = 10;

/// The result, and the latent told for step `at`.
fn run(
    model: &ModelSampling,
    sampler: &Sampler,
    sigmas: &[f32],
    latent: &[f32],
    noise: &[f32],
    at: usize,
) -> (Vec<f32>, Vec<f32>) {
    let job = Job {
        model,
        sampler,
        sigmas,
        seed: Seed::new(1),
        options: &Options::default(),
        latent,
        noise,
        mask: None,
        clean: false,
    };
    let mut denoiser = |x: &[f32], sigma: f32, out: Output<'_>| -> Result<(), Stop> {
        denoise(model.prediction, x, sigma, out);
        Ok(())
    };
    let mut told = Vec::new();
    let mut on_step = |step: &nino_sample::Step<'_>| {
        if step.index == at {
            let scale = model.prediction.finish_scale(step.sigma);
            told = step.x.iter().map(|x| x / scale).collect();
        }
        Ok(())
    };
    let result = ksampler::sample(&job, &mut denoiser, &mut on_step).unwrap();
    (result, told)
}

#[test]
fn every_sampler_goes_on_as_it_says() {
    let mut failures = Vec::new();
    for kind in ["eps", "v_continuous", "flow_3"] {
        let model = model(kind);
        for sampler in SAMPLERS.iter().filter(|s| s.restart != Restart::Never) {
            let sigmas = ksampler::sigmas(&model, sampler, Scheduler::Simple, STEPS, 1.0).unwrap();
            let noise = initial(Seed::new(1), LEN);
            let worst = [1, 5, STEPS - 1].map(|at| {
                let (whole, told) = run(&model, sampler, &sigmas, &[0.0; LEN], &noise, at);
                let (rest, _) = run(
                    &model,
                    sampler,
                    &sigmas[at..],
                    &told,
                    &[0.0; LEN],
                    usize::MAX,
                );
                error(&rest, &whole)
            });
            let worst = worst.into_iter().fold(0.0, f64::max);
            println!("{:32} {kind:8} {worst:.1e}", sampler.name);
            if (worst < 1e-5) != (sampler.restart == Restart::Same) {
                failures.push(format!("{}/{kind}: {worst:.1e}", sampler.name));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
