//! Runs a planned graph on the CPU.
