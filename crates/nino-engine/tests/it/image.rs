//! From a picture, under a mask, in parts, in two passes: the model in the box on small latents.

use super::{cpu, nmse, root, store, with_control};
use nino_dtype::DType;
use nino_engine::{
    Checkpoint, DecodeOptions, EngineError, Event, Fill, GenerateRequest, Generated, Hires,
    Inpaint, Latent, Mask, Picture, Preview, Stage, Start, Upscale, VaeFile, Window, decode,
    generate,
};
use nino_weights::gguf::Writer;
use nino_weights::safetensors::NewTensor;
use std::path::Path;
use std::sync::Arc;

const STEPS: usize = 4;
/// Pixels of both sides: half of what the model was trained at still gives shapes and colors.
const SIDE: usize = 128;

pub(crate) fn emoji() -> Checkpoint {
    open(&root().join("models/nino-emoji.gguf"))
}

fn open(path: &Path) -> Checkpoint {
    Checkpoint::open(path, None).unwrap()
}

/// A small, quick request.
fn request(model: &Checkpoint, prompt: &str) -> GenerateRequest {
    GenerateRequest {
        steps: STEPS,
        width: SIDE,
        height: SIDE,
        ..GenerateRequest::new(model, prompt)
    }
}

pub(crate) fn run(
    model: &Checkpoint,
    request: &GenerateRequest,
) -> (Generated, Latent, Vec<Event>) {
    let mut latent = None;
    let (made, events) = with_control(|control| {
        generate(&store(cpu()), model, request, control, &mut |l| {
            latent = Some(l.latent.clone());
            Ok(())
        })
    });
    (made.unwrap(), latent.unwrap(), events)
}

fn refused(model: &Checkpoint, request: &GenerateRequest) -> EngineError {
    with_control(|c| generate(&store(cpu()), model, request, c, &mut |_| Ok(())))
        .0
        .unwrap_err()
}

/// Paints the upper half.
pub(crate) fn upper_half(width: usize, height: usize) -> Mask {
    let mut values = vec![0.0; width * height];
    values[..width * height / 2].fill(1.0);
    Mask {
        width,
        height,
        values,
    }
}

pub(crate) fn inpaint(mask: Mask) -> Inpaint {
    Inpaint {
        mask,
        fill: Fill::Keep,
        grow: 0,
        feather: 0,
        paste: false,
    }
}

#[test]
fn the_lower_the_strength_the_closer_to_the_start() {
    let model = emoji();
    let (_, sun, _) = run(&model, &request(&model, "a smiling sun"));
    let moon = |denoise: f64| {
        let request = GenerateRequest {
            denoise,
            start: Start::Latent(sun.clone()),
            ..request(&model, "a sad blue moon")
        };
        nmse(&run(&model, &request).1.values, &sun.values)
    };
    let (none, little, much) = (moon(0.0), moon(0.3), moon(0.9));
    assert!(none < 1e-12, "without noise the latent comes back");
    assert!(
        0.0 < little && little * 2.0 < much,
        "{little} at 0.3, {much} at 0.9"
    );
}

#[test]
fn outside_the_mask_the_latent_stays_to_the_bit() {
    let model = emoji();
    let (_, sun, _) = run(&model, &request(&model, "a smiling sun"));
    let request = GenerateRequest {
        start: Start::Latent(sun.clone()),
        inpaint: Some(inpaint(upper_half(SIDE, SIDE))),
        ..request(&model, "a pirate")
    };
    let (_, found, _) = run(&model, &request);
    let half = sun.values.len() / 2;
    assert_eq!(found.values[half..], sun.values[half..]);
    assert!(nmse(&found.values[..half], &sun.values[..half]) > 0.1);
}

#[test]
fn two_runs_of_half_the_steps_are_one_run() {
    let model = emoji();
    let base = request(&model, "a red apple");
    let (_, whole, _) = run(&model, &base);
    let part = |from: usize, to: usize, leftover: bool, start: Start, add_noise: bool| {
        let request = GenerateRequest {
            window: Some(Window {
                start_at_step: from,
                end_at_step: to,
                return_with_leftover_noise: leftover,
            }),
            add_noise,
            start,
            ..base.clone()
        };
        run(&model, &request).1
    };
    let first = part(0, 2, true, Start::Empty, true);
    let cut = part(0, 2, false, Start::Empty, true);
    assert!(
        nmse(&cut.values, &first.values) > 1e-3,
        "noise is left or not"
    );
    let both = part(2, STEPS, false, Start::Latent(first), false);
    let error = nmse(&both.values, &whole.values);
    assert!(error < 1e-10, "{error:.1e}");
}

