//! Noise levels: every scheduler on every model, and KSampler's cuts.

use nino_sample::ksampler::{self, Window};
use nino_sample::model::flux_mu;
use nino_sample::schedule::turbo;
use nino_sample::{Error, Sampler, Scheduler};

use crate::golden::{MODELS, error, model, read};

fn check(failures: &mut Vec<String>, name: &str, found: &[f32], expected: &[f32], limit: f64) {
    // Each level by itself, so that the small ones count as much as the large.
    let worst = if found.len() == expected.len() {
        found
            .iter()
            .zip(expected)
            .map(|(f, e)| error(&[*f], &[*e]))
            .fold(0.0, f64::max)
    } else {
        f64::INFINITY
    };
    if worst > limit {
        failures.push(format!(
            "{name}: {worst:e}\n  found    {found:?}\n  expected {expected:?}"
        ));
    }
}

#[test]
fn schedules_are_comfyuis() {
    let golden = read("sigmas");
    let mut failures = Vec::new();
    for name in MODELS {
        let m = model(name);
        let stride = m.sigmas().len() / 50;
        let table: Vec<f32> = m.sigmas().iter().copied().step_by(stride).collect();
        check(
            &mut failures,
            &format!("table/{name}"),
            &table,
            &golden[&format!("table/{name}")],
            1e-6,
        );
        for scheduler in Scheduler::ALL {
            for steps in [1, 2, 4, 10, 20, 33] {
                let key = format!("{}/{name}/{steps}", scheduler.name());
                let Some(expected) = golden.get(&key) else {
                    continue;
                };
                check(
                    &mut failures,
                    &key,
                    &scheduler.sigmas(&m, steps).unwrap(),
                    expected,
                    1e-5,
                );
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The checksum of the levels' bits, as the golden's `checksum` computes it.
fn checksum(levels: &[f32]) -> f32 {
    let mix = |sum: u32, level: &f32| sum.wrapping_mul(0x0100_0193).wrapping_add(level.to_bits());
    (levels.iter().fold(0, mix) >> 8) as f32
}

#[test]
fn levels_are_comfyuis_to_the_last_bit() {
    let golden = read("sigmas");
    let mut failures = Vec::new();
    let mut seen = 0;
    for name in MODELS {
        let m = model(name);
        for scheduler in Scheduler::ALL {
            let key = format!("bits/{}/{name}", scheduler.name());
            for (expected, steps) in golden.get(&key).into_iter().flatten().zip(1..) {
                seen += 1;
                let levels = scheduler.sigmas(&m, steps).unwrap();
                if checksum(&levels).to_bits() != expected.to_bits() {
                    failures.push(format!("{key}, {steps} steps: {levels:?}"));
                }
            }
        }
    }
    assert_eq!(seen, 3900);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Levels half-way between two timesteps, where MKL's last bit decides which one the network is
/// told.
const TIES: [(&str, &str, usize); 8] = [
    ("sgm_uniform", "eps", 54),
    ("sgm_uniform", "eps", 74),
    ("normal", "eps", 55),
    ("normal", "eps", 75),
    ("sgm_uniform", "v_zsnr", 74),
    ("normal", "v_zsnr", 75),
    ("sgm_uniform", "lcm", 98),
    ("normal", "lcm", 99),
];

#[test]
fn networks_are_told_comfyuis_timesteps() {
    let golden = read("sigmas");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for name in ["eps", "v_zsnr", "lcm"] {
        let m = model(name);
        for scheduler in Scheduler::ALL {
            let key = format!("told/{}/{name}", scheduler.name());
            for (expected, steps) in golden[&key].iter().zip(2..) {
                seen += 1;
                let levels = scheduler.sigmas(&m, steps).unwrap();
                let told = levels[..levels.len() - 1].iter().map(|&s| m.timestep(s));
                let told: Vec<f32> = told.collect();
                if checksum(&told).to_bits() != expected.to_bits() {
                    wrong.push((scheduler.name(), name, steps));
                }
            }
        }
    }
    assert_eq!(seen, 27 * 99);
    assert_eq!(wrong, TIES);
}

#[test]
fn timesteps_and_percents_are_comfyuis() {
    let golden = read("sigmas");
    let mut failures = Vec::new();
    let spread = |low: f32, high: f32| (0..12).map(move |i| low + (high - low) * i as f32 / 11.0);
    for name in MODELS {
        let m = model(name);
        let top = if ["eps", "v_zsnr", "lcm"].contains(&name) {
            999.0
        } else {
            1.0
        };
        let found: Vec<f32> = spread(0.01, 0.99).map(|t| m.sigma(t * top)).collect();
        let key = format!("sigma/{name}");
        check(&mut failures, &key, &found, &golden[&key], 2e-5);
        let top = if m.sigma_max() > 2.0 { 14.0 } else { 1.0 };
        let found: Vec<f32> = spread(0.05, 0.95).map(|s| m.timestep(s * top)).collect();
        let key = format!("timestep/{name}");
        check(&mut failures, &key, &found, &golden[&key], 1e-5);
        let key = format!("percent/{name}");
        let percents = [0.0001, 0.2, 0.5, 0.8, 0.999];
        let found: Vec<f32> = percents
            .iter()
            .map(|&p| m.percent_to_sigma(p) as f32)
            .collect();
        check(&mut failures, &key, &found, &golden[&key], 1e-5);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn ksampler_cuts_as_comfyui() {
    let golden = read("sigmas");
    let m = model("eps");
    let mut failures = Vec::new();
    let mut seen = 0;
    for (key, expected) in &golden {
        let parts: Vec<&str> = key.split('/').collect();
        let found = match parts[..] {
            ["ksampler", sampler, scheduler, steps, denoise] => ksampler::sigmas(
                &m,
                Sampler::find(sampler).unwrap(),
                Scheduler::find(scheduler).unwrap(),
                steps.parse().unwrap(),
                denoise.parse().unwrap(),
            )
            .unwrap(),
            ["turbo", steps, denoise] => {
                turbo(&m, steps.parse().unwrap(), denoise.parse().unwrap())
            }
            _ => continue,
        };
        seen += 1;
        check(&mut failures, key, &found, expected, 1e-5);
    }
    assert_eq!(seen, 52);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn fluxs_shift_grows_with_the_image() {
    for (side, mu) in [(256, 0.5), (512, 0.63), (1024, 1.15)] {
        let found = flux_mu(side, side, 1.15, 0.5);
        assert!((found - mu).abs() < 1e-12, "{side}: {found}");
    }
}

#[test]
fn windows_cut_start_end_and_leftover_noise() {
    let sigmas = [9.0, 7.0, 5.0, 3.0, 0.0];
    let cut = |start_at_step, end_at_step, return_with_leftover_noise| {
        Window {
            start_at_step,
            end_at_step,
            return_with_leftover_noise,
        }
        .cut(&sigmas)
    };
    assert_eq!(cut(0, 10_000, false), sigmas);
    assert_eq!(cut(0, 2, true), [9.0, 7.0, 5.0]);
    assert_eq!(cut(0, 2, false), [9.0, 7.0, 0.0]);
    assert_eq!(cut(2, 10_000, false), [5.0, 3.0, 0.0]);
    assert_eq!(cut(1, 3, true), [7.0, 5.0, 3.0]);
    assert!(cut(4, 10_000, false).is_empty());
    assert!(cut(3, 3, false).is_empty());
    assert!(cut(usize::MAX - 1, 0, false).is_empty());
}

#[test]
fn impossible_settings_are_named() {
    let m = model("eps");
    let euler = Sampler::find("euler").unwrap();
    let sigmas = |steps, denoise| ksampler::sigmas(&m, euler, Scheduler::Normal, steps, denoise);
    assert_eq!(
        sigmas(0, 1.0),
        Err(Error::Steps {
            steps: 0,
            max: 10_000
        })
    );
    assert_eq!(
        sigmas(10_001, 1.0),
        Err(Error::Steps {
            steps: 10_001,
            max: 10_000
        })
    );
    assert!(matches!(
        sigmas(5, 1.5),
        Err(Error::Setting {
            what: "denoise",
            ..
        })
    ));
    assert!(matches!(sigmas(5, f64::NAN), Err(Error::Setting { .. })));
    assert_eq!(sigmas(5, 0.0), Ok(Vec::new()));
    assert_eq!(sigmas(10_000, 1.0).unwrap().len(), 10_001);
}
