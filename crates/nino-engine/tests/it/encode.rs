//! Clips to latents, and Flux.2's packed ones, against the models themselves.

use super::decode::wan;
use super::{cpu, nmse, root, store, with_control};
use nino_dtype::DType;
use nino_engine::media::{FrameSource, MediaError};
use nino_engine::{
    DecodeOptions, EncodeOptions, EngineError, ErrorKind, Event, Latent, Picture, VaeFile, decode,
    encode, encode_video,
};
use nino_graph::{Device, Plan, RunOptions};
use nino_models::{Chunk, FileParams, Storage, kl};
use nino_weights::safetensors::{NewTensor, Writer};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

struct Frames(Vec<Picture>);

/// What opens a clip of these frames, as often as it is wanted.
pub(crate) fn opens(
    frames: Vec<Picture>,
) -> impl FnMut() -> Result<Option<Box<dyn FrameSource>>, MediaError> {
    move || Ok(Some(Box::new(Frames(frames.clone()))))
}

impl FrameSource for Frames {
    fn next_frame(&mut self) -> Result<Option<Picture>, MediaError> {
        Ok((!self.0.is_empty()).then(|| self.0.remove(0)))
    }
}

pub(crate) fn clip(n: usize, (width, height): (usize, usize)) -> Vec<Picture> {
    let pixel = |t: usize, i: usize| ((i * 7 + t * 31) % 251) as u8;
    let frame = |t| Picture {
        width,
        height,
        rgb: (0..width * height * 3).map(|i| pixel(t, i)).collect(),
    };
    (0..n).map(frame).collect()
}

/// The encoder's mean for the whole clip in one graph.
fn at_once(file: &str, frames: &[Picture]) -> Vec<f32> {
    let reader = Arc::new(nino_weights::open(root().join(file)).unwrap());
    let params = FileParams::new(&reader);
    let wan = wan();
    let chunk = Chunk {
        batch: 1,
        frames: frames.len(),
        height: frames[0].height,
        width: frames[0].width,
        first: true,
        at_once: nino_models::Frames::Together,
    };
    let storage = Storage {
        activations: DType::F32,
        weights: &|name| params.dtype(name),
        scale: kl::Scale::default(),
    };
    let r = wan.kind.encode(chunk, &storage).unwrap();
    let plan = Arc::new(Plan::new(r.graph, &cpu().limits()).unwrap());
    let device = cpu();
    let weights = device.load(&[&plan], Arc::new(params.clone())).unwrap();
    let mut session = device.session(plan.clone(), &weights).unwrap();
    let bytes: Vec<u8> = frames
        .iter()
        .flat_map(|f| &f.rgb)
        .flat_map(|&v| (f32::from(v) / 255.0).to_le_bytes())
        .collect();
    session.write(r.input, &bytes).unwrap();
    session.run(RunOptions::default()).unwrap();
    let mut out = vec![0; plan.graph().bytes(r.output)];
    session.read(r.output, &mut out).unwrap();
    out.as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect()
}

#[test]
fn a_clip_is_encoded_chunk_by_chunk_as_at_once() {
    let vae = wan();
    let frames = clip(9, (16, 24));
    let run = |frames: Vec<Picture>| {
        with_control(|c| {
            encode_video(
                &store(cpu()),
                &vae,
                &mut opens(frames),
                &EncodeOptions::default(),
                c,
            )
        })
    };
    let (encoded, _) = run(frames.clone());
    let latent = encoded.unwrap().latent;
    assert_eq!(latent.file_shape(), [1, 4, 3, 3, 2]);
    let expected = at_once("goldens/models/wan21.safetensors", &frames);
    let off = nmse(&latent.values, &expected);
    assert!(off < 1e-10, "{off}");
    // Two frames more are no chunk: left out, and said.
    let (longer, events) = run(clip(11, (16, 24)));
    assert_eq!(longer.unwrap().latent, latent);
    let said =
        |e: &Event| matches!(e, Event::Note(text) if text.contains("the last 2 are left out"));
    assert!(events.iter().any(said), "{events:?}");
    // And it comes back.
    let (decoded, _) = with_control(|c| {
        let mut n = 0;
        decode(
            &store(cpu()),
            &vae,
            &latent,
            &DecodeOptions::default(),
            c,
            &mut |_, _, _| {
                n += 1;
                Ok(())
            },
        )
        .map(|_| n)
    });
    assert_eq!(decoded.unwrap(), 9);
}

#[test]
fn a_tiny_encoder_repeats_the_last_frame() {
    let vae = VaeFile::open(&root().join("goldens/models/taehv.safetensors")).unwrap();
    let run = |frames| {
        let options = EncodeOptions {
            format: nino_engine::LatentFormat::by_name("wan21"),
            ..EncodeOptions::default()
        };
        with_control(|c| encode_video(&store(cpu()), &vae, &mut opens(frames), &options, c)).0
    };
    let mut five = clip(5, (16, 16));
    let short = run(five.clone()).unwrap().latent;
    assert_eq!(short.frames, 2);
    (0..3).for_each(|_| five.push(five[4].clone()));
    assert_eq!(run(five).unwrap().latent, short);
}

