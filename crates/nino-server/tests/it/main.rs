//! A server on a real socket with the built-in model, asked as clients ask it.
// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod admission;
mod alpha;
mod cached;
mod client;
mod clients;
mod clips;
mod comfy;
mod dialects;
mod downloads;
#[path = "../../../nino-workflow/tests/it/examples.rs"]
mod examples;
mod ffmpeg;
mod hostile;
mod limits;
#[path = "../../../nino-engine/src/tests/made.rs"]
mod made;
mod models;
mod page;
mod parts;
mod restart;
mod workflows;
