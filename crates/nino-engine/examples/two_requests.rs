//! Two requests on one store: the second finds the model where the first left it, and a third is
//! stopped from another thread in the midst of sampling, with what it had come to.
//!
//! `cargo run --release -p nino-engine --example two_requests`

use nino_engine::device::{self, DeviceChoice};
use nino_engine::{
    Checkpoint, Control, EngineError, Event, GenerateRequest, Kept, Picture, Store, generate,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn main() -> Result<(), EngineError> {
    let (pictures, stopped_at) = two_requests()?;
    tracing::info!(pictures = pictures.len(), stopped_at, "done");
    Ok(())
}

/// The pictures of two requests, and the steps a stopped one had done.
pub fn two_requests() -> Result<(Vec<Picture>, usize), EngineError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/nino-emoji.gguf");
    let model = Checkpoint::open(&path, None)?;
    let store = Store::new(device::open(&DeviceChoice::default())?.device);
    let mut pictures = Vec::new();
    for prompt in ["a red fox", "a blue whale"] {
        let stop = AtomicBool::new(false);
        let request = request(&model, prompt);
        let mut steps = 0;
        let made = run(&store, &model, &request, &stop, &mut |event| {
            if let Event::Progress { done, .. } = event {
                steps = steps.max(done); // a host moves its bar here
            }
        })?;
        pictures.extend(made);
    }
    // One load for each network, whatever the number of requests.
    assert_eq!(store.usage().loads, 3);

    let stop = AtomicBool::new(false);
    let mut done = 0;
    let stopped = run(
        &store,
        &model,
        &request(&model, "a sun"),
        &stop,
        &mut |event| {
            if let Event::Progress { done: 2, total: 4 } = event {
                done = 2;
                stop.store(true, Ordering::Relaxed);
            }
        },
    );
    assert!(matches!(stopped, Err(EngineError::Cancelled)));
    Ok((pictures, done))
}

fn request(model: &Checkpoint, prompt: &str) -> GenerateRequest {
    GenerateRequest {
        width: 64,
        height: 64,
        steps: 4,
        ..GenerateRequest::new(model, prompt)
    }
}

fn run(
    store: &Store,
    model: &Checkpoint,
    request: &GenerateRequest,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(Event),
) -> Result<Vec<Picture>, EngineError> {
    let mut control = Control {
        cancel: stop,
        on_event,
    };
    // Hears the latent before it is decoded, and what a stopped run had come to.
    let mut on_latent = |_: Kept<'_>| Ok(());
    Ok(generate(store, model, request, &mut control, &mut on_latent)?.pictures)
}
