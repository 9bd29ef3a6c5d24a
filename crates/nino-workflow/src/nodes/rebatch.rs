//! Batches of another size: lists of them, of which each is run by itself further on.

use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{int, link, out};
use crate::run::{Call, is_clear};
use crate::types::Socket;
use crate::value::{Latents, Value};
use nino_engine::{Image, Latent, Mask};
use std::sync::Arc;

const MOST: (i128, i128) = (1, 4096);

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "RebatchImages",
        display_name: "Rebatch Images",
        category: "image/batch",
        inputs: &[link("images", Socket::Image), int("batch_size", 1, MOST, 1)],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: images,
    },
    NodeDef {
        class: "RebatchLatents",
        display_name: "Rebatch Latents",
        category: "model/latent/batch",
        inputs: &[
            link("latents", Socket::Latent),
            int("batch_size", 1, MOST, 1),
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: latents,
    },
];

/// Whether a class takes lists whole and gives lists.
pub(crate) fn is_of_lists(class: &str) -> bool {
    NODES.iter().any(|def| def.class == class)
}

/// How large batches are to be: of a list of sizes, the first counts.
fn batch_size(call: &Call<'_, '_>) -> Result<usize, NodeError> {
    let first = call.list("batch_size")?.into_iter().next();
    match first {
        Some(Value::Int(n)) => Ok(n.clamp(MOST.0, MOST.1) as usize),
        _ => Err(NodeError::NotGiven {
            input: "batch_size",
        }),
    }
}

fn images(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let size = batch_size(call)?;
    let mut all: Vec<Image> = Vec::new();
    for value in call.list("images")? {
        match value {
            Value::Image(images) => all.extend(images.iter().cloned()),
            Value::ClearImage(_) => return Err(is_clear("images")),
            _ => return Err(NodeError::NotGiven { input: "images" }),
        }
    }
    let mut batches = Vec::new();
    for batch in all.chunks(size) {
        let sizes = |image: &Image| (image.width, image.height);
        let other = batch
            .iter()
            .map(sizes)
            .find(|s| Some(*s) != batch.first().map(sizes));
        if let (Some((w, h)), Some(first)) = (other, batch.first()) {
            return Err(NodeError::Input(format!(
                "pictures of {}x{} and of {w}x{h} make no batch: give them one size, or batches of \
                 one",
                first.width, first.height
            )));
        }
        batches.push(Value::from(batch.to_vec()));
    }
    Ok(vec![Value::List(Arc::new(batches))])
}

/// One latent of a batch.
struct Item<'a> {
    of: &'a Latents,
    at: usize,
    mask: Option<&'a Mask>,
    /// Where in a larger batch it was.
    index: usize,
}

fn latents(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let size = batch_size(call)?;
    let mut all: Vec<Arc<Latents>> = Vec::new();
    for value in call.list("latents")? {
        match value {
            Value::Latent(latents) => all.push(latents),
            _ => return Err(NodeError::NotGiven { input: "latents" }),
        }
    }
    let mut batches = Vec::new();
    let mut open: Vec<Item<'_>> = Vec::new();
    let mut seen = 0;
    for of in &all {
        let shape = |l: &Latent| (l.width, l.height);
        if open
            .first()
            .is_some_and(|item| shape(&item.of.latent) != shape(&of.latent))
        {
            batches.push(joined(&open)?);
            open.clear();
        }
        let n = of.latent.batch;
        for at in 0..n {
            let masks = of.noise_mask.as_ref().filter(|masks| !masks.is_empty());
            let known = of.batch_index.as_ref().and_then(|all| all.get(at));
            open.push(Item {
                of,
                at,
                mask: masks.map(|masks| &masks[at % masks.len()]),
                index: *known.unwrap_or(&(seen + at)),
            });
        }
        seen += n;
        while open.len() > size {
            let rest = open.split_off(size);
            batches.push(joined(&open)?);
            open = rest;
        }
    }
    if !open.is_empty() {
        batches.push(joined(&open)?);
    }
    Ok(vec![Value::List(Arc::new(batches))])
}

/// Latents as one batch.
fn joined(items: &[Item<'_>]) -> Result<Value, NodeError> {
    let Some(first) = items.first() else {
        return Err(NodeError::NotGiven { input: "latents" });
    };
    let shape = |l: &Latent| (l.channels, l.frames, l.is_video);
    if items
        .iter()
        .any(|item| shape(&item.of.latent) != shape(&first.of.latent))
    {
        let text = "latents of other channels or frames make no batch".to_owned();
        return Err(NodeError::Input(text));
    }
    let values = items.iter().flat_map(|item| item.of.latent.item(item.at));
    // Masks of which all is to be painted are none.
    let mask = items.iter().find_map(|item| item.mask);
    let noise_mask = mask.map(|mask| {
        let (width, height) = (mask.width, mask.height);
        let whole = Mask {
            width,
            height,
            values: vec![1.0; width * height],
        };
        let each = items.iter().map(|item| item.mask.unwrap_or(&whole));
        each.map(|mask| mask.resized(width, height))
            .collect::<Vec<_>>()
    });
    let noise_mask = noise_mask.filter(|all| all.iter().flat_map(|m| &m.values).any(|&v| v < 1.0));
    Ok(Value::from(Latents {
        latent: Latent {
            batch: items.len(),
            values: values.copied().collect(),
            ..first.of.latent
        },
        noise_mask: noise_mask.map(Arc::new),
        frame_mask: first.of.frame_mask.clone(),
        batch_index: Some(items.iter().map(|item| item.index).collect()),
        empty_scale: first.of.empty_scale,
    }))
}
