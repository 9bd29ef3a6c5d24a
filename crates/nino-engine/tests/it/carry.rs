//! Cached frames between the runs and graphs of a clip: where they are changes nothing, and nothing
//! of an earlier clip is among them.

use super::decode::smooth;
use super::gpu::gpus;
use super::{cpu, root, store, with_control};
use nino_cpu::Cpu;
use nino_engine::{
    Band, Chunking, DecodeOptions, Decoder, EngineError, Latent, LatentSize, Precision, Store,
    Strategy, VaeFile, plan_decode,
};
use nino_graph::{Around, Budget, Device, ExecError, Limits, Plan, Session, Weights};
use std::ops::Deref;
use std::sync::Arc;

/// A device whose memory is all NaN at first, with values in the arena or on the host.
struct Poisoned {
    device: Arc<dyn Device>,
    on_host: bool,
}

impl Around for Poisoned {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &*self.device
    }

    fn limits(&self) -> Limits {
        let limits = self.device.limits();
        if !self.on_host {
            return limits;
        }
        Limits {
            host_above: 1,
            window: 1 << 18,
            ..limits
        }
    }

    fn sessions(
        &self,
        plans: &[Arc<Plan>],
        weights: &Weights,
    ) -> Result<Vec<Box<dyn Session>>, ExecError> {
        let mut sessions = self.device.sessions(plans, weights)?;
        sessions[0].poison()?;
        Ok(sessions)
    }
}

struct Found {
    /// Of every clip.
    values: Vec<Vec<f32>>,
    strategy: Strategy,
}

/// Decodes each of `latents` with one decoder.
fn found(
    device: &Arc<dyn Device>,
    vae: &VaeFile,
    latents: [&Latent; 2],
    chunk: usize,
    on_host: bool,
) -> Found {
    let options = DecodeOptions {
        precision: Precision::Auto,
        chunking: Chunking::Frames(chunk),
        ..DecodeOptions::default()
    };
    let store = store(Poisoned {
        device: Arc::clone(device),
        on_host,
    });
    let plan = plan_decode(&store, vae, latents[0].size(), &options).unwrap();
    let (strategy, peak) = (plan.strategy, plan.peak_bytes());
    let (values, _) = with_control(|control| {
        let mut decoder = Decoder::open(&store, vae, plan, control)?;
        let mut clips = Vec::new();
        for latent in latents {
            let mut values = Vec::new();
            decoder.run(latent, control, &mut |band: Band<'_>| {
                values.extend_from_slice(band.values);
                Ok(())
            })?;
            clips.push(values);
        }
        assert_eq!(
            decoder.measured_peak(),
            peak,
            "what was planned is what was used"
        );
        Ok::<_, EngineError>(clips)
    });
    Found {
        values: values.unwrap(),
        strategy,
    }
}

#[test]
fn gpu_and_cpu_clips_do_not_depend_on_where_frames_wait() {
    let mut devices: Vec<(String, Arc<dyn Device>)> = vec![("cpu".to_owned(), Arc::new(cpu()))];
    for (name, gpu) in gpus() {
        devices.push((name, Arc::new(gpu)));
    }
    for name in ["wan21", "taehv"] {
        let vae = VaeFile::open(&root().join(format!("goldens/models/{name}.safetensors")));
        let vae = vae.unwrap();
        let z = vae.kind.latent_channels();
        let clip = smooth(&[1, z, 3, 4, 4]);
        let mut other = clip.clone();
        other.values.iter_mut().for_each(|v| *v = 0.5 - *v);
        let clips = [&clip, &other];
        for (on, device) in &devices {
            let found = |chunk, on_host| found(device, &vae, clips, chunk, on_host);
            // One graph, where nothing waits; one for the first frame and one for the others; one
            // for two frames and one for the last.
            let (at_once, ones, twos) = (found(3, false), found(1, false), found(2, false));
            let on_host = found(1, true);
            assert_eq!(on_host.strategy, Strategy::ExactTiles, "{name} on {on}");
            assert_ne!(ones.strategy, Strategy::ExactTiles, "{name} on {on}");
            for (chunk, found) in [(1, &ones), (2, &twos), (1, &on_host)] {
                let pairs = at_once.values.iter().zip(&found.values);
                let mut pairs = pairs.flat_map(|(a, b)| a.iter().zip(b));
                // Products of other sizes may be summed in another order on a GPU.
                let most = if on == "cpu" { 0.0 } else { 1e-3 };
                let near = pairs.all(|(a, b)| (a - b).abs() <= most);
                assert!(near, "{name} on {on}: chunks of {chunk}");
            }
        }
    }
}

