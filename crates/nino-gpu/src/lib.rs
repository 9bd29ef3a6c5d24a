//! Runs a planned graph on a GPU through wgpu.
