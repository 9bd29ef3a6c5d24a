//! Computes some output values of a bench shape in f64, one by one, which is cheap at any size.

use super::Shape;
use crate::{Case, Difference, Rng, Tensor};
use nino_graph::ParamSource;

pub(super) fn difference(shape: &Shape, case: &Case, found: &Tensor) -> Difference {
    let inputs: Vec<&Tensor> = case.inputs.values().collect();
    let params: Vec<Tensor> = case
        .graph
        .params()
        .map(|(_, spec)| {
            let mut bytes = vec![0; spec.bytes()];
            case.params
                .read(spec, &mut bytes)
                .expect("the case holds its parameters");
            Tensor::decode(spec.dtype, spec.shape, &bytes).expect("what was encoded decodes")
        })
        .collect();
    let mut rng = Rng::new(3);
    let picks: Vec<usize> = (0..64).map(|_| rng.below(found.values.len())).collect();
    let expected: Vec<f64> = picks
        .iter()
        .map(|&i| value(shape, &inputs, &params, i))
        .collect();
    let found: Vec<f64> = picks.iter().map(|&i| found.values[i]).collect();
    Difference::between(&found, &expected)
}

fn value(shape: &Shape, inputs: &[&Tensor], params: &[Tensor], i: usize) -> f64 {
    match *shape {
        Shape::Conv3x3 { c, h } => {
            let (channel, x, y) = (i % c, i / c % h, i / c / h);
            let mut sum = 0.0;
            for tap in 0..9 {
                let (sy, sx) = (y + tap / 3, x + tap % 3);
                if (1..=h).contains(&sy) && (1..=h).contains(&sx) {
                    let pixel = inputs[0].row((sy - 1) * h + sx - 1);
                    sum += dot(pixel, params[0].row(channel * 9 + tap));
                }
            }
            sum
        }
        Shape::Linear { n, .. } => dot(inputs[0].row(i / n), params[0].row(i % n)),
        Shape::Attention { heads, n, hd } => {
            let (d, head, token) = (i % hd, i / hd % heads, i / hd / heads);
            let q = inputs[0].row(token * heads + head);
            let scale = 1.0 / (hd as f64).sqrt();
            let scores: Vec<f64> = (0..n)
                .map(|m| dot(q, inputs[1].row(m * heads + head)) * scale)
                .collect();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
            let total: f64 = weights.iter().sum();
            weights
                .iter()
                .enumerate()
                .map(|(m, w)| w * inputs[2].row(m * heads + head)[d])
                .sum::<f64>()
                / total
        }
        Shape::GroupNormSilu { c, .. } => {
            let (channel, each) = (i % c, c / 32);
            let group = channel / each;
            let members = || {
                inputs[0]
                    .values
                    .chunks(c)
                    .flat_map(move |p| &p[group * each..(group + 1) * each])
            };
            let n = (inputs[0].values.len() / 32) as f64;
            let mean = members().sum::<f64>() / n;
            let var = members().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
            let y = (inputs[0].values[i] - mean) / (var + 1e-6).sqrt() * params[0].values[channel]
                + params[1].values[channel];
            silu(y)
        }
        Shape::RmsNormSilu { c, .. } => {
            let pixel = inputs[0].row(i / c);
            let rms = (dot(pixel, pixel) / c as f64 + 1e-6).sqrt();
            silu(pixel[i % c] / rms * params[0].values[i % c])
        }
    }
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
