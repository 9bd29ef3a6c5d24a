//! `decode` and `encode`: whole runs of values between a storage type and f32.

mod decode;
mod encode;
mod int8;
#[cfg(test)]
mod tests;

pub use int8::{Int8Groups, decode_int8, int8_group, int8_has_offset};

use crate::DType;
use crate::simd::Level;

/// Why a run of values could not be decoded or encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error("{dtype}: {values} values take {expected} bytes, found {found}")]
    Length {
        dtype: DType,
        values: usize,
        expected: usize,
        found: usize,
    },
    #[error("{dtype}: {values} values are not whole blocks of {block_len}")]
    PartialBlock {
        dtype: DType,
        values: usize,
        block_len: usize,
    },
    #[error("{dtype}: {values} values have {groups:?} scales and offsets, found {found:?}")]
    Int8Groups {
        dtype: DType,
        values: usize,
        groups: Option<usize>,
        found: [usize; 2],
    },
    #[error("{dtype} can be read but not written")]
    NoEncoder { dtype: DType },
}

/// Decodes `bytes` to `out`, which sets the number of values. Any bytes decode: a NaN scale gives
/// NaN values. Integers convert to the nearest f32 and a bool is 1 for any byte but 0.
pub fn decode(dtype: DType, bytes: &[u8], out: &mut [f32]) -> Result<(), CodecError> {
    check_length(dtype, out.len(), bytes.len())?;
    decode::decode(Level::detect(), dtype, bytes, out);
    Ok(())
}

/// Encodes `values` into `out`. The result is the same on every machine.
///
/// Plain float types round to nearest even (`fp8` says what overflow does). Block types search for
/// scales that lower the squared error; they have no way to hold a value that is not finite, so a
/// NaN is taken as 0, and an infinity or a value beyond the type's range as the end of that range.
pub fn encode(dtype: DType, values: &[f32], out: &mut [u8]) -> Result<(), CodecError> {
    if !has_encoder(dtype) {
        return Err(CodecError::NoEncoder { dtype });
    }
    check_length(dtype, values.len(), out.len())?;
    encode::encode(Level::detect(), dtype, values, out);
    Ok(())
}

/// Whether `encode` can write this type.
pub const fn has_encoder(dtype: DType) -> bool {
    !matches!(
        dtype,
        DType::IQ4_NL | DType::IQ4_XS | DType::NVFP4 | DType::MXFP8 | DType::NF4
    ) && dtype.is_real()
}

fn check_length(dtype: DType, values: usize, found: usize) -> Result<(), CodecError> {
    let block_len = dtype.block_len();
    let Some(expected) = dtype.bytes_for(values) else {
        return Err(CodecError::PartialBlock {
            dtype,
            values,
            block_len,
        });
    };
    if expected != found {
        return Err(CodecError::Length {
            dtype,
            values,
            expected,
            found,
        });
    }
    Ok(())
}
