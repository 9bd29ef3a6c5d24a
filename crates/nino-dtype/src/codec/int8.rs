//! Block types as 8-bit integers, for kernels that multiply int8: a value is `scale * q + offset`
//! with one scale and one offset for each group of values.
//!
//! `decode` gives the same numbers to the bit.

use super::{CodecError, check_length};
use crate::DType;
use crate::block;
use crate::simd::{self, Kernel, Level};

/// Where integers go, and the scale and offset of each group of them.
pub struct Int8Groups<'a> {
    pub values: &'a mut [i8],
    pub scales: &'a mut [f32],
    pub offsets: &'a mut [f32],
}

/// Values that share a scale, for types whose values are integers of 8 bits or fewer times a scale.
pub const fn int8_group(dtype: DType) -> Option<usize> {
    match dtype {
        DType::Q4_0
        | DType::Q4_1
        | DType::Q5_0
        | DType::Q5_1
        | DType::Q8_0
        | DType::Q4_K
        | DType::Q5_K
        | DType::IQ4_NL
        | DType::IQ4_XS => Some(32),
        DType::Q2_K | DType::Q3_K | DType::Q6_K => Some(16),
        _ => None,
    }
}

/// Whether groups of this type have an offset other than 0.
pub const fn int8_has_offset(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::Q4_1 | DType::Q5_1 | DType::Q2_K | DType::Q4_K | DType::Q5_K
    )
}

macro_rules! integers {
    ($level:ident, $bytes:ident, $out:ident, $integers:path) => {{
        struct Integers<'a>(&'a [u8], Int8Groups<'a>);
        impl Kernel for Integers<'_> {
            #[inline(always)]
            fn run(self) {
                let out = self.1;
                let scales = out.scales.as_chunks_mut().0.iter_mut();
                let groups = scales.zip(out.offsets.as_chunks_mut().0);
                let values = out.values.as_chunks_mut().0.iter_mut();
                for ((block, values), (scales, offsets)) in
                    self.0.as_chunks().0.iter().zip(values).zip(groups)
                {
                    $integers(block, values, scales, offsets);
                }
            }
        }
        simd::run($level, Integers($bytes, $out))
    }};
}

/// Decodes `bytes` to integers, whose number `out.values` sets. A type without a group, as
/// [`int8_group`] tells, is an error, and so are lengths that do not belong together.
pub fn decode_int8(dtype: DType, bytes: &[u8], out: Int8Groups<'_>) -> Result<(), CodecError> {
    let n = out.values.len();
    check_length(dtype, n, bytes.len())?;
    let groups = int8_group(dtype).map(|group| n / group);
    if groups != Some(out.scales.len()) || groups != Some(out.offsets.len()) {
        return Err(CodecError::Int8Groups {
            dtype,
            values: n,
            groups,
            found: [out.scales.len(), out.offsets.len()],
        });
    }
    run(Level::detect(), dtype, bytes, out);
    Ok(())
}

pub(super) fn run(level: Level, dtype: DType, bytes: &[u8], out: Int8Groups<'_>) {
    match dtype {
        DType::Q4_0 => integers!(level, bytes, out, block::q4_0),
        DType::Q4_1 => integers!(level, bytes, out, block::q4_1),
        DType::Q5_0 => integers!(level, bytes, out, block::q5_0),
        DType::Q5_1 => integers!(level, bytes, out, block::q5_1),
        DType::Q8_0 => integers!(level, bytes, out, block::q8_0),
        DType::Q2_K => integers!(level, bytes, out, block::q2_k),
        DType::Q3_K => integers!(level, bytes, out, block::q3_k),
        DType::Q4_K => integers!(level, bytes, out, block::q4_k),
        DType::Q5_K => integers!(level, bytes, out, block::q5_k),
        DType::Q6_K => integers!(level, bytes, out, block::q6_k),
        DType::IQ4_NL => integers!(level, bytes, out, block::iq4_nl),
        DType::IQ4_XS => integers!(level, bytes, out, block::iq4_xs),
        _ => {}
    }
}
