//! Prints the speed of every codec on one core, in GB/s of f32 values:
//! `cargo run --release -p nino-dtype --example codec_speed [values] [runs] [dtype]`. Median of the
//! runs.
#![allow(clippy::print_stdout)]

use nino_dtype::{DType, decode, encode, has_encoder};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let n = args.next().map_or(Ok(1 << 18), |s| s.parse())?;
    let runs = args.next().map_or(Ok(21), |s| s.parse())?;
    let only: Option<DType> = args.next().map(|s| s.parse()).transpose()?;
    let values = gaussian(n);
    println!(
        "{:>8}  decode  encode   (GB/s of f32, {n} values, median of {runs})",
        ""
    );
    for dtype in DType::ALL
        .into_iter()
        .filter(|d| only.is_none_or(|o| o == *d))
    {
        let Some(len) = dtype.bytes_for(n) else {
            continue;
        };
        // f16 one in every pair of bytes: any bytes decode, and no scale is subnormal or NaN.
        let mut bytes: Vec<u8> = [0x3c_u8].repeat(len);
        let mut out = vec![0.0; n];
        let encoding = if has_encoder(dtype) {
            let s = median(runs, || encode(dtype, &values, &mut bytes).is_ok());
            format!("{:7.2}", n as f64 * 4e-9 / s)
        } else {
            "      -".to_owned()
        };
        let s = median(runs, || decode(dtype, &bytes, &mut out).is_ok());
        println!("{dtype:>8} {:7.2} {encoding}", n as f64 * 4e-9 / s);
    }
    Ok(())
}

fn median(runs: usize, mut work: impl FnMut() -> bool) -> f64 {
    let mut seconds: Vec<f64> = (0..=runs)
        .map(|_| {
            let start = Instant::now();
            assert!(work());
            start.elapsed().as_secs_f64()
        })
        .skip(1)
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[runs / 2]
}

/// Sums of twelve uniform numbers from a linear congruence.
fn gaussian(n: usize) -> Vec<f32> {
    let mut state = 1u64;
    let mut uniform = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u32 << 24) as f32
    };
    (0..n)
        .map(|_| (0..12).map(|_| uniform()).sum::<f32>() - 6.0)
        .collect()
}
