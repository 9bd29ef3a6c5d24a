//! The model in the box, end to end, against the training code's own sampler.

use super::{cpu, nmse, root, store, with_control};
use nino_engine::media::{Limits, load_picture};
use nino_engine::{Checkpoint, GenerateRequest, Generated, Latent, Rng, Seed, generate};

fn request(model: &Checkpoint, steps: usize, cfg: f32) -> GenerateRequest {
    GenerateRequest {
        seed: Seed {
            value: 7,
            rng: Rng::Torch,
        },
        steps,
        cfg,
        ..GenerateRequest::new(model, "a smiling sun wearing sunglasses")
    }
}

fn run(steps: usize, cfg: f32) -> (Generated, Latent) {
    let model = Checkpoint::open(&root().join("models/nino-emoji.gguf"), None).unwrap();
    let mut latent = None;
    let (made, _) = with_control(|control| {
        let request = request(&model, steps, cfg);
        generate(&store(cpu()), &model, &request, control, &mut |l| {
            latent = Some(l.latent.clone());
            Ok(())
        })
    });
    (made.unwrap(), latent.unwrap())
}

/// `[1, c, h, w]` of the golden as `[h, w, c]`.
fn golden(name: &str) -> Vec<f32> {
    let reader = nino_weights::open(root().join("goldens/emoji/q8.safetensors")).unwrap();
    let entry = reader.entry(name).unwrap();
    let mut values = vec![0.0; entry.n_values()];
    reader.read_f32(entry, &mut values).unwrap();
    let latent = Latent::from_planes(&entry.shape, &values, std::path::Path::new(name)).unwrap();
    latent.values
}

#[test]
fn twenty_steps_give_the_training_codes_latent_and_the_golden_picture() {
    let (made, latent) = run(20, 4.0);
    let error = nmse(&latent.values, &golden("latent_20"));
    assert!(error <= 1e-6, "NMSE {error:.1e}");
    let picture = &made.pictures[0];
    let expected = load_picture(&root().join("goldens/emoji/sun.png"), &Limits::default()).unwrap();
    let square = |(a, b): (&u8, &u8)| (f64::from(*a) - f64::from(*b)).powi(2);
    let mse = picture
        .rgb
        .iter()
        .zip(&expected.rgb)
        .map(square)
        .sum::<f64>()
        / picture.rgb.len() as f64;
    let psnr = 10.0 * (255.0 * 255.0 / mse.max(1e-9)).log10();
    assert!(psnr >= 50.0, "{psnr:.1} dB");
}

#[test]
fn four_steps_give_the_training_codes_latent() {
    let (_, latent) = run(4, 2.5);
    let error = nmse(&latent.values, &golden("latent_4"));
    assert!(error <= 1e-6, "NMSE {error:.1e}");
}
