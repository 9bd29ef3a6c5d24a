//! Decoding by the engine: pictures and clips, whole, in little memory, in tiles, and stopped.

use super::gpu::gpus;
use super::watched::watched;
use super::{TestVae, cpu, root, store, with_control};
use nino_dtype::DType;
use nino_engine::{
    Chunking, Control, DecodeOptions, EngineError, ErrorKind, Event, Favor, Latent, LatentSize,
    Picture, Precision, Store, Strategy, Tile, Tiling, VaeFile, decode, plan_decode,
};
use nino_graph::{
    Around, Budget, Device, ExecError, ParamSpec, Plan, PlanError, Search, Session, Weights,
    rewrite,
};
use nino_models::kl::{Config, Scale};
use nino_models::{Chunk, Frames, Storage, Vae};
use nino_weights::safetensors::{NewTensor, Writer};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A CPU with less memory.
struct Small {
    cpu: nino_cpu::Cpu,
    budget: usize,
}

impl Around for Small {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &self.cpu as &dyn Device
    }

    /// Of a device with memory of its own, so that small models make a difference.
    fn budget(&self) -> Budget {
        Budget::of(self.budget)
    }
}

/// A store on a CPU with so much memory.
fn small(budget: usize) -> Store {
    store(Small { cpu: cpu(), budget })
}

/// A small AutoencoderKL with made-up weights, as a file.
pub(crate) fn kl() -> TestVae {
    kl_with_gain(1.0)
}

fn in_f32() -> Storage<'static> {
    Storage {
        activations: DType::F32,
        weights: &|_| DType::F32,
        scale: Scale { shift: 0 },
    }
}

/// With its residual stream `gain` times as large as usual.
pub(crate) fn kl_with_gain(gain: f32) -> TestVae {
    let config = Config {
        encoder: vec![32, 32, 32],
        decoder: vec![32, 32, 32],
        n_res_blocks: 1,
        ..Config::sd()
    };
    let chunk = Chunk {
        batch: 1,
        frames: 1,
        height: 8,
        width: 8,
        first: true,
        at_once: Frames::Apart,
    };
    let storage = in_f32();
    let vae = Vae::Kl(config);
    let halves = [
        vae.decode(chunk, &storage).unwrap(),
        vae.encode(chunk, &storage).unwrap(),
    ];
    let stored = |s: &[usize]| match *s {
        [cout, kh, kw, cin] => vec![cout, cin, kh, kw],
        // The file's 1×1 convolutions are linears in the graph.
        [out, cin] => vec![out, cin, 1, 1],
        _ => s.to_vec(),
    };
    let mut seed = 1u32;
    let mut random = move || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kl.safetensors");
    let params = halves.iter().flat_map(|half| half.graph.params());
    let specs: Vec<_> = params.map(|(_, p)| p.clone()).collect();
    let new = |p: &ParamSpec| NewTensor {
        name: p.name.clone(),
        dtype: DType::F32,
        shape: stored(&p.shape),
    };
    let mut writer = Writer::create(
        &path,
        &specs.iter().map(new).collect::<Vec<_>>(),
        &BTreeMap::new(),
    )
    .unwrap();
    for p in &specs {
        let fan_in = p.shape[1..].iter().product::<usize>().max(1) as f32;
        let gamma = p.name.contains("norm") && p.name.ends_with("weight");
        // Second convolutions and the one at the start write the stream; norms take its size away.
        let writes = p.name.contains("conv2") || p.name.contains("conv_in");
        let gain = if writes { gain } else { 1.0 };
        let value = |_| random() * 2.0 * gain / fan_in.sqrt() + if gamma { 1.0 } else { 0.0 };
        let bytes: Vec<u8> = (0..p.shape.numel())
            .map(value)
            .flat_map(f32::to_le_bytes)
            .collect();
        writer.write(&bytes).unwrap();
    }
    writer.finish().unwrap();
    TestVae::temporary(VaeFile::open(&path).unwrap(), dir)
}

