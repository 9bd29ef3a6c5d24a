//! What `--version` says: the build's number and commit, and what it can run on.

/// `0.1.0 (1b56605 2026-11-16)`, without the commit where the source came without git.
pub(crate) const SHORT: &str = concat!(env!("CARGO_PKG_VERSION"), env!("NINO_COMMIT"));

/// The same with what this build has in it.
pub(crate) const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    env!("NINO_COMMIT"),
    "\ndevices: cpu, gpu by ",
    env!("NINO_BACKENDS"),
    "\nmodels: nino-emoji built in; reads safetensors, gguf, PyTorch, diffusers folders",
    "\nbuilt for: ",
    env!("NINO_TARGET"),
);
