//! Encodes f32 values from standard input to standard output: `codec_pipe q4_k < in > out`.
//! `goldens/dtype/compare.py` measures our encoders against ggml's through it.

use nino_dtype::{DType, encode};
use std::io::{Read, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dtype: DType = std::env::args().nth(1).unwrap_or_default().parse()?;
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input)?;
    let values: Vec<f32> = input
        .as_chunks()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    let mut out = vec![0; dtype.bytes_for(values.len()).ok_or("not whole blocks")?];
    encode(dtype, &values, &mut out)?;
    std::io::stdout().write_all(&out)?;
    Ok(())
}
