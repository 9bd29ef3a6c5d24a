//! What is written can be read back; what is not finished leaves nothing.

mod hostile;

use crate::ffmpeg::read_ppm;
use crate::limits::Guard;
use crate::{
    ClipFormat, FrameSource, Limits, MediaError, Picture, PictureOptions, ReadOptions,
    can_write_picture, can_write_video, create_video, has_room, load_with_alpha, read_text,
    write_picture, write_picture_with,
};
use image::AnimationDecoder;
use nino_files::Stop;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

fn load_picture(path: &Path) -> Result<Picture, MediaError> {
    crate::load_picture(path, &Limits::default())
}

fn open_video(path: &Path) -> Result<Option<Box<dyn FrameSource>>, MediaError> {
    crate::open_video(path, &ReadOptions::default())
}

fn clip(width: usize, height: usize, n_frames: usize, fps: f64) -> ClipFormat {
    ClipFormat {
        width,
        height,
        n_frames,
        fps,
        text: Vec::new(),
        has_opacity: false,
        audio: None,
        crf: None,
        stop: Stop::never(),
    }
}

fn gradient(width: usize, height: usize, shift: usize) -> Picture {
    let rgb = (0..width * height)
        .flat_map(|i| {
            [
                (i % width * 5) as u8,
                (i / width * 7) as u8,
                (shift * 40) as u8,
            ]
        })
        .collect();
    Picture { width, height, rgb }
}

fn psnr(a: &Picture, b: &Picture) -> f64 {
    let mse = a
        .rgb
        .iter()
        .zip(&b.rgb)
        .map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2))
        .sum::<f64>()
        / a.rgb.len() as f64;
    10.0 * (255.0 * 255.0 / mse.max(1e-9)).log10()
}

#[test]
fn stills_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let picture = gradient(33, 20, 2);
    for (name, least) in [("a.png", 99.0), ("b.webp", 99.0), ("c.jpg", 30.0)] {
        let path = dir.path().join(name);
        write_picture(&path, &picture, &[("parameters", "a fox, 狐".to_owned())]).unwrap();
        let back = load_picture(&path).unwrap();
        assert!(
            psnr(&picture, &back) > least,
            "{name}: {}",
            psnr(&picture, &back)
        );
    }
    let decoder = png::Decoder::new(BufReader::new(
        File::open(dir.path().join("a.png")).unwrap(),
    ));
    let reader = decoder.read_info().unwrap();
    assert_eq!(reader.info().utf8_text[0].get_text().unwrap(), "a fox, 狐");
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        3,
        "no temporary files"
    );
}

/// A camera that was held sideways says so in its file, and the picture is turned.
#[test]
fn photographs_stand_upright() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jpg");
    let picture = gradient(32, 16, 2);
    write_picture(&path, &picture, &[]).unwrap();
    let mut jpeg = std::fs::read(&path).unwrap();
    // TIFF, one entry: orientation (0x112), a short: 6, turned clockwise.
    let exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let mut segment = vec![0xff, 0xe1];
    segment.extend((exif.len() as u16 + 2).to_be_bytes());
    segment.extend(exif);
    jpeg.splice(2..2, segment);
    std::fs::write(&path, jpeg).unwrap();
    let back = load_picture(&path).unwrap();
    assert_eq!((back.width, back.height), (16, 32));
    let turned = |x: usize, y: usize| (15 - x) * 32 + y;
    let rgb = (0..16 * 32).flat_map(|i| {
        let at = turned(i % 16, i / 16) * 3;
        picture.rgb[at..at + 3].to_vec()
    });
    let expected = Picture {
        width: 16,
        height: 32,
        rgb: rgb.collect(),
    };
    assert!(psnr(&expected, &back) > 30.0, "{}", psnr(&expected, &back));
}

#[test]
fn what_is_no_picture_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.latent");
    std::fs::write(&path, [7; 100]).unwrap();
    let error = load_picture(&path).unwrap_err().to_string();
    assert!(error.contains("a.latent: not a supported image"), "{error}");
}

