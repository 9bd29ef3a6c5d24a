//! ComfyUI's graphs on the engine's stages: read, checked as ComfyUI checks them, and run.
//!
//! [`Graph`] is a graph in the API format; [`page`] turns a workflow as ComfyUI's page saves it
//! into one, and [`metadata::find`] looks for either in the texts of a picture. [`check()`] finds
//! everything that is wrong with its inputs, with ComfyUI's names for it, and gives a [`Checked`]
//! graph. An [`Executor`] runs that, node by node, and keeps what nodes made for the next run. A
//! [`Host`] finds files by their names and takes what output nodes make.
//!
//! [`summary`] says in a few lines what a graph makes and which files it wants, also of one that
//! cannot run here.
//!
//! The nodes are in [`nodes`]: one table, with types, defaults and ranges of all inputs.

pub mod check;
mod error;
mod graph;
mod host;
pub mod metadata;
mod node;
pub mod nodes;
pub mod page;
mod python;
mod run;
pub mod summary;
mod types;
mod value;
pub mod walk;

pub use check::{
    Checked, MissingNode, NodeProblems, Problem, PromptError, check, check_outputs, fill_defaults,
};
pub use error::{GraphError, NodeError, RunError};
pub use graph::{Graph, Input, Limits, Link, Node, json_bytes};
pub use host::{Folder, Host, HostError, Made, Output, SampledLatent};
pub use node::{InputDef, InputKind, Need, NodeDef, OutputDef};
pub use run::{Executor, NodeEvent, Progress, Ran, Settings, Watch};
pub use types::Socket;
pub use value::{ClearImages, Clip, Guider, LatentOperation, Latents, Noise, Sampler, Value};
