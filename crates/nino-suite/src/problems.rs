//! The list of problems: for each op, cases of odd sizes, size 1, sizes no tile divides, and every
//! storage type.

mod dense;
mod elementwise;
mod fused;
mod graphs;
mod layout;
mod norm;

use crate::{Case, Rng};
use nino_dtype::DType;

/// One op (or one fusion) and the cases that try it.
pub struct Problem {
    pub name: &'static str,
    /// The names of the [`nino_graph::Op`]s it covers.
    pub ops: &'static [&'static str],
    cases: fn(&mut Rng) -> Vec<Case>,
}

impl Problem {
    /// Makes the cases, which are the same on every machine.
    pub fn cases(&self) -> Vec<Case> {
        let seed = self.name.bytes().fold(7, |seed: u64, b| {
            seed.wrapping_mul(31).wrapping_add(b.into())
        });
        (self.cases)(&mut Rng::new(seed))
    }
}

pub const PROBLEMS: &[Problem] = &[
    Problem {
        name: "linear",
        ops: &["linear"],
        cases: dense::linear,
    },
    Problem {
        name: "linear weights",
        ops: &["linear"],
        cases: dense::linear_weights,
    },
    Problem {
        name: "products of whole lines",
        ops: &["linear", "conv"],
        cases: dense::whole_lines,
    },
    Problem {
        name: "long sums",
        ops: &["linear", "matmul", "conv", "attention"],
        cases: dense::long_sums,
    },
    Problem {
        name: "matmul",
        ops: &["matmul"],
        cases: dense::matmul,
    },
    Problem {
        name: "conv2d",
        ops: &["conv"],
        cases: dense::conv2d,
    },
    Problem {
        name: "conv weights",
        ops: &["conv"],
        cases: dense::conv_weights,
    },
    Problem {
        name: "causal conv",
        ops: &["conv"],
        cases: dense::causal_conv,
    },
    Problem {
        name: "conv of a slice",
        ops: &["conv"],
        cases: dense::conv_slice,
    },
    Problem {
        name: "attention",
        ops: &["attention"],
        cases: dense::attention,
    },
    Problem {
        name: "group norm",
        ops: &["stats", "normalize"],
        cases: norm::group_norm,
    },
    Problem {
        name: "channel stats",
        ops: &["stats"],
        cases: norm::channel_stats,
    },
    Problem {
        name: "row norm",
        ops: &["row_norm"],
        cases: norm::row_norm,
    },
    Problem {
        name: "row norm and activation",
        ops: &["row_norm"],
        cases: norm::row_norm_act,
    },
    Problem {
        name: "softmax",
        ops: &["softmax"],
        cases: norm::softmax,
    },
    Problem {
        name: "unary",
        ops: &["unary"],
        cases: elementwise::unary,
    },
    Problem {
        name: "gate",
        ops: &["gate"],
        cases: elementwise::gate,
    },
    Problem {
        name: "binary",
        ops: &["binary"],
        cases: elementwise::binary,
    },
    Problem {
        name: "rope",
        ops: &["rope"],
        cases: elementwise::rope,
    },
    Problem {
        name: "timestep embed",
        ops: &["timestep_embed"],
        cases: elementwise::timestep_embed,
    },
    Problem {
        name: "reduce",
        ops: &["reduce"],
        cases: elementwise::reduce,
    },
    Problem {
        name: "cast",
        ops: &["cast"],
        cases: elementwise::cast,
    },
    Problem {
        name: "upsample",
        ops: &["upsample"],
        cases: layout::upsample,
    },
    Problem {
        name: "avg pool",
        ops: &["avg_pool"],
        cases: layout::avg_pool,
    },
    Problem {
        name: "pixel shuffle",
        ops: &["permute", "reshape"],
        cases: layout::pixel_shuffle,
    },
    Problem {
        name: "concat",
        ops: &["concat"],
        cases: layout::concat,
    },
    Problem {
        name: "joined values",
        ops: &["concat"],
        cases: layout::join,
    },
    Problem {
        name: "slice",
        ops: &["slice"],
        cases: layout::slice,
    },
    Problem {
        name: "permute",
        ops: &["permute"],
        cases: layout::permute,
    },
    Problem {
        name: "pad",
        ops: &["pad"],
        cases: layout::pad,
    },
    Problem {
        name: "gather",
        ops: &["gather"],
        cases: layout::gather,
    },
    Problem {
        name: "norm into conv",
        ops: &["conv", "linear"],
        cases: fused::norm_into_conv,
    },
    Problem {
        name: "activation into norm",
        ops: &["row_norm", "unary"],
        cases: fused::act_into_norm,
    },
    Problem {
        name: "epilogue",
        ops: &["conv", "linear"],
        cases: fused::epilogue,
    },
    Problem {
        name: "gate after linear",
        ops: &["linear", "gate"],
        cases: fused::gate_into_linear,
    },
    Problem {
        name: "computed bias",
        ops: &["conv", "linear"],
        cases: fused::computed_bias,
    },
    Problem {
        name: "upsample into conv",
        ops: &["conv"],
        cases: fused::upsample_into_conv,
    },
    Problem {
        name: "random graphs",
        ops: &[],
        cases: graphs::random,
    },
    Problem {
        name: "steady graphs",
        ops: &[],
        cases: graphs::steady,
    },
];

/// The activation types that every op is tried with.
const ACTIVATIONS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
