//! LDM's `UNetModel`: SD 1.x, 2.x, XL and the distilled small ones.

use super::Spec;

pub(in crate::detect) struct Unet {
    pub(in crate::detect) in_channels: usize,
    pub(in crate::detect) model_channels: usize,
    pub(in crate::detect) mult: &'static [usize],
    pub(in crate::detect) n_res: usize,
    /// Transformer blocks per attention, by level; 0 for none.
    pub(in crate::detect) depth: &'static [usize],
    /// Transformer blocks in the middle; `None` when there is no middle.
    pub(in crate::detect) middle: Option<usize>,
    pub(in crate::detect) context: usize,
    pub(in crate::detect) linear_proj: bool,
    /// Width of the vector condition (SDXL).
    pub(in crate::detect) vector: Option<usize>,
}

pub(in crate::detect) const SD1: Unet = Unet {
    in_channels: 4,
    model_channels: 320,
    mult: &[1, 2, 4, 4],
    n_res: 2,
    depth: &[1, 1, 1, 0],
    middle: Some(1),
    context: 768,
    linear_proj: false,
    vector: None,
};
pub(in crate::detect) const SD2: Unet = Unet {
    context: 1024,
    linear_proj: true,
    ..SD1
};
pub(in crate::detect) const BK_BASE: Unet = Unet { n_res: 1, ..SD1 };
pub(in crate::detect) const BK_SMALL: Unet = Unet {
    middle: None,
    ..BK_BASE
};
pub(in crate::detect) const BK_TINY: Unet = Unet {
    mult: &[1, 2, 4],
    depth: &[1, 1, 1],
    ..BK_SMALL
};
pub(in crate::detect) const SDXL: Unet = Unet {
    mult: &[1, 2, 4],
    depth: &[0, 2, 10],
    middle: Some(10),
    context: 2048,
    linear_proj: true,
    vector: Some(2816),
    ..SD1
};
pub(in crate::detect) const REFINER: Unet = Unet {
    model_channels: 384,
    mult: &[1, 2, 4, 4],
    depth: &[0, 4, 4, 0],
    middle: Some(4),
    context: 1280,
    vector: Some(2560),
    ..SDXL
};

/// The model this program carries.
pub(in crate::detect) const EMOJI: Unet = Unet {
    model_channels: 96,
    mult: &[1, 2, 2],
    n_res: 1,
    depth: &[0, 1, 1],
    middle: Some(1),
    context: 256,
    linear_proj: true,
    ..SD1
};

impl Unet {
    /// The same cut made from SD 2.
    pub(in crate::detect) fn v2(self) -> Unet {
        Unet {
            context: 1024,
            linear_proj: true,
            ..self
        }
    }
}

pub(in crate::detect) fn unet(c: &Unet) -> Spec {
    let mut s = Spec::default();
    let wide = 4 * c.model_channels;
    s.linear("time_embed.0", wide, c.model_channels);
    s.linear("time_embed.2", wide, wide);
    if let Some(vector) = c.vector {
        s.linear("label_emb.0.0", wide, vector);
        s.linear("label_emb.0.2", wide, wide);
    }
    s.conv2d("input_blocks.0.0", c.model_channels, c.in_channels, 3);
    let mut channels = c.model_channels;
    let mut skips = vec![channels];
    let mut n = 1;
    for (level, mult) in c.mult.iter().enumerate() {
        for _ in 0..c.n_res {
            resnet(
                &mut s,
                &format!("input_blocks.{n}.0"),
                channels,
                mult * c.model_channels,
                wide,
            );
            channels = mult * c.model_channels;
            transformer(
                &mut s,
                c,
                &format!("input_blocks.{n}.1"),
                channels,
                c.depth[level],
            );
            skips.push(channels);
            n += 1;
        }
        if level + 1 < c.mult.len() {
            s.conv2d(&format!("input_blocks.{n}.0.op"), channels, channels, 3);
            skips.push(channels);
            n += 1;
        }
    }
    if let Some(depth) = c.middle {
        resnet(&mut s, "middle_block.0", channels, channels, wide);
        transformer(&mut s, c, "middle_block.1", channels, depth);
        resnet(&mut s, "middle_block.2", channels, channels, wide);
    }
    let mut n = 0;
    for (level, mult) in c.mult.iter().enumerate().rev() {
        for i in 0..=c.n_res {
            let skip = skips.pop().unwrap_or(0);
            let out = mult * c.model_channels;
            resnet(
                &mut s,
                &format!("output_blocks.{n}.0"),
                channels + skip,
                out,
                wide,
            );
            channels = out;
            transformer(
                &mut s,
                c,
                &format!("output_blocks.{n}.1"),
                channels,
                c.depth[level],
            );
            if level > 0 && i == c.n_res {
                let at = 1 + usize::from(c.depth[level] > 0);
                s.conv2d(
                    &format!("output_blocks.{n}.{at}.conv"),
                    channels,
                    channels,
                    3,
                );
            }
            n += 1;
        }
    }
    s.norm("out.0", channels);
    s.conv2d("out.2", 4, channels, 3);
    s
}

fn resnet(s: &mut Spec, name: &str, input: usize, out: usize, time: usize) {
    s.norm(&format!("{name}.in_layers.0"), input);
    s.conv2d(&format!("{name}.in_layers.2"), out, input, 3);
    s.linear(&format!("{name}.emb_layers.1"), out, time);
    s.norm(&format!("{name}.out_layers.0"), out);
    s.conv2d(&format!("{name}.out_layers.3"), out, out, 3);
    if input != out {
        s.conv2d(&format!("{name}.skip_connection"), out, input, 1);
    }
}

fn transformer(s: &mut Spec, c: &Unet, name: &str, d: usize, depth: usize) {
    if depth == 0 {
        return;
    }
    let proj: &[usize] = if c.linear_proj {
        &[d, d]
    } else {
        &[d, d, 1, 1]
    };
    s.norm(&format!("{name}.norm"), d);
    s.layer(&format!("{name}.proj_in"), proj);
    for i in 0..depth {
        let block = format!("{name}.transformer_blocks.{i}");
        for (attn, context) in [("attn1", d), ("attn2", c.context)] {
            s.weight(&format!("{block}.{attn}.to_q"), &[d, d]);
            s.weight(&format!("{block}.{attn}.to_k"), &[d, context]);
            s.weight(&format!("{block}.{attn}.to_v"), &[d, context]);
            s.linear(&format!("{block}.{attn}.to_out.0"), d, d);
        }
        s.linear(&format!("{block}.ff.net.0.proj"), 8 * d, d);
        s.linear(&format!("{block}.ff.net.2"), d, 4 * d);
        for norm in ["norm1", "norm2", "norm3"] {
            s.norm(&format!("{block}.{norm}"), d);
        }
    }
    s.layer(&format!("{name}.proj_out"), proj);
}
