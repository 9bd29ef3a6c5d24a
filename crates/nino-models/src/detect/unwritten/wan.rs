//! Wan 2.1 and 2.2 video transformers.

use super::List;
use crate::describe::{Need, TensorSpec};

pub(in crate::detect) struct Wan {
    d: usize,
    ffn: usize,
    layers: usize,
    in_channels: usize,
    out_channels: usize,
    /// Wan 2.1 image-to-video: a CLIP image embedding with its own keys and values.
    image: bool,
}

impl Wan {
    pub(in crate::detect) fn small(in_channels: usize) -> Wan {
        Wan {
            d: 1536,
            ffn: 8960,
            layers: 30,
            in_channels,
            out_channels: 16,
            image: false,
        }
    }

    pub(in crate::detect) fn medium() -> Wan {
        Wan {
            d: 3072,
            ffn: 14336,
            layers: 30,
            in_channels: 48,
            out_channels: 48,
            image: false,
        }
    }

    pub(in crate::detect) fn large(in_channels: usize, image: bool) -> Wan {
        Wan {
            d: 5120,
            ffn: 13824,
            layers: 40,
            in_channels,
            out_channels: 16,
            image,
        }
    }
}

const TEXT: usize = 4096;
const IMAGE: usize = 1280;
const FREQ: usize = 256;

pub(in crate::detect) fn wan(c: &Wan) -> Vec<TensorSpec> {
    let (mut s, d) = (List::default(), c.d);
    s.layer("patch_embedding", &[d, c.in_channels, 1, 2, 2]);
    s.linear("text_embedding.0", d, TEXT);
    s.linear("text_embedding.2", d, d);
    s.linear("time_embedding.0", d, FREQ);
    s.linear("time_embedding.2", d, d);
    s.linear("time_projection.1", 6 * d, d);
    for i in 0..c.layers {
        let block = format!("blocks.{i}");
        for attn in ["self_attn", "cross_attn"] {
            for proj in ["q", "k", "v", "o"] {
                s.linear(&format!("{block}.{attn}.{proj}"), d, d);
            }
            s.weight(&format!("{block}.{attn}.norm_q"), &[d]);
            s.weight(&format!("{block}.{attn}.norm_k"), &[d]);
        }
        if c.image {
            s.linear(&format!("{block}.cross_attn.k_img"), d, d);
            s.linear(&format!("{block}.cross_attn.v_img"), d, d);
            s.weight(&format!("{block}.cross_attn.norm_k_img"), &[d]);
        }
        s.norm(&format!("{block}.norm3"), d);
        s.linear(&format!("{block}.ffn.0"), c.ffn, d);
        s.linear(&format!("{block}.ffn.2"), d, c.ffn);
        s.raw(format!("{block}.modulation"), &[1, 6, d]);
    }
    s.linear("head.head", 4 * c.out_channels, d);
    s.raw("head.modulation", &[1, 2, d]);
    if c.image {
        s.norm("img_emb.proj.0", IMAGE);
        s.linear("img_emb.proj.1", IMAGE, IMAGE);
        s.linear("img_emb.proj.3", d, IMAGE);
        s.norm("img_emb.proj.4", d);
        // First-and-last-frame models tell the two images apart by position.
        s.need(Need::Optional);
        s.raw("img_emb.emb_pos", &[1, 514, IMAGE]);
    }
    s.tensors
}
