//! diffusers `AutoencoderKL` to LDM `AutoencoderKL` names, and older spellings of both.

use super::rules::{leaf, number, rewrite};
use super::{Op, Targets};

const TOP: &[(&str, &str)] = &[
    ("*.conv_in.*", "*.conv_in.*"),
    ("*.conv_norm_out.*", "*.norm_out.*"),
    ("*.conv_out.*", "*.conv_out.*"),
    ("quant_conv.*", "quant_conv.*"),
    ("post_quant_conv.*", "post_quant_conv.*"),
    ("bn.*", "bn.*"),
];

const RESNET: &[(&str, &str)] = &[
    ("norm1", "norm1"),
    ("conv1", "conv1"),
    ("norm2", "norm2"),
    ("conv2", "conv2"),
    ("conv_shortcut", "nin_shortcut"),
];

const ATTENTION: &[(&str, &str)] = &[
    ("group_norm", "norm"),
    ("to_q", "q"),
    ("to_k", "k"),
    ("to_v", "v"),
    ("to_out.0", "proj_out"),
    ("query", "q"),
    ("key", "k"),
    ("value", "v"),
    ("proj_attn", "proj_out"),
];

/// `levels`: number of resolutions.
pub(super) fn from_diffusers(name: &str, levels: usize) -> Option<Targets> {
    let keep = |name| Some(vec![(name, Op::Keep)]);
    let (side, rest) = name.split_once('.')?;
    if let Some(rest) = rest.strip_prefix("mid_block.attentions.0.") {
        return Some(attention(side, &leaf(ATTENTION, rest)?));
    }
    if let Some(rest) = rest.strip_prefix("mid_block.resnets.") {
        let (i, rest) = number(rest)?;
        return keep(format!(
            "{side}.mid.block_{}.{}",
            i + 1,
            leaf(RESNET, rest)?
        ));
    }
    let (way, level, rest) = if let Some(rest) = rest.strip_prefix("down_blocks.") {
        let (level, rest) = number(rest)?;
        ("down", level, rest)
    } else if let Some(rest) = rest.strip_prefix("up_blocks.") {
        let (level, rest) = number(rest)?;
        ("up", levels.checked_sub(level + 1)?, rest)
    } else {
        return rewrite(TOP, name).and_then(keep);
    };
    if let Some(rest) = rest.strip_prefix("resnets.") {
        let (i, rest) = number(rest)?;
        return keep(format!(
            "{side}.{way}.{level}.block.{i}.{}",
            leaf(RESNET, rest)?
        ));
    }
    let sampler = format!("{way}samplers.0.conv.");
    keep(format!(
        "{side}.{way}.{level}.{way}sample.conv.{}",
        rest.strip_prefix(&sampler)?
    ))
}

/// The original layout; some packagers store its attention as linear layers.
pub(super) fn from_original(name: &str) -> Targets {
    match name.split_once(".mid.attn_1.") {
        Some((side, rest)) => attention(side, rest),
        None => vec![(name.to_owned(), Op::Keep)],
    }
}

fn attention(side: &str, rest: &str) -> Targets {
    let is_matrix = rest.ends_with(".weight") && !rest.starts_with("norm.");
    let op = if is_matrix { Op::AsConv } else { Op::Keep };
    vec![(format!("{side}.mid.attn_1.{rest}"), op)]
}
