//! Devices that fail on the way: the decode goes on where it was, and nothing is delivered twice.

use super::decode::{kl, smooth, wan};
use super::encode::{clip, opens};
use super::gpu::gpus;
use super::watched::watched;
use super::{cpu, store, with_control};
use nino_engine::{
    Chunking, DecodeOptions, Decoded, EncodeOptions, EngineError, Event, Latent, Picture,
    Reopening, Store, Tile, Tiling, VaeFile, decode, encode, encode_video,
};
use nino_gpu::{Gpu, GpuDevice, OpenOptions};
use nino_graph::{Around, Backup, Device, ExecError, Limits, ParamSource, Plan, Session, Weights};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A CPU whose `fails_at`-th call of a kind fails, counted over all that share the counter.
struct Flaky {
    cpu: nino_cpu::Cpu,
    calls: Arc<AtomicUsize>,
    fails_at: usize,
    how: fn() -> ExecError,
    in_session: bool,
    /// Host memory for copies.
    spare: usize,
}

fn lost() -> ExecError {
    ExecError::DeviceLost {
        reason: "a test".to_owned(),
    }
}

fn full() -> ExecError {
    ExecError::OutOfMemory {
        what: "the arena".to_owned(),
        wanted: 1,
        free: None,
    }
}

impl Around for Flaky {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &self.cpu as &dyn Device
    }

    fn backup(&self) -> Option<Backup> {
        Some(Backup {
            most_bytes: self.spare,
            every: Duration::ZERO,
            bytes_per_second: f64::INFINITY,
        })
    }

    fn sessions(
        &self,
        plans: &[Arc<Plan>],
        weights: &Weights,
    ) -> Result<Vec<Box<dyn Session>>, ExecError> {
        let (calls, fails_at, how) = (self.calls.clone(), self.fails_at, self.how);
        let call = move |may_fail: bool| {
            let at = calls.fetch_add(1, Ordering::Relaxed);
            if may_fail && at == fails_at {
                return Err(how());
            }
            Ok(())
        };
        let in_session = self.in_session;
        if !in_session {
            call(true)?;
        }
        let sessions = self.cpu.sessions(plans, weights)?;
        Ok(watched(sessions, || {
            let call = call.clone();
            move || call(in_session)
        }))
    }
}

/// Every picture with its place, how it went, and what was said.
type Outcome = (
    Vec<(usize, usize, Picture)>,
    Result<Decoded, EngineError>,
    Vec<String>,
);

fn run(store: &Store, vae: &VaeFile, latent: &Latent) -> Outcome {
    run_with(store, vae, latent, &DecodeOptions::default())
}

fn run_with(store: &Store, vae: &VaeFile, latent: &Latent, options: &DecodeOptions) -> Outcome {
    let mut pictures = Vec::new();
    let (decoded, events) = with_control(|control| {
        decode(store, vae, latent, options, control, &mut |b, i, p| {
            pictures.push((b, i, p));
            Ok(())
        })
    });
    let notes = events.into_iter().filter_map(|e| match e {
        Event::Note(text) => Some(text),
        _ => None,
    });
    (pictures, decoded, notes.collect())
}

fn flaky(fails_at: usize, how: fn() -> ExecError, in_session: bool) -> Store {
    counted(fails_at, how, in_session, 0).0
}

/// [`flaky`] with host memory for copies, and its calls.
fn counted(
    fails_at: usize,
    how: fn() -> ExecError,
    in_session: bool,
    spare: usize,
) -> (Store, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let open = move || -> Result<Arc<dyn Device>, ExecError> {
        Ok(Arc::new(Flaky {
            cpu: cpu(),
            calls: counter.clone(),
            fails_at,
            how,
            in_session,
            spare,
        }))
    };
    (store(Reopening::new(open().unwrap(), open)), calls)
}