pub(crate) fn wan() -> TestVae {
    let file = VaeFile::open(&root().join("goldens/models/wan21.safetensors"));
    file.unwrap().into()
}

pub(crate) fn smooth(shape: &[usize]) -> Latent {
    let n = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..n)
        .map(|i| (i as f32 * 0.37).sin() + (i as f32 * 0.011).cos())
        .collect();
    Latent::from_planes(shape, &values, Path::new("made up")).unwrap()
}

fn pictures(
    store: &Store,
    vae: &VaeFile,
    latent: &Latent,
    options: &DecodeOptions,
) -> (Vec<Picture>, Strategy, usize, usize) {
    let mut found = Vec::new();
    let (decoded, _) = with_control(|control| {
        decode(store, vae, latent, options, control, &mut |_, _, p| {
            found.push(p);
            Ok(())
        })
    });
    let decoded = decoded.unwrap();
    assert_eq!(
        decoded.measured_peak,
        decoded.plan.peak_bytes(),
        "what was planned is what was used"
    );
    (
        found,
        decoded.plan.strategy,
        decoded.plan.peak_bytes(),
        decoded.plan.weight_bytes(),
    )
}

#[test]
fn little_memory_changes_nothing_in_the_picture() {
    let (vae, latent) = (kl(), smooth(&[1, 4, 24, 20]));
    let (whole, strategy, peak, weights) =
        pictures(&store(cpu()), &vae, &latent, &DecodeOptions::default());
    assert_eq!(strategy, Strategy::Untiled);
    let budget = weights + (peak - weights) / 2;
    let small = small(budget);
    let (tiled, strategy, small_peak, _) =
        pictures(&small, &vae, &latent, &DecodeOptions::default());
    assert_eq!(strategy, Strategy::ExactTiles);
    assert!(small_peak <= budget, "{small_peak} of {budget}");
    assert_eq!(whole, tiled);
}

#[test]
fn a_clip_is_the_same_in_any_chunks_and_has_every_frame() {
    let vae = wan();
    let latent = smooth(&[1, 4, 5, 3, 4]);
    let with = |chunking| {
        let options = DecodeOptions {
            chunking,
            ..DecodeOptions::default()
        };
        pictures(&store(cpu()), &vae, &latent, &options).0
    };
    let one = with(Chunking::Frames(1));
    assert_eq!(one.len(), 1 + (5 - 1) * 4);
    for chunk in [2, 4, 8] {
        assert_eq!(one, with(Chunking::Frames(chunk)), "chunks of {chunk}");
    }
    // Frames must depend on the ones before: without what is carried they would repeat.
    assert!(one.windows(2).all(|w| w[0] != w[1]));
}

#[test]
fn memory_does_not_grow_with_the_clip() {
    let vae = VaeFile::spec("wan21-vae").unwrap();
    let peak = |frames| {
        let size = LatentSize {
            frames,
            height: 16,
            width: 16,
        };
        plan_decode(&store(cpu()), &vae, size, &DecodeOptions::default())
            .unwrap()
            .peak_bytes()
    };
    assert_eq!(peak(5), peak(21));
}

/// Mean difference of every column to the next.
fn column_steps(p: &Picture) -> Vec<f64> {
    let step = |x: usize| {
        let rows = p.rgb.chunks_exact(p.width * 3);
        let row = |r: &[u8]| -> f64 {
            (0..3)
                .map(|c| f64::from(r[x * 3 + c].abs_diff(r[(x + 1) * 3 + c])))
                .sum()
        };
        rows.map(row).sum::<f64>() / (p.height * 3) as f64
    };
    (0..p.width - 1).map(step).collect()
}

fn turned(p: &Picture) -> Picture {
    let mut rgb = Vec::with_capacity(p.rgb.len());
    for x in 0..p.width {
        for y in 0..p.height {
            rgb.extend_from_slice(&p.rgb[(y * p.width + x) * 3..][..3]);
        }
    }
    Picture {
        width: p.height,
        height: p.width,
        rgb,
    }
}

