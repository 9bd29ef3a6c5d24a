//! The class of f16 tells sums in f32 from sums in f16.

use nino_dtype::{f16_to_f32, f32_to_f16};
use nino_suite::{Class, Difference, PROBLEMS, Rng, reference};

const ROWS: usize = 64;

fn half(x: f32) -> f32 {
    f16_to_f32(f32_to_f16(x))
}

/// A product of `k` terms as a kernel would compute it: f16 factors, `chunk` terms summed in f32 at
/// a time, and `keep` applied to the running sum after each chunk. The result is stored in f16.
fn product(k: usize, chunk: usize, keep: impl Fn(f32) -> f32) -> Difference {
    let mut rng = Rng::new(5);
    let scale = 1.0 / (k as f64).sqrt();
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..ROWS {
        let x: Vec<f32> = (0..k).map(|_| half(rng.normal() as f32)).collect();
        let w: Vec<f32> = (0..k)
            .map(|_| half((scale * rng.normal()) as f32))
            .collect();
        let terms = || x.iter().zip(&w);
        let mut sum = 0.0;
        for (x, w) in x.chunks(chunk).zip(w.chunks(chunk)) {
            sum = keep(sum + x.iter().zip(w).map(|(x, w)| x * w).sum::<f32>());
        }
        found.push(f64::from(half(sum)));
        expected.push(terms().map(|(&x, &w)| f64::from(x) * f64::from(w)).sum());
    }
    Difference::between(&found, &expected)
}

#[test]
fn sums_in_f16_are_outside_the_class() {
    // One rounding a term, as in plain loops, and one for 16 terms, as in matrix units.
    for chunk in [1, 16] {
        let d = product(4096, chunk, half);
        println!("4096 terms in f16, {chunk} at a time: {d}");
        assert!(!Class::Half.accepts(&d), "{chunk} at a time: {d}");
    }
    // Plain loops show at the sizes of small models, too.
    let d = product(320, 1, half);
    assert!(!Class::Half.accepts(&d), "{d}");
    for (k, chunk) in [(64, 1), (4096, 1), (4096, 16)] {
        let d = product(k, chunk, |sum| sum);
        println!("{k} terms in f32, {chunk} at a time: {d}");
        assert!(Class::Half.accepts(&d), "{k} terms: {d}");
    }
}

/// The suite has what the test above speaks of: each kind of product with at least 4096 f16 terms.
#[test]
fn long_sums_are_in_the_suite() {
    let long = PROBLEMS.iter().find(|p| p.name == "long sums").unwrap();
    let cases = long.cases();
    let mut ops: Vec<&str> = Vec::new();
    for case in &cases {
        assert_eq!(case.class, Class::Half, "{}", case.name);
        ops.extend(case.graph.ops().map(|(_, op)| op.name()));
        let values = reference::eval(&case.graph, &case.inputs, &case.params).unwrap();
        let out = &values[&case.graph.outputs()[0]];
        assert!(
            out.values.len() >= 256,
            "{}: too few results to judge",
            case.name
        );
    }
    ops.sort_unstable();
    assert_eq!(ops, ["attention", "conv", "linear", "matmul"]);
}
