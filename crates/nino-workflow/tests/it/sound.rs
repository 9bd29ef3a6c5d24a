//! Sound to video as a graph, from the file of a sound to a clip with it, against ComfyUI.

use crate::host::{Folders, checkpoint, executor, graph, run};
use crate::made;
use nino_engine::media::{Audio, ReadOptions, load_audio};
use nino_workflow::{Clip, Folder, Made};
use serde_json::{Value, json};
use std::sync::Arc;

const RATE: u32 = 22_050;

fn nodes() -> Value {
    let text = |text: &str| json!({ "class_type": "CLIPTextEncode", "inputs": { "text": text, "clip": ["clip", 0] } });
    let sampled = |given: &str| {
        json!({ "class_type": "KSampler", "inputs": {
            "model": ["shift", 0], "positive": [given, 0], "negative": [given, 1],
            "latent_image": [given, 2], "seed": 1_234_567_890_123u64, "steps": 4, "cfg": 6.0,
            "sampler_name": "uni_pc", "scheduler": "simple", "denoise": 1.0 } })
    };
    let saved = |of: &str| {
        json!({ "class_type": "SaveLatent",
                "inputs": { "samples": [of, 0], "filename_prefix": "x" } })
    };
    json!({
        "model": { "class_type": "UNETLoader",
                   "inputs": { "unet_name": "m", "weight_dtype": "default" } },
        "shift": { "class_type": "ModelSamplingSD3",
                   "inputs": { "model": ["model", 0], "shift": 8.0 } },
        "clip": { "class_type": "CLIPLoader", "inputs": { "clip_name": "t", "type": "wan" } },
        "vae": { "class_type": "VAELoader", "inputs": { "vae_name": "v" } },
        "positive": text("a fox sings"),
        "negative": text("fog"),
        "sound": { "class_type": "LoadAudio", "inputs": { "audio": "a.wav" } },
        "encoder": { "class_type": "AudioEncoderLoader",
                     "inputs": { "audio_encoder_name": "w" } },
        "heard": { "class_type": "AudioEncoderEncode",
                   "inputs": { "audio_encoder": ["encoder", 0], "audio": ["sound", 0] } },
        "begin": { "class_type": "WanSoundImageToVideo", "inputs": {
            "positive": ["positive", 0], "negative": ["negative", 0], "vae": ["vae", 0],
            "width": 80, "height": 64, "length": 9, "batch_size": 1,
            "audio_encoder_output": ["heard", 0] } },
        "first": sampled("begin"),
        "extend": { "class_type": "WanSoundImageToVideoExtend", "inputs": {
            "positive": ["positive", 0], "negative": ["negative", 0], "vae": ["vae", 0],
            "length": 9, "video_latent": ["first", 0], "audio_encoder_output": ["heard", 0] } },
        "second": sampled("extend"),
        "both": { "class_type": "LatentConcat", "inputs": {
            "samples1": ["first", 0], "samples2": ["second", 0], "dim": "t" } },
        "images": { "class_type": "VAEDecode",
                    "inputs": { "samples": ["both", 0], "vae": ["vae", 0] } },
        "video": { "class_type": "CreateVideo", "inputs": {
            "images": ["images", 0], "fps": 16.0, "audio": ["sound", 0] } },
        "cut": { "class_type": "Video Slice", "inputs": {
            "video": ["video", 0], "start_time": 0.5, "duration": 0.5,
            "strict_duration": false } },
        "kept 1": saved("first"),
        "kept 2": saved("second"),
        "whole": { "class_type": "SaveVideo", "inputs": {
            "video": ["video", 0], "filename_prefix": "x", "format": "auto", "codec": "auto" } },
        "part": { "class_type": "SaveVideo", "inputs": {
            "video": ["cut", 0], "filename_prefix": "y", "format": "auto", "codec": "auto" } },
    })
}

fn nmse(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let square = |v: f32| f64::from(v) * f64::from(v);
    let error: f64 = found.iter().zip(expected).map(|(f, e)| square(f - e)).sum();
    error / expected.iter().map(|&e| square(e)).sum::<f64>()
}

