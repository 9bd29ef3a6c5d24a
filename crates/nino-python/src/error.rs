//! Errors as Python sees them: one exception whose `kind` says what it is about.

use nino_engine::EngineError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(ninodes, NinoError, PyRuntimeError);

/// The exception of an engine's error, with the name of its kind as `kind`.
pub(crate) fn raise(error: impl Into<EngineError>) -> PyErr {
    let error = error.into();
    with_kind(error.to_string(), error.kind().name())
}

/// The exception of a panic, which is a bug.
pub(crate) fn bug(what: &str) -> PyErr {
    with_kind(format!("a bug in ninodes: {what}"), "internal")
}

fn with_kind(message: String, kind: &str) -> PyErr {
    let exception = NinoError::new_err(message);
    // An exception that takes no attribute is still the right exception.
    Python::attach(|py| exception.value(py).setattr("kind", kind).ok());
    exception
}

/// A value of an argument that means nothing here.
pub(crate) fn value(message: impl Into<String>) -> PyErr {
    PyValueError::new_err(message.into())
}