#[test]
fn a_batch_begins_with_the_picture_of_its_seed() {
    let model = emoji();
    let one = request(&model, "a green frog");
    let two = GenerateRequest {
        batch: 2,
        ..one.clone()
    };
    let (_, single, _) = run(&model, &one);
    let (made, both, _) = run(&model, &two);
    assert_eq!(made.pictures.len(), 2);
    assert!(nmse(both.item(0), single.item(0)) < 1e-8);
    assert!(nmse(both.item(1), single.item(0)) > 1e-3);
}

#[test]
fn a_second_pass_doubles_the_size_and_keeps_the_picture() {
    let model = emoji();
    let base = request(&model, "a green frog");
    let (_, small, _) = run(&model, &base);
    let request = GenerateRequest {
        hires: Some(Hires {
            width: 2 * SIDE,
            height: 2 * SIDE,
            method: Upscale::Bilinear,
            steps: 2,
            denoise: 0.3,
        }),
        ..base.clone()
    };
    let (made, large, events) = run(&model, &request);
    assert_eq!((large.width, large.height), (SIDE / 4, SIDE / 4));
    let picture = &made.pictures[0];
    assert_eq!((picture.width, picture.height), (2 * SIDE, 2 * SIDE));
    let told: Vec<_> = events
        .into_iter()
        .filter(|e| matches!(e, Event::Pass { .. } | Event::Stage(Stage::Sample)))
        .collect();
    let pass = |index| Event::Pass { index, total: 2 };
    let sample = Event::Stage(Stage::Sample);
    assert_eq!(told, [pass(0), sample.clone(), pass(1), sample]);
    // Means of 2×2 latent pixels are near the small latent, and far from another prompt's.
    let n = SIDE / 8;
    let mean = |i: usize| {
        let (y, x, c) = (i / 4 / n * 2, i / 4 % n * 2, i % 4);
        let at = |y: usize, x: usize| large.values[(y * 2 * n + x) * 4 + c];
        (at(y, x) + at(y, x + 1) + at(y + 1, x) + at(y + 1, x + 1)) / 4.0
    };
    let means: Vec<f32> = (0..n * n * 4).map(mean).collect();
    let (_, other, _) = run(&model, &self::request(&model, "a red car"));
    let (near, far) = (nmse(&means, &small.values), nmse(&means, &other.values));
    println!("second pass: {near:.3} from its own first pass, {far:.3} from another prompt's");
    assert!(near < 0.35 && far > 3.0 * near, "{near} and {far}");
}

#[test]
fn previews_come_with_the_steps() {
    let model = emoji();
    let shown = |preview: Preview| -> (Vec<Picture>, Latent) {
        let request = GenerateRequest {
            preview: Some(preview),
            ..request(&model, "a green frog")
        };
        let (_, latent, events) = run(&model, &request);
        let previews = events.into_iter().filter_map(|e| match e {
            Event::Preview(picture) => Some(picture),
            _ => None,
        });
        (previews.collect(), latent)
    };
    let (colors, _) = shown(Preview {
        every: 1,
        vae: None,
    });
    assert_eq!(colors.len(), STEPS);
    assert!(
        colors
            .iter()
            .all(|p| (p.width, p.height) == (SIDE / 8, SIDE / 8))
    );
    // A frog is green when it is done.
    let sum = |c: usize| -> u32 {
        let values = colors[STEPS - 1].rgb.iter().skip(c).step_by(3);
        values.map(|&v| u32::from(v)).sum()
    };
    assert!(sum(1) > sum(0) && sum(1) > sum(2), "{:?}", colors.last());
    // By its own name it would be known for another latent space than this model's, and refused.
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small.safetensors");
    std::fs::copy(root().join("goldens/models/taesd.safetensors"), &small).unwrap();
    let taesd = Arc::new(VaeFile::open(&small).unwrap());
    let (decoded, latent) = shown(Preview {
        every: 2,
        vae: Some(taesd.clone()),
    });
    assert_eq!(decoded.len(), STEPS / 2);
    assert!(decoded.iter().all(|p| (p.width, p.height) == (SIDE, SIDE)));
    // The last prediction is the finished latent, and its preview is what the same VAE makes of
    // that.
    let mut finished = Picture::default();
    let (ran, _) = with_control(|control| {
        let options = DecodeOptions::default();
        decode(
            &store(cpu()),
            &taesd,
            &latent,
            &options,
            control,
            &mut |_, _, p| {
                finished = p;
                Ok(())
            },
        )
    });
    ran.unwrap();
    let apart = |p: &Picture| {
        p.rgb
            .iter()
            .zip(&finished.rgb)
            .map(|(a, b)| a.abs_diff(*b))
            .max()
    };
    assert!(apart(&decoded[1]) <= Some(1), "{:?}", apart(&decoded[1]));
    assert!(
        apart(&decoded[0]) > Some(1),
        "previews of different steps differ"
    );
}

