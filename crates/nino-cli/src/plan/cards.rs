//! `nino plan --on list`: the cards that work can be planned for.

use crate::bytes::Bytes;
use crate::printer::Printer;
use crate::table::{Align, Table};
use anyhow::Result;
use nino_engine::device::{CARDS, Card, Figure, Source};
use serde::Serialize;

#[derive(Serialize)]
struct CardRow {
    name: &'static str,
    model: &'static str,
    memory_bytes: u64,
    tier: &'static str,
    max_binding_bytes: u64,
    shared_memory_bytes: u32,
    bandwidth: FigureRow,
    f32_flops: FigureRow,
    matrix_flops: Option<FigureRow>,
    /// What `nino plan` says of it is always a prediction.
    predicted: bool,
}

#[derive(Serialize)]
struct FigureRow {
    per_second: f64,
    /// `data sheet` or `measured`.
    source: &'static str,
    /// Where the measurement can be read.
    measured_at: Option<&'static str>,
}

impl From<Figure> for FigureRow {
    fn from(figure: Figure) -> FigureRow {
        FigureRow {
            per_second: figure.per_second,
            source: figure.source.name(),
            measured_at: match figure.source {
                Source::Maker => None,
                Source::Measured(place) => Some(place),
            },
        }
    }
}

impl From<&Card> for CardRow {
    fn from(card: &Card) -> CardRow {
        CardRow {
            name: card.name,
            model: card.model,
            memory_bytes: card.memory,
            tier: card.tier.name(),
            max_binding_bytes: card.max_binding,
            shared_memory_bytes: card.shared_bytes,
            bandwidth: card.bandwidth.into(),
            f32_flops: card.f32_flops.into(),
            matrix_flops: card.matrix_flops.map(FigureRow::from),
            predicted: true,
        }
    }
}

/// All cards.
pub(super) fn list(printer: Printer) -> Result<()> {
    printer.text(format!(
        "{}\n\n{}",
        table(CARDS),
        "Figures are the vendors' data; * was measured by an owner. Plans for a card that is not \
         in this\nmachine are predicted from them."
    ))?;
    let cards: Vec<CardRow> = CARDS.iter().map(CardRow::from).collect();
    printer.document(&serde_json::json!({ "cards": cards }))
}

/// One card.
pub(super) fn show(card: &Card, printer: Printer) -> Result<()> {
    printer.text(format!(
        "{}\n\nPlan for it: nino plan generate --spec sd15 --on {}",
        table(std::slice::from_ref(card)),
        card.name
    ))?;
    printer.document(&CardRow::from(card))
}

fn table(cards: &[Card]) -> String {
    let mut table = Table::new(&[
        ("card", Align::Left),
        ("memory", Align::Right),
        ("tier", Align::Left),
        ("GB/s", Align::Right),
        ("TFLOP/s", Align::Right),
        ("matrix", Align::Right),
        ("model", Align::Left),
    ]);
    for card in cards {
        table.push(vec![
            card.name.to_owned(),
            Bytes(card.memory).to_string(),
            card.tier.name().to_owned(),
            figure(card.bandwidth, 1e9, 0),
            figure(card.f32_flops, 1e12, 1),
            card.matrix_flops
                .map_or(String::new(), |f| figure(f, 1e12, 1)),
            card.model.to_owned(),
        ]);
    }
    table.render()
}

fn figure(figure: Figure, unit: f64, decimals: usize) -> String {
    let star = match figure.source {
        Source::Maker => "",
        Source::Measured(_) => "*",
    };
    format!("{:.decimals$}{star}", figure.per_second / unit)
}
