//! diffusers `AutoencoderKLWan` to Wan's own names: blocks are one flat list in Wan 2.1 and nested
//! per level in 2.2.

use super::rules::{leaf, number, rewrite};

const TOP: &[(&str, &str)] = &[
    ("quant_conv.*", "conv1.*"),
    ("post_quant_conv.*", "conv2.*"),
    ("*.conv_in.*", "*.conv1.*"),
    ("*.norm_out.*", "*.head.0.*"),
    ("*.conv_out.*", "*.head.2.*"),
    ("*.mid_block.attentions.0.norm.*", "*.middle.1.norm.*"),
    ("*.mid_block.attentions.0.to_qkv.*", "*.middle.1.to_qkv.*"),
    ("*.mid_block.attentions.0.proj.*", "*.middle.1.proj.*"),
];

const RESNET: &[(&str, &str)] = &[
    ("norm1", "residual.0"),
    ("conv1", "residual.2"),
    ("norm2", "residual.3"),
    ("conv2", "residual.6"),
    ("conv_shortcut", "shortcut"),
    ("resample", "resample"),
    ("time_conv", "time_conv"),
];

/// Residual blocks per level: two on the way down, three on the way up.
const DOWN: usize = 2;
const UP: usize = 3;

pub(super) fn from_diffusers(name: &str, nested: bool) -> Option<String> {
    let (side, rest) = name.split_once('.')?;
    if let Some(rest) = rest.strip_prefix("mid_block.resnets.") {
        let (i, rest) = number(rest)?;
        return Some(format!("{side}.middle.{}.{}", 2 * i, leaf(RESNET, rest)?));
    }
    if let Some(rest) = rest.strip_prefix("down_blocks.") {
        let (level, rest) = number(rest)?;
        if !nested {
            return Some(format!(
                "{side}.downsamples.{level}.{}",
                leaf(RESNET, rest)?
            ));
        }
        let (i, rest) = block(rest, "downsampler.", DOWN)?;
        return Some(format!("{side}.downsamples.{level}.downsamples.{i}.{rest}"));
    }
    if let Some(rest) = rest.strip_prefix("up_blocks.") {
        let (level, rest) = number(rest)?;
        let sampler = if nested {
            "upsampler."
        } else {
            "upsamplers.0."
        };
        let (i, rest) = block(rest, sampler, UP)?;
        return Some(if nested {
            format!("{side}.upsamples.{level}.upsamples.{i}.{rest}")
        } else {
            format!("{side}.upsamples.{}.{rest}", level * (UP + 1) + i)
        });
    }
    rewrite(TOP, name)
}

/// A block's number in its level: residual ones first, then the resampler.
fn block(rest: &str, sampler: &str, n_res: usize) -> Option<(usize, String)> {
    if let Some(rest) = rest.strip_prefix("resnets.") {
        let (i, rest) = number(rest)?;
        return Some((i, leaf(RESNET, rest)?));
    }
    Some((n_res, leaf(RESNET, rest.strip_prefix(sampler)?)?))
}