/// No row or column where a tile begins or ends stands out from those beside it.
#[test]
fn fast_tiles_blend_without_borders() {
    let taesd = VaeFile::open(&root().join("goldens/models/taesd.safetensors")).unwrap();
    for (vae, scale) in [(kl(), 4), (taesd.into(), 8)] {
        let latent = smooth(&[1, 4, 16, 16]);
        let (size, overlap) = (10 * scale, 4 * scale);
        let options = DecodeOptions {
            tile: Tile::Fast(Tiling { size, overlap }),
            format: nino_engine::LatentFormat::by_name("sd15"),
            ..DecodeOptions::default()
        };
        let (tiled, strategy, ..) = pictures(&store(cpu()), &vae, &latent, &options);
        assert_eq!(strategy, Strategy::FastTiles);
        let side = 16 * scale;
        assert_eq!((tiled[0].width, tiled[0].height), (side, side));
        for picture in [&tiled[0], &turned(&tiled[0])] {
            let steps = column_steps(picture);
            // Tiles of ten latent pixels begin at 0 and 6.
            for border in [6 * scale, 10 * scale] {
                for x in border - 1..=border {
                    let beside = (x - 3..x).chain(x + 1..=x + 3).map(|i| steps[i]);
                    let most = beside.fold(0.0, f64::max);
                    assert!(
                        steps[x] <= 2.0 * most,
                        "{} at {x}: {} beside {most}",
                        vae.name,
                        steps[x]
                    );
                }
            }
        }
    }
}

/// Every frame of a clip waits for its last tile: that is in the plan, and blends as a picture
/// does.
#[test]
fn fast_tiles_of_a_clip_blend_every_frame() {
    let (vae, latent) = (wan(), smooth(&[1, 4, 2, 12, 12]));
    let whole = pictures(&store(cpu()), &vae, &latent, &DecodeOptions::default()).0;
    let (size, overlap) = (64, 32);
    let options = DecodeOptions {
        tile: Tile::Fast(Tiling { size, overlap }),
        ..DecodeOptions::default()
    };
    let (tiled, strategy, ..) = pictures(&store(cpu()), &vae, &latent, &options);
    assert_eq!((tiled.len(), strategy), (5, Strategy::FastTiles));
    for (a, b) in whole.iter().zip(&tiled) {
        let db = psnr(a, b);
        assert!(db > 20.0, "{db} dB");
    }
    let beside = |options| {
        let plan = plan_decode(&store(cpu()), &vae, latent.size(), options).unwrap();
        plan.picture_bytes()
    };
    // A frame is three floats a pixel, and one more for all of them.
    let waiting = 96 * 96 * (5 * 3 + 1) * 4;
    let more = beside(&options) - beside(&DecodeOptions::default());
    assert_eq!(more, waiting);
}

fn psnr(a: &Picture, b: &Picture) -> f64 {
    let pairs = a.rgb.iter().zip(&b.rgb);
    let square: f64 = pairs
        .map(|(x, y)| f64::from(x.abs_diff(*y)).powi(2))
        .sum::<f64>();
    let mean = square / a.rgb.len() as f64;
    10.0 * (255.0 * 255.0 / mean.max(1e-9)).log10()
}

#[test]
fn exact_tiles_of_any_size_give_the_same_picture() {
    let (vae, latent) = (kl(), smooth(&[1, 4, 40, 28]));
    let (whole, _, peak, weights) =
        pictures(&store(cpu()), &vae, &latent, &DecodeOptions::default());
    let mut tried = 0;
    for share in [0.9, 0.75, 0.6, 0.45, 0.3, 0.2] {
        let budget = weights + ((peak - weights) as f64 * share) as usize;
        let small = small(budget);
        let size = latent.size();
        if plan_decode(&small, &vae, size, &DecodeOptions::default()).is_err() {
            continue;
        }
        let (tiled, strategy, small_peak, _) =
            pictures(&small, &vae, &latent, &DecodeOptions::default());
        assert_eq!(strategy, Strategy::ExactTiles);
        assert!(small_peak <= budget);
        let db = psnr(&whole[0], &tiled[0]);
        assert!(db >= 60.0, "{share}: {db} dB");
        tried += 1;
    }
    assert!(tried >= 3, "{tried} budgets were possible");
}

