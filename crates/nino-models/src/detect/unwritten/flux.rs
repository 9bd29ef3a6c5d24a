//! Black Forest Labs' Flux.1: 19 double and 38 single blocks of width 3072.

use super::List;
use crate::describe::TensorSpec;

pub(in crate::detect) struct Flux {
    pub(in crate::detect) in_channels: usize,
    /// Guidance-distilled: takes the guidance scale as an input.
    pub(in crate::detect) guidance: bool,
}

const D: usize = 3072;
const HEAD: usize = 128;

pub(in crate::detect) fn flux(c: &Flux) -> Vec<TensorSpec> {
    let mut s = List::default();
    s.linear("img_in", D, c.in_channels);
    s.linear("txt_in", D, 4096);
    let embedders = [("time_in", 256), ("vector_in", 768)];
    for (name, input) in embedders
        .into_iter()
        .chain(c.guidance.then_some(("guidance_in", 256)))
    {
        s.linear(&format!("{name}.in_layer"), D, input);
        s.linear(&format!("{name}.out_layer"), D, D);
    }
    for i in 0..19 {
        for stream in ["img", "txt"] {
            let name = format!("double_blocks.{i}.{stream}");
            s.linear(&format!("{name}_mod.lin"), 6 * D, D);
            s.linear(&format!("{name}_attn.qkv"), 3 * D, D);
            s.raw(format!("{name}_attn.norm.query_norm.scale"), &[HEAD]);
            s.raw(format!("{name}_attn.norm.key_norm.scale"), &[HEAD]);
            s.linear(&format!("{name}_attn.proj"), D, D);
            s.linear(&format!("{name}_mlp.0"), 4 * D, D);
            s.linear(&format!("{name}_mlp.2"), D, 4 * D);
        }
    }
    for i in 0..38 {
        let name = format!("single_blocks.{i}");
        s.linear(&format!("{name}.modulation.lin"), 3 * D, D);
        s.linear(&format!("{name}.linear1"), 7 * D, D);
        s.raw(format!("{name}.norm.query_norm.scale"), &[HEAD]);
        s.raw(format!("{name}.norm.key_norm.scale"), &[HEAD]);
        s.linear(&format!("{name}.linear2"), D, 5 * D);
    }
    s.linear("final_layer.adaLN_modulation.1", 2 * D, D);
    s.linear("final_layer.linear", 64, D);
    s.tensors
}
