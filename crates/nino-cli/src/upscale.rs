//! `nino upscale`: a picture made larger by a network.

mod report;

use crate::args::{UpscaleArgs, UpscaleHowArgs};
use crate::decode::{PER_PART, picture_limits, precision_of, show};
use crate::device::{self, Choice};
use crate::env::Env;
use crate::failure::{Usage, UsageWithHint};
use crate::generate::model::file_of;
use crate::interrupt;
use crate::naming::{is_folder, make_folder_of, unused};
use crate::overwrite::Guard;
use crate::printer::{self, Printer};
use crate::settings::Settings;
use crate::stdout;
use anyhow::Result;
use nino_engine::media::{
    Limits, PictureOptions, can_write_picture, has_room, load_with_alpha, read_text, resize_smooth,
    write_picture_with,
};
use nino_engine::{Control, Event, Image, ModelKind, Store, UpscaleModel, UpscaleOptions};
use report::Report;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Texts of a picture that tell how it was made.
const KEPT: [&str; 4] = ["nino", "prompt", "parameters", "workflow"];

pub(crate) fn run(args: &UpscaleArgs, env: &Env, printer: Printer) -> Result<()> {
    let started = Instant::now();
    let choice = Choice::with_profile(&args.how.device, &args.how.profile, env)?;
    let options = options(&args.how, &choice.settings)?;
    let limits = picture_limits(choice.device.budget);
    let model = model(&args.how, env)?;
    let (picture, alpha) = load_with_alpha(&args.picture, &limits)?;
    if alpha.is_some_and(|mask| mask.values.iter().any(|&clear| clear > 0.0)) {
        printer::note("the image's transparency is not kept");
    }
    let text = if args.no_metadata {
        Vec::new()
    } else {
        kept_text(&args.picture, &limits)
    };
    let image = Image::from(&picture);
    drop(picture);
    let size = result_size(&image, &model, args.how.scale);
    let output = output(args, size.0 as f64 / image.width as f64, printer)?;
    if !stdout::is_meant(&output) {
        has_room(&output, size)?;
    }
    let opened = device::open(&choice)?;
    let bar = printer.percent(PER_PART).in_units_of(PER_PART);
    let mut on_event = |event: Event| show(&bar, event);
    let mut control = Control {
        cancel: interrupt::flag(),
        on_event: &mut on_event,
    };
    let store = Store::keeping_nothing(opened.device.clone());
    let mut made = nino_engine::upscale(&store, &model, &image, &options, &mut control)?;
    scale_to(&mut made.image, size);
    let text: Vec<(&str, String)> = text.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
    let writing = PictureOptions {
        text: &text,
        ..PictureOptions::default()
    };
    let picture = made.image.to_picture();
    bar.finish_and_clear();
    if stdout::is_meant(&output) {
        return Ok(stdout::picture(&picture, &writing)?);
    }
    write_picture_with(&output, &picture, &writing)?;
    let report = Report::new(&made, &model, &image, &opened, &output, started.elapsed());
    printer.files(&[output], &report)
}

/// The named model, or the only one that is there.
pub(crate) fn model(args: &UpscaleHowArgs, env: &Env) -> Result<UpscaleModel> {
    let kinds = &[ModelKind::UpscaleModel];
    if let Some(name) = &args.model {
        return Ok(UpscaleModel::open(&file_of(kinds, name, env)?)?);
    }
    let found = env.library().list(kinds)?;
    let sentence = match &found[..] {
        [only] => return Ok(UpscaleModel::open(&only.path)?),
        [] => "no upscaler was found, and --model is not given".to_owned(),
        all => format!(
            "{} upscalers were found, and --model is not given",
            all.len()
        ),
    };
    Err(UsageWithHint {
        sentence,
        hint: "`nino list upscalers` shows those in ComfyUI's upscale_models folder; any ESRGAN \
               file works: --model FILE"
            .to_owned(),
    }
    .into())
}

pub(crate) fn options(args: &UpscaleHowArgs, settings: &Settings) -> Result<UpscaleOptions, Usage> {
    Ok(UpscaleOptions {
        precision: precision_of(args.precision, settings)?,
        beside: 0,
    })
}

/// The texts that tell how a picture was made. A picture whose texts cannot be read is still one.
fn kept_text(path: &Path, limits: &Limits) -> Vec<(String, String)> {
    match read_text(path, &KEPT, limits) {
        Ok(text) => text.found,
        Err(error) => {
            printer::note(&format!("the image's metadata is not kept: {error}"));
            Vec::new()
        }
    }
}

/// Width and height of the result.
fn result_size(image: &Image, model: &UpscaleModel, scale: Option<f64>) -> (usize, usize) {
    let by = scale.unwrap_or(model.scale() as f64);
    let side = |n: usize| ((n as f64 * by).round() as usize).max(1);
    (side(image.width), side(image.height))
}

fn scale_to(image: &mut Image, (width, height): (usize, usize)) {
    let size = (image.height, image.width, 3);
    if (image.width, image.height) != (width, height) {
        image.values = resize_smooth(&image.values, size, (height, width));
        (image.width, image.height) = (width, height);
    }
}

/// The file to write, which may be written; or standard output. One that is not named is called
/// after the picture and its scale.
fn output(args: &UpscaleArgs, scale: f64, printer: Printer) -> Result<PathBuf> {
    let named = |folder: &Path| {
        let stem = args.picture.file_stem().unwrap_or_default();
        let scale = (scale * 100.0).round() / 100.0;
        unused(
            folder,
            &format!("{}-{scale}x", stem.to_string_lossy()),
            "png",
        )
    };
    let output = match &args.output {
        Some(output) if stdout::is_meant(output) => {
            stdout::check("an image", printer.json)?;
            return Ok(output.clone());
        }
        Some(folder) if is_folder(folder) => named(folder),
        Some(file) => file.clone(),
        None => named(Path::new("")),
    };
    let guard = Guard {
        inputs: vec![("the image", args.picture.clone())],
        force: args.force,
    };
    guard.check(&output)?;
    make_folder_of(&output)?;
    can_write_picture(&output)?;
    Ok(output)
}
