//! `nino video` with small made-up models.
#![allow(clippy::unwrap_used)] // clippy knows test functions, not their helpers

use crate::made;
use crate::shell::{Folder, command, nino, nino_with};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A folder with the two experts; the first file has the text encoder and the VAE too.
fn models() -> Folder {
    let folder = Folder::new();
    for (name, list) in [("tiny_high", "tiny_wan"), ("tiny_low", "tiny_wan_low")] {
        let path = folder.path().join(format!("{name}.safetensors"));
        made::write_list(&made::list(list), &path);
    }
    let vocabulary = made::goldens().join("../text/small/spiece.model");
    std::fs::copy(vocabulary, folder.path().join("spiece.model")).unwrap();
    folder
}

/// The flags of a clip of these models.
fn flags(folder: &Folder, output: &str) -> Vec<String> {
    let high = folder.at("tiny_high.safetensors");
    let flags = [
        "video",
        "a red fox",
        "-m",
        &high,
        "--vae",
        &high,
        "--clip",
        &high,
        "--size",
        "64x48",
        "--seed",
        "5",
        "--device",
        "cpu",
        "--threads",
        "1",
        "-o",
        output,
    ];
    flags.map(str::to_owned).to_vec()
}

fn with<'a>(flags: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    flags
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect()
}

#[test]
fn a_clip_of_two_experts_is_written_and_told() {
    let folder = models();
    let out = folder.at("fox.webp");
    let flags = flags(&folder, &out);
    let said = nino(&with(&flags, &["--frames", "9", "--steps", "2", "--json"]));
    assert_eq!(said.code, 0, "{}", said.err);
    let report = said.json();
    assert_eq!(report["frames"], 9);
    assert_eq!(report["low_noise_model"], "tiny_low.safetensors");
    assert_eq!(report["peak_bytes"], report["predicted_peak_bytes"]);
    assert!(Path::new(&out).is_file());
    assert!(!Path::new(&format!("{out}.unfinished")).exists());
    let sun = made::goldens().join("../emoji/sun.png");
    let said = nino(&with(&flags, &["--image", sun.to_str().unwrap()]));
    assert!(
        said.code != 0 && said.err.contains("takes no input image"),
        "{}",
        said.err
    );
}

/// Killed in the midst of sampling, the clip goes on and is the same to the byte.
#[test]
fn a_killed_clip_is_resumed_to_the_same_bytes() {
    let folder = models();
    let clip = ["--frames", "17", "--steps", "12", "--sampler", "uni_pc"];
    let whole = folder.at("whole.apng");
    let said = nino(&with(&flags(&folder, &whole), &clip));
    assert_eq!(said.code, 0, "{}", said.err);
    let killed = folder.at("killed.apng");
    let journal = format!("{killed}.unfinished");
    let flags = flags(&folder, &killed);
    let mut run = command(&with(&flags, &clip));
    let mut child = run
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // A prediction of this clip has 16·5·6·8 values of four bytes.
    let enough = 3 * 4 * 16 * 5 * 6 * 8;
    let started = Instant::now();
    while std::fs::metadata(&journal).map_or(0, |m| m.len()) < enough {
        assert!(
            started.elapsed() < Duration::from_mins(1),
            "no journal grows"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        !Path::new(&killed).exists(),
        "it was killed too late to tell"
    );
    let said = nino(&with(
        &flags,
        &[&clip[..], &["--resume", "--cfg", "2"]].concat(),
    ));
    assert!(
        said.code != 0 && said.err.contains("other settings"),
        "{}",
        said.err
    );
    let said = nino(&with(&flags, &[&clip[..], &["--resume"]].concat()));
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("resuming after"), "{}", said.err);
    assert!(std::fs::read(&whole).unwrap() == std::fs::read(&killed).unwrap());
    assert!(!Path::new(&journal).exists());
}

