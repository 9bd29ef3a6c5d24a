//! The arithmetic of samplers: weighted sums of latents, in f32, from left to right.

/// x = `keep` * x + sum of weight * term.
pub(crate) fn mix(x: &mut [f32], keep: f32, terms: &[(f32, &[f32])]) {
    match terms {
        [] => x.iter_mut().for_each(|x| *x *= keep),
        [(a, p)] => x
            .iter_mut()
            .zip(*p)
            .for_each(|(x, p)| *x = keep * *x + a * p),
        [(a, p), (b, q)] => {
            let pairs = p.iter().zip(*q);
            x.iter_mut()
                .zip(pairs)
                .for_each(|(x, (p, q))| *x = keep * *x + a * p + b * q);
        }
        _ => {
            for (i, x) in x.iter_mut().enumerate() {
                *x = terms
                    .iter()
                    .fold(keep * *x, |sum, (weight, term)| sum + weight * term[i]);
            }
        }
    }
}

/// `out` = sum of weight * term.
pub(crate) fn sum_into(out: &mut [f32], terms: &[(f32, &[f32])]) {
    let Some(((weight, first), rest)) = terms.split_first() else {
        return out.fill(0.0);
    };
    out.copy_from_slice(first);
    mix(out, *weight, rest);
}

/// `out` = (x - denoised) / sigma: the derivative of x by sigma along the probability flow.
pub(crate) fn slope(out: &mut [f32], x: &[f32], sigma: f32, denoised: &[f32]) {
    out.iter_mut()
        .zip(x.iter().zip(denoised))
        .for_each(|(o, (x, d))| *o = (x - d) / sigma);
}

/// torch's `lerp`, which counts from whichever end is nearer.
pub(crate) fn lerp(start: f32, end: f32, weight: f32) -> f32 {
    if weight < 0.5 {
        start + weight * (end - start)
    } else {
        end - (end - start) * (1.0 - weight)
    }
}
