//! Submitting steps: submits short enough for driver watchdogs, two in flight, and device times per
//! step when profiling.

use std::collections::VecDeque;
use std::time::Instant;

use crate::kernel::Dispatch;
use crate::passes::Passes;
use crate::session::StepRun;
use crate::vulkan::Recorder;
use crate::{AdapterKind, Gpu, GpuError, Tier};

/// Estimated seconds of work per submit; watchdogs reset a device after 2 to 10.
const SUBMIT_SECONDS: f64 = 0.1;

#[derive(Debug)]
pub(crate) struct Submitter {
    /// Assumed operations and bytes a second, corrected by what submits take.
    flops_rate: f64,
    bytes_rate: f64,
    correction: f64,
    in_flight: VecDeque<(wgpu::SubmissionIndex, f64, Instant)>,
    last_done: Option<Instant>,
    way: Way,
}

/// How dispatches get to the device.
#[derive(Debug)]
enum Way {
    Passes(Passes),
    Recorded(Recorder),
}

impl Submitter {
    pub(crate) fn new<'a>(
        gpu: &Gpu,
        dispatches: impl Iterator<Item = &'a Dispatch>,
    ) -> Result<Submitter, GpuError> {
        let (flops_rate, bytes_rate) = match (gpu.caps.kind, gpu.caps.tier) {
            (AdapterKind::Software, _) => (2e9, 1e9),
            (AdapterKind::Discrete, Tier::Coop) => (2e13, 2e11),
            (AdapterKind::Discrete, _) => (2e12, 1e11),
            (_, _) => (5e11, 2e10),
        };
        let way = match &gpu.vulkan {
            Some(vulkan) => Way::Recorded(Recorder::new(vulkan)?),
            None => Way::Passes(Passes::new(gpu, dispatches)?),
        };
        Ok(Submitter {
            flops_rate,
            bytes_rate,
            correction: 1.0,
            in_flight: VecDeque::new(),
            last_done: None,
            way,
        })
    }

    fn estimate(&self, step: &StepRun) -> f64 {
        (step.flops / self.flops_rate + step.bytes / self.bytes_rate) * self.correction
    }

    fn seconds(&self, steps: &[StepRun]) -> f64 {
        steps.iter().map(|s| self.estimate(s)).sum()
    }

    /// How many of the first `steps` make one submit: those recorded together before, while that is
    /// still about right.
    fn cut(&self, steps: &[StepRun]) -> usize {
        if let Way::Recorded(recorder) = &self.way
            && let Some(n) = recorder.recorded(steps[0].index)
            && n <= steps.len()
        {
            let seconds = self.seconds(&steps[..n]);
            let (least, most) = (0.5 * SUBMIT_SECONDS, 1.5 * SUBMIT_SECONDS);
            if (n == 1 || seconds <= most) && (n == steps.len() || seconds >= least) {
                return n;
            }
        }
        let (mut seconds, mut n) = (0.0, 0);
        for step in steps {
            seconds += self.estimate(step);
            if n > 0 && seconds > SUBMIT_SECONDS {
                break;
            }
            n += 1;
        }
        n
    }

    /// Submits the first of `steps`, as many as fit one submit, and says how many.
    pub(crate) fn submit(&mut self, gpu: &Gpu, steps: &[StepRun]) -> Result<usize, GpuError> {
        let n = self.cut(steps);
        let steps = &steps[..n];
        let estimate = self.seconds(steps);
        let index = match &mut self.way {
            Way::Passes(passes) => passes.submit(gpu, steps),
            Way::Recorded(recorder) => recorder.submit(gpu, steps),
        }?;
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

    /// Runs steps one after another and gives the device's seconds for each; wall time where the
    /// device has no timestamps.
    pub(crate) fn profile(&mut self, gpu: &Gpu, steps: &[StepRun]) -> Result<Vec<f64>, GpuError> {
        self.finish(gpu)?;
        if !gpu.has_timestamps() {
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
        let parts = steps.iter().map(|s| s.dispatches.iter());
        match (&self.way, &gpu.vulkan) {
            (Way::Passes(passes), _) => passes.timed(gpu, parts),
            (Way::Recorded(_), Some(vulkan)) => vulkan.timed(gpu, parts),
            (Way::Recorded(_), None) => Ok(Vec::new()),
        }
    }
}
