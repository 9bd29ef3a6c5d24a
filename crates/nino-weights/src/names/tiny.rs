//! TAESD and TAEHV: numbered layers under `encoder.` and `decoder.`, which separate files leave
//! out.

use super::rules::number;

/// What belongs before a layer number, told by the prefix or by the first layers themselves.
pub(super) fn side(prefix: &str, names: &[&str]) -> &'static str {
    let last = prefix
        .trim_end_matches('.')
        .rsplit('.')
        .next()
        .unwrap_or_default();
    if last.ends_with("decoder") {
        return "decoder.";
    }
    if last.ends_with("encoder") {
        return "encoder.";
    }
    if !names
        .iter()
        .any(|n| n.starts_with(|c: char| c.is_ascii_digit()))
    {
        return "";
    }
    // The decoder's layer 0 clamps and has no weights.
    if names.contains(&"0.weight") {
        "encoder."
    } else {
        "decoder."
    }
}

/// diffusers `AutoencoderTiny`: the same layers, but its decoder clamps outside the list.
pub(super) fn from_diffusers(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix("decoder.layers.") {
        let (i, rest) = number(rest)?;
        return Some(format!("decoder.{}.{rest}", i + 1));
    }
    let rest = name.strip_prefix("encoder.layers.")?;
    Some(format!("encoder.{rest}"))
}
