//! What a decoder needs of memory, however much of it a device fuses.

use nino_dtype::DType;
use nino_graph::{Limits, Plan, Rewrites, rewrite};
use nino_models::{Chunk, Frames, Storage, Vae, kl};

#[test]
fn a_picture_of_1024_in_f16_takes_a_gigabyte_and_a_quarter() {
    let storage = Storage {
        activations: DType::F16,
        weights: &|_| DType::F16,
        scale: kl::Scale::default(),
    };
    let chunk = Chunk {
        batch: 1,
        frames: 1,
        height: 128,
        width: 128,
        first: true,
        at_once: Frames::Together,
    };
    let vae = Vae::spec("sd-vae").unwrap();
    let graph = vae.decode(chunk, &storage).unwrap().graph;
    // With matrix units the norms before convolutions are passes of their own.
    for norm_into_conv in [true, false] {
        let on = Rewrites {
            norm_into_conv,
            norm_into_linear: false,
            ..Rewrites::ALL
        };
        let plan = Plan::new(rewrite(&graph, on), &Limits::default()).unwrap();
        let bytes = plan.arena_bytes() + plan.weight_bytes();
        assert!(bytes <= 1280 << 20, "fused {norm_into_conv}: {bytes}");
    }
}
