//! Attention of bf16 values on matrix units that take f16 alone: queries, keys and values are
//! written as f16, each of the three times one power of two (`half_peak.wgsl`, `half_all.wgsl`).

use nino_dtype::DType;
use nino_graph::HalvedHeads;

use super::Heads;
use crate::kernel::{Launch, View, dtype_code, grid};
use crate::shader::KernelKey;
use crate::{Caps, GpuError};

/// Eights of values that a lane writes.
const EACH: u64 = 4;

/// The operands in scratch, of which parts are at hand as before, and what writes them there.
pub(crate) fn of<'a>(
    caps: &Caps,
    stored: [View<'a>; 3],
    scratch: View<'a>,
    sizes: HalvedHeads,
) -> Result<(Heads<'a>, Vec<Launch<'a>>), GpuError> {
    let starts = sizes.starts().map(|start| start as u64);
    let factors_at = starts[3];
    let region = (HalvedHeads::FACTORS * size_of::<f32>()) as u64;
    let mut qkv = stored;
    let (mut peaks, mut others) = (Vec::new(), Vec::new());
    for (i, view) in qkv.iter_mut().enumerate() {
        let from = stored[i];
        *view = View {
            buffer: scratch.buffer,
            offset: scratch.offset + starts[i],
            dtype: DType::F16,
            ..from
        };
        let factors = View {
            dtype: DType::F32,
            offset: scratch.offset + factors_at + i as u64 * region,
            bytes: region,
            ..scratch
        };
        peaks.push(peak(caps, from, factors)?);
        others.push(write(caps, from, *view, factors)?);
    }
    peaks.extend(others);
    let factors = View {
        dtype: DType::F32,
        offset: scratch.offset + factors_at,
        bytes: 3 * region,
        ..scratch
    };
    let heads = Heads {
        qkv,
        factors: Some(factors),
    };
    Ok((heads, peaks))
}

fn key(file: &'static str, from: &View<'_>) -> Result<KernelKey, GpuError> {
    let code = dtype_code(from.dtype).ok_or_else(|| GpuError::Unsupported {
        op: file.to_owned(),
        why: format!("storage type {}", from.dtype),
    })?;
    Ok(KernelKey::new(file)
        .with("XT", code)
        .with("PARTS", HalvedHeads::PARTS as i64))
}

/// Eights of a view's values, and its first one, since only these are bound.
fn part(caps: &Caps, view: &View<'_>) -> (u64, u32) {
    let eights = view.bytes / view.dtype.block_bytes() as u64 / 8;
    (eights, caps.base(view).wrapping_add(view.first as u32))
}

fn peak<'a>(caps: &Caps, from: View<'a>, factors: View<'a>) -> Result<Launch<'a>, GpuError> {
    let (eights, first) = part(caps, &from);
    Ok(Launch {
        kernel: key("half_peak", &from)?.into(),
        views: vec![factors, from],
        writes: 1,
        params: vec![eights as u32, first, caps.base(&factors)],
        groups: [HalvedHeads::PARTS as u32, 1, 1],
    })
}

fn write<'a>(
    caps: &Caps,
    from: View<'a>,
    to: View<'a>,
    factors: View<'a>,
) -> Result<Launch<'a>, GpuError> {
    let ((eights, first), (_, place)) = (part(caps, &from), part(caps, &to));
    Ok(Launch {
        kernel: key("half_all", &from)?.with("EACH", EACH as i64).into(),
        views: vec![to, factors, from],
        writes: 2,
        params: vec![eights as u32, place, first, caps.base(&factors)],
        groups: grid(eights.div_ceil(EACH * HalvedHeads::PARTS as u64)),
    })
}