#[test]
fn a_sound_becomes_a_clip_as_in_comfyui() {
    let golden = made::goldens().join("tiny_wan_s2v.safetensors");
    let golden = nino_weights::open(golden).unwrap();
    let values = |key: &str| {
        let entry = golden.entry(key).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        golden.read_f32(entry, &mut values).unwrap();
        values
    };
    let folder = tempfile::tempdir().unwrap();
    let sound = Audio {
        rate: RATE,
        channels: 2,
        samples: values("sound"),
    };
    let wav = folder.path().join("a.wav");
    sound
        .write_wav(&mut std::fs::File::create(&wav).unwrap())
        .unwrap();
    let tiny = |name: &str| checkpoint(name, &format!("workflow_{name}"), |list| list);
    let whole = tiny("tiny_wan");
    let vocabulary = made::goldens().join("../text/small/spiece.model");
    std::fs::copy(vocabulary, whole.with_file_name("spiece.model")).unwrap();
    let mut host = Folders::default()
        .with(Folder::DiffusionModels, "m", &tiny("tiny_wan_s2v"))
        .with(Folder::TextEncoders, "t", &whole)
        .with(Folder::Vae, "v", &whole)
        .with(Folder::AudioEncoders, "w", &tiny("tiny_wav2vec2"))
        .with(Folder::InputAudio, "a.wav", &wav);
    run(&mut executor(), &graph(nodes()), &mut host);
    for (node, key) in [("kept 1", "graph"), ("kept 2", "graph_extend")] {
        let nmse = nmse(&host.latent(node).planes(), &values(key));
        println!("{key}: NMSE {nmse:.1e}");
        assert!(nmse <= 1e-6, "{key}: NMSE {nmse:.1e}");
    }
    let clip = |id: &str| -> Arc<Clip> {
        let made = host.made.iter().find(|(node, _)| node == id);
        match made.map(|(_, made)| made) {
            Some(Made::Clip(clip)) => Arc::clone(clip),
            _ => panic!("{id}"),
        }
    };
    let whole = clip("whole");
    assert_eq!(whole.images.len(), 21);
    assert_eq!(*whole.audio.clone().unwrap(), sound);
    // Half a second from the middle on.
    let part = clip("part");
    assert_eq!(part.images.len(), 8);
    assert_eq!(*part.audio.clone().unwrap(), sound.between(0.5, 1.0));
    check_file(&whole, &sound, folder.path());
}

/// Where there is an ffmpeg, the sound of an MP4 is as long as the clip at most, and near the sound
/// that was given; other files have none.
fn check_file(clip: &Clip, sound: &Audio, folder: &std::path::Path) {
    let stop = nino_engine::media::Stop::never;
    let path = folder.join("clip.webp");
    clip.write(&path, Vec::new(), stop()).unwrap();
    if clip.extension("SaveVideo") != "mp4" {
        println!("no ffmpeg: the sound of a file is not checked");
        return;
    }
    let path = folder.join("clip.mp4");
    clip.write(&path, Vec::new(), stop()).unwrap();
    let names = std::fs::read_dir(folder).unwrap().flatten();
    let names: Vec<_> = names.map(|f| f.file_name()).collect();
    assert_eq!(names.len(), 3, "something is left behind: {names:?}");
    let read = load_audio(&path, &ReadOptions::default()).unwrap();
    assert_eq!((read.rate, read.channels), (sound.rate, sound.channels));
    assert!((read.seconds() - 1.2).abs() < 0.1, "{}", read.seconds());
    let nodes = json!({
        "1": { "class_type": "LoadVideo", "inputs": { "file": "c" } },
        "2": { "class_type": "SaveVideo", "inputs": {
            "video": ["1", 0], "filename_prefix": "x", "format": "auto", "codec": "auto" } },
    });
    let mut host = Folders::default().with(Folder::InputVideos, "c", &path);
    run(&mut executor(), &graph(nodes), &mut host);
    let Some((_, Made::Clip(again))) = host.made.first() else {
        panic!("no clip")
    };
    assert_eq!(again.audio.as_deref(), Some(&read));
    let level =
        |a: &Audio| (a.samples.iter().map(|v| v * v).sum::<f32>() / a.samples.len() as f32).sqrt();
    let share = level(&read) / level(sound);
    assert!((0.5..1.5).contains(&share), "{share}");
}