#[test]
fn a_lost_device_costs_no_picture_and_no_frame() {
    let cases = [
        (kl(), smooth(&[3, 4, 12, 10]), 1),
        (wan(), smooth(&[1, 4, 5, 3, 4]), 3),
    ];
    for (vae, latent, fails_at) in cases {
        let (expected, ..) = run(&store(cpu()), &vae, &latent);
        let (found, decoded, notes) = run(&flaky(fails_at, lost, true), &vae, &latent);
        let decoded = decoded.unwrap();
        assert_eq!(decoded.recoveries, 1);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("opened again"), "{notes:?}");
        let places = |all: &[(usize, usize, Picture)]| -> Vec<(usize, usize)> {
            all.iter().map(|(b, i, _)| (*b, *i)).collect()
        };
        assert_eq!(places(&found), places(&expected), "each once, in order");
        assert!(found == expected, "{}: the pictures differ", vae.name);
    }
}

#[test]
fn a_clip_goes_on_from_its_last_mark() {
    let (vae, latent) = (wan(), smooth(&[1, 4, 5, 3, 4]));
    let options = DecodeOptions {
        chunking: Chunking::Frames(1),
        ..DecodeOptions::default()
    };
    let (expected, ..) = run_with(&store(cpu()), &vae, &latent, &options);
    let cases = [
        // The second run fails: it and the four others.
        (usize::MAX, 6),
        // Without memory for copies the first runs twice.
        (1 << 10, 7),
    ];
    for (spare, n_runs) in cases {
        let (device, calls) = counted(1, lost, true, spare);
        let (found, decoded, _) = run_with(&device, &vae, &latent, &options);
        assert_eq!(decoded.unwrap().recoveries, 1);
        assert_eq!(calls.load(Ordering::Relaxed), n_runs);
        assert!(found == expected);
    }
}

#[test]
fn clips_go_on_wherever_the_device_is_lost() {
    let fast = Tile::Fast(Tiling {
        size: 32,
        overlap: 8,
    });
    for tile in [Tile::Auto, fast] {
        let (vae, latent) = (wan(), smooth(&[2, 4, 5, 3, 8]));
        let options = DecodeOptions {
            tile,
            ..DecodeOptions::default()
        };
        let (expected, ..) = run_with(&store(cpu()), &vae, &latent, &options);
        let (device, calls) = counted(usize::MAX, lost, true, usize::MAX);
        run_with(&device, &vae, &latent, &options).1.unwrap();
        let n_runs = calls.load(Ordering::Relaxed);
        for fails_at in 0..n_runs {
            let (device, _) = counted(fails_at, lost, true, usize::MAX);
            let (found, decoded, _) = run_with(&device, &vae, &latent, &options);
            assert_eq!(decoded.unwrap().recoveries, 1, "run {fails_at}");
            assert!(found == expected, "{tile:?}, run {fails_at} of {n_runs}");
        }
    }
}

/// A GPU that copies frames whenever it may, and counts its runs.
struct Copying {
    gpu: GpuDevice,
    runs: Arc<AtomicUsize>,
}

impl Around for Copying {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &self.gpu as &dyn Device
    }

    fn backup(&self) -> Option<Backup> {
        self.gpu.backup().map(|backup| Backup {
            every: Duration::ZERO,
            bytes_per_second: f64::INFINITY,
            ..backup
        })
    }

    fn sessions(
        &self,
        plans: &[Arc<Plan>],
        weights: &Weights,
    ) -> Result<Vec<Box<dyn Session>>, ExecError> {
        let sessions = self.gpu.sessions(plans, weights)?;
        Ok(watched(sessions, || {
            let runs = self.runs.clone();
            move || {
                runs.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        }))
    }
}

