//! AutoencoderKL and TAESD.

use crate::golden::{Golden, cpu};
use nino_dtype::DType;
use nino_graph::{Graph, Node, ParamError, ParamSource, ParamSpec};
use nino_models::{FileParams, Params, kl, taesd};
use nino_suite::{Difference, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Records, runs and compares one half of a model.
fn check(
    golden: &Golden,
    input: &str,
    output: &str,
    compare: bool,
    record: impl Fn(&mut Graph, &Params, Node) -> Node,
) -> Tensor {
    let x = golden.tensor(input);
    let mut g = Graph::new();
    let node = g.input("x", x.shape, DType::F32);
    let out = record(&mut g, &golden.params(), node);
    g.output(out);
    let g = g.finish().unwrap();
    let mut values = golden.run(&g, &BTreeMap::from([(node, x)]), compare);
    let found = values.remove(&out).unwrap();
    golden.close(output, &found, &golden.tensor(output));
    found
}

fn kl_config(golden: &Golden) -> kl::Config {
    let detected = kl::Config::detect(&golden.find("")).unwrap();
    assert_eq!(detected.encoder, [8, 16, 32, 32]);
    assert_eq!(detected.decoder, [8, 16, 32, 32]);
    assert_eq!(detected.n_res_blocks, 1);
    // The tiny model has fewer groups than a shape can tell.
    kl::Config {
        groups: 4,
        ..detected
    }
}

#[test]
fn autoencoder_kl() {
    for (name, z, quant) in [
        ("kl_sd", 4, kl::QuantConv::Outside),
        ("kl_flux", 16, kl::QuantConv::Absent),
    ] {
        let golden = Golden::open(name);
        let c = kl_config(&golden);
        assert_eq!((c.z_channels, c.quant_conv), (z, quant));
        let s = kl::Scale::default();
        check(&golden, "in.z", "out.x", true, |g, p, z| {
            kl::decoder(g, p, &c, s, z)
        });
        check(&golden, "in.x", "out.moments", true, |g, p, x| {
            kl::encoder(g, p, &c, s, x)
        });
    }
}

#[test]
fn autoencoder_kl_of_flux2() {
    let golden = Golden::open("kl_flux2");
    let c = kl::Config::detect(&golden.find("")).unwrap();
    assert_eq!((c.z_channels, c.quant_conv), (32, kl::QuantConv::Inside));
    let s = kl::Scale::default();
    check(&golden, "in.z", "out.x", true, |g, p, z| {
        kl::decoder(g, p, &c, s, z)
    });
    check(&golden, "in.x", "out.moments", true, |g, p, x| {
        kl::encoder(g, p, &c, s, x)
    });
}

#[test]
fn scaled_residual_stream_gives_the_same() {
    let golden = Golden::open("kl_sd");
    let c = kl_config(&golden);
    let run = |shift| {
        let s = kl::Scale { shift };
        let decoded = check(&golden, "in.z", "out.x", false, |g, p, z| {
            kl::decoder(g, p, &c, s, z)
        });
        let encoded = check(&golden, "in.x", "out.moments", false, |g, p, x| {
            kl::encoder(g, p, &c, s, x)
        });
        [decoded, encoded]
    };
    for (plain, scaled) in run(0).iter().zip(&run(5)) {
        let d = Difference::between(&scaled.values, &plain.values);
        assert!(d.nmse < 1e-12, "{d}");
    }
}

/// The golden's weights with one block's output 2^18 times as large.
struct Loud(FileParams);

impl ParamSource for Loud {
    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        self.0.read(param, dst)?;
        if param.name.starts_with("decoder.mid.block_1.conv2.") {
            let n = param.shape.numel();
            let mut values = vec![0.0; n];
            nino_dtype::decode(param.dtype, dst, &mut values).unwrap();
            values.iter_mut().for_each(|v| *v *= 262_144.0);
            nino_dtype::encode(param.dtype, &values, dst).unwrap();
        }
        Ok(())
    }
}

#[test]
fn scaled_residual_stream_fits_f16() {
    let golden = Golden::open("kl_sd");
    let c = kl_config(&golden);
    let z = golden.tensor("in.z");
    let run = |dtype, shift| {
        let mut g = Graph::new();
        let node = g.input("z", z.shape, dtype);
        // The enlarged weights pass f16, too.
        let p = Params::uniform(DType::F32);
        let out = kl::decoder(&mut g, &p, &c, kl::Scale { shift }, node);
        g.output(out);
        let g = g.finish().unwrap();
        let source = Arc::new(Loud(golden.source()));
        let mut outputs = cpu(&g, &BTreeMap::from([(node, z.clone())]), source);
        outputs.remove(&out).unwrap()
    };
    let plain = run(DType::F32, 0);
    let overflowed = Difference::between(&run(DType::F16, 0).values, &plain.values);
    assert!(overflowed.not_finite > 0, "f16 was enough: {overflowed}");
    let scaled = Difference::between(&run(DType::F16, 5).values, &plain.values);
    println!("f16 with a scaled stream: {scaled}");
    assert!(scaled.not_finite == 0 && scaled.nmse < 1e-5, "{scaled}");
}

#[test]
fn built_in_configs_are_what_files_give() {
    for c in [kl::Config::sd(), kl::Config::flux()] {
        let mut g = Graph::new();
        let p = Params::uniform(DType::F32);
        let z = g.input("z", [1, 2, 2, c.z_channels], DType::F32);
        let out = kl::decoder(&mut g, &p, &c, kl::Scale::default(), z);
        let x = g.input("x", [1, 16, 16, 3], DType::F32);
        let moments = kl::encoder(&mut g, &p, &c, kl::Scale::default(), x);
        assert_eq!(*g.shape(out), [1, 16, 16, 3]);
        assert_eq!(*g.shape(moments), [1, 2, 2, 2 * c.z_channels]);
        let g = g.finish().unwrap();
        let n: usize = g.params().map(|(_, p)| p.shape.numel()).sum();
        let want = if c.z_channels == 4 {
            83_653_863
        } else {
            83_819_683
        };
        assert_eq!(n, want, "published number of parameters");
    }
}

#[test]
fn tiny_autoencoder() {
    for (name, z) in [("taesd", 4), ("taesd3", 16), ("taef2", 32)] {
        let golden = Golden::open(name);
        let want = taesd::Config {
            latent_channels: z,
            width: 8,
            midblock_gn: z == 32,
        };
        let dec = taesd::Config::detect_decoder(&golden.find("decoder.")).unwrap();
        let enc = taesd::Config::detect_encoder(&golden.find("encoder.")).unwrap();
        assert_eq!((&dec, &enc), (&want, &want));
        check(&golden, "in.z", "out.x", true, |g, p, z| {
            taesd::decoder(g, &p.at("decoder"), &dec, z)
        });
        check(&golden, "in.x", "out.z", true, |g, p, x| {
            taesd::encoder(g, &p.at("encoder"), &enc, x)
        });
    }
}