#[test]
fn clips_that_cannot_be_encoded() {
    let kl = super::decode::kl();
    let wan = wan();
    let run = |vae: &VaeFile, frames| {
        let options = EncodeOptions::default();
        let encoded =
            with_control(|c| encode_video(&store(cpu()), vae, &mut opens(frames), &options, c));
        encoded.0.unwrap_err()
    };
    assert!(matches!(
        run(&kl, clip(2, (8, 8))),
        EngineError::VideoFrames { .. }
    ));
    assert!(matches!(run(&wan, vec![]), EngineError::NoFrames));
    let mut mixed = clip(4, (16, 16));
    mixed.extend(clip(1, (8, 16)));
    let error = run(&wan, mixed);
    assert!(
        matches!(error, EngineError::FrameSize { frame: 4, .. }),
        "{error}"
    );
    let error = run(&wan, clip(1, (7, 16))).to_string();
    assert!(error.contains('7') && error.contains('8'), "{error}");
}

/// Packed and normalized in files, neither in the network.
#[test]
fn flux2_latents_are_packed_and_normalized() {
    let path = root().join("goldens/models/kl_flux2.safetensors");
    let golden = nino_weights::open(&path).unwrap();
    let tensor = |name: &str| {
        let entry = golden.index().get(name).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        golden.read_f32(entry, &mut values).unwrap();
        (entry.shape.clone(), values)
    };
    let latent = |name: &str| {
        let (shape, values) = tensor(name);
        Latent {
            batch: 1,
            frames: 1,
            height: shape[1],
            width: shape[2],
            channels: shape[3],
            values,
            is_video: false,
            format: None,
        }
    };
    let vae = VaeFile::open(&path).unwrap();
    let run = |latent: &Latent| {
        let mut found = Vec::new();
        let (decoded, _) = with_control(|c| {
            decode(
                &store(cpu()),
                &vae,
                latent,
                &DecodeOptions::default(),
                c,
                &mut |_, _, p| {
                    found.push(p);
                    Ok(())
                },
            )
        });
        decoded.map(|_| found)
    };
    let (_, expected) = tensor("golden.out.x");
    let unit: Vec<f32> = expected.iter().map(|v| v * 0.5 + 0.5).collect();
    let expected = vec![Picture::from_unit(32, 16, &unit)];
    let packed = latent("golden.in.packed");
    assert_eq!(packed.channels, 128);
    let off = |a: &[Picture], b: &[Picture]| {
        let pairs = a[0].rgb.iter().zip(&b[0].rgb);
        pairs.map(|(x, y)| x.abs_diff(*y)).max().unwrap()
    };
    assert!(off(&run(&packed).unwrap(), &expected) <= 1);
    // As the network has it.
    assert!(off(&run(&latent("golden.in.z")).unwrap(), &expected) <= 1);
    let wrong = Latent {
        channels: 16,
        values: packed.values[..32].to_vec(),
        ..packed.clone()
    };
    let error = run(&wrong).unwrap_err();
    assert!(
        matches!(
            error,
            EngineError::Channels {
                expected: 128,
                found: 16
            }
        ),
        "{error}"
    );
    // Rounding a picture to bytes moves the latent a little.
    let (shape, values) = tensor("golden.in.x");
    let unit: Vec<f32> = values
        .iter()
        .map(|v| (v * 0.5 + 0.5).clamp(0.0, 1.0))
        .collect();
    let picture = Picture::from_unit(shape[2], shape[1], &unit);
    let (encoded, _) =
        with_control(|c| encode(&store(cpu()), &vae, &picture, &EncodeOptions::default(), c));
    let encoded = encoded.unwrap().latent;
    assert_eq!(encoded.file_shape(), [1, 128, 2, 2]);
    let back = nmse(&encoded.values, &tensor("golden.out.packed").1);
    assert!(back < 0.05, "{back}");
}