/// What the specification promises of memory, from the plans that are then used.
#[test]
fn plans_keep_the_promised_budgets() {
    const MIB: usize = 1 << 20;
    let plan = |spec: &str, (w, h, frames): (usize, usize, usize), budget, precision| {
        let vae = VaeFile::spec(spec).unwrap();
        let size = LatentSize {
            frames,
            height: h / 8,
            width: w / 8,
        };
        let options = DecodeOptions {
            budget,
            precision,
            ..DecodeOptions::default()
        };
        plan_decode(&store(cpu()), &vae, size, &options).unwrap()
    };
    let half = plan("sd-vae", (1024, 1024, 1), None, Precision::F16);
    assert_eq!(half.strategy, Strategy::Untiled);
    assert!(half.peak_bytes() <= 1280 * MIB, "{}", half.peak_bytes());
    let small = plan("sd-vae", (512, 512, 1), None, Precision::F32);
    assert!(small.peak_bytes() <= 1000 * MIB, "{}", small.peak_bytes());
    for (side, budget) in [(2048, 1024 * MIB), (4096, 2048 * MIB)] {
        let large = plan("sd-vae", (side, side, 1), Some(budget), Precision::F32);
        assert!(large.peak_bytes() <= budget);
    }
    // Some of it outside, and all of it on the device.
    for precision in [Precision::F32, Precision::F16] {
        let budget = 3072 * MIB;
        let clip = |frames| plan("wan21-vae", (832, 480, frames), Some(budget), precision);
        let (short, long) = (clip(5), clip(21));
        assert!(long.peak_bytes() <= budget);
        assert_eq!(long.peak_bytes(), short.peak_bytes());
    }
    // Two frames of its last layers alone are 6 GiB.
    let budget = 2048 * MIB;
    let large = plan("wan21-vae", (3840, 2160, 3), Some(budget), Precision::F32);
    assert!(large.peak_bytes() <= budget);
}

/// Less than half of the memory for little more time, and no files that a disk would have to take.
#[test]
fn plans_that_favor_memory_take_little_longer() {
    let device = store(cpu());
    let plan = |spec: &str, frames, side: usize, favor| {
        let vae = VaeFile::spec(spec).unwrap();
        let size = LatentSize {
            frames,
            height: side / 8,
            width: side / 8,
        };
        let options = DecodeOptions {
            favor,
            ..DecodeOptions::default()
        };
        let plan = plan_decode(&device, &vae, size, &options).unwrap();
        let seconds = device.device().rates().seconds(&plan.load());
        (plan, seconds)
    };
    for (spec, frames, side) in [
        ("sd-vae", 1, 64),
        ("sd-vae", 1, 512),
        ("sd-vae", 1, 2048),
        ("taesd", 1, 512),
        ("wan21-vae", 2, 256),
    ] {
        let [(quick, least), (small, longer)] =
            [Favor::Time, Favor::Memory].map(|favor| plan(spec, frames, side, favor));
        let (all, some) = (quick.peak_bytes(), small.peak_bytes());
        let told = format!("{spec} {side}: {some} of {all} bytes, {longer} for {least} s");
        assert!(some <= all, "{told}");
        assert!(longer <= least * 1.25, "{told}");
        assert!(small.host_bytes() <= 1 << 30, "{told}");
        if (spec, side) == ("sd-vae", 512) {
            assert!(some * 2 <= all, "{told}");
        }
        println!("{told}");
    }
}

