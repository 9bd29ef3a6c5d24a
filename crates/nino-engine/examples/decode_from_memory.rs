//! A VAE whose tensors are in memory: what another program has loaded is decoded with, and no file
//! is opened. Here the tensors are read from a file first, to have some.
//!
//! `cargo run --release -p nino-engine --example decode_from_memory -- vae.safetensors picture.png`

use nino_engine::device::{self, DeviceChoice};
use nino_engine::{
    Control, DecodeOptions, EngineError, Image, Latent, LatentSize, MemoryTensor, Store, VaeFile,
    decode_images, from_memory, media,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), EngineError> {
    let mut args = std::env::args().skip(1);
    let vae = args.next().unwrap_or_else(|| "vae.safetensors".to_owned());
    let output = args.next().unwrap_or_else(|| "picture.png".to_owned());
    let latent = Latent::empty(1, 4, LatentSize::picture(32, 32));
    let image = decode_from_memory(&vae, tensors_of(Path::new(&vae))?, &latent)?;
    Ok(media::write_picture(
        Path::new(&output),
        &image.to_picture(),
        &[],
    )?)
}

/// Decodes with tensors that some program holds; their bytes stay where they are. The name says the
/// latent space of a tiny VAE, as a file's name does.
pub fn decode_from_memory(
    name: &str,
    tensors: Vec<MemoryTensor>,
    latent: &Latent,
) -> Result<Image, EngineError> {
    let vae = VaeFile::from_reader(name, from_memory(name, tensors)?)?;
    let store = Store::new(device::open(&DeviceChoice::default())?.device);
    let never = AtomicBool::new(false);
    let mut control = Control {
        cancel: &never,
        on_event: &mut |_| {},
    };
    let options = DecodeOptions::default();
    let (mut images, _) = decode_images(&store, &vae, latent, &options, &mut control)?;
    Ok(images.remove(0))
}

/// Every tensor of a file with its bytes, as a map of tensors would have them.
pub fn tensors_of(path: &Path) -> Result<Vec<MemoryTensor>, EngineError> {
    let reader = nino_weights::open(path)?;
    let mut tensors = Vec::new();
    for entry in reader.index().entries() {
        let mut bytes = vec![0; entry.n_bytes() as usize];
        reader.read(entry, &mut bytes)?;
        tensors.push(MemoryTensor {
            name: entry.name.clone(),
            dtype: entry.dtype,
            shape: entry.shape.clone(),
            bytes: Arc::new(bytes),
        });
    }
    Ok(tensors)
}
