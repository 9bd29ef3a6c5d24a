//! What a model file is, from its header alone.

use crate::error::raise;
use nino_models::detect;
use nino_weights::inspect::summarize;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// A file's format, size and encodings, and the networks in it.
#[pyfunction]
pub(crate) fn inspect(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let found = py.detach(|| {
        let reader = nino_weights::open(&path)?;
        let report = detect::detect(reader.index())?;
        Ok::<_, nino_weights::Error>((summarize(reader.index()), report))
    });
    let (summary, report) = found.map_err(raise)?;
    let parts = report.parts.iter().map(|part| {
        let described = PyDict::new(py);
        described.set_item("role", format!("{:?}", part.kind.part()).to_lowercase())?;
        described.set_item("model", part.kind.label())?;
        described.set_item("params", part.index.n_params())?;
        described.set_item("bytes", part.index.n_bytes())?;
        Ok(described)
    });
    let described = PyDict::new(py);
    described.set_item("format", &summary.format)?;
    described.set_item("bytes", summary.file_bytes)?;
    described.set_item("tensors", summary.n_tensors)?;
    described.set_item("params", summary.params)?;
    described.set_item("quantization", &summary.quantization)?;
    let shares = summary.encodings.iter().map(|e| (&e.encoding, e.bytes));
    described.set_item("encodings", shares.collect::<Vec<_>>())?;
    described.set_item("parts", parts.collect::<PyResult<Vec<_>>>()?)?;
    described.set_item("is_lora", report.lora.is_some())?;
    Ok(described)
}