#[test]
fn wrong_latents_are_told() {
    let vae = kl();
    let refused = |latent: &Latent| {
        let (result, _) = with_control(|c| {
            decode(
                &store(cpu()),
                &vae,
                latent,
                &DecodeOptions::default(),
                c,
                &mut |_, _, _| Ok(()),
            )
        });
        result.unwrap_err()
    };
    let error = refused(&smooth(&[1, 16, 4, 4]));
    assert!(
        matches!(
            error,
            EngineError::Channels {
                expected: 4,
                found: 16
            }
        ),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(matches!(
        refused(&smooth(&[1, 4, 3, 4, 4])),
        EngineError::VideoLatent { frames: 3, .. }
    ));
    let error =
        Latent::from_planes(&[1, 4, 1, 1], &[1.0, f32::NAN, 0.0, 0.0], Path::new("x")).unwrap_err();
    assert!(
        matches!(error, EngineError::LatentNotFinite { bad: 1, all: 4, .. }),
        "{error}"
    );
    let tiny = small(1000);
    let size = LatentSize {
        frames: 1,
        height: 8,
        width: 8,
    };
    let error = plan_decode(&tiny, &vae, size, &DecodeOptions::default()).unwrap_err();
    assert!(error.to_string().contains("budget"), "{error}");
}

/// A device that is told to stop as its `at`-th run begins.
struct Stopping {
    device: Arc<dyn Device>,
    stop: Arc<AtomicBool>,
    runs: Arc<AtomicUsize>,
    at: usize,
}

impl Around for Stopping {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &*self.device
    }

    fn sessions(
        &self,
        plans: &[Arc<Plan>],
        weights: &Weights,
    ) -> Result<Vec<Box<dyn Session>>, ExecError> {
        let sessions = self.device.sessions(plans, weights)?;
        Ok(watched(sessions, || {
            let (stop, runs, at) = (self.stop.clone(), self.runs.clone(), self.at);
            move || {
                if runs.fetch_add(1, Ordering::Relaxed) == at {
                    stop.store(true, Ordering::Relaxed);
                }
                Ok(())
            }
        }))
    }
}

/// Tiles of a picture and chunks of a clip: what runs when the stop comes is not finished, and
/// nothing begins after it.
#[test]
fn a_decode_stops_within_the_tile_it_is_told_in() {
    let tiles = DecodeOptions {
        tile: Tile::Fast(Tiling {
            size: 40,
            overlap: 16,
        }),
        ..DecodeOptions::default()
    };
    let cases = [
        (kl(), smooth(&[2, 4, 16, 16]), tiles),
        (wan(), smooth(&[1, 4, 5, 3, 4]), DecodeOptions::default()),
    ];
    let mut devices: Vec<Arc<dyn Device>> = vec![Arc::new(cpu())];
    for (_, gpu) in gpus() {
        devices.push(Arc::new(gpu));
    }
    for (vae, latent, options) in &cases {
        for (device, at) in devices.iter().flat_map(|d| [(d, 0), (d, 3)]) {
            let (stop, runs) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
            let stopping = store(Stopping {
                device: Arc::clone(device),
                stop: stop.clone(),
                runs: runs.clone(),
                at,
            });
            let mut done = Vec::new();
            let mut control = Control {
                cancel: &stop,
                on_event: &mut |event| {
                    if let Event::Progress { done: n, .. } = event {
                        done.push(n);
                    }
                },
            };
            let result = decode(
                &stopping,
                vae,
                latent,
                options,
                &mut control,
                &mut |_, _, _| Ok(()),
            );
            assert!(matches!(result, Err(EngineError::Cancelled)));
            let runs = runs.load(Ordering::Relaxed);
            assert_eq!(runs, at + 1, "{}: runs after the stop", vae.name);
            assert_eq!(done, (1..=at).collect::<Vec<_>>(), "{}", vae.name);
        }
    }
}

