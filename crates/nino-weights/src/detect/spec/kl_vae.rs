//! LDM's `AutoencoderKL` with 128 channels and four levels: SD (4 latent channels), SD3 and Flux (16),
//! Flux.2 (32).

use super::{Need, Spec};

const CH: usize = 128;
const MULT: [usize; 4] = [1, 2, 4, 4];
const N_RES: usize = 2;

pub(in crate::detect) fn kl_vae(z: usize) -> Spec {
    let mut s = Spec::default();
    s.need(Need::Encoder);
    encoder(&mut s, z);
    s.need(Need::Decoder);
    decoder(&mut s, z);
    // The 16-channel ones do without; files of one half carry either or both.
    if z != 16 {
        s.need(Need::Encoder);
        s.conv2d("quant_conv", 2 * z, 2 * z, 1);
        s.need(Need::Decoder);
        s.conv2d("post_quant_conv", z, z, 1);
    }
    if z == 32 {
        s.need(Need::Optional);
        for name in ["bn.running_mean", "bn.running_var"] {
            s.raw(name, &[4 * z]);
        }
        s.raw("bn.num_batches_tracked", &[]);
    }
    s
}

fn encoder(s: &mut Spec, z: usize) {
    s.conv2d("encoder.conv_in", CH, 3, 3);
    let mut channels = CH;
    for (level, mult) in MULT.into_iter().enumerate() {
        for i in 0..N_RES {
            resnet(
                s,
                &format!("encoder.down.{level}.block.{i}"),
                channels,
                mult * CH,
            );
            channels = mult * CH;
        }
        if level + 1 < MULT.len() {
            s.conv2d(
                &format!("encoder.down.{level}.downsample.conv"),
                channels,
                channels,
                3,
            );
        }
    }
    middle(s, "encoder.mid", channels);
    s.norm("encoder.norm_out", channels);
    s.conv2d("encoder.conv_out", 2 * z, channels, 3);
}

fn decoder(s: &mut Spec, z: usize) {
    let mut channels = MULT[3] * CH;
    s.conv2d("decoder.conv_in", channels, z, 3);
    middle(s, "decoder.mid", channels);
    for (level, mult) in MULT.into_iter().enumerate().rev() {
        for i in 0..=N_RES {
            resnet(
                s,
                &format!("decoder.up.{level}.block.{i}"),
                channels,
                mult * CH,
            );
            channels = mult * CH;
        }
        if level > 0 {
            s.conv2d(
                &format!("decoder.up.{level}.upsample.conv"),
                channels,
                channels,
                3,
            );
        }
    }
    s.norm("decoder.norm_out", channels);
    s.conv2d("decoder.conv_out", 3, channels, 3);
}

fn middle(s: &mut Spec, name: &str, c: usize) {
    resnet(s, &format!("{name}.block_1"), c, c);
    s.norm(&format!("{name}.attn_1.norm"), c);
    for proj in ["q", "k", "v", "proj_out"] {
        s.conv2d(&format!("{name}.attn_1.{proj}"), c, c, 1);
    }
    resnet(s, &format!("{name}.block_2"), c, c);
}

fn resnet(s: &mut Spec, name: &str, input: usize, out: usize) {
    s.norm(&format!("{name}.norm1"), input);
    s.conv2d(&format!("{name}.conv1"), out, input, 3);
    s.norm(&format!("{name}.norm2"), out);
    s.conv2d(&format!("{name}.conv2"), out, out, 3);
    if input != out {
        s.conv2d(&format!("{name}.nin_shortcut"), out, input, 1);
    }
}
