//! Times candle on the CPU: a step of SD 1.5 (512², batch 2) and a decode of 512² with its VAE.
//! Weights are random: the speed of a dense network does not depend on their values.
//!
//! `RUSTFLAGS="-C target-cpu=native" RAYON_NUM_THREADS=2 cargo run --release -- f32|f16|bf16 RUNS`
//!
//! Prints one line of JSON for each network: its times in milliseconds after an untimed run.

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{VarBuilder, VarMap};
use candle_transformers::models::stable_diffusion::unet_2d::{
    BlockConfig, UNet2DConditionModel, UNet2DConditionModelConfig,
};
use candle_transformers::models::stable_diffusion::vae::{AutoEncoderKL, AutoEncoderKLConfig};
use std::time::Instant;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dtype = match args.next().as_deref() {
        Some("f16") => DType::F16,
        Some("bf16") => DType::BF16,
        _ => DType::F32,
    };
    let runs = args.next().and_then(|n| n.parse().ok()).unwrap_or(3);
    step(dtype, runs)?;
    decode(dtype, runs)
}

fn step(dtype: DType, runs: usize) -> Result<()> {
    let block = |out_channels, use_cross_attn| BlockConfig {
        out_channels,
        use_cross_attn,
        attention_head_dim: 8,
    };
    let config = UNet2DConditionModelConfig {
        blocks: vec![
            block(320, Some(1)),
            block(640, Some(1)),
            block(1280, Some(1)),
            block(1280, None),
        ],
        cross_attention_dim: 768,
        ..UNet2DConditionModelConfig::default()
    };
    let weights = VarMap::new();
    let network = UNet2DConditionModel::new(random(&weights, dtype), 4, 4, false, config)?;
    let x = Tensor::randn(0f32, 1., (2, 4, 64, 64), &Device::Cpu)?.to_dtype(dtype)?;
    let prompt = Tensor::randn(0f32, 1., (2, 77, 768), &Device::Cpu)?.to_dtype(dtype)?;
    report("step", runs, || network.forward(&x, 500., &prompt))
}

fn decode(dtype: DType, runs: usize) -> Result<()> {
    let config = AutoEncoderKLConfig {
        block_out_channels: vec![128, 256, 512, 512],
        layers_per_block: 2,
        latent_channels: 4,
        norm_num_groups: 32,
        use_quant_conv: true,
        use_post_quant_conv: true,
    };
    let weights = VarMap::new();
    let network = AutoEncoderKL::new(random(&weights, dtype), 3, 3, config)?;
    let x = Tensor::randn(0f32, 1., (1, 4, 64, 64), &Device::Cpu)?.to_dtype(dtype)?;
    report("decode", runs, || network.decode(&x))
}

fn random(weights: &VarMap, dtype: DType) -> VarBuilder<'static> {
    VarBuilder::from_varmap(weights, dtype, &Device::Cpu)
}

fn report(what: &str, runs: usize, run: impl Fn() -> Result<Tensor>) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..=runs {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    println!("{{\"what\": \"{what}\", \"times\": {:?}}}", &times[1..]);
    Ok(())
}
