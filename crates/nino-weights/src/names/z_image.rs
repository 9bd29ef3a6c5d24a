//! diffusers `ZImageTransformer2DModel` to the names of ComfyUI's single files, in which queries,
//! keys and values are one matrix.

use super::rules::{rewrite, rewrite_op};
use super::{Op, Targets};

const JOINED: &[(&str, &str, Op)] = &[
    (
        "*.*.attention.to_q.*",
        "*.*.attention.qkv.*",
        Op::Join { part: 0, of: 3 },
    ),
    (
        "*.*.attention.to_k.*",
        "*.*.attention.qkv.*",
        Op::Join { part: 1, of: 3 },
    ),
    (
        "*.*.attention.to_v.*",
        "*.*.attention.qkv.*",
        Op::Join { part: 2, of: 3 },
    ),
];

const RENAMED: &[(&str, &str)] = &[
    ("*.*.attention.to_out.0.*", "*.*.attention.out.*"),
    ("*.*.attention.norm_q.*", "*.*.attention.q_norm.*"),
    ("*.*.attention.norm_k.*", "*.*.attention.k_norm.*"),
    // The numbers are the sizes of a patch, of which every published model has one.
    ("all_x_embedder.2-1.*", "x_embedder.*"),
    ("all_final_layer.2-1.*.*", "final_layer.*.*"),
    ("all_final_layer.2-1.*.*.*", "final_layer.*.*.*"),
];

pub(super) fn from_diffusers(name: &str) -> Targets {
    let joined = rewrite_op(JOINED, name);
    let renamed = || {
        (
            rewrite(RENAMED, name).unwrap_or_else(|| name.to_owned()),
            Op::Keep,
        )
    };
    vec![joined.unwrap_or_else(renamed)]
}
