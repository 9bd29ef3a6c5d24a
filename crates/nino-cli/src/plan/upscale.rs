//! `nino plan upscale`: what a picture would need to be made larger.

use super::stages::{About, Report};
use super::{Site, fitted};
use crate::args::PlanUpscaleArgs;
use crate::decode::picture_limits;
use crate::env::Env;
use crate::failure::Usage;
use crate::printer::Printer;
use crate::upscale::{model, options};
use anyhow::Result;
use nino_engine::device::Card;
use nino_engine::media::picture_info;
use nino_engine::{Control, Image, Store, plan_work};
use serde_json::json;
use std::sync::atomic::AtomicBool;

pub(super) fn run(
    args: &PlanUpscaleArgs,
    card: Option<&'static Card>,
    env: &Env,
    printer: Printer,
) -> Result<()> {
    let site = Site::new(card, &args.how.device, &args.how.profile, env)?;
    let options = options(&args.how, &site.choice.settings)?;
    let model = model(&args.how, env)?;
    let (width, height) = size(args)?;
    let opened = site.open()?;
    let never = AtomicBool::new(false);
    let blank = Image {
        width,
        height,
        values: vec![0.0; width * height * 3],
    };
    let plan = plan_work(&Store::keeping_nothing(opened.device.clone()), |store| {
        let mut control = Control {
            cancel: &never,
            on_event: &mut |_| {},
        };
        nino_engine::upscale(store, &model, &blank, &options, &mut control).map(drop)
    });
    let plan = fitted(plan, &opened)?;
    let scale = model.scale();
    let about = About {
        title: format!(
            "{} {width}x{height} to {}x{}",
            model.name,
            width * scale,
            height * scale
        ),
        facts: json!({
            "model": model.name,
            "from_width": width,
            "from_height": height,
            "width": width * scale,
            "height": height * scale,
        }),
        count: 1,
        weights: None,
    };
    let report = Report::new(&plan, about, &opened, None);
    printer.text(&report)?;
    printer.document(&report)
}

/// The size of the picture that is named, or as the flag says.
fn size(args: &PlanUpscaleArgs) -> Result<(usize, usize)> {
    let text = match (&args.picture, args.size) {
        (_, Some(size)) => return Ok((size.width, size.height)),
        (Some(path), None) => match picture_info(path, &picture_limits(None))? {
            Some(info) => return Ok((info.width as usize, info.height as usize)),
            None => format!("{} is not an image", path.display()),
        },
        (None, None) => "give the image, or its --size".to_owned(),
    };
    Err(Usage(text).into())
}