#[test]
fn gpu_clips_go_on_when_the_device_is_lost() {
    let (vae, latent) = (wan(), smooth(&[1, 4, 5, 3, 4]));
    let options = DecodeOptions {
        chunking: Chunking::Frames(1),
        ..DecodeOptions::default()
    };
    for (name, gpu) in gpus() {
        let (expected, ..) = run_with(&store(gpu.clone()), &vae, &latent, &options);
        let runs = Arc::new(AtomicUsize::new(0));
        let counter = runs.clone();
        let adapter = gpu.gpu().info.index.to_string();
        let again = move || -> Result<Arc<dyn Device>, ExecError> {
            let options = OpenOptions {
                adapter: adapter.clone(),
                ..OpenOptions::default()
            };
            let gpu = GpuDevice::new(Gpu::open(&options).unwrap());
            let runs = counter.clone();
            Ok(Arc::new(Copying { gpu, runs }))
        };
        let first = Copying {
            gpu: gpu.clone(),
            runs: runs.clone(),
        };
        let store = store(Reopening::new(Arc::new(first), again));
        let mut found = Vec::new();
        let (decoded, _) = with_control(|control| {
            let on_picture = &mut |b, i, p| {
                // The first frame of the third run.
                if i == 5 {
                    gpu.gpu().destroy();
                }
                found.push((b, i, p));
                Ok(())
            };
            decode(&store, &vae, &latent, &options, control, on_picture)
        });
        assert_eq!(decoded.unwrap().recoveries, 1, "{name}");
        let n_runs = runs.load(Ordering::Relaxed);
        assert_eq!(n_runs, 6, "{name}: the third run is repeated, no other");
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((found.0, found.1), (expected.0, expected.1), "{name}");
            let mut pairs = found.2.rgb.iter().zip(&expected.2.rgb);
            assert!(pairs.all(|(f, e)| f.abs_diff(*e) <= 1), "{name}");
        }
    }
}

#[test]
fn memory_that_is_not_there_lowers_the_plan() {
    let (vae, latent) = (kl(), smooth(&[2, 4, 24, 20]));
    let (expected, decoded, _) = run(&store(cpu()), &vae, &latent);
    let whole = decoded.unwrap().plan.peak_bytes();
    for in_session in [true, false] {
        let (found, decoded, notes) = run(&flaky(0, full, in_session), &vae, &latent);
        let decoded = decoded.unwrap();
        assert!(decoded.plan.peak_bytes() <= whole / 4 * 3, "{notes:?}");
        assert_eq!(decoded.measured_peak, decoded.plan.peak_bytes());
        assert!(found == expected);
    }
}

#[test]
fn a_lost_device_costs_no_encode() {
    let options = EncodeOptions::default();
    let picture = &clip(1, (32, 24))[0];
    let on = |store: &Store, video: bool| {
        let (encoded, events) = with_control(|control| {
            if video {
                let open = &mut opens(clip(5, (32, 24)));
                return encode_video(store, &wan(), open, &options, control);
            }
            encode(store, &kl(), picture, &options, control)
        });
        let notes = events.iter().filter(|e| matches!(e, Event::Note(_)));
        (encoded.unwrap(), notes.count())
    };
    for (video, fails_at) in [(false, 0), (true, 1)] {
        let (expected, notes) = on(&store(cpu()), video);
        let (found, more) = on(&flaky(fails_at, lost, true), video);
        assert_eq!((expected.recoveries, found.recoveries), (0, 1));
        assert_eq!(more, notes + 1, "the loss is told");
        assert_eq!(found.latent.values, expected.latent.values);
    }
}

#[test]
fn a_device_that_stays_lost_is_told() {
    struct Gone(nino_cpu::Cpu);
    impl Device for Gone {
        fn name(&self) -> String {
            "gone".to_owned()
        }
        fn limits(&self) -> Limits {
            self.0.limits()
        }
        fn load(&self, _: &[&Plan], _: Arc<dyn ParamSource>) -> Result<Weights, ExecError> {
            Err(lost())
        }
        fn sessions(
            &self,
            _: &[Arc<Plan>],
            _: &Weights,
        ) -> Result<Vec<Box<dyn Session>>, ExecError> {
            Err(lost())
        }
    }
    let (vae, latent) = (kl(), smooth(&[1, 4, 8, 8]));
    let open = || -> Result<Arc<dyn Device>, ExecError> { Ok(Arc::new(Gone(cpu()))) };
    let devices: [Arc<dyn Device>; 2] = [
        Arc::new(Gone(cpu())),
        Arc::new(Reopening::new(open().unwrap(), open)),
    ];
    for device in devices {
        let (pictures, decoded, _) = run(&Store::keeping_nothing(device), &vae, &latent);
        let error = decoded.unwrap_err();
        assert!(
            matches!(error, EngineError::Exec(ExecError::DeviceLost { .. })),
            "{error}"
        );
        assert!(pictures.is_empty());
    }
}