#[test]
fn what_cannot_be_meant_is_told() {
    let model = emoji();
    let base = request(&model, "a cat");
    let picture = Picture {
        width: 32,
        height: 64,
        rgb: vec![0; 32 * 64 * 3],
    };
    let odd = GenerateRequest {
        width: SIDE + 1,
        ..base.clone()
    };
    let small = GenerateRequest {
        start: Start::Picture(picture),
        ..base.clone()
    };
    let alone = GenerateRequest {
        inpaint: Some(inpaint(upper_half(SIDE, SIDE))),
        ..base.clone()
    };
    let steps = GenerateRequest {
        steps: 10_001,
        ..base.clone()
    };
    let cases = [
        (refused(&model, &odd), "129"),
        (refused(&model, &small), "32x64"),
        (refused(&model, &alone), "mask"),
        (refused(&model, &steps), "10001"),
    ];
    for (error, part) in cases {
        assert!(error.to_string().contains(part), "{error}");
    }
    // The built-in model cannot encode pictures, which is told before anything is sampled.
    let encode = GenerateRequest {
        start: Start::Picture(Picture {
            width: SIDE,
            height: SIDE,
            rgb: vec![0; SIDE * SIDE * 3],
        }),
        ..base
    };
    let error = refused(&model, &encode);
    assert!(error.to_string().contains("encoder"), "{error}");
    assert!(
        matches!(
            error,
            EngineError::NoPart {
                part: "encoder",
                ..
            }
        ),
        "{error}"
    );
}

/// The model in the box with a VAE that has an encoder, of random weights.
fn with_encoder() -> Checkpoint {
    let vae = VaeFile::open(&root().join("goldens/models/taesd.safetensors")).unwrap();
    Checkpoint {
        vae: Arc::new(vae),
        ..Checkpoint::open(&root().join("models/nino-emoji.gguf"), None).unwrap()
    }
}

fn photo() -> Picture {
    let rgb = (0..SIDE * SIDE * 3).map(|i| (i * 7 % 251) as u8).collect();
    Picture {
        width: SIDE,
        height: SIDE,
        rgb,
    }
}

#[test]
fn a_picture_is_encoded_and_grayed_under_the_mask() {
    let model = with_encoder();
    let from = |inpaint: Option<Inpaint>| {
        let request = GenerateRequest {
            denoise: 0.0,
            start: Start::Picture(photo()),
            inpaint,
            ..request(&model, "a cat")
        };
        run(&model, &request).1
    };
    let format = nino_engine::LatentFormat::by_name("nino");
    let options = nino_engine::EncodeOptions {
        format,
        ..nino_engine::EncodeOptions::default()
    };
    let (encoded, _) =
        with_control(|c| nino_engine::encode(&store(cpu()), &model.vae, &photo(), &options, c));
    let encoded = encoded.unwrap().latent;
    assert!(nmse(&from(None).values, &encoded.values) < 1e-10);
    let gray = from(Some(Inpaint {
        fill: Fill::Gray,
        ..inpaint(upper_half(SIDE, SIDE))
    }));
    let half = encoded.values.len() / 2;
    assert!(nmse(&gray.values[..half], &encoded.values[..half]) > 1e-3);
    // Far from the border the encoder sees nothing of the gray.
    let last = encoded.values.len() - 4 * SIDE / 8;
    assert!(nmse(&gray.values[last..], &encoded.values[last..]) < 1e-6);
}

#[test]
fn pasted_pixels_are_the_pictures_own() {
    let model = with_encoder();
    let picture = photo();
    let request = GenerateRequest {
        steps: 1,
        start: Start::Picture(picture.clone()),
        inpaint: Some(Inpaint {
            paste: true,
            ..inpaint(upper_half(SIDE, SIDE))
        }),
        ..request(&model, "a cat")
    };
    let made = &run(&model, &request).0.pictures[0];
    let half = picture.rgb.len() / 2;
    assert_eq!(made.rgb[half..], picture.rgb[half..]);
    assert_ne!(made.rgb[..half], picture.rgb[..half]);
}

