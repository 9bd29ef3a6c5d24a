//! Bytes pass through windows whatever kind of block they are in.

use super::*;
use crate::testing::gpus;

const BYTES: usize = 1024;

fn numbers(n: usize, from: usize) -> Vec<u8> {
    (from..from + n).map(|i| (i * 7 % 251) as u8).collect()
}

#[test]
fn gpu_bytes_pass_through_windows() {
    gpus(None).iter().for_each(check);
}

fn check(gpu: &Gpu) {
    assert!(gpu.has_host_buffers());
    let blocks = [
        Block::on_device(gpu, BYTES).unwrap(),
        Block::on_host(gpu, BYTES).unwrap(),
        Block::Bytes(vec![0; BYTES]),
    ];
    assert!(matches!(blocks[1], Block::Buffer(_)));
    for mut block in blocks {
        let usage = wgpu::BufferUsages::STORAGE | COPIES;
        let window = gpu.raw_buffer("window", 512, usage).unwrap();
        let at = |offset| Window {
            buffer: &window,
            offset,
        };
        let all = numbers(BYTES, 0);
        block.write(gpu, 0, &all).unwrap();
        // A step of an op can need nothing of an operand.
        block.bring(gpu, &(BYTES..BYTES), at(0)).unwrap();
        block.take(gpu, &(BYTES..BYTES), at(512)).unwrap();
        // Ends in the middle of words.
        let bytes = 301..403;
        block.bring(gpu, &bytes, at(45)).unwrap();
        let mut found = vec![0; bytes.len()];
        gpu.read_within(&window, 45, &mut found).unwrap();
        assert_eq!(found, all[bytes.clone()]);
        // A step makes these and nothing around them.
        gpu.write(&window, 0, &[0xee; 512]).unwrap();
        block.bring_edges(gpu, &bytes, at(45)).unwrap();
        let made = numbers(bytes.len(), 5000);
        gpu.write_within(&window, 45, &made).unwrap();
        block.take(gpu, &bytes, at(45)).unwrap();
        let mut found = vec![0; BYTES];
        block.read(gpu, 0, &mut found).unwrap();
        assert_eq!(found[..301], all[..301]);
        assert_eq!(found[bytes], made);
        assert_eq!(found[403..], all[403..]);
    }
}
