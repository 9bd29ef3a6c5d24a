//! AutoencoderKL decoder. Latent `[b, h, w, z]` → image `[b, 8h, 8w, 3]` in −1..1.

use super::block::{Scale, mid, resnet};
use super::{Config, QuantConv};
use crate::{ConvShape, Params};
use nino_graph::{Graph, Node, UpsampleMode};

/// `p` is the root of the checkpoint's names. `scale` is for f16 storage of VAEs that overflow it.
pub fn decoder(g: &mut Graph, p: &Params, c: &Config, scale: Scale, z: Node) -> Node {
    let root = p;
    let p = &p.at("decoder");
    let z = match c.quant_conv {
        QuantConv::Absent => z,
        QuantConv::Outside => root.linear(g, "post_quant_conv", z, c.z_channels),
        QuantConv::Inside => p.linear(g, "post_quant_conv", z, c.z_channels),
    };
    let top = c.decoder.len() - 1;
    let mut h = p.conv(g, "conv_in", z, c.decoder[top], 3); // [b, h, w, 512]
    h = p.at("conv_in").label(g, h);
    h = scale.enter(g, h);
    h = mid(g, &p.at("mid"), c, scale, h);
    for level in (0..=top).rev() {
        let p = &p.at(format_args!("up.{level}"));
        for i in 0..=c.n_res_blocks {
            h = resnet(
                g,
                &p.at(format_args!("block.{i}")),
                c,
                scale,
                h,
                c.decoder[level],
            );
        }
        if level > 0 {
            h = g.upsample(h, 2, UpsampleMode::Nearest);
            let conv = ConvShape::same(c.decoder[level], 3);
            h = scale.conv_scaled(g, p, "upsample.conv", h, conv);
            h = p.at("upsample.conv").label(g, h);
        }
    }
    h = scale.norm(g, p, c, "norm_out", h);
    h = g.silu(h);
    p.conv(g, "conv_out", h, 3, 3) // [b, 8h, 8w, 3]
}
