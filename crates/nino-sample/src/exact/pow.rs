//! torch's `tensor ** y` on the CPU to the last bit, for positive bases and results far from
//! overflow.
//!
//! torch takes whole vectors of 16 through SLEEF's `powf` (error below 0.58 units in the last
//! place) and the rest through the C library's, which rounds correctly. Karras levels need it: they
//! are what SDE noise is cut at. This is torch on AVX2; with AVX-512 the vectors hold 32, so that a
//! few levels of some lengths differ.
//!
//! The method is x^y = exp(y ln x) in pairs of floats (Dekker 1971), the operations in SLEEF's
//! order.

use super::Exact;

const VECTOR: usize = 16;

pub(crate) fn pow_all(x: &mut [f32], y: f32) {
    let whole = x.len() / VECTOR * VECTOR;
    let (vectors, rest) = x.split_at_mut(whole);
    vectors.iter_mut().for_each(|x| *x = exp(ln(*x).times(y)));
    rest.iter_mut().for_each(|x| *x = x.exact_pow(f64::from(y)));
}

/// A number as the sum of a float and a smaller one.
#[derive(Clone, Copy)]
struct Pair(f32, f32);

impl Pair {
    /// Knuth's sum: exact whichever is larger.
    fn sum(x: f32, y: f32) -> Self {
        let s = x + y;
        let v = s - x;
        Self(s, (x - (s - v)) + (y - v))
    }

    fn plus(self, y: f32) -> Self {
        let Self(high, low) = Self::sum(self.0, y);
        Self(high, low + self.1)
    }

    fn plus_pair(self, y: Self) -> Self {
        let Self(high, low) = Self::sum(self.0, y.0);
        Self(high, low + (self.1 + y.1))
    }

    /// Dekker's sum: needs `self` to be the larger.
    fn plus_smaller(self, y: Self) -> Self {
        let high = self.0 + y.0;
        Self(high, (((self.0 - high) + y.0) + self.1) + y.1)
    }

    fn times(self, y: f32) -> Self {
        let high = self.0 * y;
        Self(high, self.1.mul_add(y, self.0.mul_add(y, -high)))
    }

    fn times_pair(self, y: Self) -> Self {
        let high = self.0 * y.0;
        let low = self.1.mul_add(y.0, self.0.mul_add(y.0, -high));
        Self(high, self.0.mul_add(y.1, low))
    }

    fn square(self) -> Self {
        let high = self.0 * self.0;
        let low = self.0.mul_add(self.0, -high);
        Self(high, (self.0 + self.0).mul_add(self.1, low))
    }

    fn over(self, d: Self) -> Self {
        let inverse = 1.0 / d.0;
        let high = self.0 * inverse;
        let missing = (-d.1).mul_add(inverse, (-d.0).mul_add(inverse, 1.0));
        let rest = self.1.mul_add(inverse, inverse.mul_add(self.0, -high));
        Self(high, high.mul_add(missing, rest))
    }
}

/// ln x = e ln 2 + 2 artanh((m - 1) / (m + 1)), with m between 3/4 and 3/2.
fn ln(x: f32) -> Pair {
    const LN_2: Pair = Pair(std::f32::consts::LN_2, -1.904_654_3e-9);
    const TWO_THIRDS: Pair = Pair(0.666_666_6, 3.691_838_6e-9);
    let exponent = ((x * (1.0 / 0.75)).to_bits() >> 23) as i32 - 127;
    let m = x * power_of_two(-exponent);
    let r = Pair::sum(-1.0, m).over(Pair::sum(1.0, m));
    let square = r.square();
    let tail = 0.240_320_35f32
        .mul_add(square.0, 0.285_112_68)
        .mul_add(square.0, 0.400_008);
    let cubic = square.times(tail).plus_pair(TWO_THIRDS);
    LN_2.times(exponent as f32)
        .plus_smaller(Pair(r.0 * 2.0, r.1 * 2.0))
        .plus_smaller(square.times_pair(r).times_pair(cubic))
}

fn exp(d: Pair) -> f32 {
    /// ln 2 in two parts, the first with zeros enough that multiples are exact.
    const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];
    let q = ((d.0 + d.1) * std::f32::consts::LOG2_E).round_ties_even();
    let s = d.plus(q * -LN_2[0]).plus(q * -LN_2[1]);
    let high = s.0 + s.1;
    let s = Pair(high, (s.0 - high) + s.1);
    let tail = 0.001_363_246_5f32
        .mul_add(s.0, 0.008_365_969)
        .mul_add(s.0, 0.041_671_082)
        .mul_add(s.0, 0.166_665_52)
        .mul_add(s.0, 0.499_999_85);
    let t = s.plus_smaller(s.square().times(tail));
    let t = Pair(1.0, 0.0).plus_smaller(t);
    (t.0 + t.1) * power_of_two(q as i32)
}

fn power_of_two(e: i32) -> f32 {
    f32::from_bits(((e + 127) as u32) << 23)
}
