//! Sound to video against ComfyUI: from a sound to the hidden states of an audio encoder, and from
//! those to latents.

use super::{Case, Told, close, control};
use crate::generate::tests::comfy::planes;
use crate::tests::made;
use crate::{
    AudioEncoder, AudioStates, Before, ClipSize, DiffusionModel, EngineError, Latent, LatentSize,
    ModelSampling, SoundHints, Sounding, encode_audio,
};
use nino_media::Audio;
use std::sync::Arc;

const SIZE: ClipSize = ClipSize {
    width: 80,
    height: 64,
    frames: 9,
};

struct Sound {
    case: Case,
    model: DiffusionModel,
    states: AudioStates,
}

impl Sound {
    fn new() -> Sound {
        let case = Case::new();
        let model = case.other("tiny_wan_s2v");
        let path = made::goldens().join("tiny_wan_s2v.safetensors");
        let golden = nino_weights::open(path).unwrap();
        let case = Case { golden, ..case };
        let path = case.folder.path().join("tiny_wav2vec2.safetensors");
        made::write_list(&made::list("tiny_wav2vec2"), &path);
        let encoder = AudioEncoder::open(&path).unwrap();
        let (shape, samples) = case.golden("sound");
        let audio = Audio {
            rate: 22_050,
            channels: shape[0],
            samples,
        };
        let (states, _) = control(|c| encode_audio(&case.store, &encoder, &audio, c));
        Sound {
            case,
            model: model.with_sampling(ModelSampling::flow(8.0, 1000.0)),
            states,
        }
    }

    fn told(&self, sounding: &Sounding<'_>) -> Told<'static> {
        let given = crate::Given {
            size: SIZE,
            ..self.case.given()
        };
        let (sounded, _) = control(|c| given.sounded(sounding, c));
        let [positive, negative] = self.case.sides.clone();
        Told {
            sides: [
                sounded.given_to(&positive, &sounded.positive),
                sounded.given_to(&negative, &sounded.negative),
            ],
            latent: Latent::empty(1, 16, SIZE.latent(&self.case.model.vae)),
            sampler: "uni_pc",
            cfg: 6.0,
            steps: 4,
            window: 0..4,
            ..self.case.told()
        }
    }

    fn check(&self, key: &str, sounding: &Sounding<'_>) -> Latent {
        let latent = self.case.sampled(&self.model, &self.told(sounding));
        self.case.close(key, &planes(&latent));
        latent
    }
}

#[test]
fn sound_to_video_makes_what_comfyui_makes() {
    let sound = Sound::new();
    let some: Vec<f32> = sound.states.values.iter().step_by(7).copied().collect();
    assert_eq!((sound.states.states, sound.states.width), (25, 64));
    close("states", &some, &sound.case.golden("states").1);

    let reference = sound.case.images("image/reference");
    let [clip, before] = ["image/clip", "image/before"].map(|key| sound.case.images(key));
    let heard = Sounding {
        audio: Some(&sound.states),
        reference: reference.first(),
        ..Sounding::default()
    };
    let latent = sound.check("image", &heard);
    sound.check(
        "control",
        &Sounding {
            follow: &clip,
            ..heard
        },
    );
    sound.check(
        "motion",
        &Sounding {
            before: Before::Frames(&before),
            ..heard
        },
    );
    sound.check(
        "extend",
        &Sounding {
            before: Before::Latent(&latent),
            offset: 4 * latent.frames,
            ..heard
        },
    );
    sound.check("begin", &Sounding::default());
}

/// Prompts of which only one hears something run one by one.
#[test]
fn prompts_may_hear_different_things() {
    let sound = Sound::new();
    let heard = sound.told(&Sounding {
        audio: Some(&sound.states),
        ..Sounding::default()
    });
    let deaf = sound.told(&Sounding::default());
    let both = Told {
        sides: [heard.sides[0].clone(), deaf.sides[1].clone()],
        ..sound.told(&Sounding::default())
    };
    let found = planes(&sound.case.sampled(&sound.model, &both));
    // One by one for another reason: the same numbers.
    let mut one_by_one = both;
    one_by_one.sides[0].region.percent = (0.0, 0.999_999);
    let expected = planes(&sound.case.sampled(&sound.model, &one_by_one));
    close("one by one", &found, &expected);
    let alone = planes(&sound.case.sampled(&sound.model, &heard));
    assert_ne!(found, alone);
}

#[test]
fn what_does_not_fit_is_told() {
    let sound = Sound::new();
    let fits = |hints: SoundHints, size: LatentSize| {
        let latent = Latent::empty(1, 16, size);
        hints
            .check(&sound.model, &latent)
            .map_err(|e| e.to_string())
    };
    let size = SIZE.latent(&sound.case.model.vae);
    let of = |frames: usize, width: usize| SoundHints {
        audio: Some(Arc::new(AudioStates {
            values: vec![0.0; 25 * frames * width],
            states: 25,
            width,
        })),
        ..SoundHints::default()
    };
    assert_eq!(fits(of(12, 64), size), Ok(()));
    // More than the latent has frames for is left out.
    assert_eq!(fits(of(50, 64), size), Ok(()));
    let said = fits(of(12, 1024), size).unwrap_err();
    assert!(said.contains("25 hidden states of width 64"), "{said}");
    // 80 tokens of 3 frames, and audio for 7.
    let seven = LatentSize { frames: 8, ..size };
    let said = fits(of(28, 64), seven).unwrap_err();
    assert!(said.contains("for 7 latent frames"), "{said}");

    let latent = |frames, height| {
        let size = LatentSize {
            frames,
            height,
            ..size
        };
        Some(Arc::new(Latent::empty(1, 16, size)))
    };
    let following = |control| SoundHints {
        control,
        ..SoundHints::default()
    };
    assert_eq!(fits(following(latent(3, 8)), size), Ok(()));
    let said = fits(following(latent(2, 8)), size).unwrap_err();
    assert!(said.contains("the control video"), "{said}");
    let after = |motion| SoundHints {
        motion,
        ..SoundHints::default()
    };
    assert_eq!(fits(after(latent(5, 8)), size), Ok(()));
    let low = LatentSize { height: 6, ..size };
    let said = fits(after(latent(5, 6)), low).unwrap_err();
    assert!(said.contains("(64 pixels)"), "{said}");

    let short = Audio {
        rate: 16_000,
        channels: 1,
        samples: vec![0.0; 399],
    };
    let path = sound.case.folder.path().join("tiny_wav2vec2.safetensors");
    let encoder = AudioEncoder::open(&path).unwrap();
    let never = std::sync::atomic::AtomicBool::new(false);
    let mut silent = crate::Control {
        cancel: &never,
        on_event: &mut |_| {},
    };
    let none = encode_audio(&sound.case.store, &encoder, &short, &mut silent);
    assert!(matches!(
        none,
        Err(EngineError::AudioTooShort { samples: 399 })
    ));
    let vae = sound.case.folder.path().join("tiny_wan.safetensors");
    assert!(matches!(
        AudioEncoder::open(&vae),
        Err(EngineError::NotAnAudioEncoder { .. })
    ));
}