/// A device that favors large ops and has so much memory.
struct Large {
    cpu: Cpu,
    budget: usize,
    /// The largest buffer.
    page: usize,
}

impl Around for Large {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &self.cpu as &dyn Device
    }

    fn favors_large_ops(&self) -> bool {
        true
    }

    fn limits(&self) -> Limits {
        Limits {
            page: self.page,
            window: self.page / 4,
            ..self.cpu.limits()
        }
    }

    fn budget(&self) -> Budget {
        Budget::of(self.budget)
    }
}

fn large(budget: usize, page: usize) -> Store {
    store(Large {
        cpu: cpu(),
        budget,
        page,
    })
}

#[test]
fn frames_are_computed_together_where_the_device_likes_it_and_has_the_memory() {
    let vae = VaeFile::open(&root().join("goldens/models/wan21.safetensors")).unwrap();
    let clip = smooth(&[1, vae.kind.latent_channels(), 3, 4, 4]);
    let with = |chunking| DecodeOptions {
        chunking,
        ..DecodeOptions::default()
    };
    let apart = plan_decode(&store(cpu()), &vae, clip.size(), &with(Chunking::Frames(3))).unwrap();
    let apart = apart.peak_bytes();
    for chunking in [Chunking::Frames(3), Chunking::Auto] {
        let options = with(chunking);
        let decode = |budget| {
            let store = large(budget, 1 << 30);
            let plan = plan_decode(&store, &vae, clip.size(), &options).unwrap();
            let peak = plan.peak_bytes();
            let (values, _) = with_control(|control| {
                let mut decoder = Decoder::open(&store, &vae, plan, control)?;
                let mut values = Vec::new();
                decoder.run(&clip, control, &mut |band: Band<'_>| {
                    values.extend_from_slice(band.values);
                    Ok(())
                })?;
                Ok::<_, EngineError>(values)
            });
            (peak, values.unwrap())
        };
        let (large, values) = decode(1 << 30);
        assert!(large > apart, "{large} and {apart}");
        let (least, same) = decode(apart);
        assert!(least <= apart, "{least} and {apart}");
        assert!(values == same, "{chunking:?}");
    }
}

#[test]
fn chunks_whose_values_fit_a_buffer_come_first() {
    let vae = VaeFile::open(&root().join("goldens/models/wan21.safetensors")).unwrap();
    let clip = smooth(&[1, vae.kind.latent_channels(), 8, 12, 12]);
    let chunk = |page| {
        let store = large(1 << 30, page);
        let plan = plan_decode(&store, &vae, clip.size(), &DecodeOptions::default());
        plan.unwrap().chunk.unwrap()
    };
    // Its last layers have 4 channels: a chunk of 8 gives 29 frames of them, one of 2 gives 8.
    let frame = 96 * 96 * 4 * size_of::<f32>();
    for (frames, expected) in [(8, 1), (12, 2), (20, 4), (40, 8)] {
        assert_eq!(chunk(frames * frame), expected, "{frames} frames");
    }
}

/// Cached frames wait on the host before anything that is used more often.
#[test]
fn what_is_idle_goes_to_the_host_first() {
    let vae = VaeFile::spec("wan21-vae").unwrap();
    let store = large(7 << 29, 4 << 30);
    let size = LatentSize {
        frames: 5,
        height: 90,
        width: 160,
    };
    let options = DecodeOptions {
        precision: Precision::F16,
        ..DecodeOptions::default()
    };
    let plan = plan_decode(&store, &vae, size, &options).unwrap();
    assert_eq!(plan.strategy, Strategy::ExactTiles);
    // Each of its caches once in and once out in each of five runs, and twice that for what it
    // takes to shift them: with every large value on the host it would be 230 GB.
    let moved = plan.load().host_bytes as f64 / plan.host_bytes() as f64;
    assert!(moved < 10.0, "{moved:.1} times what is on the host");
}
