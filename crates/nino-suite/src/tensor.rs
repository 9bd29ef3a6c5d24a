//! Values in f64 with a shape, on which the reference computes.

use crate::Rng;
use nino_dtype::{CodecError, DType};
use nino_graph::Shape;

#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub shape: Shape,
    pub values: Vec<f64>,
}

impl Tensor {
    pub fn new(shape: impl Into<Shape>, values: Vec<f64>) -> Tensor {
        let shape = shape.into();
        assert_eq!(
            shape.numel(),
            values.len(),
            "values of a tensor of shape {shape}"
        );
        Tensor { shape, values }
    }

    pub fn zeros(shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        Tensor {
            shape,
            values: vec![0.0; shape.numel()],
        }
    }

    /// Makes a tensor of normal values.
    pub fn normal(shape: impl Into<Shape>, mean: f64, sd: f64, rng: &mut Rng) -> Tensor {
        let shape = shape.into();
        Tensor {
            shape,
            values: (0..shape.numel())
                .map(|_| mean + sd * rng.normal())
                .collect(),
        }
    }

    /// Encodes the values in a storage type.
    pub fn encode(&self, dtype: DType) -> Result<Vec<u8>, CodecError> {
        if dtype == DType::I32 {
            return Ok(self
                .values
                .iter()
                .flat_map(|&v| (v as i32).to_le_bytes())
                .collect());
        }
        let values: Vec<f32> = self.values.iter().map(|&v| v as f32).collect();
        let mut bytes = vec![0; dtype.bytes_for(values.len()).unwrap_or(0)];
        nino_dtype::encode(dtype, &values, &mut bytes)?;
        Ok(bytes)
    }

    /// Decodes values from the bytes of a storage type.
    pub fn decode(dtype: DType, shape: Shape, bytes: &[u8]) -> Result<Tensor, CodecError> {
        if dtype == DType::I32 {
            let ints = bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|&b| i32::from_le_bytes(b).into());
            return Ok(Tensor::new(shape, ints.collect()));
        }
        let mut values = vec![0.0f32; shape.numel()];
        nino_dtype::decode(dtype, bytes, &mut values)?;
        Ok(Tensor {
            shape,
            values: values.into_iter().map(f64::from).collect(),
        })
    }

    /// Gives the value at a multi-index.
    pub fn at(&self, index: &[usize]) -> f64 {
        let strides = self.shape.strides();
        self.values[index
            .iter()
            .zip(strides.iter())
            .map(|(i, s)| i * s)
            .sum::<usize>()]
    }

    /// Gives row `r` of the last dimension.
    pub fn row(&self, r: usize) -> &[f64] {
        let d = self.shape.last_dim();
        &self.values[r * d..(r + 1) * d]
    }
}
