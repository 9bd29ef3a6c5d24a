//! Audio as wav2vec 2.0 hears it, for Wan's sound-to-video models. ComfyUI's `AudioEncoderLoader`
//! and `AudioEncoderEncode`.

use crate::fit::{Room, fit_within};
use crate::model::identity::{NetId, Origin, Part};
use crate::model::single;
use crate::store::Network as Opened;
use crate::values::{read, write};
use crate::{AudioStates, Control, EngineError, Stage, Store};
use nino_dtype::DType;
use nino_graph::{Graph, Node, Plan, RunOptions};
use nino_media::Audio;
use nino_models::wav2vec2::{self, Folded};
use nino_models::{FileParams, Network};
use nino_weights::names::Net;
use std::path::Path;
use std::sync::Arc;

/// An audio encoder out of a file.
#[derive(Clone)]
pub struct AudioEncoder {
    config: wav2vec2::Config,
    weights: FileParams,
    origin: Origin,
}

struct Recorded {
    plan: Arc<Plan>,
    samples: Node,
    states: Vec<Node>,
}

impl AudioEncoder {
    /// Reads the audio encoder of a file.
    pub fn open(path: &Path) -> Result<AudioEncoder, EngineError> {
        let found = single::first(path, Net::Wav2Vec2, |network| match network {
            Network::Wav2Vec2(config) => Some(config),
            _ => None,
        })?;
        let (config, weights, origin) = found.ok_or_else(|| EngineError::NotAnAudioEncoder {
            path: path.to_owned(),
        })?;
        Ok(AudioEncoder {
            config,
            weights,
            origin,
        })
    }

    /// wav2vec 2.0 large without weights: it can be planned with, not run.
    pub fn spec() -> Result<AudioEncoder, EngineError> {
        let config = wav2vec2::Config::large();
        Ok(AudioEncoder {
            weights: FileParams::described(&Network::Wav2Vec2(config.clone()))?,
            config,
            origin: Origin::unique(),
        })
    }

    /// Its file.
    pub fn path(&self) -> Option<&Path> {
        self.origin.path()
    }

    pub(crate) fn id(&self) -> NetId {
        NetId::plain(self.origin.clone(), Part::Audio)
    }

    /// How many hidden states, frames and values there are of some audio, about.
    pub fn sizes(&self, audio: &Audio) -> [usize; 3] {
        let samples = (audio.seconds() * wav2vec2::RATE as f64) as usize;
        let frames = self.config.frames(samples);
        [self.config.n_layers + 1, frames, self.config.width]
    }

    /// Bytes of the hidden states of so many samples.
    fn state_bytes(&self, samples: usize) -> usize {
        let states = (self.config.n_layers + 1) * self.config.width;
        states * self.config.frames(samples) * size_of::<f32>()
    }

    fn record(&self, store: &Store, n_samples: usize) -> Result<Recorded, EngineError> {
        let mut g = Graph::new();
        let samples = g.input("samples", [1, 1, n_samples, 1], DType::F32);
        let states = wav2vec2::encoder(&mut g, &self.weights.params(), &self.config, samples);
        states.iter().for_each(|&n| g.output(n));
        let room = Room {
            beside: self.state_bytes(n_samples),
            ..Room::default()
        };
        Ok(Recorded {
            plan: fit_within(store.device(), &g.finish()?, 1, room)?,
            samples,
            states,
        })
    }
}

/// The hidden states of audio of any rate and number of channels.
pub fn encode_audio(
    store: &Store,
    encoder: &AudioEncoder,
    audio: &Audio,
    control: &mut Control<'_>,
) -> Result<AudioStates, EngineError> {
    control.stage(Stage::Encode)?;
    let net = encoder.id();
    net.check_unchanged()?;
    let config = &encoder.config;
    let samples = audio.mono().resampled(wav2vec2::RATE as u32).samples;
    if config.frames(samples.len()) == 0 {
        return Err(EngineError::AudioTooShort {
            samples: samples.len(),
        });
    }
    let samples = config.normalized(samples);
    let n = samples.len();
    let recorded = store.plan(&net, format!("states of {n} samples"), || {
        encoder.record(store, n)
    })?;
    let mut lease = store.open(&Opened {
        stage: Stage::Encode,
        net,
        plans: std::slice::from_ref(&recorded.plan),
        beside: encoder.state_bytes(n),
        source: &|| Ok(Arc::new(Folded(encoder.weights.clone()))),
    })?;
    let graph = recorded.plan.graph();
    let session = lease.session();
    write(session, graph, recorded.samples, &samples)?;
    session.run(RunOptions {
        cancel: Some(control.cancel),
        ..RunOptions::default()
    })?;
    let mut values = Vec::with_capacity(encoder.state_bytes(n) / size_of::<f32>());
    for &node in &recorded.states {
        values.extend(read(session, graph, node)?);
    }
    lease.finish();
    Ok(AudioStates {
        values,
        states: recorded.states.len(),
        width: config.width,
    })
}
