//! Text to image by stages: encode the prompts, sample a latent, decode it; every value is plain.
//!
//! `cargo run --release -p nino-engine --example text_to_image -- PROMPT MODEL PICTURE`

use nino_engine::device::{self, DeviceChoice};
use nino_engine::{
    Checkpoint, Control, DecodeOptions, EngineError, Event, Latent, LatentSize, Noise, Precision,
    Rng, SampleRequest, SamplerInfo, SamplerOptions, Scheduler, Seed, Store, decode_images,
    encode_text, media, sample, sigmas,
};
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), EngineError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [prompt, model, picture] = &args[..] else {
        panic!("give a prompt, a model's file and a name for the picture")
    };
    text_to_image(prompt, Path::new(model), Path::new(picture))
}

pub fn text_to_image(prompt: &str, model: &Path, output: &Path) -> Result<(), EngineError> {
    let store = Store::new(device::open(&DeviceChoice::default())?.device);
    let model = Checkpoint::open(model, None)?;
    let (stop, defaults) = (AtomicBool::new(false), model.defaults());
    let mut on_event = |event: Event| drop(event); // a host shows its progress here
    let control = &mut Control {
        cancel: &stop,
        on_event: &mut on_event,
    };
    let positive = encode_text(&store, &model.text, prompt, &[], control)?;
    let negative = encode_text(&store, &model.text, "", &[], control)?;

    let sampler = SamplerInfo::find(defaults.sampler)?;
    let scheduler = Scheduler::find(defaults.scheduler)?;
    let request = SampleRequest {
        positive: &[positive],
        negative: &[negative],
        third: None,
        latent: &Latent::empty(
            1,
            4,
            LatentSize::picture(defaults.size / 8, defaults.size / 8),
        ),
        noise: Noise::Seeded,
        mask: None,
        frame_mask: &[],
        sigmas: &sigmas(&model.diffusion, sampler, scheduler, 4, 1.0)?,
        sampler,
        options: &SamplerOptions::default(),
        seed: Seed {
            value: 7,
            rng: Rng::Torch,
        },
        cfg: 2.5,
        precision: Precision::Auto,
        preview: None,
        beside: 0,
        memory: None,
    };
    let sampled = sample(&store, &model.diffusion, &request, control)?;

    let options = DecodeOptions::default();
    let (images, _) = decode_images(&store, &model.vae, &sampled.latent, &options, control)?;
    Ok(media::write_picture(output, &images[0].to_picture(), &[])?)
}
