//! Developer commands: ci, tidy, size, goldens.

fn main() {}
