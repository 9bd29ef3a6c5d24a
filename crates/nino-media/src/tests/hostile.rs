//! Files that say more than they hold: sizes, texts and profiles that unpack to gigabytes, and
//! files that were cut. Each is refused from its headers, with the numbers.

use super::{gradient, load_picture, open_video, write_picture};
use crate::{Limits, MediaError, ReadOptions, read_text};
use std::path::{Path, PathBuf};
use zlib_rs::{DeflateConfig, ReturnCode, compress_bound, compress_slice};

fn chunk(name: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut out = (data.len() as u32).to_be_bytes().to_vec();
    out.extend(name);
    out.extend(data);
    let sum = zlib_rs::crc32::crc32(zlib_rs::crc32::crc32(0, &name), data);
    out.extend(sum.to_be_bytes());
    out
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0; compress_bound(bytes.len())];
    let (out, code) = compress_slice(&mut out, bytes, DeflateConfig::default());
    assert_eq!(code, ReturnCode::Ok);
    out.to_vec()
}

/// An RGB picture of that size whose data is too short, with more chunks before it.
fn png(width: u32, height: u32, more: &[Vec<u8>]) -> Vec<u8> {
    let mut header = [width, height].map(u32::to_be_bytes).concat();
    header.extend([8, 2, 0, 0, 0]);
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    out.extend(chunk(*b"IHDR", &header));
    more.iter().for_each(|c| out.extend(c));
    out.extend(chunk(*b"IDAT", &deflated(&[0; 64])));
    out.extend(chunk(*b"IEND", &[]));
    out
}

fn riff(chunks: &[(&[u8; 4], u32, &[u8])]) -> Vec<u8> {
    let mut body = b"WEBP".to_vec();
    for (name, len, data) in chunks {
        body.extend(*name);
        body.extend(len.to_le_bytes());
        body.extend(*data);
    }
    let mut out = b"RIFF".to_vec();
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(body);
    out
}

/// 43 bytes.
const HUGE_GIF: &[u8] = b"GIF89a\xff\xff\xff\xff\x80\0\0\0\0\0\0\0\0!\xf9\x04\0\0\0\0\0,\0\0\0\0\
    \x01\0\x01\0\0\x02\x02D\x01\0;";

fn refused(path: &Path, bytes: &[u8]) -> [MediaError; 2] {
    std::fs::write(path, bytes).unwrap();
    let still = load_picture(path).unwrap_err();
    let clip = match open_video(path) {
        Ok(Some(mut clip)) => clip.next_frame().unwrap_err(),
        Ok(None) => load_picture(path).unwrap_err(),
        Err(error) => error,
    };
    [still, clip]
}

#[test]
fn sizes_that_no_picture_has_are_refused_from_the_header() {
    let dir = tempfile::tempdir().unwrap();
    let animated = [
        chunk(*b"acTL", &[0, 0, 0, 2, 0, 0, 0, 0]),
        chunk(*b"fcTL", &[0; 26]),
    ];
    let canvas = [2, 0, 0, 0, 0xff, 0x3f, 0, 0xff, 0x3f, 0];
    let still = dir.path().join("still.jpg");
    write_picture(&still, &gradient(16, 16, 0), &[]).unwrap();
    let mut jpeg = std::fs::read(&still).unwrap();
    let size = jpeg.windows(2).position(|w| w == [0xff, 0xc0]).unwrap() + 5;
    jpeg[size..size + 4].copy_from_slice(&[0xff, 0xdc, 0xff, 0xdc]);
    for (name, bytes, says) in [
        (
            "a.gif",
            HUGE_GIF.to_vec(),
            "this GIF of 43 bytes has 65535x65535 pixels",
        ),
        ("a.png", png(60_000, 60_000, &[]), "has 60000x60000 pixels"),
        (
            "b.png",
            png(255, 0x7f00_0040, &[]),
            "has 255x2130706496 pixels",
        ),
        (
            "a.apng",
            png(60_000, 60_000, &animated),
            "has 60000x60000 pixels",
        ),
        ("a.jpg", jpeg, "has 65500x65500 pixels"),
        (
            "a.webp",
            riff(&[(b"VP8X", 10, &canvas), (b"ANIM", 6, &[0; 6])]),
            "has 16384x16384 pixels",
        ),
        (
            "b.webp",
            riff(&[(b"VP8L", 6, &[0x2f, 0xff, 0xff, 0xff, 0x0f, 0])]),
            "has 16384x16384 pixels",
        ),
    ] {
        for error in refused(&dir.path().join(name), &bytes) {
            let error = error.to_string();
            assert!(error.contains(says), "{name}: {error}");
            assert!(error.ends_with("the limit is 100000000 pixels"), "{error}");
        }
    }
    let y4m = dir.path().join("a.y4m");
    std::fs::write(&y4m, "YUV4MPEG2 W65535 H65535 F25:1 C444\nFRAME\n").unwrap();
    let Err(error) = open_video(&y4m) else {
        panic!("no frame has so many pixels");
    };
    assert!(error.to_string().contains("has 65535x65535"), "{error}");
}

