//! Pictures, masks and latents from the command line, brought to the size of the request.

use super::request::rounded;
use crate::args::{FillArg, OutpaintArg, StartArgs};
use crate::env::Env;
use crate::failure::Usage;
use crate::printer;
use crate::size::Size;
use anyhow::Result;
use nino_engine::media::{Limits, load_mask, load_with_alpha};
use nino_engine::{
    Checkpoint, Family, Fill, GenerateRequest, Image, Inpaint, Latent, Mask, Picture, Sides, Start,
    outpaint,
};
use std::path::Path;

/// What a request is made with beside its flags.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) model: &'a Checkpoint,
    pub(super) env: &'a Env,
    /// Of pictures and masks.
    pub(super) limits: &'a Limits,
}

/// Fills in what the request starts from, its mask, and its size where `--size` did not say.
pub(super) fn start(
    args: &StartArgs,
    size: Option<Size>,
    context: Context<'_>,
    request: &mut GenerateRequest,
) -> Result<()> {
    for path in &args.reference {
        request.references.push(reference(path, context)?);
    }
    if let Some(path) = &args.latent {
        return latent(args, path, size, context, request);
    }
    let Some(path) = &args.image else {
        return Ok(());
    };
    let path = &context.env.library().find_input(path);
    let (mut picture, alpha) = load_with_alpha(path, context.limits)?;
    let mut mask = match &args.mask {
        Some(word) if word.as_os_str() == "alpha" && !word.exists() => {
            Some(alpha.ok_or_else(|| no_alpha(path))?)
        }
        Some(file) => {
            let size = Size {
                width: picture.width,
                height: picture.height,
            };
            Some(mask_for(file, context, size)?)
        }
        None => None,
    };
    let (width, height) = match size {
        Some(size) => (rounded("width", size.width), rounded("height", size.height)),
        None => whole_squares(&picture, path)?,
    };
    if size.is_some() {
        picture = picture.fitted(width, height);
        mask = mask.map(|m| m.fitted(width, height));
    } else {
        // The middle, as ComfyUI's VAEEncode cuts.
        let at = ((picture.width - width) / 2, (picture.height - height) / 2);
        picture = picture.cropped(at, width, height);
        mask = mask.map(|m| m.cropped(at, width, height));
    }
    if let Some(how) = args.outpaint {
        let add = sides(how, &picture)?;
        let (padded, border) = outpaint(&picture, add, usize::from(args.outpaint_feather));
        (picture, mask) = (padded, Some(border));
    }
    (request.width, request.height) = (picture.width, picture.height);
    request.start = Start::Picture(picture);
    request.inpaint = mask.map(|mask| inpaint(args, mask));
    Ok(())
}

/// A picture to look at, as large as the models were trained with and of whole latent pixels.
fn reference(path: &Path, context: Context<'_>) -> Result<Picture> {
    let path = &context.env.library().find_input(path);
    let (picture, _) = load_with_alpha(path, context.limits)?;
    if matches!(context.model.family(), Family::QwenImage | Family::Krea2) {
        // It was trained on pictures of this many pixels, also where they were smaller.
        let seen = Image::from(&picture).of_pixels(REFERENCE_PIXELS as usize, 8);
        return Ok(picture.fitted(seen.width, seen.height));
    }
    let (width, height) = reference_size(&picture, context.model.scale());
    Ok(picture.fitted(width, height))
}

/// At most so many pixels of a picture to look at.
const REFERENCE_PIXELS: f64 = 1024.0 * 1024.0;

fn reference_size(picture: &Picture, multiple: usize) -> (usize, usize) {
    let pixels = (picture.width * picture.height) as f64;
    let shrunk = (REFERENCE_PIXELS / pixels.max(1.0)).sqrt().min(1.0);
    let side = |pixels: usize| {
        let whole = (pixels as f64 * shrunk).round() as usize / multiple * multiple;
        whole.max(multiple)
    };
    (side(picture.width), side(picture.height))
}

