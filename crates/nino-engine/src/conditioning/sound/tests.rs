use super::AudioStates;

/// One state of width 1 whose value is its frame.
fn counting(frames: usize) -> AudioStates {
    AudioStates {
        values: (0..frames).map(|i| i as f32).collect(),
        states: 1,
        width: 1,
    }
}

/// Computed with ComfyUI's `linear_interpolation` and `get_audio_embed_bucket_fps`.
#[test]
fn frames_of_the_video_are_chosen_as_comfyui_does() {
    // A second: 50 frames, of which 30 remain, for 12 frames of video in buckets of 12.
    let audio = counting(50);
    let near = |found: AudioStates, expected: &[f32]| {
        assert_eq!(found.frames(), expected.len());
        for (f, e) in found.values.iter().zip(expected) {
            assert!((f - e).abs() < 1e-4, "{:?}", found.values);
        }
    };
    near(audio.of_video(3, 0).unwrap(), &FIRST);
    near(audio.of_video(3, 12).unwrap(), &SECOND);
    // The audio fills two buckets and no third.
    assert_eq!(audio.of_video(3, 24), None);
    near(audio.of_video(3, 20).unwrap(), &SECOND[8..]);
    assert_eq!(audio.silenced().of_video(3, 0).unwrap().values, [0.0; 12]);
}

const FIRST: [f32; 12] = [
    0.0, 3.3793, 6.7586, 10.1379, 13.5172, 15.2069, 18.5862, 21.9655, 25.3448, 28.7241, 32.1034,
    35.4828,
];
const SECOND: [f32; 12] = [
    37.1724, 40.5517, 43.9310, 47.3103, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
];
