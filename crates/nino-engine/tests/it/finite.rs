//! Values that are not finite: found by the device, and made again in f32.

use super::decode::{kl_with_gain, smooth};
use super::encode::{clip, opens};
use super::gpu::gpus;
use super::{TestVae, cpu, root, store, with_control};
use nino_dtype::DType;
use nino_engine::{
    DecodeOptions, Decoded, EncodeOptions, EngineError, Event, Latent, Picture, Precision, Store,
    SyntheticParams, VaeFile, decode, encode, encode_video,
};
use nino_graph::{Graph, NormKind, Op, Over, Plan, RunOptions, Stats};
use nino_weights::safetensors::{NewTensor, Writer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The CPU and every GPU there is.
fn devices() -> Vec<(String, Store)> {
    let mut all = vec![("cpu".to_owned(), store(cpu()))];
    for (name, gpu) in gpus() {
        all.push((name, store(gpu)));
    }
    all
}

type Outcome = (Vec<Picture>, Result<Decoded, EngineError>, Vec<Event>);

fn run(store: &Store, vae: &VaeFile, latent: &Latent, precision: Precision) -> Outcome {
    let mut pictures = Vec::new();
    let options = DecodeOptions {
        precision,
        ..DecodeOptions::default()
    };
    let (decoded, events) = with_control(|control| {
        decode(store, vae, latent, &options, control, &mut |_, _, p| {
            pictures.push(p);
            Ok(())
        })
    });
    (pictures, decoded, events)
}

/// How often it was said that something is made again.
fn said_again(events: &[Event]) -> usize {
    let said = |e: &&Event| matches!(e, Event::Note(text) if text.contains("again in f32"));
    events.iter().filter(said).count()
}

/// The mean of a channel tells of one value among many, wherever it is.
#[test]
fn one_value_that_is_not_finite_shows_in_the_statistics() {
    const SHAPE: [usize; 4] = [1, 67, 41, 3];
    let n: usize = SHAPE.iter().product();
    let devices = devices();
    for dtype in [DType::F32, DType::F16] {
        let mut g = Graph::new();
        let x = g.input("x", SHAPE, dtype);
        let check = g.push(Op::Stats(Stats {
            x,
            over: Over::Groups(3),
            kind: NormKind::Layer,
            eps: 1.0,
        }));
        g.output(check);
        let g = g.finish().unwrap();
        for (name, store) in &devices {
            let device = store.device();
            let plan = Arc::new(Plan::new(g.clone(), &device.limits()).unwrap());
            let source = Arc::new(SyntheticParams { seed: 1 });
            let weights = device.load(&[&plan], source).unwrap();
            let mut session = device.session(plan.clone(), &weights).unwrap();
            let mut finite = |bad: &[(usize, f32)]| {
                let mut values: Vec<f32> = (0..n).map(|i| (i as f32 * 0.1).sin()).collect();
                bad.iter().for_each(|&(i, v)| values[i] = v);
                let mut bytes = vec![0; g.bytes(x)];
                nino_dtype::encode(dtype, &values, &mut bytes).unwrap();
                session.write(x, &bytes).unwrap();
                session.run(RunOptions::default()).unwrap();
                let mut bytes = [0; 24];
                session.read(check, &mut bytes).unwrap();
                let found = bytes.as_chunks::<4>().0.iter();
                let means = found.step_by(2).map(|b| f32::from_le_bytes(*b));
                means.map(f32::is_finite).collect::<Vec<_>>()
            };
            assert_eq!(finite(&[]), [true; 3], "{name} {dtype}");
            assert_eq!(finite(&[(7, 6e4), (n - 2, -6e4)]), [true; 3], "{name}");
            for i in [0, 1, 5, n / 2, n - 2, n - 1] {
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let mut expected = [true; 3];
                    expected[i % 3] = false;
                    let found = finite(&[(i, bad)]);
                    assert_eq!(found, expected, "{name} {dtype}: {bad} at {i}");
                }
            }
            // Of both signs, far apart and side by side.
            for (i, j) in [(0, n - 3), (30, 33)] {
                let found = finite(&[(i, f32::INFINITY), (j, f32::NEG_INFINITY)]);
                assert!(!found[0], "{name} {dtype}: {i} and {j}");
            }
        }
    }
}

