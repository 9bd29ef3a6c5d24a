//! The tensors of a model file, whatever its format, for those who want the values themselves.

use crate::array::Array;
use crate::error::raise;
use nino_weights::TensorReader;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A model file that is open. Values are read when they are asked for.
#[pyclass(frozen)]
pub(crate) struct Tensors(TensorReader);

#[pymethods]
impl Tensors {
    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Tensors> {
        Ok(Tensors(nino_weights::open(path).map_err(raise)?))
    }

    /// The names of all tensors, as the file has them.
    fn names(&self) -> Vec<&str> {
        let entries = self.0.index().entries().iter();
        entries.map(|entry| entry.name.as_str()).collect()
    }

    /// How a tensor is stored, such as `Q4_K` or `F16`.
    fn encoding(&self, name: &str) -> PyResult<String> {
        Ok(self.entry(name)?.encoding())
    }

    /// The values of a tensor in f32.
    fn read(&self, py: Python<'_>, name: &str) -> PyResult<Array> {
        let entry = self.entry(name)?;
        let mut values = vec![0.0; entry.n_values()];
        let read = py.detach(|| self.0.read_f32(entry, &mut values));
        read.map_err(raise)?;
        Ok(Array::new(values, &entry.shape))
    }
}

impl Tensors {
    fn entry(&self, name: &str) -> PyResult<&nino_weights::Entry> {
        let found = self.0.index().get(name);
        found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }
}