#[test]
fn what_a_latents_file_says_of_its_space_counts() {
    let vae = VaeFile::open(&root().join("goldens/models/taesd.safetensors")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.latent");
    let latent = super::decode::smooth(&[1, 4, 2, 2]);
    let decoded = |metadata: &[(&str, &str)], format| {
        let metadata = metadata
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        latent.save(&path, &metadata.collect()).unwrap();
        let options = DecodeOptions {
            format,
            ..DecodeOptions::default()
        };
        let opened = Latent::open(Path::new(&path)).unwrap();
        let mut pictures = Vec::new();
        let (decoded, events) = with_control(|c| {
            decode(
                &store(cpu()),
                &vae,
                &opened,
                &options,
                c,
                &mut |_, _, picture| {
                    pictures.push(picture);
                    Ok(())
                },
            )
        });
        decoded.unwrap();
        let notes = events.into_iter().filter_map(|e| match e {
            Event::Note(text) => Some(text),
            _ => None,
        });
        (notes.collect::<Vec<_>>(), pictures)
    };
    let (said, as_sd15) = decoded(&[], None);
    assert!(
        said[0].contains("sd15") && said[0].contains("VAE's name"),
        "{said:?}"
    );
    let (said, as_sdxl) = decoded(&[(nino_engine::FORMAT_KEY, "sdxl")], None);
    assert!(said.is_empty(), "nothing is assumed: {said:?}");
    assert_ne!(as_sdxl, as_sd15);
    let asked = nino_engine::LatentFormat::by_name("sd15");
    let (said, picture) = decoded(&[(nino_engine::FORMAT_KEY, "sdxl")], asked);
    assert!(said.is_empty() && picture == as_sd15, "{said:?}");
}

#[test]
fn the_middle_of_a_picture_of_any_size_is_encoded() {
    let vae = VaeFile::open(&root().join("goldens/models/taesd.safetensors")).unwrap();
    let run = |picture: &Picture| {
        let (encoded, events) =
            with_control(|c| encode(&store(cpu()), &vae, picture, &EncodeOptions::default(), c));
        let said = events.into_iter().filter_map(|e| match e {
            Event::Note(text) => Some(text),
            _ => None,
        });
        encoded.map(|e| (e.latent, said.collect::<Vec<_>>().join("; ")))
    };
    let mut large = Picture::new(37, 19);
    for (i, byte) in large.rgb.iter_mut().enumerate() {
        *byte = (i * 7 % 251) as u8;
    }
    let (latent, said) = run(&large).unwrap();
    assert_eq!(latent.file_shape(), [1, 4, 2, 4]);
    assert!(said.contains("37x19") && said.contains("32x16"), "{said}");
    let (middle, said) = run(&large.cropped((2, 1), 32, 16)).unwrap();
    assert!(latent.values == middle.values);
    assert!(!said.contains("middle"), "{said}");
    let error = run(&Picture::new(32, 7)).unwrap_err().to_string();
    assert!(error.contains("height is 7"), "{error}");
}

#[test]
fn a_picture_alone_is_planned_as_one() {
    let vae = VaeFile::open(&root().join("goldens/models/wan21.safetensors")).unwrap();
    let picture = Picture::new(32, 16);
    let (encoded, _) =
        with_control(|c| encode(&store(cpu()), &vae, &picture, &EncodeOptions::default(), c));
    let encoded = encoded.unwrap();
    assert_eq!(encoded.predicted_peak, encoded.measured_peak);
}

#[test]
fn formats_of_other_vaes_are_refused() {
    for (file, format, channels) in [
        ("taew2_2", "wan21", 48),
        ("taesd3", "playground", 16),
        ("taesd", "flux", 4),
    ] {
        let vae =
            VaeFile::open(&root().join(format!("goldens/models/{file}.safetensors"))).unwrap();
        let options = DecodeOptions {
            format: nino_engine::LatentFormat::by_name(format),
            ..DecodeOptions::default()
        };
        let latent = super::decode::smooth(&[1, channels, 2, 2]);
        let (decoded, _) = with_control(|c| {
            decode(&store(cpu()), &vae, &latent, &options, c, &mut |_, _, _| {
                Ok(())
            })
        });
        let error = decoded.unwrap_err();
        let sentence = error.to_string();
        assert!(
            sentence.contains(format) && sentence.contains(&format!("have {channels}")),
            "{sentence}"
        );
        assert_eq!(error.kind(), ErrorKind::Mismatch);
    }
}

#[test]
fn all_tensors_that_do_not_fit_are_told_at_once() {
    let path = root().join("goldens/models/taesd.safetensors");
    let whole = nino_weights::open(&path).unwrap();
    let missing = ["decoder.5.conv.2.bias", "decoder.12.weight"];
    let kept = |e: &&nino_weights::Entry| !missing.contains(&&*e.name);
    let new: Vec<NewTensor> = whole
        .index()
        .entries()
        .iter()
        .filter(kept)
        .map(|e| NewTensor {
            name: e.name.clone(),
            dtype: DType::F32,
            shape: match &*e.name {
                "decoder.4.conv.0.weight" => vec![8, 8, 1, 1],
                _ => e.shape.clone(),
            },
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broken.safetensors");
    let mut writer = Writer::create(&file, &new, &BTreeMap::new()).unwrap();
    for tensor in &new {
        writer
            .write(&vec![0; tensor.shape.iter().product::<usize>() * 4])
            .unwrap();
    }
    writer.finish().unwrap();
    let error = VaeFile::open(&file).unwrap_err().to_string();
    for part in [
        "broken.safetensors: the tensors of its VAE",
        "2 missing (decoder.5.conv.2.bias, decoder.12.weight)",
        "1 mis-shaped (decoder.4.conv.0.weight is [8, 8, 1, 1] instead of [8, 8, 3, 3])",
    ] {
        assert!(error.contains(part), "{part:?} is missing from {error}");
    }
}
