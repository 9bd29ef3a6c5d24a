use super::{Choice, DeviceName};
use crate::args::{DeviceArgs, GpuTier};
use crate::bytes::Bytes;
use crate::env::Env;

fn no_flags() -> DeviceArgs {
    DeviceArgs {
        device: None,
        gpu_tier: None,
        budget: None,
        threads: None,
    }
}

#[test]
fn device_names() {
    for name in ["auto", "cpu", "gpu", "gpu:0", "gpu:12"] {
        let parsed: DeviceName = name.parse().unwrap();
        assert_eq!(parsed.to_string(), name);
    }
    for name in ["", "GPU", "gpu:", "gpu:-1", "gpu:x", "cuda", "gpu:0:1"] {
        assert!(name.parse::<DeviceName>().is_err(), "{name}");
    }
}

#[test]
fn flags_win_over_variables() {
    let env = Env {
        device: Some("gpu:1".to_owned()),
        gpu_tier: Some("f16".to_owned()),
        budget: Some("2GiB".to_owned()),
        threads: Some("3".to_owned()),
        ..Env::default()
    };
    let from_env = Choice::new(&no_flags(), &env).unwrap();
    assert_eq!(from_env.device, Some(DeviceName::GpuAt(1)));
    assert_eq!(from_env.tier, Some(GpuTier::F16));
    assert_eq!(from_env.budget, Some(Bytes(2 << 30)));
    assert_eq!(from_env.threads, Some(3));
    let flags = DeviceArgs {
        device: Some(DeviceName::Cpu),
        budget: Some(Bytes(1 << 30)),
        ..no_flags()
    };
    let from_flags = Choice::new(&flags, &env).unwrap();
    assert_eq!(from_flags.device, Some(DeviceName::Cpu));
    assert_eq!(from_flags.budget, Some(Bytes(1 << 30)));
}

#[test]
fn a_bad_variable_is_named() {
    let cases = [
        (
            Env {
                device: Some("tpu".to_owned()),
                ..Env::default()
            },
            "NINO_DEVICE",
        ),
        (
            Env {
                gpu_tier: Some("f64".to_owned()),
                ..Env::default()
            },
            "NINO_GPU_TIER",
        ),
        (
            Env {
                budget: Some("lots".to_owned()),
                ..Env::default()
            },
            "NINO_BUDGET",
        ),
        (
            Env {
                threads: Some("0".to_owned()),
                ..Env::default()
            },
            "NINO_THREADS",
        ),
    ];
    for (env, name) in cases {
        let error = Choice::new(&no_flags(), &env).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn a_tier_for_the_cpu_is_a_mistake() {
    let args = DeviceArgs {
        device: Some(DeviceName::Cpu),
        gpu_tier: Some(GpuTier::F16),
        ..no_flags()
    };
    assert!(Choice::new(&args, &Env::default()).is_err());
}