fn latent(
    args: &StartArgs,
    path: &Path,
    size: Option<Size>,
    context: Context<'_>,
    request: &mut GenerateRequest,
) -> Result<()> {
    let path = &context.env.library().find_input(path);
    let latent = if request.add_noise {
        Latent::open(path)?
    } else {
        Latent::open_noisy(path)?
    };
    let scale = context.model.scale();
    let (width, height) = (latent.width * scale, latent.height * scale);
    if let Some(size) = size
        && (size.width, size.height) != (width, height)
    {
        return Err(Usage(format!(
            "{} is a latent for {width}x{height}, not {size}",
            path.display()
        ))
        .into());
    }
    if request.batch == 1 {
        request.batch = latent.batch;
    }
    if let Some(file) = &args.mask {
        if file.as_os_str() == "alpha" && !file.exists() {
            return Err(
                Usage("a latent has no transparency: give --mask a file".to_owned()).into(),
            );
        }
        let mask = mask_for(file, context, Size { width, height })?;
        request.inpaint = Some(inpaint(args, mask));
    }
    (request.width, request.height) = (width, height);
    request.start = Start::Latent(latent);
    Ok(())
}

fn inpaint(args: &StartArgs, mask: Mask) -> Inpaint {
    let fill = match args.mask_fill {
        Some(FillArg::Gray) => Fill::Gray,
        None if args.outpaint.is_some() => Fill::Gray,
        Some(FillArg::Keep) | None => Fill::Keep,
    };
    // Gray that shows through at the border is worse than a border repainted.
    let grow = if fill == Fill::Gray && args.outpaint.is_none() {
        6
    } else {
        0
    };
    Inpaint {
        mask,
        fill,
        grow: args.mask_grow.map_or(grow, usize::from),
        feather: args.mask_feather.map_or(0, usize::from),
        paste: args.paste,
    }
}

/// A mask of another size is stretched, of another shape refused.
fn mask_for(file: &Path, context: Context<'_>, size: Size) -> Result<Mask> {
    let file = &context.env.library().find_input(file);
    let Size { width, height } = size;
    let mask = load_mask(file, context.limits)?;
    if mask.is_empty() {
        printer::note(&format!(
            "{} is all black, so nothing will be inpainted",
            file.display()
        ));
    }
    let (a, b) = (mask.width * height, mask.height * width);
    if a.abs_diff(b) * 50 > a.max(b) {
        return Err(Usage(format!(
            "{} is a mask of {}x{} for an image of {width}x{height}: their aspect ratios differ",
            file.display(),
            mask.width,
            mask.height
        ))
        .into());
    }
    Ok(mask.resized(width, height))
}

fn no_alpha(path: &Path) -> Usage {
    Usage(format!(
        "{} has no transparency to use as a mask; give --mask a file that is white where to \
         inpaint",
        path.display()
    ))
}

/// The size of the largest whole number of squares of 8 pixels.
fn whole_squares(picture: &Picture, path: &Path) -> Result<(usize, usize), Usage> {
    let (width, height) = (picture.width / 8 * 8, picture.height / 8 * 8);
    if width == 0 || height == 0 {
        return Err(Usage(format!(
            "{} is {}x{}; an input image needs at least 8x8 pixels",
            path.display(),
            picture.width,
            picture.height
        )));
    }
    if (width, height) != (picture.width, picture.height) {
        printer::note(&format!(
            "{} is cropped from {}x{} to {width}x{height}, multiples of 8; --size resizes it \
             instead",
            path.display(),
            picture.width,
            picture.height
        ));
    }
    Ok((width, height))
}

/// Pixels to add, so that the canvas is made of squares of 8.
fn sides(how: OutpaintArg, picture: &Picture) -> Result<Sides, Usage> {
    let eights = |what: &str, n: usize| if n == 0 { 0 } else { rounded(what, n) };
    let sides = match how {
        OutpaintArg::Sides([left, top, right, bottom]) => Sides {
            left: eights("left border", left),
            top: eights("top border", top),
            right: eights("right border", right),
            bottom: eights("bottom border", bottom),
        },
        OutpaintArg::Canvas(size) => {
            let (width, height) = (eights("width", size.width), eights("height", size.height));
            let (Some(across), Some(down)) = (
                width.checked_sub(picture.width),
                height.checked_sub(picture.height),
            ) else {
                return Err(Usage(format!(
                    "a canvas of {size} is smaller than the image of {}x{}",
                    picture.width, picture.height
                )));
            };
            Sides {
                left: across / 2,
                top: down / 2,
                right: across - across / 2,
                bottom: down - down / 2,
            }
        }
    };
    if sides == Sides::default() {
        return Err(Usage("--outpaint adds nothing to this image".to_owned()));
    }
    Ok(sides)
}
