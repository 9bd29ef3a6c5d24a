//! The `nino` binary: one file per verb.

fn main() {}