/// Weights that take the residual stream past f16's 65504: first by a factor that scaling it by a
/// power of two makes up for, then by one that it does not.
#[test]
fn what_overflows_f16_is_kept_in_range_or_made_again_in_f32() {
    let latent = smooth(&[2, 4, 8, 8]);
    let devices = devices();
    for (gain, retries) in [(3e5, 0), (3e7, 1)] {
        let vae = kl_with_gain(gain);
        for (name, store) in &devices {
            let (exact, ..) = run(store, &vae, &latent, Precision::F32);
            let (found, decoded, events) = run(store, &vae, &latent, Precision::F16);
            let decoded = decoded.unwrap();
            assert_eq!(decoded.retries, retries, "{name}, gain {gain}");
            assert_eq!(said_again(&events), retries);
            let dtype = if retries > 0 { DType::F32 } else { DType::F16 };
            assert_eq!(decoded.plan.dtype, dtype);
            assert_eq!(found.len(), 2, "each picture once");
            let far = exact.iter().zip(&found).map(|(a, b)| {
                let pairs = a.rgb.iter().zip(&b.rgb);
                pairs.map(|(x, y)| x.abs_diff(*y)).max().unwrap()
            });
            let allowed = if retries > 0 { 0 } else { 2 };
            assert!(far.max().unwrap() <= allowed, "{name}, gain {gain}");

            let picture = &clip(1, (32, 24))[0];
            let with = |precision| {
                let options = EncodeOptions {
                    precision,
                    ..EncodeOptions::default()
                };
                with_control(|c| encode(store, &vae, picture, &options, c))
            };
            let (encoded, events) = with(Precision::F16);
            let encoded = encoded.unwrap();
            assert_eq!(encoded.retries, retries, "{name}, encoding, gain {gain}");
            assert_eq!(said_again(&events), retries);
            let exact = with(Precision::F32).0.unwrap().latent;
            let off = super::nmse(&encoded.latent.values, &exact.values);
            assert!(off <= 1e-4, "{name}, encoding, gain {gain}: {off}");
            if retries > 0 {
                assert_eq!(encoded.latent, exact);
            }
        }
    }
}

/// A golden with some convolutions so strong that f16 does not hold the result.
fn loud(golden: &str, convs: [&str; 2]) -> TestVae {
    let path = root().join(format!("goldens/models/{golden}.safetensors"));
    let reader = nino_weights::open(&path).unwrap();
    let index = reader.index();
    let of_model = |name: &str| !name.starts_with("golden.");
    let entries: Vec<_> = index
        .entries()
        .iter()
        .filter(|e| of_model(&e.name))
        .collect();
    let new: Vec<NewTensor> = entries
        .iter()
        .map(|e| NewTensor {
            name: e.name.clone(),
            dtype: DType::F32,
            shape: e.shape.clone(),
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(format!("{golden}.safetensors"));
    let mut writer = Writer::create(&file, &new, &BTreeMap::new()).unwrap();
    for entry in entries {
        let mut values = vec![0.0; entry.n_values()];
        reader.read_f32(entry, &mut values).unwrap();
        let is_loud = convs.contains(&&*entry.name);
        let gain = if is_loud { 1e6 } else { 1.0 };
        let bytes = values.iter().flat_map(|v| (v * gain).to_le_bytes());
        writer.write(&bytes.collect::<Vec<u8>>()).unwrap();
    }
    writer.finish().unwrap();
    TestVae::temporary(VaeFile::open(&file).unwrap(), dir)
}

#[test]
fn a_clip_that_overflows_f16_is_made_again_in_f32() {
    let vae = loud("wan21", ["encoder.conv1.weight", "decoder.conv1.weight"]);
    let latent = smooth(&[1, 4, 3, 3, 4]);
    for (name, store) in devices() {
        let (exact, ..) = run(&store, &vae, &latent, Precision::F32);
        let (found, decoded, events) = run(&store, &vae, &latent, Precision::F16);
        assert_eq!(decoded.unwrap().retries, 1, "{name}");
        assert_eq!(said_again(&events), 1, "{name}");
        assert_eq!(found.len(), 9, "{name}: each frame once");
        assert!(found == exact, "{name}");
        let with = |precision| {
            let options = EncodeOptions {
                precision,
                ..EncodeOptions::default()
            };
            let mut open = opens(clip(5, (16, 24)));
            with_control(|c| encode_video(&store, &vae, &mut open, &options, c))
        };
        let (encoded, events) = with(Precision::F16);
        let encoded = encoded.unwrap();
        assert_eq!(encoded.retries, 1, "{name}, encoding");
        assert_eq!(said_again(&events), 1, "{name}, encoding");
        assert_eq!(
            encoded.latent,
            with(Precision::F32).0.unwrap().latent,
            "{name}"
        );
    }
}

/// A network of ReLUs, which must not make a number of what is none.
#[test]
fn a_tiny_autoencoder_that_overflows_f16_is_made_again_in_f32() {
    let vae = loud("taesd", ["encoder.0.weight", "decoder.1.weight"]);
    let latent = smooth(&[1, 4, 4, 4]);
    for (name, store) in devices() {
        let (exact, ..) = run(&store, &vae, &latent, Precision::F32);
        let (found, decoded, events) = run(&store, &vae, &latent, Precision::F16);
        assert_eq!(decoded.unwrap().retries, 1, "{name}");
        assert_eq!(said_again(&events), 1, "{name}");
        assert!(found == exact, "{name}");
    }
}

#[test]
fn what_is_not_finite_in_f32_is_told_and_nothing_is_given_out() {
    let vae = kl_with_gain(1e37);
    for (name, store) in devices() {
        let (found, decoded, _) = run(&store, &vae, &smooth(&[1, 4, 8, 8]), Precision::F32);
        let error = decoded.unwrap_err();
        let f32_is_bad = matches!(error, EngineError::NotFinite { dtype: DType::F32 });
        assert!(f32_is_bad, "{name}: {error}");
        assert!(found.is_empty(), "{name}");
    }
}