#[test]
fn pictures_too_large_for_a_format_are_told_beforehand() {
    let room = |name: &str, size| has_room(Path::new(name), size);
    for (name, most) in [("a.webp", 16_384), ("a.JPG", 65_535), ("a.gif", 65_535)] {
        assert!(room(name, (most, 8)).is_ok(), "{name}");
        let error = room(name, (8, most + 1)).unwrap_err().to_string();
        assert!(error.contains(&format!("8x{}", most + 1)), "{error}");
    }
    assert!(room("a.png", (1 << 20, 8)).is_ok());
}

#[test]
fn places_where_nothing_can_be_written_are_told_beforehand() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for folder in ["a.png", "a.y4m", "frames"] {
        std::fs::create_dir(at(folder)).unwrap();
    }
    std::fs::write(at("file"), "x").unwrap();
    let picture = |name: &str| can_write_picture(&at(name));
    let video = |name: &str| can_write_video(&at(name));
    for (tried, says) in [
        (picture("a.png"), "directory"),
        (picture("no/a.png"), "no does not exist"),
        (
            picture("a.gif"),
            "\"gif\" is not a supported output format for images; they can be png",
        ),
        (
            picture("a"),
            "the name has no extension, which sets the format",
        ),
        (video("a.y4m"), "directory"),
        (video("file"), "not a directory"),
        (
            video("b.jpg"),
            "\"jpg\" is not a supported output format for videos; they can be mp4",
        ),
    ] {
        let error = tried.unwrap_err().to_string();
        assert!(error.contains(says), "{says:?} is missing from {error}");
    }
    for tried in [
        picture("b.png"),
        video("b.y4m"),
        video("frames"),
        video("new"),
    ] {
        tried.unwrap();
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4);
}

#[test]
fn animations_hold_every_frame() {
    let dir = tempfile::tempdir().unwrap();
    let frames: Vec<Picture> = (0..5).map(|i| gradient(17, 12, i)).collect();
    for name in ["a.gif", "a.apng", "a.webp", "a.y4m", "folder"] {
        let path = dir.path().join(name);
        let mut sink = create_video(&path, &clip(17, 12, frames.len(), 16.0)).unwrap();
        frames.iter().for_each(|f| sink.frame(f).unwrap());
        assert!(!path.exists(), "{name} appears only when it is whole");
        sink.finish().unwrap();
        let file = || BufReader::new(File::open(&path).unwrap());
        let found = match name {
            "a.gif" => image::codecs::gif::GifDecoder::new(file())
                .unwrap()
                .into_frames()
                .count(),
            "a.webp" => {
                let frames = image::codecs::webp::WebPDecoder::new(file())
                    .unwrap()
                    .into_frames()
                    .collect_frames()
                    .unwrap();
                let last = frames[4].buffer();
                assert_eq!(last.get_pixel(3, 2).0, [15, 14, 160, 255]);
                frames.len()
            }
            "a.apng" => image::codecs::png::PngDecoder::new(file())
                .unwrap()
                .apng()
                .unwrap()
                .into_frames()
                .count(),
            "a.y4m" => {
                let bytes = std::fs::read(&path).unwrap();
                (bytes.len() - bytes.iter().position(|&b| b == b'\n').unwrap() - 1)
                    / (6 + 3 * 17 * 12)
            }
            _ => std::fs::read_dir(&path).unwrap().count(),
        };
        assert_eq!(found, 5, "{name}");
    }
}

#[test]
fn what_is_not_finished_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.gif", "a.apng", "a.webp", "a.y4m", "folder"] {
        let mut sink = create_video(&dir.path().join(name), &clip(17, 12, 3, 16.0)).unwrap();
        sink.frame(&gradient(17, 12, 0)).unwrap();
        drop(sink);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let error = write_picture(&dir.path().join("a.bmp"), &gradient(2, 2, 0), &[]).unwrap_err();
    assert!(matches!(error, MediaError::UnknownFormat { .. }), "{error}");
    let error =
        write_picture(&dir.path().join("no/such/a.png"), &gradient(2, 2, 0), &[]).unwrap_err();
    assert!(error.to_string().contains("cannot create"), "{error}");
}

