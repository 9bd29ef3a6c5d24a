//! AutoencoderKL encoder. Image `[b, 8h, 8w, 3]` in −1..1 → mean and log variance `[b, h, w, 2z]`.

use super::block::{Scale, mid, resnet};
use super::{Config, QuantConv};
use crate::{ConvShape, Params};
use nino_graph::{Graph, Node};

/// The first `z` channels are the mean, which is the latent.
pub fn encoder(g: &mut Graph, p: &Params, c: &Config, scale: Scale, x: Node) -> Node {
    let root = p;
    let p = &p.at("encoder");
    let mut h = p.conv(g, "conv_in", x, c.encoder[0], 3);
    h = p.at("conv_in").label(g, h);
    h = scale.enter(g, h);
    for (level, &width) in c.encoder.iter().enumerate() {
        let p = &p.at(format_args!("down.{level}"));
        for i in 0..c.n_res_blocks {
            h = resnet(g, &p.at(format_args!("block.{i}")), c, scale, h, width);
        }
        if level + 1 < c.encoder.len() {
            let conv = ConvShape {
                stride: [1, 2, 2],
                // Padded at the bottom and on the right only.
                pad: [0, 1, 0, 1],
                ..ConvShape::same(width, 3)
            };
            h = scale.conv_scaled(g, p, "downsample.conv", h, conv);
            h = p.at("downsample.conv").label(g, h);
        }
    }
    h = mid(g, &p.at("mid"), c, scale, h);
    h = scale.norm(g, p, c, "norm_out", h);
    h = g.silu(h);
    h = p.conv(g, "conv_out", h, 2 * c.z_channels, 3); // [b, h, w, 2z]
    match c.quant_conv {
        QuantConv::Absent => h,
        QuantConv::Outside => root.linear(g, "quant_conv", h, 2 * c.z_channels),
        QuantConv::Inside => p.linear(g, "quant_conv", h, 2 * c.z_channels),
    }
}