#[test]
fn the_halves_of_a_taesd_find_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let whole = nino_weights::open(root().join("goldens/models/taesd.safetensors")).unwrap();
    let halves = ["decoder", "encoder"].map(|half| {
        let path = dir.path().join(format!("tiny_{half}.safetensors"));
        let prefix = format!("{half}.");
        let entries: Vec<_> = whole
            .index()
            .entries()
            .iter()
            .filter(|e| e.name.starts_with(&prefix))
            .collect();
        let new = |e: &&nino_weights::Entry| NewTensor {
            name: e.name.clone(),
            dtype: DType::F32,
            shape: e.shape.clone(),
        };
        let tensors: Vec<_> = entries.iter().map(new).collect();
        assert!(!tensors.is_empty(), "{half}");
        let none = std::collections::BTreeMap::new();
        let mut writer = nino_weights::safetensors::Writer::create(&path, &tensors, &none).unwrap();
        for entry in entries {
            let mut values = vec![0.0; entry.n_values()];
            whole.read_f32(entry, &mut values).unwrap();
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            writer.write(&bytes).unwrap();
        }
        writer.finish().unwrap();
        path
    });
    let options = nino_engine::EncodeOptions {
        format: nino_engine::LatentFormat::by_name("sd15"),
        ..nino_engine::EncodeOptions::default()
    };
    let encode = |vae: &VaeFile| {
        with_control(|c| nino_engine::encode(&store(cpu()), vae, &photo(), &options, c)).0
    };
    let decoder = VaeFile::open(&halves[0]).unwrap();
    assert!(encode(&decoder).is_ok());
    std::fs::remove_file(&halves[1]).unwrap();
    let alone = VaeFile::open(&halves[0]).unwrap();
    assert!(encode(&alone).unwrap_err().to_string().contains("encoder"));
}

/// The model in the box with five more input channels, the first of which has weights of `mask`.
fn with_nine_channels(path: &Path, mask: f32) -> Checkpoint {
    let reader = nino_weights::open(root().join("models/nino-emoji.gguf")).unwrap();
    let first = "model.diffusion_model.input_blocks.0.0.weight";
    let entries = reader.index().entries();
    let tensors: Vec<NewTensor> = entries
        .iter()
        .map(|e| NewTensor {
            name: e.name.clone(),
            dtype: if e.name == first { DType::F32 } else { e.dtype },
            shape: match (&e.name[..], &e.shape[..]) {
                (name, &[out, 4, kh, kw]) if name == first => vec![out, 9, kh, kw],
                (_, shape) => shape.to_vec(),
            },
        })
        .collect();
    let mut metadata = reader.index().metadata.clone();
    metadata.retain(|key, _| key != "general.alignment");
    let mut writer = Writer::create(path, &tensors, &metadata).unwrap();
    for entry in entries {
        if entry.name == first {
            let mut values = vec![0.0; entry.n_values()];
            reader.read_f32(entry, &mut values).unwrap();
            for kernels in values.chunks_exact(4 * 9) {
                let more = [mask; 9].into_iter().chain([0.0; 4 * 9]);
                let all = kernels.iter().copied().chain(more);
                let bytes: Vec<u8> = all.flat_map(f32::to_le_bytes).collect();
                writer.write(&bytes).unwrap();
            }
        } else {
            let mut bytes = vec![0; entry.dtype.bytes_for(entry.n_values()).unwrap()];
            reader.read(entry, &mut bytes).unwrap();
            writer.write(&bytes).unwrap();
        }
    }
    writer.finish().unwrap();
    open(path)
}

#[test]
fn an_inpaint_unet_sees_the_mask_beside_the_latent() {
    let dir = tempfile::tempdir().unwrap();
    let model = emoji();
    let (_, sun, _) = run(&model, &request(&model, "a smiling sun"));
    let masked = |model: &Checkpoint| {
        let request = GenerateRequest {
            start: Start::Latent(sun.clone()),
            inpaint: Some(inpaint(upper_half(SIDE, SIDE))),
            ..request(model, "a pirate")
        };
        run(model, &request).1
    };
    let plain = masked(&model);
    let blind = with_nine_channels(&dir.path().join("nino-emoji-blind.gguf"), 0.0);
    let error = nmse(&masked(&blind).values, &plain.values);
    assert!(
        error < 1e-8,
        "channels without weights change nothing: {error:.1e}"
    );
    let seeing = with_nine_channels(&dir.path().join("nino-emoji-seeing.gguf"), 0.05);
    let error = nmse(&masked(&seeing).values, &plain.values);
    assert!(error > 1e-4, "{error:.1e}");
}
