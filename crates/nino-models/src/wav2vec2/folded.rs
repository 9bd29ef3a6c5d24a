//! The weight norm of the positional convolution, applied as the weight is read.

use super::{POS_CONV, POSITIONS};
use crate::FileParams;
use crate::describe::{Need, TensorSpec};
use nino_graph::{ParamError, ParamSource, ParamSpec, StoredRows};
use std::ops::Range;

/// Parameters of a file, with the positional convolution's weight as PyTorch's `weight_norm` over
/// dimension 2 computes it: at every tap, directions times length over the directions' length.
#[derive(Clone, Debug)]
pub struct Folded(pub FileParams);

/// Name of the lengths, `[1, 1, taps]`.
fn lengths_name() -> String {
    format!("{POS_CONV}.weight_g")
}

/// Taps of the positional convolution.
const TAPS: usize = POSITIONS[0];

/// The lengths, which no graph has: they are applied as the weight is read.
pub(crate) fn lengths() -> TensorSpec {
    TensorSpec {
        name: lengths_name(),
        shape: vec![1, 1, TAPS],
        need: Need::Always,
    }
}

impl Folded {
    fn is_folded(param: &ParamSpec) -> bool {
        param.name.strip_prefix(POS_CONV) == Some(".weight_v")
    }

    /// The folded weight, `[width, 1, taps, width / groups]`.
    fn fold(&self, param: &ParamSpec) -> Result<Vec<f32>, ParamError> {
        let read = |param: &ParamSpec| -> Result<Vec<f32>, ParamError> {
            let mut bytes = vec![0; param.bytes()];
            self.0.read(param, &mut bytes)?;
            let values = bytes.as_chunks::<4>().0;
            Ok(values.iter().map(|&v| f32::from_le_bytes(v)).collect())
        };
        let mut values = read(param)?;
        let lengths = read(&ParamSpec {
            name: lengths_name(),
            shape: [TAPS].into(),
            ..param.clone()
        })?;
        let each = param.shape.last_dim();
        let mut squares = vec![0.0f64; TAPS];
        for (i, tap) in values.chunks_exact(each).enumerate() {
            squares[i % TAPS] += tap.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>();
        }
        let scales = lengths.iter().zip(&squares);
        let scales: Vec<f32> = scales
            .map(|(&length, &square)| (f64::from(length) / square.sqrt()) as f32)
            .collect();
        for (i, tap) in values.chunks_exact_mut(each).enumerate() {
            tap.iter_mut().for_each(|v| *v *= scales[i % TAPS]);
        }
        Ok(values)
    }
}

impl ParamSource for Folded {
    fn stored_rows(&self, param: &ParamSpec) -> Option<StoredRows> {
        if Folded::is_folded(param) {
            return None;
        }
        self.0.stored_rows(param)
    }

    fn read_rows(
        &self,
        param: &ParamSpec,
        rows: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ParamError> {
        self.0.read_rows(param, rows, dst)
    }

    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        if !Folded::is_folded(param) {
            return self.0.read(param, dst);
        }
        for (value, dst) in self.fold(param)?.iter().zip(dst.as_chunks_mut::<4>().0) {
            *dst = value.to_le_bytes();
        }
        Ok(())
    }
}
