//! How long a PNG takes to write into memory, against the `png` crate's stream writer at level 4,
//! in turns: `cargo run --release -p nino-media --example png_speed [PICTURE | WIDTHxHEIGHT]
//! [THREADS]`. Without a picture, one is made up: smooth, with a grain.

use nino_media::{Limits, MediaError, Picture, load_picture};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), MediaError> {
    let mut args = std::env::args().skip(1);
    let from = args.next().unwrap_or_else(|| "1024x1024".to_owned());
    let size = from
        .split_once('x')
        .and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    let picture = match size {
        Some((width, height)) => made_up(width, height),
        None => load_picture(Path::new(&from), &Limits::default())?,
    };
    let threads = args.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.expect("threads can be started");
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let mut sizes = (0, 0);
    for _ in 0..11 {
        let start = Instant::now();
        sizes.0 = by_the_crate(&picture).expect("memory takes it").len();
        old.push(start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        sizes.1 = pool.install(|| nino_media::png(&picture)).len();
        new.push(start.elapsed().as_secs_f64() * 1e3);
    }
    #[allow(clippy::print_stdout)]
    for (name, threads, mut times, size) in [
        ("the png crate at level 4", 1, old, sizes.0),
        ("nino-media", pool.current_num_threads(), new, sizes.1),
    ] {
        times.sort_by(f64::total_cmp);
        let (n, median) = (times.len(), times[times.len() / 2]);
        println!(
            "{name}, {} x {}, {threads} threads: n {n}, median {median:.2} ms ({:.2} to {:.2}), {:.0} MB/s, {size} bytes",
            picture.width,
            picture.height,
            times[0],
            times[n - 1],
            picture.rgb.len() as f64 / median / 1e3,
        );
    }
    Ok(())
}

fn by_the_crate(picture: &Picture) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let (width, height) = (picture.width as u32, picture.height as u32);
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_deflate_compression(png::DeflateCompression::Level(4));
    let mut writer = encoder.write_header()?;
    let mut stream = writer.stream_writer()?;
    stream.write_all(&picture.rgb)?;
    stream.finish()?;
    writer.finish()?;
    Ok(bytes)
}

fn made_up(width: usize, height: usize) -> Picture {
    let mut picture = Picture::new(width, height);
    let mut state = 1_u64;
    for (i, value) in picture.rgb.iter_mut().enumerate() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (x, y) = ((i / 3 % width) as f64, (i / 3 / width) as f64);
        let wave = (x / (70.0 + 20.0 * (i % 3) as f64)).sin() + (y / 90.0).cos();
        *value = (120.0 + 60.0 * wave + (state >> 40) as f64 % 4.0) as u8;
    }
    picture
}
