//! Every VAE's golden in f16 on every GPU of this machine, and in bf16 on the CPU, against f32
//! there.

use super::decode::{kl, smooth};
use super::{TestVae, cpu, root, store, with_control};
use nino_dtype::DType;
use nino_engine::{Band, DecodeOptions, Decoder, Latent, Precision, Store, VaeFile, plan_decode};
use nino_gpu::{Adapters, Gpu, GpuDevice};
use nino_graph::{Around, Device, Limits, Op, Plan, rewrite};
use nino_models::kl::Scale;
use nino_models::{Chunk, Frames, Storage, Vae};
use std::ops::Deref;

fn values(store: &Store, vae: &VaeFile, latent: &Latent, precision: Precision) -> Vec<f32> {
    let options = DecodeOptions {
        precision,
        ..DecodeOptions::default()
    };
    let plan = plan_decode(store, vae, latent.size(), &options).unwrap();
    let mut found = Vec::new();
    let (ran, _) = with_control(|control| {
        let mut decoder = Decoder::open(store, vae, plan, control)?;
        decoder.run(latent, control, &mut |band: Band<'_>| {
            found.extend_from_slice(band.values);
            Ok(())
        })
    });
    ran.unwrap();
    found
}

/// In dB, of values from 0 to 1.
fn psnr(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().zip(b);
    let square = pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
    -10.0 * (square / a.len() as f64).log10()
}

/// Opens every GPU of this machine and gives its name with it.
pub(crate) fn gpus() -> Vec<(String, GpuDevice)> {
    let adapters = Adapters::enumerate();
    nino_testing::gpu_or_skip(adapters.reason.as_deref());
    let gpus = Gpu::open_all(&adapters, None).unwrap();
    let named = |gpu: Gpu| (gpu.info.name.clone(), GpuDevice::new(gpu));
    gpus.into_iter().map(named).collect()
}

/// Every golden of a VAE.
fn vaes() -> Vec<TestVae> {
    let golden = |name: &str| {
        VaeFile::open(&root().join(format!("goldens/models/{name}.safetensors"))).unwrap()
    };
    // These have fewer groups than a file's shapes can tell.
    let in_fours = |name: &str| {
        let mut vae = golden(name);
        if let Vae::Kl(config) = &mut vae.kind {
            config.groups = 4;
        }
        vae
    };
    let names = [
        "kl_flux2", "taesd", "taesd3", "taef2", "wan21", "wan22", "taehv", "taew2_2",
    ];
    let mut vaes: Vec<TestVae> = names.map(|name| golden(name).into()).into();
    vaes.extend(["kl_sd", "kl_flux"].map(|name| in_fours(name).into()));
    vaes.push(kl());
    vaes
}

/// Decodes with every VAE and compares with f32 on the CPU.
#[allow(clippy::print_stdout)] // how near each is
fn check(name: &str, device: &Store, precision: Precision, limit: f64) {
    let mut failures = Vec::new();
    for vae in &vaes() {
        let z = vae.kind.latent_channels();
        let latent = match vae.kind.time_scale() {
            Some(_) => smooth(&[1, z, 2, 3, 4]),
            None => smooth(&[1, z, 6, 5]),
        };
        let exact = values(&store(cpu()), vae, &latent, Precision::F32);
        let found = values(device, vae, &latent, precision);
        let db = psnr(&exact, &found);
        println!("{} on {name}: {db:.1} dB", vae.name);
        if db.is_nan() || db < limit {
            failures.push(format!("{}: {db:.1} dB", vae.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("; "));
}

#[test]
fn gpu_decodes_in_f16_are_near_f32() {
    for (name, gpu) in gpus() {
        check(&name, &store(gpu), Precision::F16, 50.0);
    }
}

#[test]
fn cpu_decodes_in_bf16_are_near_f32() {
    check("the CPU in bf16", &store(cpu()), Precision::Bf16, 40.0);
}

/// A device that binds less than the frames of a window.
struct Narrow(GpuDevice, usize);

impl Around for Narrow {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &self.0 as &dyn Device
    }

    fn limits(&self) -> Limits {
        Limits {
            max_binding: self.1,
            ..self.0.limits()
        }
    }
}

#[test]
fn gpu_clips_decode_where_a_window_of_frames_is_too_much_to_bind() {
    for (name, limit, frames) in [("wan21", 64 << 10, 2), ("wan22", 160 << 10, 1)] {
        let vae =
            VaeFile::open(&root().join(format!("goldens/models/{name}.safetensors"))).unwrap();
        let latent = smooth(&[1, vae.kind.latent_channels(), frames, 12, 10]);
        let chunk = Chunk {
            batch: 1,
            frames: 1,
            height: 12,
            width: 10,
            first: true,
            at_once: Frames::Apart,
        };
        for (gpu_name, gpu) in gpus() {
            let narrow = store(Narrow(gpu.clone(), limit));
            let storage = Storage {
                activations: gpu.activation_dtype(),
                weights: &|_| DType::F16,
                scale: Scale { shift: 0 },
            };
            let windows = vae.kind.decode(chunk, &storage).unwrap().graph;
            let windows = rewrite(&windows, gpu.rewrites());
            assert!(Plan::new(windows, &narrow.device().limits()).is_err());
            let whole = values(&store(gpu), &vae, &latent, Precision::Auto);
            let found = values(&narrow, &vae, &latent, Precision::Auto);
            let db = psnr(&found, &whole);
            assert!(db >= 55.0, "{name} on {gpu_name}: {db:.1} dB");
        }
    }
}

#[test]
fn gpu_pictures_decode_where_all_keys_are_too_many_to_bind() {
    let vae = kl();
    let (height, width) = (48, 50);
    let latent = smooth(&[1, vae.kind.latent_channels(), height, width]);
    let chunk = Chunk {
        batch: 1,
        frames: 1,
        height,
        width,
        first: true,
        at_once: Frames::Apart,
    };
    for (name, gpu) in gpus() {
        let storage = Storage {
            activations: gpu.activation_dtype(),
            weights: &|_| DType::F16,
            scale: Scale { shift: 0 },
        };
        let graph = vae.kind.decode(chunk, &storage).unwrap().graph;
        let attention = |device: &dyn Device| {
            let graph = rewrite(&graph, device.rewrites());
            let plan = Plan::new(graph, &device.limits()).unwrap();
            let found = plan.graph().ops().find_map(|(_, op)| match op {
                Op::Attention(o) => Some((plan.graph().bytes(o.k), o.by_keys)),
                _ => None,
            });
            found.unwrap()
        };
        let (keys, by_keys) = attention(&gpu);
        assert!(!by_keys, "{name}: {keys} bytes of keys fit");
        let narrow = store(Narrow(gpu.clone(), keys - 1));
        assert!(attention(narrow.device()).1, "{name}");
        // Both round in f16 by themselves, so they are compared with what is exact.
        let exact = values(&store(cpu()), &vae, &latent, Precision::F32);
        let [whole, found] = [&store(gpu), &narrow].map(|store| {
            let values = values(store, &vae, &latent, Precision::Auto);
            psnr(&values, &exact)
        });
        println!("{name}: {whole:.1} dB, by keys {found:.1} dB");
        assert!(found >= whole - 0.5, "{name}: {found:.1} of {whole:.1} dB");
    }
}
