use super::{Choice, DeviceName};
use crate::args::DeviceArgs;
use crate::bytes::Bytes;
use crate::env::Env;
use crate::settings::Settings;
use nino_engine::Tier;

fn no_flags() -> DeviceArgs {
    DeviceArgs {
        device: None,
        gpu_tier: None,
        budget: None,
        threads: None,
    }
}

#[test]
fn flags_win_over_variables() {
    let env = Env {
        settings: Settings::of(&[
            ("device", "gpu:1"),
            ("gpu_tier", "f16"),
            ("budget", "2GiB"),
            ("threads", "3"),
        ]),
        ..Env::default()
    };
    let from_env = Choice::new(&no_flags(), &env).unwrap();
    assert_eq!(from_env.device.device, Some(DeviceName::GpuAt(1)));
    assert_eq!(from_env.device.tier, Some(Tier::F16));
    assert_eq!(from_env.device.budget, Some(2 << 30));
    assert_eq!(from_env.device.threads, Some(3));
    let flags = DeviceArgs {
        device: Some(DeviceName::Cpu),
        budget: Some(Bytes(1 << 30)),
        ..no_flags()
    };
    let from_flags = Choice::new(&flags, &env).unwrap();
    assert_eq!(from_flags.device.device, Some(DeviceName::Cpu));
    assert_eq!(from_flags.device.budget, Some(1 << 30));
}

#[test]
fn a_bad_variable_is_named() {
    let cases = [
        ("device", "tpu", "NINO_DEVICE"),
        ("gpu_tier", "f64", "NINO_GPU_TIER"),
        ("budget", "lots", "NINO_BUDGET"),
        ("threads", "0", "NINO_THREADS"),
    ];
    for (key, value, name) in cases {
        let env = Env {
            settings: Settings::of(&[(key, value)]),
            ..Env::default()
        };
        let error = Choice::new(&no_flags(), &env).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn a_tier_for_the_cpu_is_a_mistake() {
    let args = DeviceArgs {
        device: Some(DeviceName::Cpu),
        gpu_tier: Some(Tier::F16),
        ..no_flags()
    };
    assert!(Choice::new(&args, &Env::default()).is_err());
}
