//! wav2vec 2.0. PyTorch names the two parts of a normalized weight in two ways.

/// The older names: `weight_g` for lengths, `weight_v` for directions.
pub(super) fn from_hf(name: &str) -> String {
    name.replace("parametrizations.weight.original0", "weight_g")
        .replace("parametrizations.weight.original1", "weight_v")
}
