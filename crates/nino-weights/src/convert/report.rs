//! What a conversion did: sizes and errors, as measured on the values written.

use std::collections::BTreeMap;

use nino_dtype::DType;
use serde::{Serialize, Serializer};

/// Sums over one tensor or many.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) values: u64,
    pub(super) error: f64,
    pub(super) energy: f64,
    pub(super) max: f32,
    pub(super) not_finite: u64,
}

impl Sums {
    pub(super) fn measure(values: &[f32], written: &[f32]) -> Sums {
        let mut sums = Sums {
            values: values.len() as u64,
            ..Sums::default()
        };
        for (v, w) in values.chunks(4096).zip(written.chunks(4096)) {
            let (mut error, mut energy, mut max) = (0.0f32, 0.0f32, 0.0f32);
            for (&v, &w) in v.iter().zip(w) {
                let d = v - w;
                error += d * d;
                energy += v * v;
                max = max.max(d.abs());
            }
            if error.is_finite() && energy.is_finite() {
                sums.error += f64::from(error);
                sums.energy += f64::from(energy);
                sums.max = sums.max.max(max);
            } else {
                sums.add_careful(v, w);
            }
        }
        sums
    }

    /// For the rare runs with values that are not finite, or whose squares are not.
    fn add_careful(&mut self, v: &[f32], w: &[f32]) {
        for (&v, &w) in v.iter().zip(w) {
            if !v.is_finite() {
                self.not_finite += 1;
                continue;
            }
            let d = f64::from(v) - f64::from(w);
            self.error += d * d;
            self.energy += f64::from(v) * f64::from(v);
            self.max = self.max.max(d.abs() as f32);
        }
    }

    pub(super) fn add(&mut self, other: &Sums) {
        self.values += other.values;
        self.error += other.error;
        self.energy += other.energy;
        self.max = self.max.max(other.max);
        self.not_finite += other.not_finite;
    }

    fn rmse(&self) -> f64 {
        (self.error / self.values.max(1) as f64).sqrt()
    }

    /// Error as a share of the values' own size.
    fn relative(&self) -> f64 {
        if self.energy > 0.0 {
            (self.error / self.energy).sqrt()
        } else {
            0.0
        }
    }
}

/// One encoding of the written file.
#[derive(Clone, Debug, Serialize)]
pub struct Encoding {
    #[serde(serialize_with = "name")]
    pub dtype: DType,
    pub tensors: u64,
    pub values: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub rmse: f64,
    /// RMSE over the root mean square of the values.
    pub relative_rmse: f64,
    pub max_error: f32,
    pub worst: Option<TensorError>,
}

#[derive(Clone, Debug, Serialize)]
pub struct TensorError {
    pub tensor: String,
    pub rmse: f64,
    pub relative_rmse: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Fallback {
    pub tensor: String,
    pub shape: Vec<usize>,
    #[serde(serialize_with = "name")]
    pub wanted: DType,
    #[serde(serialize_with = "name")]
    pub written: DType,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub file_bytes_before: u64,
    pub file_bytes_after: u64,
    /// Most bytes first.
    pub encodings: Vec<Encoding>,
    /// Tensors whose rows are not whole blocks of the wanted type.
    pub fallbacks: Vec<Fallback>,
    /// Values that were NaN or infinite in the source.
    pub not_finite: u64,
}

/// Collects sums per tensor into the report.
#[derive(Default)]
pub(super) struct Collector {
    by_dtype: BTreeMap<DType, (Counts, Sums)>,
    pub(super) fallbacks: Vec<Fallback>,
    not_finite: u64,
}

#[derive(Default)]
struct Counts {
    tensors: u64,
    values: u64,
    before: u64,
    after: u64,
    worst: Option<TensorError>,
}

impl Collector {
    pub(super) fn add(
        &mut self,
        tensor: &str,
        dtype: DType,
        before: u64,
        after: u64,
        n: u64,
        sums: &Sums,
    ) {
        let (counts, total) = self.by_dtype.entry(dtype).or_default();
        counts.tensors += 1;
        counts.values += n;
        counts.before += before;
        counts.after += after;
        total.add(sums);
        self.not_finite += sums.not_finite;
        let relative = sums.relative();
        if sums.error > 0.0
            && counts
                .worst
                .as_ref()
                .is_none_or(|w| relative > w.relative_rmse)
        {
            let (tensor, rmse) = (tensor.to_owned(), sums.rmse());
            counts.worst = Some(TensorError {
                tensor,
                rmse,
                relative_rmse: relative,
            });
        }
    }

    pub(super) fn finish(self, file_bytes_before: u64, file_bytes_after: u64) -> Report {
        let Collector {
            by_dtype,
            fallbacks,
            not_finite,
        } = self;
        let mut encodings: Vec<Encoding> = by_dtype
            .into_iter()
            .map(|(dtype, (counts, sums))| Encoding {
                dtype,
                tensors: counts.tensors,
                values: counts.values,
                bytes_before: counts.before,
                bytes_after: counts.after,
                rmse: sums.rmse(),
                relative_rmse: sums.relative(),
                max_error: sums.max,
                worst: counts.worst,
            })
            .collect();
        encodings.sort_by_key(|e| std::cmp::Reverse(e.bytes_after));
        Report {
            file_bytes_before,
            file_bytes_after,
            encodings,
            fallbacks,
            not_finite,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde calls
fn name<S: Serializer>(dtype: &DType, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(dtype.name())
}
