//! Hires: a second sampling pass over the upscaled latent.

use crate::args::{number, whole};
use crate::size::Size;
use clap::{Args, ValueEnum};
use std::str::FromStr;

#[derive(Debug, Args)]
#[command(next_help_heading = "Hires")]
pub(crate) struct HiresArgs {
    /// Upscale the latent and sample again: a factor such as 2x, or a size WxH
    #[arg(long, value_name = "2x|WxH")]
    pub(crate) hires: Option<HiresArg>,
    /// How the latent is upscaled, by ComfyUI's names
    #[arg(
        long,
        value_name = "METHOD",
        default_value = "nearest-exact",
        requires = "hires"
    )]
    pub(crate) hires_method: UpscaleArg,
    /// Steps of the second pass [default: --steps]
    #[arg(long, value_name = "N", requires = "hires", value_parser = whole::<u32>(1..=10_000))]
    pub(crate) hires_steps: Option<u32>,
    /// Denoising strength of the second pass, 0 to 1
    #[arg(long, value_name = "N", default_value_t = 0.5, requires = "hires", value_parser = number(0.0..=1.0))]
    pub(crate) hires_denoise: f64,
}

/// The size of the finished image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum HiresArg {
    Factor(f64),
    Size(Size),
}

impl FromStr for HiresArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<HiresArg, &'static str> {
        let number = text.strip_suffix(['x', 'X', '×']).unwrap_or(text);
        match number.trim().parse::<f64>() {
            Ok(factor) if (1.0..=8.0).contains(&factor) => Ok(HiresArg::Factor(factor)),
            _ => text.parse().map(HiresArg::Size).map_err(
                |_| "give a factor from 1x to 8x, such as 2x or 1.5x, or a size such as 1024x1024",
            ),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UpscaleArg {
    NearestExact,
    Bilinear,
    Area,
    Bicubic,
    Bislerp,
}

#[cfg(test)]
mod tests {
    use super::HiresArg;
    use crate::size::Size;

    #[test]
    fn a_factor_or_a_size() {
        assert_eq!("2x".parse(), Ok(HiresArg::Factor(2.0)));
        assert_eq!("1.5".parse(), Ok(HiresArg::Factor(1.5)));
        assert_eq!("2".parse(), Ok(HiresArg::Factor(2.0)));
        let size = Size {
            width: 1024,
            height: 768,
        };
        assert_eq!("1024x768".parse(), Ok(HiresArg::Size(size)));
        for wrong in ["0.5x", "9x", "x", "", "NaN", "-2x"] {
            assert!(wrong.parse::<HiresArg>().is_err(), "{wrong}");
        }
    }
}
