//! Resampling by a windowed sinc, in the form and with the defaults of torchaudio's
//! `functional.resample`: 6 zero crossings, a cut-off at 0.99 of the lower rate, a Hann window.
//! Julius O. Smith, "Digital Audio Resampling".

use std::f32::consts::PI;

/// Zero crossings of the sinc on either side.
const CROSSINGS: f64 = 6.0;
/// Share of the lower rate that is kept.
const ROLLOFF: f64 = 0.99;

/// The filters of all positions between two samples, for one pair of rates.
pub(super) struct Filter {
    /// The rates over their greatest common divisor.
    from: usize,
    to: usize,
    /// For each of `to` outputs of a period: the first input before the period's start, and the
    /// filter from there on.
    phases: Vec<(isize, Vec<f64>)>,
}

impl Filter {
    pub(super) fn new(from: u32, to: u32) -> Filter {
        let divisor = common_divisor(from, to);
        let (from, to) = ((from / divisor) as usize, (to / divisor) as usize);
        let cut_off = from.min(to) as f64 * ROLLOFF;
        let width = (CROSSINGS * from as f64 / cut_off).ceil() as isize;
        let phase = |i: usize| {
            // In f32, step by step as torchaudio, whose rounding is larger than what is compared.
            let weight = |at: isize| {
                let time = -(i as f32) / to as f32 + at as f32 / from as f32;
                let time = (time * cut_off as f32).clamp(-CROSSINGS as f32, CROSSINGS as f32);
                let window = (time * PI / CROSSINGS as f32 / 2.0).cos().powi(2);
                let angle = time * PI;
                let sinc = if angle == 0.0 {
                    1.0
                } else {
                    angle.sin() / angle
                };
                f64::from(sinc * (window * (cut_off / from as f64) as f32))
            };
            // The window ends within `width` of the output's own place.
            let place = (i * from / to) as isize;
            let first = place - width;
            (first, (first..=place + width + 1).map(weight).collect())
        };
        Filter {
            from,
            to,
            phases: (0..to).map(phase).collect(),
        }
    }

    /// The samples at the other rate; those before the first and after the last are 0.
    pub(super) fn apply(&self, samples: &[f32]) -> Vec<f32> {
        let n = (samples.len() * self.to).div_ceil(self.from);
        let value = |i: usize| {
            let (first, filter) = &self.phases[i % self.to];
            let start = (i / self.to * self.from) as isize + first;
            let skipped = start.min(0).unsigned_abs();
            let inside = samples.get(start.max(0) as usize..).unwrap_or_default();
            let weights = filter.get(skipped..).unwrap_or_default();
            let products = inside.iter().zip(weights);
            products.map(|(&s, w)| f64::from(s) * w).sum::<f64>() as f32
        };
        (0..n).map(value).collect()
    }
}

fn common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}
