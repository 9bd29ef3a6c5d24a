//! ESRGAN's network under its two earlier namings. Canonical are the names of Real-ESRGAN.

use super::rules::{number, rewrite};

const TRUNK: &[(&str, &str)] = &[
    ("conv_first.*", "conv_first.*"),
    ("RRDB_trunk.*.RDB1.*.*", "body.*.rdb1.*.*"),
    ("RRDB_trunk.*.RDB2.*.*", "body.*.rdb2.*.*"),
    ("RRDB_trunk.*.RDB3.*.*", "body.*.rdb3.*.*"),
    ("trunk_conv.*", "conv_body.*"),
    ("upconv1.*", "conv_up1.*"),
    ("upconv2.*", "conv_up2.*"),
    ("upconv3.*", "conv_up3.*"),
    ("upconv4.*", "conv_up4.*"),
    ("HRconv.*", "conv_hr.*"),
    ("conv_last.*", "conv_last.*"),
];

/// Layers of a block inside of the oldest files' sequence. Their convolutions are a sequence too,
/// but for the plain one that ESRGAN+ adds.
const BLOCK: &[(&str, &str)] = &[
    ("*.RDB1.conv1x1.*", "body.*.rdb1.conv1x1.*"),
    ("*.RDB2.conv1x1.*", "body.*.rdb2.conv1x1.*"),
    ("*.RDB3.conv1x1.*", "body.*.rdb3.conv1x1.*"),
    ("*.RDB1.*.0.*", "body.*.rdb1.*.*"),
    ("*.RDB2.*.0.*", "body.*.rdb2.*.*"),
    ("*.RDB3.*.0.*", "body.*.rdb3.*.*"),
    ("*.weight", "conv_body.weight"),
    ("*.bias", "conv_body.bias"),
];

/// The number of the last layer of the oldest files' sequence; 0 where names are not of such a
/// file.
pub(super) fn last_layer(names: &[&str]) -> usize {
    let numbers = names.iter().filter_map(|n| layer(n).map(|(i, _)| i));
    numbers.max().unwrap_or(0)
}

/// The canonical name; `last` is [`last_layer`] of the file.
pub(super) fn from_older(name: &str, last: usize) -> Option<String> {
    let Some((layer, rest)) = layer(name) else {
        return rewrite(TRUNK, name);
    };
    // A convolution, the blocks, for every doubling a resize, a convolution and an activation, then
    // two convolutions with an activation between them.
    let to = match layer {
        0 => "conv_first".to_owned(),
        1 => return rewrite(BLOCK, rest.strip_prefix("sub.")?),
        n if n == last => "conv_last".to_owned(),
        n if n + 2 == last => "conv_hr".to_owned(),
        n if n.is_multiple_of(3) => format!("conv_up{}", n / 3),
        _ => return None,
    };
    Some(format!("{to}.{rest}"))
}

fn layer(name: &str) -> Option<(usize, &str)> {
    number(name.strip_prefix("model.")?)
}
