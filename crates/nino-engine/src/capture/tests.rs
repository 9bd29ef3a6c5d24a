//! A stage that is captured, run again, and compared.

use super::{is_on, replay, to};
use crate::device::{self, DeviceChoice};
use crate::tests::made;
use crate::{
    Checkpoint, Control, DecodeOptions, DeviceName, EncodeOptions, FloatFrames, Latent, LatentSize,
    Noise, Precision, Rng, SampleRequest, SamplerInfo, SamplerOptions, Scheduler, Seed, Store,
    VaeFile, decode_images, encode_clip, encode_image, encode_text, sample, sigmas, timeline,
};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

#[test]
fn captured_stages_come_out_the_same_again() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("captured");
    to(&folder);
    let choice = DeviceChoice {
        device: Some(DeviceName::Cpu),
        ..DeviceChoice::default()
    };
    let store = Store::new(device::open(&choice).unwrap().device);
    let file = crate::builtin_model(dir.path()).unwrap();
    let model = Checkpoint::open(&file, None).unwrap();
    let never = AtomicBool::new(false);
    let mut control = Control {
        cancel: &never,
        on_event: &mut |_| {},
    };
    let prompt = |text: &str, control: &mut Control<'_>| {
        encode_text(&store, &model.text, text, &[], control).unwrap()
    };
    let positive = [prompt("a sun", &mut control)];
    let negative = [prompt("", &mut control)];
    let sampler = SamplerInfo::find("euler").unwrap();
    let levels = sigmas(
        &model.diffusion,
        sampler,
        Scheduler::find("simple").unwrap(),
        2,
        1.0,
    );
    let request = SampleRequest {
        positive: &positive,
        negative: &negative,
        third: None,
        latent: &Latent::empty(1, 4, LatentSize::picture(8, 8)),
        noise: Noise::Seeded,
        mask: None,
        frame_mask: &[],
        sigmas: &levels.unwrap(),
        sampler,
        options: &SamplerOptions::default(),
        seed: Seed {
            value: 3,
            rng: Rng::Torch,
        },
        cfg: 3.0,
        precision: Precision::Auto,
        preview: None,
        beside: 0,
        memory: None,
    };
    let made = sample(&store, &model.diffusion, &request, &mut control).unwrap();
    let options = DecodeOptions::default();
    let (images, _) =
        decode_images(&store, &model.vae, &made.latent, &options, &mut control).unwrap();
    // The built-in model has no encoder.
    let other = dir.path().join("tiny.safetensors");
    made::write_list(&made::list("tiny_sd1"), &other);
    let (vae, told) = (VaeFile::open(&other).unwrap(), EncodeOptions::default());
    encode_image(&store, &vae, &images[0], &told, &mut control).unwrap();
    // Of eight frames a Wan takes five: the first, and four.
    let wan = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/models/wan21.safetensors");
    let clip = FloatFrames {
        width: 16,
        height: 16,
        n_frames: 8,
        frame: &|i| vec![i as f32 / 8.0; 16 * 16 * 3],
    };
    let wan = VaeFile::open(&wan).unwrap();
    encode_clip(&store, &wan, &clip, &told, &mut control).unwrap();
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    // Two prompts, the sampling, the decode, the two encodes.
    let of = ["nino-emoji"; 4].into_iter().chain(["tiny", "wan21"]);
    assert_eq!(files.len(), 6, "{files:?}");
    let frames = nino_weights::open(&files[5]).unwrap();
    let frames = frames.entry("in.images").unwrap();
    assert_eq!(frames.shape, [5, 16, 16, 3]);
    for (path, file) in files.into_iter().zip(of) {
        let again = replay(&store, &path, &mut control).unwrap();
        assert!(again.nmse < 1e-12, "{again:?}");
        assert!(again.file.contains(file), "{again:?}");
    }
    // Another seed is not the same.
    let other = SampleRequest {
        seed: Seed {
            value: 4,
            ..request.seed
        },
        ..request
    };
    let other = sample(&store, &model.diffusion, &other, &mut control).unwrap();
    assert_ne!(other.latent.values, made.latent.values);
}

/// All that is left of captures and timelines where nobody asked for them: a question for each
/// stage, of which a picture has three, and a device that nothing is around.
#[test]
fn what_nobody_asked_for_costs_nanoseconds() {
    const CALLS: u32 = 100_000;
    let cpu = nino_cpu::Cpu::new(nino_cpu::CpuOptions::default()).unwrap();
    let cpu: Arc<dyn nino_graph::Device> = Arc::new(cpu);
    let same = timeline::recorded(Arc::clone(&cpu));
    assert!(Arc::ptr_eq(&cpu, &same), "nothing is around it");
    let store = Store::new(same);
    let started = Instant::now();
    for _ in 0..CALLS {
        black_box(is_on(&store));
        timeline::begin_stage(black_box(crate::Stage::Sample));
    }
    let nanoseconds = started.elapsed().as_nanos() as f64 / f64::from(CALLS);
    println!("{nanoseconds:.1} ns a stage");
    // Half a percent of a stage of a millisecond is 5,000 ns.
    assert!(nanoseconds < 1_000.0, "{nanoseconds} ns");
}
