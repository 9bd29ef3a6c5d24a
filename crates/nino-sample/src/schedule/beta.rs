//! The `beta` scheduler (Lee et al. 2024, "Beta sampling is all you need"): timesteps at quantiles
//! of a beta distribution, dense at both ends. Which table entry a quantile rounds to follows from
//! the distribution at the points half-way between entries: the regularized incomplete beta
//! function, by its continued fraction (Lentz).

/// Table entries at the quantiles of Beta(`alpha`, `beta`), repeats left out, then 0.
pub(super) fn sigmas(table: &[f32], steps: usize, alpha: f64, beta: f64) -> Vec<f32> {
    let last = (table.len() - 1) as f64;
    let distribution = Beta::new(alpha, beta);
    let borders: Vec<f64> = (1..table.len())
        .map(|i| distribution.cumulative((i as f64 - 0.5) / last))
        .collect();
    let step = 1.0 / steps as f64;
    // The median lies half-way between two entries; the reference's quantile is a hair above it.
    let index = |p: f64| borders.partition_point(|&b| b < p + 1e-12);
    let mut indices: Vec<usize> = (0..steps).map(|i| index(1.0 - i as f64 * step)).collect();
    indices.dedup();
    indices.into_iter().map(|i| table[i]).chain([0.0]).collect()
}

struct Beta {
    a: f64,
    b: f64,
    /// 1 / B(a, b).
    scale: f64,
}

impl Beta {
    fn new(a: f64, b: f64) -> Self {
        Self {
            a,
            b,
            scale: (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp(),
        }
    }

    fn cumulative(&self, x: f64) -> f64 {
        let front = self.scale * x.powf(self.a) * (1.0 - x).powf(self.b);
        if x < (self.a + 1.0) / (self.a + self.b + 2.0) {
            front * continued_fraction(x, self.a, self.b) / self.a
        } else {
            1.0 - front * continued_fraction(1.0 - x, self.b, self.a) / self.b
        }
    }
}

fn continued_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guard = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut delta = 1.0;
        for term in [even, odd] {
            d = 1.0 / guard(1.0 + term * d);
            c = guard(1.0 + term / c);
            delta = c * d;
            result *= delta;
        }
        if (delta - 1.0).abs() < 1e-16 {
            break;
        }
    }
    result
}

/// Lanczos' approximation with g = 7, good to 15 digits for positive arguments.
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let series = COEFFICIENTS
        .iter()
        .zip(1..)
        .fold(0.999_999_999_999_809_9, |sum, (c, i)| {
            sum + c / (x + f64::from(i))
        });
    let t = x + 7.5;
    0.5 * std::f64::consts::TAU.ln() + (x + 0.5) * t.ln() - t + series.ln()
}