#[test]
fn videos_come_back_frame_by_frame() {
    let dir = tempfile::tempdir().unwrap();
    let frames: Vec<Picture> = (0..5).map(|i| gradient(17, 12, i)).collect();
    let cases = [
        ("a.gif", 25.0),
        ("a.apng", 99.0),
        ("b.png", 99.0),
        ("a.webp", 99.0),
        ("a.y4m", 45.0),
        ("folder", 99.0),
    ];
    for (name, least) in cases {
        let path = dir.path().join(name);
        let mut sink = create_video(&path, &clip(17, 12, frames.len(), 16.0)).unwrap();
        frames.iter().for_each(|f| sink.frame(f).unwrap());
        sink.finish().unwrap();
        let mut source = open_video(&path).unwrap().unwrap();
        for frame in &frames {
            let back = source.next_frame().unwrap().unwrap();
            assert!(psnr(frame, &back) > least, "{name}: {}", psnr(frame, &back));
        }
        assert!(source.next_frame().unwrap().is_none(), "{name}");
    }
    let still = dir.path().join("still.png");
    write_picture(&still, &frames[0], &[]).unwrap();
    assert!(open_video(&still).unwrap().is_none());
}

#[test]
fn frames_of_two_clips_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frames");
    let write = |n: usize| {
        let mut sink = create_video(&path, &clip(4, 4, n, 16.0))?;
        (0..n).try_for_each(|i| sink.frame(&gradient(4, 4, i)))?;
        sink.finish()
    };
    write(3).unwrap();
    write(3).unwrap();
    write(4).unwrap();
    let error = write(3).unwrap_err().to_string();
    assert!(
        error.contains("00003.png") && error.contains("3 frames"),
        "{error}"
    );
}

/// Their data are in several chunks a frame, all numbered in one sequence.
#[test]
fn apng_of_larger_frames() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.apng");
    let frames: Vec<Picture> = (0..3).map(|i| gradient(300, 400, i)).collect();
    let mut sink = create_video(&path, &clip(300, 400, frames.len(), 12.5)).unwrap();
    let error = sink.frame(&gradient(300, 399, 0)).unwrap_err().to_string();
    assert!(error.contains("300 x 399"), "{error}");
    frames.iter().for_each(|f| sink.frame(f).unwrap());
    sink.finish().unwrap();
    let file = BufReader::new(File::open(&path).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut back = vec![0; reader.output_buffer_size().unwrap()];
    for frame in &frames {
        reader.next_frame(&mut back).unwrap();
        assert!(back == frame.rgb);
        let control = reader.info().frame_control.unwrap();
        assert_eq!((control.delay_num, control.delay_den), (100, 1250));
    }
    reader.finish().unwrap();
}

