//! Made-up weights, different for every name.

use nino_graph::{ParamError, ParamSource, ParamSpec};

pub(crate) struct Waves;

impl ParamSource for Waves {
    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        let seed: usize = param.name.bytes().map(usize::from).sum();
        let values: Vec<f32> = (0..param.shape.numel())
            .map(|i| ((i * 13 + seed * 7) as f32 * 0.37).sin() * 0.05)
            .collect();
        nino_dtype::encode(param.dtype, &values, dst).map_err(|e| ParamError {
            name: param.name.clone(),
            what: e.to_string(),
        })
    }
}
