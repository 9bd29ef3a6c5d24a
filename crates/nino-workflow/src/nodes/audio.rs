//! Audio out of files, and as an audio encoder hears it.

use crate::host::Folder;
use crate::node::NodeDef;
use crate::node::table::{file, link, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use crate::{HostError, NodeError};
use nino_engine::media::{MediaError, ReadOptions, load_audio};
use nino_engine::{Audio, AudioEncoder, encode_audio};
use std::path::Path;
use std::sync::Arc;

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "LoadAudio",
        display_name: "Load Audio",
        category: "audio",
        inputs: &[file("audio", Folder::InputAudio)],
        outputs: &[out(Socket::Audio)],
        is_output: false,
        run: |call| {
            let options = ReadOptions {
                stop: call.host.stop(),
                ..ReadOptions::default()
            };
            let audio = load_audio(&call.file("audio")?, &options).map_err(unreadable)?;
            Ok(vec![Value::Audio(Arc::new(audio))])
        },
    },
    NodeDef {
        class: "AudioEncoderLoader",
        display_name: "Load Audio Encoder",
        category: "model/loaders",
        inputs: &[file("audio_encoder_name", Folder::AudioEncoders)],
        outputs: &[out(Socket::AudioEncoder)],
        is_output: false,
        run: |call| {
            let encoder = AudioEncoder::open(&call.file("audio_encoder_name")?)?;
            Ok(vec![Value::AudioEncoder(Arc::new(encoder))])
        },
    },
    NodeDef {
        class: "AudioEncoderEncode",
        display_name: "AudioEncoderEncode",
        category: "model/conditioning",
        inputs: &[
            link("audio_encoder", Socket::AudioEncoder),
            link("audio", Socket::Audio),
        ],
        outputs: &[out(Socket::AudioEncoderOutput)],
        is_output: false,
        run: encode,
    },
];

fn unreadable(error: MediaError) -> NodeError {
    NodeError::Host(HostError::new(error))
}

/// The sound of a clip's file; `None` of one that has none.
pub(super) fn of_clip(path: &Path, options: &ReadOptions) -> Result<Option<Arc<Audio>>, NodeError> {
    if !nino_engine::media::may_have_audio(path) {
        return Ok(None);
    }
    match load_audio(path, options) {
        Ok(audio) => Ok(Some(Arc::new(audio))),
        Err(MediaError::NoAudio { .. }) => Ok(None),
        Err(error) => Err(unreadable(error)),
    }
}

fn encode(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (encoder, audio) = (call.audio_encoder("audio_encoder")?, call.audio("audio")?);
    call.room_for("hidden states of audio", &encoder.sizes(&audio))?;
    let states = encode_audio(call.store, &encoder, &audio, &mut call.control)?;
    Ok(vec![Value::AudioStates(Arc::new(states))])
}