#[test]
fn limits_follow_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.png", "a.jpg", "a.webp"] {
        let path = dir.path().join(name);
        write_picture(&path, &gradient(400, 300, 1), &[]).unwrap();
        let within = |bytes| crate::load_picture(&path, &Limits::within(bytes));
        assert_eq!(within(4 << 20).unwrap().width, 400);
        let error = within(1 << 20).unwrap_err();
        let says = "bytes of memory for 400x300 pixels; the limit is 1048576 bytes";
        assert!(error.to_string().contains(says), "{error}");
    }
    let frames = ReadOptions {
        limits: Limits {
            frames: 2,
            ..Limits::default()
        },
        ..ReadOptions::default()
    };
    for name in ["a.gif", "b.apng", "b.webp", "a.y4m", "folder"] {
        let path = dir.path().join(name);
        let mut sink = crate::create_video(&path, &super::clip(8, 8, 3, 4.0)).unwrap();
        (0..3).for_each(|i| sink.frame(&gradient(8, 8, i)).unwrap());
        sink.finish().unwrap();
        let read = crate::open_video(&path, &frames).and_then(|clip| {
            let mut clip = clip.unwrap();
            while clip.next_frame()?.is_some() {}
            Ok(())
        });
        let error = read.unwrap_err().to_string();
        assert!(error.ends_with("the limit is 2 frames"), "{name}: {error}");
    }
}

/// A hundred megabytes of one letter are a hundred kilobytes of file.
#[test]
fn texts_and_profiles_do_not_unpack_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.png");
    let bomb = deflated(&vec![b'a'; 100 << 20]);
    let long = |start: &[u8]| [start, &bomb].concat();
    let write = |chunks: &[Vec<u8>]| std::fs::write(&path, png(8, 8, chunks)).unwrap();
    let read = || read_text(&path, &["parameters"], &Limits::default());
    for start in [
        (b"zTXt", &b"parameters\0\0"[..]),
        (b"iTXt", b"parameters\0\x01\0\0\0"),
    ] {
        write(&[chunk(*start.0, &long(start.1))]);
        let error = read().unwrap_err().to_string();
        let says = "its text \"parameters\" unpacks to more than 16777216 bytes";
        assert!(error.contains(says), "{error}");
    }
    // A text that nobody asked for is not unpacked.
    let asked = chunk(*b"tEXt", b"parameters\0a fox");
    write(&[chunk(*b"zTXt", &long(b"other\0\0")), asked.clone()]);
    let text = read().unwrap();
    assert_eq!(text.found, [("parameters".to_owned(), "a fox".to_owned())]);
    assert_eq!(text.others, ["other"]);
    write(&[chunk(*b"iCCP", &long(b"profile\0\0"))]);
    let error = load_picture(&path).unwrap_err().to_string();
    assert!(error.contains("its color profile unpacks"), "{error}");
    // As much of it as stored.
    let many = vec![chunk(*b"tEXt", &[&b"x\0"[..], &vec![b'a'; 9 << 20]].concat()); 2];
    write(&many);
    let error = load_picture(&path).unwrap_err().to_string();
    assert!(error.contains("carries 18874372 bytes of text"), "{error}");
    assert!(read().is_err());
    let mut damaged = asked;
    damaged[12] ^= 1;
    write(&[damaged]);
    let error = read().unwrap_err().to_string();
    assert!(
        error.contains("chunk tEXt at byte 41 is not whole"),
        "{error}"
    );
}

/// A chunk that says it has four gigabytes, in a file of a hundred bytes.
#[test]
fn chunks_that_reach_past_the_end_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let canvas = [8, 0, 0, 0, 7, 0, 0, 7, 0, 0];
    let bytes = riff(&[(b"VP8X", 10, &canvas), (b"EXIF", 0xffff_fff0, &[0; 8])]);
    let path = dir.path().join("a.webp");
    for error in refused(&path, &bytes) {
        assert!(error.to_string().contains("truncated"), "{error}");
    }
    assert!(read_text(&path, &["parameters"], &Limits::default()).is_err());
}

#[test]
fn every_cut_of_every_picture_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.png", "a.jpg", "a.webp"] {
        let path = dir.path().join(name);
        let text = [("parameters", "a fox".to_owned())];
        write_picture(&path, &gradient(48, 40, 3), &text).unwrap();
        assert_eq!(load_picture(&path).unwrap().width, 48);
        let whole = std::fs::read(&path).unwrap();
        let cut = dir.path().join(format!("cut-{name}"));
        for len in 0..whole.len() {
            std::fs::write(&cut, &whole[..len]).unwrap();
            assert!(load_picture(&cut).is_err(), "{name} cut to {len} bytes");
            let text = read_text(&cut, &["parameters"], &Limits::default());
            assert!(text.is_err(), "{name} cut to {len} bytes");
        }
    }
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_no_pictures() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.png", "a.jpg", "a.gif", "a.webp", "a.y4m", "a.mp4"] {
        let path = dir.path().join(name);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let Err(clip) = open_video(&path) else {
            panic!("{name} is no clip");
        };
        for error in [clip, load_picture(&path).unwrap_err()] {
            assert!(error.to_string().contains("a device"), "{name}: {error}");
        }
    }
}

/// Files of an attack on an earlier version, where they are at hand.
#[test]
fn hostile_files_are_refused() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/hostile");
    let names = ["cut30.jpg", "huge.apng", "huge.gif", "huge.jpg", "huge.png"];
    for path in names.map(|name| folder.join(name)) {
        if !path.is_file() {
            println!("skipped: no {}", path.display());
            continue;
        }
        let error = load_picture(&path).unwrap_err();
        assert!(
            matches!(
                error,
                MediaError::BeyondLimit { .. } | MediaError::Damaged { .. }
            ),
            "{error}"
        );
        if let Ok(Some(mut clip)) = open_video(&path) {
            clip.next_frame().unwrap_err();
        }
    }
}
