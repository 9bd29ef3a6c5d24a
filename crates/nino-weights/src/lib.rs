//! Model files: safetensors, GGUF, fp8, pickles, LoRA; names, conversion.
//!
//! [`open`] reads a file's or folder's header into an [`Index`] of tensors kept in the encoding
//! they are stored in; [`TensorReader`] then reads bytes or f32 values of single tensors with
//! positioned reads. Nothing here runs on a device, prints, or executes what a file contains.

pub mod convert;
mod error;
pub mod gguf;
pub mod hadamard;
mod index;
pub mod inspect;
pub mod lora;
mod memory;
mod meta;
pub mod names;
mod open;
mod packed;
mod reader;
pub mod safetensors;
mod scaled;
mod shards;
pub mod sniff;
mod source;
pub mod torch;

pub use error::{Error, Result};
pub use index::{Entry, Format, Index, Scale, Span};
pub use memory::{MemoryTensor, from_memory};
pub use meta::{Array, Metadata, Value};
pub use open::open;
pub use reader::TensorReader;
pub use source::{FileSource, Source};

#[cfg(test)]
mod tests;
