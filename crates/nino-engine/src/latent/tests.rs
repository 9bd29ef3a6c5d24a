use super::*;

/// References of a batch go to its images in turn, each by its first frame.
#[test]
fn images_of_a_batch_take_references_in_turn() {
    let size = LatentSize {
        frames: 2,
        height: 1,
        width: 2,
    };
    let reference = Latent {
        values: (0..8).map(|v| v as f32).collect(),
        ..Latent::empty(2, 1, size)
    };
    assert_eq!(reference.first_frames(3), [0.0, 1.0, 4.0, 5.0, 0.0, 1.0]);
    assert_eq!(reference.first_frames(1), [0.0, 1.0]);
    assert!(reference.without_values().first_frames(2).is_empty());
}