/// A clip says how it was made, in every format that carries text; ComfyUI's graph in it is one
/// that runs, and comes to the same clip.
#[test]
fn a_clip_is_made_again_from_its_own_settings() {
    let folder = models();
    let clip = ["--frames", "5", "--steps", "2", "--fps", "12"];
    let mut formats = vec!["apng", "webp"];
    if Command::new("ffmpeg").arg("-version").output().is_ok() {
        formats.push("mp4");
    } else {
        println!("skipped: mp4, since there is no ffmpeg");
    }
    for format in formats {
        let (first, again) = (format!("first.{format}"), format!("again.{format}"));
        let (first, again) = (folder.at(&first), folder.at(&again));
        let said = nino(&with(&flags(&folder, &first), &clip));
        assert_eq!(said.code, 0, "{}", said.err);
        let repeat = ["video", "--from", &first, "-o", &again, "--device", "cpu"];
        let said = nino(&repeat);
        assert_eq!(said.code, 0, "{format}: {}", said.err);
        let bytes = [&first, &again].map(|file| std::fs::read(file).unwrap());
        assert!(bytes[0] == bytes[1], "{format}");
        let other = [&repeat[..], &["--seed", "6", "--json"]].concat();
        let said = nino(&other).json();
        assert_eq!((&said["seed"], &said["fps"]), (&6.into(), &12.0.into()));
        assert!(std::fs::read(&again).unwrap() != bytes[0], "{format}");
        // A picture's verb says which one it is for.
        let said = nino(&["generate", "--from", &first]);
        assert!(
            said.code != 0 && said.err.contains("nino video --from"),
            "{}",
            said.err
        );
    }
    let plain = folder.at("plain.apng");
    let flags = flags(&folder, &plain);
    let said = nino(&with(&flags, &[&clip[..], &["--no-metadata"]].concat()));
    assert_eq!(said.code, 0, "{}", said.err);
    let said = nino(&["video", "--from", &plain]);
    assert!(
        said.code != 0 && said.err.contains("no settings"),
        "{}",
        said.err
    );
}

/// Every frame of a clip's file.
fn frames(path: &str) -> Vec<nino_engine::Picture> {
    let options = nino_engine::media::ReadOptions {
        limits: nino_engine::media::Limits::default(),
        stop: nino_engine::media::Stop::never(),
    };
    let video = nino_engine::media::open_video(Path::new(path), &options);
    let mut video = video.unwrap().unwrap();
    std::iter::from_fn(|| video.next_frame().unwrap()).collect()
}

/// The graph in a clip is one that ComfyUI's dialect runs, and it makes the same frames.
#[test]
fn the_graph_in_a_clip_makes_the_same_frames() {
    let folder = models();
    for kind in ["diffusion_models", "text_encoders", "vae"] {
        let inside = folder.path().join(kind);
        std::fs::create_dir(&inside).unwrap();
        for file in [
            "tiny_high.safetensors",
            "tiny_low.safetensors",
            "spiece.model",
        ] {
            std::fs::copy(folder.at(file), inside.join(file)).unwrap();
        }
    }
    let extension = if Command::new("ffmpeg").arg("-version").output().is_ok() {
        "mp4"
    } else {
        "webp"
    };
    let guided = [
        "--cfg-zero-star",
        "--skip-layers",
        "1",
        "--skip-start",
        "0",
        "--skip-end",
        "0.9",
    ];
    let plain = same_by_graph(&folder, extension, &[]);
    assert!(plain != same_by_graph(&folder, extension, &guided));
}

/// The frames of a clip, which its graph makes, too.
fn same_by_graph(folder: &Folder, extension: &str, more: &[&str]) -> Vec<nino_engine::Picture> {
    let out = folder.at(&format!("fox.{extension}"));
    let clip = ["--frames", "5", "--steps", "2", "--cfg", "4"];
    let said = nino(&with(&flags(folder, &out), &[&clip[..], more].concat()));
    assert_eq!(said.code, 0, "{}", said.err);
    let limits = nino_engine::media::Limits::default();
    let text = nino_engine::media::read_text(Path::new(&out), &["prompt"], &limits).unwrap();
    let graph = folder.at("graph.json");
    std::fs::write(&graph, &text.found[0].1).unwrap();
    let again = folder.at(&format!("again.{extension}"));
    // The node says the format.
    let named = folder.at("again.png");
    let run = [
        "generate", "--from", &graph, "-o", &named, "--device", "cpu",
    ];
    let models = folder.path().to_str().unwrap();
    let said = nino_with(&run, &[("NINO_MODELS", models)]);
    assert_eq!(said.code, 0, "{}", said.err);
    let (first, second) = (frames(&out), frames(&again));
    assert_eq!(first.len(), 5);
    assert!(first == second);
    first
}

