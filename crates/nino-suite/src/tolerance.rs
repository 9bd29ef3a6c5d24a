//! How far a device's result may be from the reference, by named class.

use nino_dtype::DType;
use std::fmt;

/// What equality means for a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Values are moved, not computed: the same bits.
    Exact,
    /// f32 storage and accumulation.
    Close,
    /// f16 or bf16 storage.
    Approx,
    /// Activations rounded to 8 bits inside a quantized product.
    Quant,
}

/// Distance of a result from the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Difference {
    /// Mean squared error over the reference's mean square.
    pub nmse: f64,
    /// Largest error, in units of the reference's root mean square.
    pub max: f64,
    /// Values that are NaN or infinite where the reference's are not.
    pub not_finite: usize,
}

impl Class {
    /// The class of arithmetic on activations of this type.
    pub fn of(dtype: DType) -> Class {
        if dtype == DType::F32 {
            Class::Close
        } else {
            Class::Approx
        }
    }

    /// (NMSE, largest error in root mean squares) that is still right.
    pub fn limits(self) -> (f64, f64) {
        match self {
            Class::Exact => (0.0, 0.0),
            // F(4×4, 3×3) Winograd in f32 stays below 1e-9.
            Class::Close => (1e-8, 2e-3),
            // One rounding of bf16 is 1e-5 already.
            Class::Approx => (1e-4, 0.2),
            Class::Quant => (5e-4, 0.3),
        }
    }

    pub fn accepts(self, d: &Difference) -> bool {
        let (nmse, max) = self.limits();
        d.not_finite == 0 && d.nmse <= nmse && d.max <= max
    }
}

impl Difference {
    pub fn between(found: &[f64], expected: &[f64]) -> Difference {
        assert_eq!(found.len(), expected.len(), "lengths of compared values");
        let n = expected.len().max(1) as f64;
        // A reference that is zero everywhere is compared on an absolute scale.
        let power = expected.iter().map(|e| e * e).sum::<f64>() / n;
        let power = if power > 0.0 { power } else { 1.0 };
        let mut d = Difference::default();
        let mut squares = 0.0;
        for (&f, &e) in found.iter().zip(expected) {
            if f.is_finite() {
                squares += (f - e) * (f - e);
                d.max = d.max.max((f - e).abs() / power.sqrt());
            } else if e.is_finite() {
                d.not_finite += 1;
            }
        }
        d.nmse = squares / n / power;
        d
    }

    /// The worse of two in each respect.
    #[must_use]
    pub fn worst(self, other: Difference) -> Difference {
        Difference {
            nmse: self.nmse.max(other.nmse),
            max: self.max.max(other.max),
            not_finite: self.not_finite + other.not_finite,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NMSE {:.1e}, max {:.1e}", self.nmse, self.max)?;
        if self.not_finite > 0 {
            write!(f, ", {} not finite", self.not_finite)?;
        }
        Ok(())
    }
}