#[test]
fn y4m_of_other_kinds_and_broken_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.y4m");
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        open_video(&path).and_then(|v| v.unwrap().next_frame())
    };
    // 3x2 gray of 4:2:0: two colors across, one down.
    let gray = |kind: &str, color: usize| {
        let mut file = format!("YUV4MPEG2 W3 H2 F25:1 {kind}\nFRAME\n").into_bytes();
        file.extend([126; 6]);
        file.extend(vec![128; color]);
        file
    };
    for (kind, color) in [
        ("C420jpeg", 4),
        ("C422", 8),
        ("C444", 12),
        ("Cmono", 0),
        ("Ip", 4),
    ] {
        let frame = read(&gray(kind, color)).unwrap().unwrap();
        assert_eq!(frame.rgb, vec![128; 18], "{kind}");
    }
    for (file, says) in [
        (&b"RIFF"[..], "not a Y4M"),
        (b"YUV4MPEG2 H2\n", "size"),
        (b"YUV4MPEG2 W2 H2 C420p10\n", "420p10"),
        (b"YUV4MPEG2 W2 H2 C444\nFRAME\n123", "whole frame"),
        (b"YUV4MPEG2 W2 H2 C444\nGRAME\n", "FRAME"),
    ] {
        let error = read(file).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn frames_on_a_pipe() {
    let limits = Limits::default();
    let guard = Guard {
        path: Path::new("a.mp4"),
        format: "video",
        file_bytes: 100,
        limits: &limits,
    };
    let mut pipe = &b"P6\n2 1\n255\nabcdefP6 1 1 255\nxyz"[..];
    assert_eq!(read_ppm(&mut pipe, guard).unwrap().unwrap().rgb, b"abcdef");
    assert_eq!(read_ppm(&mut pipe, guard).unwrap().unwrap().rgb, b"xyz");
    assert!(read_ppm(&mut pipe, guard).unwrap().is_none());
    for broken in [
        &b"P5 1 1 255\nx"[..],
        b"P6 1 1 65535\nxx",
        b"P6 x",
        b"P6 2 2 255\nab",
        b"P6 0 2 255\n",
        b"P6 65535 65535 255\n",
    ] {
        assert!(read_ppm(&mut &broken[..], guard).is_err());
    }
}

fn texts(path: &Path) -> Result<Vec<(String, String)>, MediaError> {
    Ok(read_text(path, &["parameters", "prompt"], &Limits::default())?.found)
}

#[test]
fn parameters_come_back_from_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let picture = Picture {
        width: 8,
        height: 8,
        rgb: vec![100; 8 * 8 * 3],
    };
    let text = [
        ("parameters", "狐\nSteps: 4".to_owned()),
        ("prompt", "{}".to_owned()),
    ];
    for (name, n) in [("a.png", 2), ("a.jpg", 1), ("a.webp", 1)] {
        let path = dir.path().join(name);
        write_picture(&path, &picture, &text).unwrap();
        let found = texts(&path).unwrap();
        assert_eq!(found.len(), n, "{name}");
        let parameters = found.iter().find(|(k, _)| k == "parameters").unwrap();
        assert_eq!(parameters.1, text[0].1, "{name}");
        write_picture(&path, &picture, &[]).unwrap();
        assert!(texts(&path).unwrap().is_empty(), "{name}");
    }
}

/// Lossy, but the frames and their number come back; one that is not finished leaves nothing.
#[test]
fn mp4_through_ffmpeg() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("clip.mp4");
    let frames: Vec<Picture> = (0..5).map(|i| gradient(48, 32, i)).collect();
    let mut video = match create_video(&path, &clip(48, 32, 5, 12.5)) {
        Err(MediaError::NoFfmpeg { .. }) => {
            println!("skipped: no ffmpeg on the PATH");
            return;
        }
        other => other.unwrap(),
    };
    frames.iter().for_each(|f| video.frame(f).unwrap());
    video.finish().unwrap();
    let mut source = open_video(&path).unwrap().unwrap();
    let mut n = 0;
    while let Some(frame) = source.next_frame().unwrap() {
        let db = psnr(&frame, &frames[n]);
        assert!(db > 25.0, "frame {n}: {db} dB");
        n += 1;
    }
    assert_eq!(n, 5);
    let names = || -> Vec<_> {
        let entries = std::fs::read_dir(dir.path()).unwrap();
        entries.map(|e| e.unwrap().file_name()).collect()
    };
    assert_eq!(names(), ["clip.mp4"]);
    let mut left = create_video(&dir.path().join("b.mp4"), &clip(48, 32, 5, 12.5)).unwrap();
    left.frame(&frames[0]).unwrap();
    drop(left);
    assert_eq!(names(), ["clip.mp4"]);
    // What ffmpeg cannot do it says itself: this pixel format has no odd sizes.
    let mut odd = create_video(&dir.path().join("c.mp4"), &clip(47, 31, 5, 12.5)).unwrap();
    let sent = (0..5).try_for_each(|i| odd.frame(&gradient(47, 31, i)));
    let error = sent.and_then(|()| odd.finish()).unwrap_err().to_string();
    assert!(error.contains("ffmpeg failed"), "{error}");
    assert_eq!(names(), ["clip.mp4"]);
}

