//! What the tests of several modules share: goldens, made-up checkpoints and distances.

pub(crate) mod lists;
pub(crate) mod made;

use crate::Latent;
use nino_weights::TensorReader;
use std::path::Path;

pub(crate) struct Golden(TensorReader);

/// `goldens/NAME.safetensors`.
pub(crate) fn golden(name: &str) -> Golden {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens");
    Golden(nino_weights::open(root.join(format!("{name}.safetensors"))).unwrap())
}

impl Golden {
    pub(crate) fn tensor(&self, name: &str) -> (Vec<usize>, Vec<f32>) {
        let entry = self.0.entry(name).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        self.0.read_f32(entry, &mut values).unwrap();
        (entry.shape.clone(), values)
    }

    pub(crate) fn latent(&self, name: &str) -> Latent {
        let (shape, values) = self.tensor(name);
        Latent::from_planes(&shape, &values, Path::new(name)).unwrap()
    }
}

/// The largest difference.
pub(crate) fn close(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found
        .iter()
        .zip(expected)
        .map(|(f, e)| (f - e).abs())
        .fold(0.0, f32::max)
}
