//! What Flux.2 has beside other models: latents of 16 pixels, and noise levels by size.

use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{MAX_SIDE, int, link, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{Latent, LatentSize, schedule};

const CHANNELS: usize = 128;
/// Pixels along one side of a latent's.
const SCALE: usize = 16;

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "FluxKVCache",
        display_name: "Flux KV Cache",
        category: "experimental",
        inputs: &[link("model", Socket::Model)],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| {
            let model = call.model("model")?.with_kept_references()?;
            Ok(vec![Value::from(model)])
        },
    },
    NodeDef {
        class: "EmptyFlux2LatentImage",
        display_name: "Empty Flux 2 Latent",
        category: "model/latent/flux",
        inputs: &[
            int("width", 1024, (16, MAX_SIDE), 16),
            int("height", 1024, (16, MAX_SIDE), 16),
            int("batch_size", 1, (1, 4096), 1),
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: empty,
    },
    NodeDef {
        class: "Flux2Scheduler",
        display_name: "Flux2Scheduler",
        category: "model/sampling/schedulers",
        inputs: &[
            int("steps", 20, (1, 4096), 1),
            int("width", 1024, (16, MAX_SIDE), 1),
            int("height", 1024, (16, MAX_SIDE), 1),
        ],
        outputs: &[out(Socket::Sigmas)],
        is_output: false,
        run: levels,
    },
];

fn empty(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (width, height) = (call.size("width")? / SCALE, call.size("height")? / SCALE);
    let batch = call.size("batch_size")?;
    call.room_for_new("a latent", &[batch, CHANNELS, height, width])?;
    let latent = Latent::empty(batch, CHANNELS, LatentSize::picture(height, width));
    Ok(vec![Value::latent(latent)])
}

fn levels(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (width, height) = (call.size("width")?, call.size("height")?);
    let tokens = (width * height) as f64 / (SCALE * SCALE) as f64;
    let tokens = tokens.round_ties_even() as usize;
    let sigmas = schedule::flux2(tokens, call.steps()?);
    Ok(vec![Value::from(sigmas)])
}
