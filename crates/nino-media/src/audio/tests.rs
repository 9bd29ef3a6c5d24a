use super::{Audio, load_audio};
use crate::{Limits, MediaError, ReadOptions};
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("nino-audio-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A WAV of one chunk of samples.
fn wav(kind: u16, channels: u16, bits: u16, size: u32, data: &[u8]) -> Vec<u8> {
    let mut out = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt ".to_vec();
    out.extend(16u32.to_le_bytes());
    out.extend([kind, channels].map(u16::to_le_bytes).concat());
    out.extend(8_000u32.to_le_bytes());
    let frame = channels * bits / 8;
    out.extend((8_000 * u32::from(frame)).to_le_bytes());
    out.extend([frame, bits].map(u16::to_le_bytes).concat());
    out.extend(b"data");
    out.extend(size.to_le_bytes());
    out.extend(data);
    out
}

fn read(path: &Path, bytes: &[u8]) -> Result<Audio, MediaError> {
    std::fs::write(path, bytes).unwrap();
    load_audio(path, &ReadOptions::default())
}

#[test]
fn integers_and_floats_are_read_channel_by_channel() {
    let path = folder("kinds").join("a.wav");
    let i16s = [16_384i16, -32_768, 0, 8_192]
        .map(i16::to_le_bytes)
        .concat();
    let audio = read(&path, &wav(1, 2, 16, 8, &i16s)).unwrap();
    assert_eq!((audio.rate, audio.channels, audio.len()), (8_000, 2, 2));
    assert_eq!(audio.samples, [0.5, 0.0, -1.0, 0.25]);
    assert_eq!(audio.mono().samples, [-0.25, 0.125]);
    assert_eq!(audio.first(1).samples, [0.5, -1.0]);

    let i24s = [[0, 0, 0x40], [0, 0, 0x80], [1, 0, 0]].concat();
    let audio = read(&path, &wav(1, 1, 24, 9, &i24s)).unwrap();
    assert_eq!(audio.samples, [0.5, -1.0, 1.0 / 8_388_608.0]);

    let i32s = [i32::MIN, 1 << 30].map(i32::to_le_bytes).concat();
    let audio = read(&path, &wav(1, 1, 32, 8, &i32s)).unwrap();
    assert_eq!(audio.samples, [-1.0, 0.5]);

    let f32s = [0.75f32, f32::NAN, -2.0].map(f32::to_le_bytes).concat();
    let audio = read(&path, &wav(3, 1, 32, 12, &f32s)).unwrap();
    assert_eq!(audio.samples, [0.75, 0.0, -2.0]);
}

#[test]
fn what_is_written_is_read_again() {
    let path = folder("again").join("a.wav");
    let audio = Audio {
        rate: 44_100,
        channels: 2,
        samples: vec![0.1, 0.2, 0.3, -0.4, -0.5, -0.6],
    };
    let mut bytes = Vec::new();
    audio.write_wav(&mut bytes).unwrap();
    assert_eq!(read(&path, &bytes).unwrap(), audio);
}

#[test]
fn a_wav_that_says_more_than_it_holds_is_refused() {
    let path = folder("hostile").join("a.wav");
    let whole = wav(1, 1, 16, 8, &[0; 8]);
    let said = |bytes: &[u8]| read(&path, bytes).unwrap_err().to_string();
    for cut in 12..whole.len() {
        assert!(said(&whole[..cut]).contains("ends before"), "cut at {cut}");
    }
    assert!(said(&wav(1, 1, 16, 1 << 31, &[0; 8])).contains("ends before"));
    assert!(said(&wav(1, 0, 16, 8, &[0; 8])).contains("0 channels"));
    assert!(said(&wav(1, 1, 16, 0, &[])).contains("no samples"));
    // One whose length was not known when it was written.
    let open = wav(1, 1, 16, u32::MAX, &[0; 9]);
    assert_eq!(read(&path, &open).unwrap().len(), 4);
    let options = ReadOptions {
        limits: Limits {
            bytes_unpacked: 31,
            ..Limits::default()
        },
        ..ReadOptions::default()
    };
    let error = load_audio(&path, &options).unwrap_err();
    assert!(matches!(error, MediaError::BeyondLimit { most: 31, .. }));
}

/// `goldens/audio/make.py`: torchaudio's numbers.
#[test]
fn resampling_is_torchaudios() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/audio");
    for (from, to) in [
        (44_100, 16_000),
        (48_000, 16_000),
        (8_000, 16_000),
        (22_050, 44_100),
    ] {
        let read = |name: String| load_audio(&path.join(name), &ReadOptions::default()).unwrap();
        let found = read(format!("{from}.wav")).resampled(to);
        let expected = read(format!("{from}_{to}.wav"));
        assert_eq!((found.len(), found.rate), (expected.len(), expected.rate));
        let pairs = found.samples.iter().zip(&expected.samples);
        let most = pairs.map(|(f, e)| (f - e).abs()).fold(0.0, f32::max);
        println!("{from} to {to}: largest difference {most:e}");
        assert!(most < 1e-6, "{from} to {to}: {most:e}");
    }
}
