//! Names, addresses and choices: what needs no server.
#![allow(clippy::unwrap_used)] // clippy knows test functions, not their helpers

mod choosing;
mod parsing;