/// A camera's path changes the clip, is kept with it, and is refused by models that take none.
#[test]
fn a_camera_moves_through_a_clip() {
    let folder = models();
    let adapter = "model.diffusion_model.control_adapter";
    let conv = |name: &str, shape: &str| {
        format!("{adapter}.{name}.bias 256\n{adapter}.{name}.weight 256x{shape}\n")
    };
    let list = [
        made::list("tiny_wan22_i2v"),
        conv("conv", "1536x2x2"),
        conv("residual_blocks.0.conv1", "256x3x3"),
        conv("residual_blocks.0.conv2", "256x3x3"),
    ];
    let camera = folder.at("tiny_camera.safetensors");
    made::write_list(&list.concat(), Path::new(&camera));
    let high = folder.at("tiny_high.safetensors");
    let sun = made::goldens().join("../emoji/sun.png");
    let sun = sun.to_str().unwrap();
    let made = |name: &str, more: &[&str]| {
        let out = folder.at(name);
        let verb = ["video", "a fox", "-m", &camera, "--vae", &high, "--clip"];
        let clip = [
            &high, "--frames", "5", "--steps", "2", "--seed", "5", "--size", "64x48",
        ];
        let said = nino(&[&verb[..], &clip, &["--device", "cpu", "-o", &out], more].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        frames(&out)
    };
    let zoom = ["--image", sun, "--camera", "zoom-in"];
    let all = [
        made("still.apng", &["--image", sun, "--camera", "static"]),
        made("zoom.apng", &zoom),
        made("fast.apng", &[&zoom[..], &["--camera-speed", "3"]].concat()),
        made("words.apng", &["--camera", "zoom-in"]),
    ];
    for (i, clip) in all.iter().enumerate() {
        assert_eq!(clip.len(), 5);
        assert!(all[..i].iter().all(|other| other != clip), "clip {i}");
    }
    let limits = nino_engine::media::Limits::default();
    let zoomed = folder.at("zoom.apng");
    let text = nino_engine::media::read_text(Path::new(&zoomed), &["prompt"], &limits).unwrap();
    for class in ["WanCameraEmbedding", "WanCameraImageToVideo", "Zoom In"] {
        assert!(text.found[0].1.contains(class), "{class}");
    }
    let again = folder.at("again.apng");
    let said = nino(&["video", "--from", &zoomed, "-o", &again, "--device", "cpu"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(frames(&again) == all[1]);
    let out = folder.at("none.apng");
    let said = nino(&with(&flags(&folder, &out), &["--camera", "zoom-in"]));
    assert!(
        said.code != 0 && said.err.contains("takes no camera path"),
        "{}",
        said.err
    );
}

/// A sound changes the clip and is kept in an MP4; other models refuse it.
#[test]
fn a_clip_is_made_to_a_sound() {
    let folder = models();
    let write = |name: &str| {
        let path = folder.at(&format!("{name}.safetensors"));
        made::write_list(&made::list(name), Path::new(&path));
        path
    };
    let (sings, hears) = (write("tiny_wan_s2v"), write("tiny_wav2vec2"));
    let high = folder.at("tiny_high.safetensors");
    let sound = |name: &str, step: usize| {
        let wave = |i: usize| ((i * step) as f32 / 7.0).sin() * (i as f32 / 900.0).cos();
        let audio = nino_engine::Audio {
            rate: 8_000,
            channels: 1,
            samples: (0..6_000).map(wave).collect(),
        };
        let path = folder.at(name);
        let mut file = std::fs::File::create(&path).unwrap();
        audio.write_wav(&mut file).unwrap();
        path
    };
    let (song, other) = (sound("song.wav", 1), sound("other.wav", 3));
    let sun = made::goldens().join("../emoji/sun.png");
    let sun = sun.to_str().unwrap();
    let run = |name: &str, more: &[&str]| {
        let out = folder.at(name);
        let verb = ["video", "she sings", "-m", &sings, "--vae", &high, "--clip"];
        let parts = [&high, "--audio-encoder", &hears, "--size", "64x64"];
        let clip = ["--frames", "9", "--steps", "2", "--seed", "5"];
        let all = [
            &verb[..],
            &parts,
            &clip,
            &["--device", "cpu", "-o", &out],
            more,
        ]
        .concat();
        (out.clone(), nino(&all))
    };
    let made = |name: &str, more: &[&str]| {
        let (out, said) = run(name, more);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.err.contains("the video has no sound"), "{}", said.err);
        frames(&out)
    };
    let all = [
        made("song.apng", &["--audio", &song]),
        made("other.apng", &["--audio", &other]),
        made("her.apng", &["--audio", &song, "--image", sun]),
    ];
    for (i, clip) in all.iter().enumerate() {
        assert_eq!(clip.len(), 9);
        assert!(all[..i].iter().all(|other| other != clip), "clip {i}");
    }
    let limits = nino_engine::media::Limits::default();
    let her = folder.at("her.apng");
    let text = nino_engine::media::read_text(Path::new(&her), &["prompt"], &limits).unwrap();
    for class in ["AudioEncoderEncode", "WanSoundImageToVideo", "song.wav"] {
        assert!(text.found[0].1.contains(class), "{class}");
    }
    let again = folder.at("again.apng");
    let said = nino(&["video", "--from", &her, "-o", &again, "--device", "cpu"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(frames(&again) == all[2]);
    let (_, said) = run("none.apng", &[]);
    assert!(
        said.code == 2 && said.err.contains("needs a sound"),
        "{}",
        said.err
    );
    let out = folder.at("none.apng");
    let said = nino(&with(&flags(&folder, &out), &["--audio", &song]));
    assert!(
        said.code != 0 && said.err.contains("takes no audio"),
        "{}",
        said.err
    );
    if nino_engine::media::can_write_video(Path::new(&folder.at("song.mp4"))).is_ok() {
        let (out, said) = run("song.mp4", &["--audio", &song]);
        assert_eq!(said.code, 0, "{}", said.err);
        let reading = nino_engine::media::ReadOptions::default();
        let audio = nino_engine::media::load_audio(Path::new(&out), &reading).unwrap();
        // Nine frames, and what an encoder adds.
        assert!((0.5..0.8).contains(&audio.seconds()), "{}", audio.seconds());
    }
}

/// VACE follows a clip, changes it where a mask is white, and looks at a picture.
#[test]
fn a_clip_follows_another_one() {
    let folder = models();
    let vace = folder.at("tiny_vace.safetensors");
    made::write_list(&made::list("tiny_wan_vace"), Path::new(&vace));
    let high = folder.at("tiny_high.safetensors");
    let source = folder.at("source.apng");
    let said = nino(&with(
        &flags(&folder, &source),
        &["--frames", "5", "--steps", "1"],
    ));
    assert_eq!(said.code, 0, "{}", said.err);
    let sun = made::goldens().join("../emoji/sun.png");
    let sun = sun.to_str().unwrap();
    let made = |name: &str, more: &[&str]| {
        let out = folder.at(name);
        let parts = [
            "--vae", &high, "--clip", &high, "--device", "cpu", "-o", &out,
        ];
        let clip = ["--frames", "5", "--steps", "2", "--seed", "5"];
        let verb = ["video", "a red fox", "-m", &vace];
        let said = nino(&[&verb[..], &parts, &clip, more].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        frames(&out)
    };
    let follows = ["--video", &source];
    let all = [
        made("words.apng", &["--size", "64x48"]),
        made(
            "follows.apng",
            &[&follows[..], &["--size", "64x48"]].concat(),
        ),
        made(
            "masked.apng",
            &[&follows[..], &["--video-mask", sun, "--size", "64x48"]].concat(),
        ),
        made("looks.apng", &["--reference", sun, "--size", "64x48"]),
    ];
    for (i, clip) in all.iter().enumerate() {
        assert_eq!(clip.len(), 5);
        assert!(all[..i].iter().all(|other| other != clip), "clip {i}");
    }
    // The model for words alone follows nothing.
    let out = folder.at("none.apng");
    let said = nino(&with(&flags(&folder, &out), &follows));
    assert!(
        said.code != 0 && said.err.contains("takes no control video"),
        "{}",
        said.err
    );
}

/// What a clip looks like so far is an animated file that is written over and over.
#[test]
fn previews_of_a_clip_move() {
    let folder = models();
    let out = folder.at("fox.apng");
    let shown = folder.at("shown.webp");
    let steps = ["--frames", "9", "--steps", "2", "--preview", &shown];
    let said = nino(&with(&flags(&folder, &out), &steps));
    assert_eq!(said.code, 0, "{}", said.err);
    let frames = frames(&shown);
    // A picture for each latent frame, of a pixel for each of its pixels.
    assert_eq!(frames.len(), 3, "{}", said.err);
    assert!(frames.iter().all(|f| (f.width, f.height) == (8, 6)));
    assert!(frames[0] != frames[1]);
}

#[test]
fn without_a_model_the_clip_says_what_it_is() {
    let folder = Folder::new();
    let out = folder.at("frog.gif");
    let said = nino(&[
        "video", "a", "frog", "--frames", "3", "--steps", "1", "--size", "64", "-o", &out,
        "--device", "cpu",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("nothing in it moves"), "{}", said.err);
    assert!(Path::new(&out).is_file());
}

#[test]
fn a_clip_is_planned_without_files_and_made_to_fit() {
    let plan = |more: &[&str]| {
        let base = [
            "plan",
            "video",
            "--spec",
            "wan2.1-t2v-1.3b",
            "--size",
            "64x48",
            "--json",
        ];
        let said = nino(&[&base[..], &["--device", "cpu"], more].concat());
        (said.code == 0, said)
    };
    let (ok, said) = plan(&["--frames", "5"]);
    assert!(ok, "{}", said.err);
    let report = said.json();
    let stages = report["stages"].as_array().unwrap();
    let names: Vec<&str> = stages
        .iter()
        .map(|s| s["stage"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["text", "sample", "decode"]);
    let (ok, said) = plan(&["--frames", "5", "--budget", "1MiB"]);
    assert!(!ok && said.err.contains("does not fit"), "{}", said.err);
}
