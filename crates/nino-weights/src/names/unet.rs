//! diffusers `UNet2DConditionModel` to LDM `UNetModel` names.

use super::rules::{leaf, number, rewrite};

const TOP: &[(&str, &str)] = &[
    ("conv_in.*", "input_blocks.0.0.*"),
    ("time_embedding.linear_1.*", "time_embed.0.*"),
    ("time_embedding.linear_2.*", "time_embed.2.*"),
    ("time_embedding.cond_proj.*", "time_embed.cond_proj.*"),
    ("add_embedding.linear_1.*", "label_emb.0.0.*"),
    ("add_embedding.linear_2.*", "label_emb.0.2.*"),
    ("class_embedding.linear_1.*", "label_emb.0.0.*"),
    ("class_embedding.linear_2.*", "label_emb.0.2.*"),
    ("conv_norm_out.*", "out.0.*"),
    ("conv_out.*", "out.2.*"),
];

const RESNET: &[(&str, &str)] = &[
    ("norm1", "in_layers.0"),
    ("conv1", "in_layers.2"),
    ("time_emb_proj", "emb_layers.1"),
    ("norm2", "out_layers.0"),
    ("conv2", "out_layers.3"),
    ("conv_shortcut", "skip_connection"),
];

/// `n_res`: residual blocks per level on the way down; bit `i` of `up_attention`: whether level `i`
/// on the way up has attention, after which its upsampler is numbered.
pub(super) fn from_diffusers(name: &str, n_res: usize, up_attention: u64) -> Option<String> {
    if let Some(rest) = name.strip_prefix("down_blocks.") {
        let (level, rest) = number(rest)?;
        return down(level, rest, n_res);
    }
    if let Some(rest) = name.strip_prefix("up_blocks.") {
        let (level, rest) = number(rest)?;
        let has_attention = up_attention.checked_shr(level as u32)? & 1 == 1;
        return up(level, rest, n_res, has_attention);
    }
    if let Some(rest) = name.strip_prefix("mid_block.resnets.") {
        let (i, rest) = number(rest)?;
        return Some(format!("middle_block.{}.{}", 2 * i, leaf(RESNET, rest)?));
    }
    if let Some(rest) = name.strip_prefix("mid_block.attentions.0.") {
        return Some(format!("middle_block.1.{rest}"));
    }
    rewrite(TOP, name)
}

/// The same of a `ControlNet`: a UNet's way down, a picture's way in, and a layer beside each
/// block.
pub(super) fn control_from_diffusers(name: &str, n_res: usize) -> Option<String> {
    if let Some(rest) = name.strip_prefix("controlnet_down_blocks.") {
        let (i, rest) = number(rest)?;
        return Some(format!("zero_convs.{i}.0.{rest}"));
    }
    if let Some(rest) = name.strip_prefix("controlnet_mid_block.") {
        return Some(format!("middle_block_out.0.{rest}"));
    }
    if let Some(rest) = name.strip_prefix("controlnet_cond_embedding.") {
        let (i, rest) = match rest.split_once('.')? {
            ("conv_in", rest) => (0, rest),
            ("conv_out", rest) => (HINT_LAYERS - 1, rest),
            ("blocks", rest) => {
                let (i, rest) = number(rest)?;
                (i + 1, rest)
            }
            _ => return None,
        };
        // An activation is numbered after every layer.
        return Some(format!("input_hint_block.{}.{rest}", 2 * i));
    }
    if UNION.iter().any(|own| name.starts_with(own)) {
        return Some(name.replace(".attn.in_proj_", ".attn.in_proj."));
    }
    from_diffusers(name, n_res, 0)
}

/// A union model's own layers, which diffusers has no names for.
const UNION: [&str; 4] = [
    "task_embedding",
    "transformer_layes.",
    "spatial_ch_projs.",
    "control_add_embedding.",
];

/// Convolutions that a `ControlNet`'s picture goes through.
const HINT_LAYERS: usize = 8;

fn down(level: usize, rest: &str, n_res: usize) -> Option<String> {
    let first = 1 + level * (n_res + 1);
    if let Some(rest) = rest.strip_prefix("resnets.") {
        let (i, rest) = number(rest)?;
        return Some(format!(
            "input_blocks.{}.0.{}",
            first + i,
            leaf(RESNET, rest)?
        ));
    }
    if let Some(rest) = rest.strip_prefix("attentions.") {
        let (i, rest) = number(rest)?;
        return Some(format!("input_blocks.{}.1.{rest}", first + i));
    }
    let tail = rest.strip_prefix("downsamplers.0.conv.")?;
    Some(format!("input_blocks.{}.0.op.{tail}", first + n_res))
}

fn up(level: usize, rest: &str, n_res: usize, has_attention: bool) -> Option<String> {
    let first = level * (n_res + 1);
    if let Some(rest) = rest.strip_prefix("resnets.") {
        let (i, rest) = number(rest)?;
        return Some(format!(
            "output_blocks.{}.0.{}",
            first + i,
            leaf(RESNET, rest)?
        ));
    }
    if let Some(rest) = rest.strip_prefix("attentions.") {
        let (i, rest) = number(rest)?;
        return Some(format!("output_blocks.{}.1.{rest}", first + i));
    }
    let tail = rest.strip_prefix("upsamplers.0.conv.")?;
    let at = 1 + usize::from(has_attention);
    Some(format!("output_blocks.{}.{at}.conv.{tail}", first + n_res))
}

/// A T2I adapter's: diffusers counts the two blocks of every level for themselves.
pub(super) fn adapter_from_diffusers(name: &str) -> String {
    let Some((level, rest)) = name.strip_prefix("body.").and_then(number) else {
        return name.to_owned();
    };
    match rest.strip_prefix("resnets.").and_then(number) {
        Some((block, rest)) => format!("body.{}.{rest}", 2 * level + block),
        None => format!("body.{}.{rest}", 2 * level),
    }
}