/// A picture that is decoded whole takes long on a CPU: how far it is can be heard all the while.
#[test]
fn progress_is_told_within_a_picture() {
    let mut heard = Vec::new();
    let options = DecodeOptions::default();
    let latent = smooth(&[1, 4, 4, 4]);
    let decoded = decode(
        &store(cpu()),
        &kl(),
        &latent,
        &options,
        &mut Control {
            cancel: &AtomicBool::new(false),
            on_event: &mut |event| match event {
                Event::Within(share) => heard.push(share),
                Event::Progress { done: 1, .. } => heard.push(2.0),
                _ => {}
            },
        },
        &mut |_, _, _| Ok(()),
    );
    decoded.unwrap();
    assert!(heard.len() > 10 && heard.is_sorted(), "{heard:?}");
    assert!(heard.ends_with(&[1.0, 2.0]), "{heard:?}");
}

/// What is said to be needed is enough, for all of a clip's graphs together.
#[test]
fn the_least_budget_that_is_told_does() {
    let size = |frames| LatentSize {
        frames,
        height: 24,
        width: 40,
    };
    for (vae, size) in [(kl(), size(1)), (wan(), size(1)), (wan(), size(4))] {
        for chunking in [Chunking::Auto, Chunking::Frames(3)] {
            let options = DecodeOptions {
                chunking,
                ..DecodeOptions::default()
            };
            let plan = |budget| plan_decode(&small(budget), &vae, size, &options);
            let told = |budget| match plan(budget) {
                Err(EngineError::Plan(PlanError::OverBudget {
                    need, budget: told, ..
                })) => {
                    assert_eq!(told, budget);
                    need
                }
                plan => panic!("{budget} are not enough for {}: {plan:?}", vae.name),
            };
            let need = told(1000);
            assert_eq!(told(need - 1), need);
            let made = plan(need).map(|p| p.peak_bytes());
            assert!(matches!(made, Ok(peak) if peak <= need), "{need}: {made:?}");
        }
    }
}

/// Where the frames of a convolution's window are too much at once, it is a sum over them.
#[test]
fn a_clip_in_the_least_memory_is_the_same() {
    let (vae, latent) = (wan(), smooth(&[1, 4, 3, 24, 40]));
    let options = DecodeOptions {
        chunking: Chunking::Frames(1),
        ..DecodeOptions::default()
    };
    let (whole, ..) = pictures(&store(cpu()), &vae, &latent, &options);
    let tiny = small(1000);
    let plan = plan_decode(&tiny, &vae, latent.size(), &options);
    let Err(EngineError::Plan(PlanError::OverBudget { need, .. })) = plan else {
        panic!("1000 bytes are not enough");
    };
    let chunk = Chunk {
        batch: 1,
        frames: 1,
        height: 24,
        width: 40,
        first: false,
        at_once: Frames::Apart,
    };
    let least = small(need);
    let windows = vae.kind.decode(chunk, &in_f32()).unwrap().graph;
    let windows = rewrite(&windows, least.device().rewrites());
    let windows = Search::on(least.device()).plan(windows, 1);
    assert!(windows.is_err(), "{need} bytes are enough for windows");
    let (found, ..) = pictures(&least, &vae, &latent, &options);
    for (found, whole) in found.iter().zip(&whole) {
        let db = psnr(found, whole);
        assert!(db >= 60.0, "{db:.1} dB");
    }
}

#[test]
fn a_clip_is_the_same_in_any_memory() {
    let (vae, latent) = (wan(), smooth(&[1, 4, 3, 24, 40]));
    let options = DecodeOptions::default();
    let (whole, _, peak, weights) = pictures(&store(cpu()), &vae, &latent, &options);
    let mut outside = 0;
    for share in [16, 12, 8, 6, 4, 3, 2] {
        let budget = weights + (peak - weights) * share / 20;
        let small = small(budget);
        let (found, strategy, used, _) = pictures(&small, &vae, &latent, &options);
        assert!(used <= budget, "{share}: {used} of {budget}");
        outside += usize::from(strategy == Strategy::ExactTiles);
        let db = found.iter().zip(&whole).map(|(f, w)| psnr(f, w));
        let least = db.fold(f64::INFINITY, f64::min);
        assert!(least >= 60.0, "{share} twentieths: {least:.1} dB");
    }
    assert!(outside >= 4, "only {outside} had values outside");
}
