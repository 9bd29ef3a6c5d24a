//! Measuring tiles of kernels on the owner's card, and keeping the best.

use super::open::{Executor, Opened};
use super::{DeviceChoice, DeviceError};
use nino_gpu::{Choices, Problem, Tuned, problems};
use nino_graph::{Plan, rewrite};
use nino_models::workload::Workload;
use std::collections::BTreeSet;

/// The problems of some networks whose tiles can be measured on a device, before any is.
pub struct Tuning<'a> {
    opened: &'a Opened,
    problems: Vec<Problem>,
}

impl Opened {
    /// What there is to measure for these networks. Kernels without a choice of tiles, NVIDIA's
    /// among them, are not part of it.
    pub fn tuning(&self, workloads: &[Workload]) -> Result<Tuning<'_>, DeviceError> {
        let Executor::Gpu(device) = &self.executor else {
            return Err(DeviceError::NoTiles {
                device: self.name.to_string(),
            });
        };
        let caps = &device.gpu().caps;
        let mut found = BTreeSet::new();
        for workload in workloads {
            let graph = workload.record(caps.activation_dtype())?;
            let plan = Plan::new(rewrite(&graph, caps.rewrites()), &caps.limits())?;
            found.extend(problems(caps, &plan)?);
        }
        Ok(Tuning {
            opened: self,
            problems: found.into_iter().collect(),
        })
    }
}

impl Tuning<'_> {
    /// Each is a call of [`Tuning::measure`].
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Times the candidates of one problem, for a fraction of a second each; nothing where the
    /// device does not bind as much at once.
    pub fn measure(&self, problem: Problem) -> Result<Option<Tuned>, DeviceError> {
        match &self.opened.executor {
            Executor::Gpu(device) => Ok(device.gpu().tune(problem)?),
            _ => Err(DeviceError::NoTiles {
                device: self.opened.name.to_string(),
            }),
        }
    }

    /// Keeps what was measured beside what was kept before, for every later run on this card with
    /// this driver. Without a cache folder nothing is kept, which the answer says.
    pub fn keep(&self, tuned: &[Tuned], choice: &DeviceChoice) -> bool {
        let Executor::Gpu(device) = &self.opened.executor else {
            return false;
        };
        let gpu = device.gpu();
        let before = gpu.caps.tiles.choices();
        let mut choices: Choices = before.cloned().unwrap_or_default();
        for Tuned {
            problem, choice, ..
        } in tuned
        {
            match choice {
                Some(tile) => choices.set(*problem, *tile),
                None => choices.clear(*problem),
            }
        }
        let folder = choice.kernels_dir();
        if let Some(folder) = &folder {
            choices.keep(folder, &gpu.info);
        }
        folder.is_some()
    }
}
