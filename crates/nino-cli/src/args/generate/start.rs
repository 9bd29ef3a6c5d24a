//! What sampling starts from: an image, a mask, a larger canvas, a latent.

use crate::args::whole;
use crate::size::Size;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Args)]
#[command(next_help_heading = "Input images")]
pub(crate) struct StartArgs {
    /// Input image (img2img); --strength sets how much of it changes
    #[arg(long, alias = "init-img", value_name = "FILE")]
    pub(crate) image: Option<PathBuf>,
    /// Reference image for an editing model: Flux.2, Qwen-Image-Edit, Flux.1 Kontext, Krea 2 with a
    /// LoRA for it; may be repeated. Images of more than 1024x1024 pixels are scaled down
    #[arg(long, value_name = "FILE")]
    pub(crate) reference: Vec<PathBuf>,
    /// Inpaint only where this image is white; `alpha` inpaints where --image is transparent
    #[arg(long, value_name = "FILE", requires = "from")]
    pub(crate) mask: Option<PathBuf>,
    /// What sampling starts from under the mask [default: gray with --outpaint, else keep]
    #[arg(long, value_name = "WHAT", requires = "masked")]
    pub(crate) mask_fill: Option<FillArg>,
    /// Grow the mask by this many pixels [default: 6 with gray, else 0]
    #[arg(long, value_name = "PIXELS", requires = "masked", value_parser = whole::<u16>(0..=65_535))]
    pub(crate) mask_grow: Option<u16>,
    /// Soften the mask's border over this many pixels [default: 0]
    #[arg(long, value_name = "PIXELS", requires = "masked", value_parser = whole::<u16>(0..=65_535))]
    pub(crate) mask_feather: Option<u16>,
    /// Copy the original pixels back outside the mask, because the VAE is lossy
    #[arg(long, requires = "masked")]
    pub(crate) paste: bool,
    /// Outpaint: pixels to add as LEFT,TOP,RIGHT,BOTTOM, or the size WxH of a canvas to center the
    /// image in
    #[arg(
        long,
        value_name = "SIDES|WxH",
        requires = "image",
        conflicts_with = "mask"
    )]
    pub(crate) outpaint: Option<OutpaintArg>,
    /// With --outpaint: also repaint this many pixels of the image's border
    #[arg(
        long,
        value_name = "PIXELS",
        default_value_t = 40,
        requires = "outpaint",
        value_parser = whole::<u16>(0..=65_535)
    )]
    pub(crate) outpaint_feather: u16,
    /// Latent to start from, written by --save-latent or ComfyUI's SaveLatent
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    pub(crate) latent: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FillArg {
    /// The image, as ComfyUI's VAEEncode and SetLatentNoiseMask
    Keep,
    /// Gray, as ComfyUI's VAEEncodeForInpaint
    Gray,
}

/// How far to outpaint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutpaintArg {
    Sides([usize; 4]),
    Canvas(Size),
}

impl FromStr for OutpaintArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<OutpaintArg, &'static str> {
        if let (true, Ok(size)) = (text.contains(['x', 'X', '×']), text.parse()) {
            return Ok(OutpaintArg::Canvas(size));
        }
        let sides: Option<Vec<usize>> = text.split(',').map(|n| n.trim().parse().ok()).collect();
        match sides.as_deref() {
            Some(&[left, top, right, bottom])
                if [left, top, right, bottom].iter().all(|&n| n <= 16_384) =>
            {
                Ok(OutpaintArg::Sides([left, top, right, bottom]))
            }
            _ => Err(
                "give pixels as LEFT,TOP,RIGHT,BOTTOM, such as 128,0,128,0, or a size such as 768x512",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OutpaintArg;
    use crate::size::Size;

    #[test]
    fn sides_or_a_size() {
        assert_eq!("8, 0,16,24".parse(), Ok(OutpaintArg::Sides([8, 0, 16, 24])));
        let size = Size {
            width: 768,
            height: 512,
        };
        assert_eq!("768x512".parse(), Ok(OutpaintArg::Canvas(size)));
        for wrong in ["8", "1,2,3", "1,2,3,-4", "1,2,3,99999", ""] {
            assert!(wrong.parse::<OutpaintArg>().is_err(), "{wrong}");
        }
    }
}
