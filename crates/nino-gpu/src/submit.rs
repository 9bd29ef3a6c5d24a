//! Recording and submitting steps: submits short enough for driver watchdogs, two in flight, and
//! device times per step when profiling.

use std::collections::VecDeque;
use std::time::Instant;

use crate::kernel::Dispatch;
use crate::session::StepRun;
use crate::{AdapterKind, Gpu, GpuError, Tier};

/// Estimated seconds of work per submit; watchdogs reset a device after 2 to 10.
const SUBMIT_SECONDS: f64 = 0.1;

/// Parameters of a dispatch in the uniform table: one dynamic offset apart.
const SLOT: u32 = 256;

#[derive(Debug)]
pub(crate) struct Submitter {
    /// Assumed operations and bytes a second, corrected by what submits take.
    flops_rate: f64,
    bytes_rate: f64,
    correction: f64,
    in_flight: VecDeque<(wgpu::SubmissionIndex, f64, Instant)>,
    last_done: Option<Instant>,
    /// Parameters of all dispatches where the device has no immediates.
    table: Option<wgpu::BindGroup>,
}

impl Submitter {
    pub(crate) fn new<'a>(
        gpu: &Gpu,
        dispatches: impl Iterator<Item = &'a Dispatch>,
    ) -> Result<Submitter, GpuError> {
        let (flops_rate, bytes_rate) = match (gpu.info.kind, gpu.tier) {
            (AdapterKind::Software, _) => (2e9, 1e9),
            (AdapterKind::Discrete, Tier::Coop) => (2e13, 2e11),
            (AdapterKind::Discrete, _) => (2e12, 1e11),
            (_, _) => (5e11, 2e10),
        };
        let table = if gpu.pipelines.immediates {
            None
        } else {
            Some(table(gpu, dispatches)?)
        };
        Ok(Submitter {
            flops_rate,
            bytes_rate,
            correction: 1.0,
            in_flight: VecDeque::new(),
            last_done: None,
            table,
        })
    }

    fn estimate(&self, step: &StepRun) -> f64 {
        (step.flops / self.flops_rate + step.bytes / self.bytes_rate) * self.correction
    }

    /// Submits the first of `steps`, as many as fit one submit, and says how many.
    pub(crate) fn submit(&mut self, gpu: &Gpu, steps: &[StepRun]) -> Result<usize, GpuError> {
        let (mut seconds, mut n) = (0.0, 0);
        for step in steps {
            seconds += self.estimate(step);
            if n > 0 && seconds > SUBMIT_SECONDS {
                break;
            }
            n += 1;
        }
        let estimate: f64 = steps[..n].iter().map(|s| self.estimate(s)).sum();
        let index = gpu.scoped("submit", 0, || {
            let mut encoder = gpu
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            self.record(
                &mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()),
                &steps[..n],
            );
            gpu.queue.submit([encoder.finish()])
        })?;
        self.in_flight.push_back((index, estimate, Instant::now()));
        while self.in_flight.len() > 2 {
            self.retire(gpu)?;
        }
        Ok(n)
    }

    /// Waits for the oldest submit and learns from how long it took.
    fn retire(&mut self, gpu: &Gpu) -> Result<(), GpuError> {
        let Some((index, estimate, submitted)) = self.in_flight.pop_front() else {
            return Ok(());
        };
        let wait = wgpu::PollType::Wait {
            submission_index: Some(index),
            timeout: None,
        };
        gpu.poll(wait)?;
        let begun = self.last_done.map_or(submitted, |done| done.max(submitted));
        let took = begun.elapsed().as_secs_f64();
        self.last_done = Some(Instant::now());
        if estimate > 0.02 * SUBMIT_SECONDS {
            let ratio = (took / estimate).clamp(0.05, 20.0);
            self.correction = (self.correction * ratio.sqrt()).clamp(1e-3, 1e3);
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, gpu: &Gpu) -> Result<(), GpuError> {
        while !self.in_flight.is_empty() {
            self.retire(gpu)?;
        }
        gpu.check_lost()
    }

    /// Submits steps and waits for them.
    pub(crate) fn run(&mut self, gpu: &Gpu, steps: &[StepRun]) -> Result<(), GpuError> {
        let mut at = 0;
        while at < steps.len() {
            at += self.submit(gpu, &steps[at..])?;
        }
        self.finish(gpu)
    }

    fn record(&self, pass: &mut wgpu::ComputePass<'_>, steps: &[StepRun]) {
        for dispatch in steps.iter().flat_map(|s| &s.dispatches) {
            let slot = self.table.as_ref().map(|t| (t, dispatch.slot * SLOT));
            dispatch.encode(pass, slot);
        }
    }

    /// Runs steps one pass each and gives the device's seconds for each; wall time where the
    /// device has no timestamps.
    pub(crate) fn profile(&mut self, gpu: &Gpu, steps: &[StepRun]) -> Result<Vec<f64>, GpuError> {
        self.finish(gpu)?;
        if !gpu.features.contains(wgpu::Features::TIMESTAMP_QUERY) {
            let timed = steps.iter().map(|step| {
                let start = Instant::now();
                self.run(gpu, std::slice::from_ref(step))?;
                Ok(start.elapsed().as_secs_f64())
            });
            return timed.collect();
        }
        let mut times = Vec::with_capacity(steps.len());
        let mut at = 0;
        while at < steps.len() {
            let mut seconds = 0.0;
            let fits = steps[at..].iter().take_while(|s| {
                seconds += self.estimate(s);
                seconds < SUBMIT_SECONDS
            });
            let n = fits.count().max(1);
            times.extend(self.timed(gpu, &steps[at..at + n])?);
            at += n;
        }
        Ok(times)
    }

    fn timed(&self, gpu: &Gpu, steps: &[StepRun]) -> Result<Vec<f64>, GpuError> {
        let count = steps.len() as u32 * 2;
        let bytes = u64::from(count) * 8;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let ticks = gpu.raw_buffer("timestamps", bytes, usage, false)?;
        gpu.scoped("profile", 0, || {
            let set = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count,
            });
            let mut encoder = gpu
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            for (i, step) in steps.iter().enumerate() {
                let writes = wgpu::ComputePassTimestampWrites {
                    query_set: &set,
                    beginning_of_pass_write_index: Some(i as u32 * 2),
                    end_of_pass_write_index: Some(i as u32 * 2 + 1),
                };
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                    label: None,
                    timestamp_writes: Some(writes),
                });
                self.record(&mut pass, std::slice::from_ref(step));
            }
            encoder.resolve_query_set(&set, 0..count, &ticks, 0);
            gpu.queue.submit([encoder.finish()]);
        })?;
        let raw = gpu.read(&ticks, 0, bytes as usize)?;
        let ticks: Vec<u64> = raw
            .chunks_exact(8)
            .map(|c| u64::from_le_bytes(c.try_into().unwrap_or_default()))
            .collect();
        let period = f64::from(gpu.queue.get_timestamp_period()) * 1e-9;
        let pairs = ticks.chunks_exact(2);
        Ok(pairs
            .map(|t| t[1].saturating_sub(t[0]) as f64 * period)
            .collect())
    }
}

/// The parameters of all dispatches, each at its slot.
pub(crate) fn table<'a>(
    gpu: &Gpu,
    dispatches: impl Iterator<Item = &'a Dispatch>,
) -> Result<wgpu::BindGroup, GpuError> {
    let mut bytes = Vec::new();
    for dispatch in dispatches {
        bytes.resize((dispatch.slot * SLOT) as usize, 0);
        bytes.extend(&dispatch.params);
    }
    bytes.resize(
        bytes
            .len()
            .next_multiple_of(SLOT as usize)
            .max(SLOT as usize),
        0,
    );
    let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
    let buffer = gpu.raw_buffer("parameters", bytes.len() as u64, usage, false)?;
    gpu.write(&buffer, 0, &bytes)?;
    gpu.uniform_group(&buffer)
}
