//! `nino plan video`: what a clip would need.

use super::Site;
use super::stages::{About, Report};
use crate::args::PlanVideoArgs;
use crate::device;
use crate::env::Env;
use crate::plural::count;
use crate::printer::Printer;
use crate::video::{NoStart, open_or_spec, planned, wanted};
use anyhow::Result;
use nino_engine::device::Card;
use serde_json::json;

pub(super) fn run(
    args: &PlanVideoArgs,
    card: Option<&'static Card>,
    env: &Env,
    printer: Printer,
) -> Result<()> {
    let video = &args.video;
    let site = Site::new(card, &video.device, &video.profile, env)?;
    let spec = args.spec.as_deref();
    let model = open_or_spec(spec, &video.model, &video.sampling, &site.choice, env)?;
    let mut wanted = wanted(video, &model, &site.choice, NoStart::Assume, env)?;
    let opened = site.open()?;
    let text = device::open_for_text(&site.choice, &video.text, &opened)?;
    let store = device::store(&opened, text.as_ref(), 1);
    let plan = planned(&opened, &store, &model, &mut wanted, video.fit)?;
    let request = &wanted.request;
    let size = request.size;
    let about = About {
        title: format!(
            "{} {}x{}, {}, {}",
            model.high.name,
            size.width,
            size.height,
            count(size.frames, "frame"),
            count(request.steps, "step")
        ),
        facts: json!({
            "model": model.high.name,
            "low_noise_model": model.low.as_ref().map(|low| low.name.clone()),
            "width": size.width,
            "height": size.height,
            "frames": size.frames,
            "steps": request.steps,
            "cfg": request.cfg,
        }),
        count: 1,
        weights: video.model.model.clone(),
    };
    let report = Report::new(&plan, about, &opened, text.as_ref());
    printer.text(&report)?;
    printer.document(&report)
}
