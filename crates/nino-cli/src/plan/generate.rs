//! `nino plan generate`: what a picture would need, or the pictures of a graph.

use super::stages::{About, Report};
use super::{Site, fitted};
use crate::args::{MAX_BATCH, PlanGenerateArgs};
use crate::device;
use crate::env::Env;
use crate::generate::planned::{Work, graph_plan, work};
use crate::plural::count;
use crate::printer::Printer;
use anyhow::Result;
use nino_engine::device::Card;
use nino_engine::{Checkpoint, GenerateRequest, largest_batch, plan_generate};
use serde_json::json;

pub(super) fn run(
    args: &PlanGenerateArgs,
    card: Option<&'static Card>,
    env: &Env,
    printer: Printer,
) -> Result<()> {
    let generate = &args.generate;
    let site = Site::new(card, &generate.device, &generate.profile, env)?;
    let work = work(generate, args.spec.as_deref(), &site.choice, env)?;
    let opened = site.open()?;
    let text = device::open_for_text(&site.choice, &generate.text, &opened)?;
    let (plan, about) = match work {
        Work::Request {
            model,
            mut request,
            count,
            fill,
        } => {
            let store = device::store(&opened, text.as_ref(), count);
            if fill {
                request.batch = largest_batch(&store, &model, &request, MAX_BATCH)?;
            }
            let plan = plan_generate(&store, &model, &request);
            (
                fitted(plan, &opened)?,
                about_request(&model, &request, count),
            )
        }
        Work::Graph(graph) => {
            let plan = graph_plan(&graph, &device::store(&opened, text.as_ref(), 1), env);
            let about = About {
                title: format!("a graph of {}", count(graph.nodes(), "node")),
                facts: json!({ "nodes": graph.nodes() }),
                count: 1,
                weights: None,
            };
            (fitted(plan?, &opened)?, about)
        }
    };
    let report = Report::new(&plan, about, &opened, text.as_ref());
    printer.text(&report)?;
    printer.document(&report)
}

fn about_request(model: &Checkpoint, request: &GenerateRequest, pictures: usize) -> About {
    let (width, height) = request.final_size();
    let mut title = format!("{} {width}x{height}", model.name());
    if request.batch * pictures > 1 {
        title = format!("{title}, {}", count(request.batch * pictures, "picture"));
    }
    title = format!("{title}, {}", count(request.steps, "step"));
    if let Some(hires) = &request.hires {
        title = format!("{title} and {} more for --hires", hires.steps);
    }
    About {
        title,
        facts: json!({
            "model": model.name(),
            "width": width,
            "height": height,
            "batch": request.batch,
            "count": pictures,
            "steps": request.steps,
            "cfg": request.cfg,
        }),
        count: pictures,
        weights: Some(model.path.clone()),
    }
}
