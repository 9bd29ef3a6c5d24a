//! The binary as a user meets it: exit codes, messages, JSON.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod bench;
mod decode;
mod doctor;
mod files;
mod first_hour;
mod flux;
mod generate;
mod help;
mod hostile;
mod inspect;
mod limits;
mod list;
mod loras;
#[path = "../../../nino-engine/src/tests/made.rs"]
mod made;
mod manners;
mod measuring;
mod memory;
mod models;
mod pipes;
mod plan;
mod pull;
mod same_bytes;
mod serve;
mod settings;
mod shell;
mod stops;
mod upscale;
mod video;
mod workflows;
