//! A server on a real socket with the built-in model, asked as clients ask it.
// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

mod client;
mod clients;
mod comfy;
mod hostile;
mod restart;
