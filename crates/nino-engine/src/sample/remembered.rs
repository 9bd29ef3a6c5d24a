//! A network whose outputs are kept, and come from where they were kept in place of its work.

use super::Remember;
use crate::EngineError;
use nino_sample::{Beside, Network, Stop};
use std::cell::Cell;

pub(super) struct Remembered<'a, N> {
    pub(super) network: N,
    /// `None` where nothing is kept.
    pub(super) memory: Option<&'a dyn Remember>,
    /// The noise level of the call that runs.
    pub(super) level: &'a Cell<f32>,
    /// Why the memory failed, if it did.
    pub(super) error: &'a Cell<Option<EngineError>>,
}

impl<N> Remembered<'_, N> {
    /// A result of the memory, the error of which stays here.
    fn heard<T>(&self, result: Result<T, EngineError>) -> Result<T, Stop> {
        result.map_err(|error| {
            self.error.set(Some(error));
            Stop
        })
    }

    /// Outputs that were kept, or those that are made and kept now.
    fn outputs(
        &mut self,
        outs: &mut [&mut [f32]],
        make: impl FnOnce(&mut N, &mut [&mut [f32]]) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let Some(memory) = self.memory else {
            return make(&mut self.network, outs);
        };
        let level = self.level.get();
        // All outputs of a call are one record.
        let mut all = vec![0.0; outs.iter().map(|out| out.len()).sum()];
        if self.heard(memory.recall(level, &mut all))? {
            let mut rest = &all[..];
            for out in outs {
                let (own, more) = rest.split_at(out.len());
                out.copy_from_slice(own);
                rest = more;
            }
            return Ok(());
        }
        make(&mut self.network, outs)?;
        all.clear();
        outs.iter().for_each(|out| all.extend_from_slice(out));
        self.heard(memory.keep(level, &all))
    }
}

impl<N: Network> Network for Remembered<'_, N> {
    fn forward(
        &mut self,
        input: &[f32],
        timestep: f32,
        positive: &mut [f32],
        negative: Option<&mut [f32]>,
    ) -> Result<(), Stop> {
        match negative {
            None => self.outputs(&mut [positive], |network, outs| {
                network.forward(input, timestep, outs[0], None)
            }),
            Some(negative) => self.outputs(&mut [positive, negative], |network, outs| {
                let (positive, negative) = outs.split_at_mut(1);
                network.forward(input, timestep, positive[0], Some(&mut *negative[0]))
            }),
        }
    }

    fn beside(
        &mut self,
        what: Beside,
        input: &[f32],
        timestep: f32,
        out: &mut [f32],
    ) -> Result<(), Stop> {
        self.outputs(&mut [out], |network, outs| {
            network.beside(what, input, timestep, outs[0])
        })
    }

    fn attended(&self) -> &[f32] {
        self.network.attended()
    }
}
