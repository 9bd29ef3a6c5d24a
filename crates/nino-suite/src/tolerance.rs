//! How far a device's result may be from the reference, by named class.

use nino_dtype::DType;
use std::fmt;

/// How exact a result must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Values are moved and not computed, so the bits are the same.
    Exact,
    /// Values are stored and summed in f32.
    Close,
    /// Values are stored in f16 and summed in f32.
    Half,
    /// Values are stored in bf16 and summed in f32. Factors of products may be rounded to bf16.
    Brain,
    /// Block-quantized weights are decoded to 16 bits, and sums are in f32.
    Quant,
    /// Activations may be rounded to 8 bits for integer dot products with `Q8_0` weights.
    Int8,
}

/// How far a result is from the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Difference {
    /// The normalized mean squared error: the mean squared error over the reference's mean square.
    pub nmse: f64,
    /// The largest error, in units of the reference's root mean square.
    pub max: f64,
    /// The number of values that are NaN or infinite where the reference's are not.
    pub not_finite: usize,
}

impl Class {
    pub const ALL: [Class; 6] = [
        Class::Exact,
        Class::Close,
        Class::Half,
        Class::Brain,
        Class::Quant,
        Class::Int8,
    ];

    /// The class of arithmetic on activations of this type.
    pub fn of(activations: DType) -> Class {
        match activations {
            DType::F32 => Class::Close,
            DType::BF16 => Class::Brain,
            _ => Class::Half,
        }
    }

    /// What the class stands for, in a few words for people who read a report.
    pub fn meaning(self) -> &'static str {
        match self {
            Class::Exact => "values moved, not computed",
            Class::Close => "f32",
            Class::Half => "stored in f16, summed in f32",
            Class::Brain => "stored and multiplied in bf16, summed in f32",
            Class::Quant => "block-quantized weights, decoded to 16 bits or more",
            Class::Int8 => "activations rounded to 8 bits for weights that are integers",
        }
    }

    /// The largest NMSE that passes, and the largest error in root mean squares.
    ///
    /// The comments name the worst NMSE seen over all problems and ways to plan, on CPUs (plain,
    /// AVX2, AVX-512 with VNNI) and on lavapipe at every tier. The limits are a few times that. The
    /// largest error is that of a long softmax: one value of 64 root mean squares, rounded once.
    pub fn limits(self) -> (f64, f64) {
        match self {
            Class::Exact => (0.0, 0.0),
            // 1e-10: a timestep embedding with a GPU's sine; F(4×4, 3×3) Winograd has 3e-12.
            Class::Close => (1e-8, 2e-3),
            // 5e-7 in graphs of up to 20 ops, 2e-7 in one op. Products of 4096 terms have 8e-8
            // here, and 5e-6 or more where sums are rounded to f16: these must fail.
            Class::Half => (2e-6, 3e-2),
            // 9e-6: bf16 has three bits fewer than f16, so a rounding counts 64 times as much. With
            // AVX512-BF16 products, which also round weights and normalized values, it is the same.
            Class::Brain => (4e-5, 0.2),
            // 9e-8: one rounding of the decoded weights to f16, and one of the result.
            Class::Quant => (2e-6, 2e-2),
            // 7e-5 with VNNI; devices without integer dot products have what `Quant` has.
            Class::Int8 => (3e-4, 0.1),
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

    /// Takes the worse of the two differences in each respect.
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
