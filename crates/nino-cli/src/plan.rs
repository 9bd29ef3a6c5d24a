//! `nino plan`: what work would need, before anything is allocated, on this machine or on a card
//! that is not in it.

mod cards;
mod encode;
mod generate;
mod stages;
mod upscale;
mod video;

use crate::args::{DeviceArgs, PlanArgs, PlanVerb, ProfileArgs};
use crate::bytes::Bytes;
use crate::decode;
use crate::device::{self, Choice, Opened};
use crate::env::Env;
use crate::failure::Usage;
use crate::printer::Printer;
use crate::settings::Settings;
use anyhow::{Context, Result};
use nino_engine::device::{Card, DeviceError, open_card};
use nino_engine::{EngineError, PlanError};

pub(crate) fn run(args: &PlanArgs, env: &Env, printer: Printer) -> Result<()> {
    let on = args.on.as_deref();
    if matches!(on, Some("list" | "help")) {
        return cards::list(printer);
    }
    let card = on.map(Card::find).transpose().map_err(|e| {
        let text = format!("{e}; `nino plan --on list` shows all");
        Usage(text)
    })?;
    match (&args.verb, card) {
        (Some(PlanVerb::Decode(args)), _) => decode::plan(args, card, env, printer),
        (Some(PlanVerb::Encode(args)), _) => encode::run(args, card, env, printer),
        (Some(PlanVerb::Generate(args)), _) => generate::run(args, card, env, printer),
        (Some(PlanVerb::Upscale(args)), _) => upscale::run(args, card, env, printer),
        (Some(PlanVerb::Video(args)), _) => video::run(args, card, env, printer),
        (None, Some(card)) => cards::show(card, printer),
        (None, None) => {
            let text = "say what to plan: decode, encode, generate, upscale or video";
            Err(Usage(text.to_owned()).into())
        }
    }
}

/// Where work is planned for: this machine, or a card.
pub(crate) struct Site {
    pub(crate) choice: Choice,
    card: Option<&'static Card>,
}

impl Site {
    /// Settings of this machine say nothing of another one's card: there, only flags count.
    pub(crate) fn new(
        card: Option<&'static Card>,
        device: &DeviceArgs,
        profile: &ProfileArgs,
        env: &Env,
    ) -> Result<Site, Usage> {
        let choice = match card {
            None => Choice::with_profile(device, profile, env)?,
            Some(card) => {
                if device.device.is_some() || device.threads.is_some() {
                    let text = format!(
                        "--device and --threads are for this machine, and --on {} is another: \
                         leave one out",
                        card.name
                    );
                    return Err(Usage(text));
                }
                let elsewhere = Env {
                    settings: Settings::default(),
                    ..Env::default()
                };
                Choice::with_profile(device, profile, &elsewhere)?
            }
        };
        Ok(Site { choice, card })
    }

    pub(crate) fn open(&self) -> Result<Opened, DeviceError> {
        match self.card {
            Some(card) => open_card(card, &self.choice.device),
            None => device::open(&self.choice),
        }
    }
}

/// What was planned; an error says whether it is memory that is missing, and where.
pub(crate) fn fitted<T>(planned: Result<T, EngineError>, opened: &Opened) -> Result<T> {
    let is_over = matches!(
        planned,
        Err(EngineError::Plan(PlanError::OverBudget { .. }))
    );
    let planned = planned.map_err(anyhow::Error::new);
    if !is_over {
        return planned;
    }
    let place = if opened.is_predicted() {
        format!("the {} (predicted)", opened.model)
    } else {
        "here".to_owned()
    };
    let free = opened.device.budget().total;
    let free = free.map_or(String::new(), |b| format!(": {} free", Bytes(b as u64)));
    planned.with_context(|| format!("does not fit {place}{free}"))
}