/// Shape and values of a tensor of `goldens/image/nodes.safetensors`.
pub(crate) fn golden(name: &str) -> (Vec<usize>, Vec<f32>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens");
    let file = nino_weights::open(root.join("image/nodes.safetensors")).unwrap();
    let entry = file.entry(name).unwrap();
    let mut values = vec![0.0; entry.n_values()];
    file.read_f32(entry, &mut values).unwrap();
    (entry.shape.clone(), values)
}

/// The largest difference.
pub(crate) fn apart(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let pairs = found.iter().zip(expected);
    pairs.map(|(f, e)| (f - e).abs()).fold(0.0, f32::max)
}

/// The picture is small; its only frame says that it has 210 million pixels.
#[test]
fn a_frame_beyond_the_picture_of_a_gif_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frame.gif");
    let mut bytes = b"GIF89a\x18\x00\x10\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff".to_vec();
    bytes.extend([0x2c, 0, 0, 0, 0]);
    bytes.extend(17744u16.to_le_bytes());
    bytes.extend(11826u16.to_le_bytes());
    bytes.extend([0, 2, 2, 0x4c, 0x01, 0, 0x3b]);
    std::fs::write(&path, bytes).unwrap();
    let mut clip = open_video(&path).unwrap().unwrap();
    let error = clip.next_frame().unwrap_err();
    assert!(error.to_string().contains("limit"), "{error}");
}

/// What is clear in a picture is clear in its file, of every format that can keep it.
#[test]
fn transparency_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let picture = gradient(40, 30, 2);
    let opacity: Vec<u8> = (0..40 * 30).map(|i| (i * 7 % 256) as u8).collect();
    let options = PictureOptions {
        opacity: Some(&opacity),
        ..PictureOptions::default()
    };
    let read = |path: &Path| {
        let (picture, clear) = load_with_alpha(path, &Limits::default()).unwrap();
        let clear = clear.unwrap().values;
        let opaque = clear.iter().map(|c| ((1.0 - c) * 255.0).round() as u8);
        (picture, opaque.collect::<Vec<_>>())
    };
    for name in ["a.png", "a.webp"] {
        let path = folder.path().join(name);
        write_picture_with(&path, &picture, &options).unwrap();
        let (found, opaque) = read(&path);
        assert_eq!(opaque, opacity, "{name}");
        let shown = found.rgb.chunks(3).zip(picture.rgb.chunks(3)).zip(&opacity);
        // Formats may leave out the color of what is not seen.
        assert!(shown.clone().all(|((a, b), &o)| a == b || o == 0), "{name}");
    }
    let told = write_picture_with(&folder.path().join("a.jpg"), &picture, &options).unwrap_err();
    assert!(told.to_string().contains("png and webp do"), "{told}");

    let format = ClipFormat {
        has_opacity: true,
        audio: None,
        ..clip(40, 30, 2, 10.0)
    };
    for name in ["b.apng", "b.webp"] {
        let path = folder.path().join(name);
        let mut sink = create_video(&path, &format).unwrap();
        for shift in [2, 3] {
            sink.frame_with(&gradient(40, 30, shift), &opacity).unwrap();
        }
        sink.finish().unwrap();
        let bytes = std::io::BufReader::new(std::fs::File::open(&path).unwrap());
        let frames = if name == "b.apng" {
            let decoder = image::codecs::png::PngDecoder::new(bytes).unwrap();
            decoder.apng().unwrap().into_frames()
        } else {
            image::codecs::webp::WebPDecoder::new(bytes)
                .unwrap()
                .into_frames()
        };
        let frames = frames.collect_frames().unwrap();
        assert_eq!(frames.len(), 2, "{name}");
        for frame in frames {
            let found: Vec<u8> = frame.buffer().pixels().map(|p| p.0[3]).collect();
            assert_eq!(found, opacity, "{name}");
        }
    }
    assert!(create_video(&folder.path().join("b.gif"), &format).is_err());
}
