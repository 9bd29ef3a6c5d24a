//! Linear layers and attention of many rows in bf16, whose range f16 has not: matrix units that
//! take f16 alone get rows, or all values, times a power of two.

use super::Problem;
use super::product::class;
use crate::{Case, CaseBuilder, Rng, Tensor};
use nino_dtype::DType;
use nino_graph::{Act, Epilogue, Shape};

pub(super) const PROBLEMS: &[Problem] = &[
    Problem {
        name: "linear of many bf16 rows",
        ops: &["linear"],
        cases: linear,
    },
    Problem {
        name: "attention of many bf16 queries",
        ops: &["attention"],
        cases: attention,
    },
];

const BRAIN: DType = DType::BF16;

/// Rows and columns that are worth it, and no whole tiles.
const ROWS: usize = 261;
const COLUMNS: usize = 136;

fn linear(rng: &mut Rng) -> Vec<Case> {
    let stored = [
        BRAIN,
        DType::F16,
        DType::F32,
        DType::F8E4M3,
        DType::Q8_0,
        DType::Q4_K,
        DType::NF4,
    ];
    let mut cases: Vec<Case> = stored.map(|weights| of_weights(rng, weights)).into();
    cases.push(surrounded(rng));
    // Rows and columns from small to large, so that some are too large for f16, and all of them.
    let (steps, step) = (|i: usize| 10f64.powi(i as i32 % 10 - 3), |_: usize| 1.0);
    cases.push(sized(rng, "rows of 1e-3 to 1e6", steps, step));
    cases.push(sized(rng, "columns of 1e-3 to 1e6", step, steps));
    cases.push(sized(rng, "all of 1e6 and 1e5", |_| 1e6, |_| 1e5));
    cases.push(sized(rng, "all of 1e-20 and 1e-9", |_| 1e-20, |_| 1e-9));
    cases.push(sized(rng, "all of 1e-25 and 1e25", |_| 1e-25, |_| 1e25));
    cases.push(outlier(rng));
    cases
}

fn of_weights(rng: &mut Rng, weights: DType) -> Case {
    let mut c = CaseBuilder::new(rng);
    let x = c.input([1, ROWS, 256], BRAIN);
    let w = c.weight([COLUMNS, 256], weights);
    let out = c.g.linear(x, w, None);
    let name = format!("linear [{ROWS},256]x[{COLUMNS},256] bf16, weights {weights}");
    c.finish(name, out, class(BRAIN, weights, 1))
}

/// With all that can follow a product, of a depth that no tile divides.
fn surrounded(rng: &mut Rng) -> Case {
    let mut c = CaseBuilder::new(rng);
    let x = c.input([ROWS, 72], BRAIN);
    let w = c.weight([COLUMNS, 72], BRAIN);
    let epi = Epilogue {
        scale: Some(c.param([COLUMNS], DType::F32, 0.5, 0.4)),
        bias: Some(c.param([COLUMNS], DType::F32, 0.0, 0.5)),
        act: Some(Act::Silu),
        ..Epilogue::default()
    };
    let factor = c.input([1, COLUMNS], BRAIN);
    let residual = c.input([ROWS, COLUMNS], BRAIN);
    // Devices that can take both into the epilogue do.
    let out = c.g.scaled_linear(x, w, epi);
    let out = c.g.mul(out, factor);
    let out = c.g.add(residual, out);
    let name = "linear of bf16 rows with all around it";
    c.finish(name, out, class(BRAIN, BRAIN, 1))
}

/// Values of about so much for each row of the input, and of the weights.
fn sized(
    rng: &mut Rng,
    what: &str,
    of_row: impl Fn(usize) -> f64,
    of_column: impl Fn(usize) -> f64,
) -> Case {
    const K: usize = 64;
    let mut c = CaseBuilder::new(rng);
    let values = |rng: &mut Rng, rows: usize, of: &dyn Fn(usize) -> f64| {
        let mut t = Tensor::normal([rows, K], 0.0, 1.0, rng);
        let rows = t.values.chunks_exact_mut(K).enumerate();
        rows.for_each(|(i, row)| row.iter_mut().for_each(|v| *v *= of(i)));
        t
    };
    let x = values(c.rng, ROWS, &of_row);
    let w = values(c.rng, COLUMNS, &of_column);
    let (x, w) = (c.input_of(&x, BRAIN), c.param_of(&w, BRAIN));
    let out = c.g.linear(x, w, None);
    c.finish(
        format!("linear of bf16 rows, {what}"),
        out,
        class(BRAIN, BRAIN, 1),
    )
}

/// Each row has one value of 1e6, which meets weights of zero, beside others of about 0.05, 2^-24
/// of it, which must keep their bits.
fn outlier(rng: &mut Rng) -> Case {
    const K: usize = 64;
    let mut c = CaseBuilder::new(rng);
    let mut x = Tensor::normal(Shape::new(&[ROWS, K]), 0.0, 0.05, c.rng);
    let mut w = Tensor::normal(Shape::new(&[COLUMNS, K]), 0.0, 1.0, c.rng);
    x.values.chunks_exact_mut(K).for_each(|row| row[5] = 1e6);
    w.values.chunks_exact_mut(K).for_each(|row| row[5] = 0.0);
    let (x, w) = (c.input_of(&x, BRAIN), c.param_of(&w, BRAIN));
    let out = c.g.linear(x, w, None);
    let name = "linear of bf16 rows, one value of 1e6 in each";
    c.finish(name, out, class(BRAIN, BRAIN, 1))
}

/// Sizes of an attention, and what its queries, keys and values are about.
struct Heads {
    sizes: [usize; 5],
    about: [f64; 3],
    masked: bool,
}

fn attention(rng: &mut Rng) -> Vec<Case> {
    let heads = |sizes, about, masked| Heads {
        sizes,
        about,
        masked,
    };
    // (batch, queries, keys, heads, width)
    let cases = [
        heads([1, 261, 130, 2, 64], [1.0; 3], false),
        heads([2, 256, 130, 1, 40], [1.0; 3], true),
        heads([1, 256, 128, 1, 128], [1.0; 3], false),
        heads([1, 257, 129, 1, 64], [1e6, 1e-6, 1e6], false),
        heads([1, 256, 128, 1, 40], [1e-15, 1e15, 1e-20], true),
    ];
    cases.map(|heads| attention_of(rng, &heads)).into()
}

fn attention_of(rng: &mut Rng, of: &Heads) -> Case {
    let [b, n, m, heads, hd] = of.sizes;
    let mut c = CaseBuilder::new(rng);
    let [q, k, v] = [(n, 0), (m, 1), (m, 2)].map(|(rows, i)| {
        let values = Tensor::normal([b, rows, heads, hd], 0.0, of.about[i], c.rng);
        c.input_of(&values, BRAIN)
    });
    let mask = of.masked.then(|| c.input([b, 1, n, m], BRAIN));
    let out = c.g.attention(q, k, v, mask);
    let name = format!(
        "attention of bf16, {b}x{heads} heads {n}x{m} hd {hd}, about {:?}, mask {}",
        of.about, of.masked
    );
    c.finish(name, out, class(BRAIN, BRAIN, 1))
}
