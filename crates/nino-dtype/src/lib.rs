//! Storage types of tensors and their codecs: f16, bf16, fp8 and the GGUF block quantizations.
//!
//! Pure values: bytes in, numbers out. Files (`nino-weights`), graphs (`nino-graph`) and kernels
//! (`nino-cpu`) share this one list of encodings.

mod dtype;

pub use dtype::{DType, UnknownDType};
