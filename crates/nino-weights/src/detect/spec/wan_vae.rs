//! Wan's causal video autoencoders: 2.1 lists its blocks flat, 2.2 nests them per level.

use super::{Need, Spec};

const MULT: [usize; 4] = [1, 2, 4, 4];
const N_RES: usize = 2;
/// Levels of the encoder that halve time as well as space.
const TIME: [bool; 3] = [false, true, true];

pub(in crate::detect) fn wan21_vae() -> Spec {
    const D: usize = 96;
    let mut s = Spec::default();
    ends(&mut s, 16, 3, D, D);
    s.need(Need::Encoder);
    let (mut n, mut channels) = (0, D);
    for level in 0..4 {
        for _ in 0..N_RES {
            let out = MULT[level] * D;
            residual(&mut s, &format!("encoder.downsamples.{n}"), channels, out);
            channels = out;
            n += 1;
        }
        if level < 3 {
            let name = format!("encoder.downsamples.{n}");
            s.conv2d(&format!("{name}.resample.1"), channels, channels, 3);
            if TIME[level] {
                s.layer(&format!("{name}.time_conv"), &[channels, channels, 3, 1, 1]);
            }
            n += 1;
        }
    }
    s.need(Need::Decoder);
    (n, channels) = (0, MULT[3] * D);
    for level in (0..4).rev() {
        for _ in 0..=N_RES {
            let out = MULT[level] * D;
            residual(&mut s, &format!("decoder.upsamples.{n}"), channels, out);
            channels = out;
            n += 1;
        }
        if level > 0 {
            let name = format!("decoder.upsamples.{n}");
            s.conv2d(&format!("{name}.resample.1"), channels / 2, channels, 3);
            if TIME[level - 1] {
                s.layer(
                    &format!("{name}.time_conv"),
                    &[2 * channels, channels, 3, 1, 1],
                );
            }
            channels /= 2;
            n += 1;
        }
    }
    s
}

pub(in crate::detect) fn wan22_vae() -> Spec {
    const ENC: usize = 160;
    const DEC: usize = 256;
    let mut s = Spec::default();
    // Pixels come and go in 2x2 patches of 3 channels.
    ends(&mut s, 48, 12, ENC, DEC);
    s.need(Need::Encoder);
    let mut channels = ENC;
    for level in 0..4 {
        let name = format!("encoder.downsamples.{level}.downsamples");
        for i in 0..N_RES {
            residual(&mut s, &format!("{name}.{i}"), channels, MULT[level] * ENC);
            channels = MULT[level] * ENC;
        }
        if level < 3 {
            s.conv2d(&format!("{name}.{N_RES}.resample.1"), channels, channels, 3);
            if TIME[level] {
                s.layer(
                    &format!("{name}.{N_RES}.time_conv"),
                    &[channels, channels, 3, 1, 1],
                );
            }
        }
    }
    s.need(Need::Decoder);
    channels = MULT[3] * DEC;
    for (i, level) in (0..4).rev().enumerate() {
        let name = format!("decoder.upsamples.{i}.upsamples");
        for i in 0..=N_RES {
            residual(&mut s, &format!("{name}.{i}"), channels, MULT[level] * DEC);
            channels = MULT[level] * DEC;
        }
        if level > 0 {
            let sampler = format!("{name}.{}", N_RES + 1);
            s.conv2d(&format!("{sampler}.resample.1"), channels, channels, 3);
            if TIME[level - 1] {
                s.layer(
                    &format!("{sampler}.time_conv"),
                    &[2 * channels, channels, 3, 1, 1],
                );
            }
        }
    }
    s
}

/// First, middle and last layers of both halves, and the two convolutions around the latent.
fn ends(s: &mut Spec, z: usize, pixels: usize, enc: usize, dec: usize) {
    for (half, side, d, input, out) in [
        (Need::Encoder, "encoder", enc, pixels, 2 * z),
        (Need::Decoder, "decoder", dec, z, pixels),
    ] {
        s.need(half);
        let wide = MULT[3] * d;
        let (first, last) = if half == Need::Encoder {
            (d, wide)
        } else {
            (wide, d)
        };
        s.layer(&format!("{side}.conv1"), &[first, input, 3, 3, 3]);
        residual(s, &format!("{side}.middle.0"), wide, wide);
        s.raw(format!("{side}.middle.1.norm.gamma"), &[wide, 1, 1]);
        s.conv2d(&format!("{side}.middle.1.to_qkv"), 3 * wide, wide, 1);
        s.conv2d(&format!("{side}.middle.1.proj"), wide, wide, 1);
        residual(s, &format!("{side}.middle.2"), wide, wide);
        s.raw(format!("{side}.head.0.gamma"), &[last, 1, 1, 1]);
        s.layer(&format!("{side}.head.2"), &[out, last, 3, 3, 3]);
    }
    s.need(Need::Encoder);
    s.layer("conv1", &[2 * z, 2 * z, 1, 1, 1]);
    s.need(Need::Decoder);
    s.layer("conv2", &[z, z, 1, 1, 1]);
}

fn residual(s: &mut Spec, name: &str, input: usize, out: usize) {
    s.raw(format!("{name}.residual.0.gamma"), &[input, 1, 1, 1]);
    s.layer(&format!("{name}.residual.2"), &[out, input, 3, 3, 3]);
    s.raw(format!("{name}.residual.3.gamma"), &[out, 1, 1, 1]);
    s.layer(&format!("{name}.residual.6"), &[out, out, 3, 3, 3]);
    if input != out {
        s.layer(&format!("{name}.shortcut"), &[out, input, 1, 1, 1]);
    }
}
