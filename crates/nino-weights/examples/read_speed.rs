//! How fast a file's header parses and its tensors read: `cargo run --release --example read_speed
//! FILE`. Compare with `dd if=FILE of=/dev/null bs=1M` on the same cached file.

use std::time::Instant;

fn main() -> Result<(), nino_weights::Error> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let mut header = Vec::new();
    for _ in 0..21 {
        let start = Instant::now();
        let reader = nino_weights::open(&path)?;
        header.push((
            start.elapsed().as_secs_f64() * 1e3,
            reader.index().entries().len(),
        ));
    }
    header.sort_by(|a, b| a.0.total_cmp(&b.0));
    let reader = nino_weights::open(&path)?;
    let entries = reader.index().entries();
    let most = entries
        .iter()
        .map(nino_weights::Entry::n_bytes)
        .max()
        .unwrap_or(0);
    let mut buf = vec![0; most as usize];
    let mut speeds = Vec::new();
    for _ in 0..7 {
        let start = Instant::now();
        for entry in entries {
            reader.read(entry, &mut buf[..entry.n_bytes() as usize])?;
        }
        speeds.push(reader.index().n_bytes() as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    speeds.sort_by(f64::total_cmp);
    #[allow(clippy::print_stdout)]
    {
        println!(
            "header of {} tensors: median {:.2} ms of {}",
            header[10].1,
            header[10].0,
            header.len()
        );
        println!("reading: median {:.2} GB/s of {:.2?}", speeds[3], speeds);
    }
    Ok(())
}
