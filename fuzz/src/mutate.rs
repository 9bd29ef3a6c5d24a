//! Changes bytes the way damage and attackers do: flipped bits, numbers at the edges of their
//! types, pieces removed, repeated and exchanged. Everything follows from the random numbers.

use crate::seeds::Seed;

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    /// Numbers of their own for every case of every target.
    pub(crate) fn of(seed: u64, target: &str, case: u64) -> Random {
        let mut state = seed ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in target.bytes() {
            state = (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        Random(state)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`; 0 for 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Numbers that mistakes are made with.
const EDGES: [u64; 18] = [
    0,
    1,
    2,
    7,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x3fff,
    0x7fff,
    0x8000,
    0xffff,
    0x10000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];
const NUMBERS: [&[u8]; 6] = [
    b"0",
    b"-1",
    b"65535",
    b"4294967296",
    b"18446744073709551615",
    b"1e999",
];

/// `bytes` with one to eight changes; `others` gives pieces to exchange. No more than 4 MB.
pub(crate) fn mutate(bytes: &mut Vec<u8>, others: &[Seed], random: &mut Random) {
    for _ in 0..=random.below(8) {
        change(bytes, others, random);
        bytes.truncate(4 << 20);
    }
    if random.below(2) == 0 {
        mend_png(bytes);
    }
}

fn change(bytes: &mut Vec<u8>, others: &[Seed], random: &mut Random) {
    // Headers are at the beginning: half of all changes are made there.
    let reach = if random.below(2) == 0 {
        bytes.len()
    } else {
        bytes.len().min(256)
    };
    let at = random.below(reach);
    let len = (1 + random.below(64)).min(bytes.len() - at.min(bytes.len()));
    match random.below(10) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
        2 | 3 => number(bytes, at, random),
        4 => drop(bytes.drain(at..at + len)),
        5 => {
            let piece = bytes[at..at + len].to_vec();
            let most = if random.below(8) == 0 { 10_000 } else { 4 };
            let times = 1 + random.below(most);
            bytes.splice(at..at, piece.repeat(times));
        }
        6 => bytes.truncate(at),
        7 => {
            let other = &others[random.below(others.len())].bytes;
            let from = random.below(other.len());
            let until = from + random.below(other.len() - from);
            bytes.splice(at..at + len, other[from..until].iter().copied());
        }
        8 => digits(bytes, at, random),
        _ => {
            let new: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            bytes.splice(at..at + len, new);
        }
    }
}

fn number(bytes: &mut [u8], at: usize, random: &mut Random) {
    let edge = random
        .pick(&EDGES)
        .wrapping_add(random.below(3) as u64)
        .wrapping_sub(1);
    let size = random.pick(&[1, 2, 3, 4, 8]);
    let Some(place) = bytes.get_mut(at..at + size) else {
        return;
    };
    if random.below(2) == 0 {
        place.copy_from_slice(&edge.to_le_bytes()[..size]);
    } else {
        place.copy_from_slice(&edge.to_be_bytes()[8 - size..]);
    }
}

/// Exchanges a number that is written in digits.
fn digits(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let Some(start) = bytes
        .iter()
        .skip(at)
        .position(u8::is_ascii_digit)
        .map(|n| at + n)
    else {
        return;
    };
    let end = bytes[start..].iter().position(|b| !b.is_ascii_digit());
    let end = end.map_or(bytes.len(), |n| start + n);
    bytes.splice(start..end, random.pick(&NUMBERS).iter().copied());
}

/// Makes the checksums of a PNG right again, so that what was changed is read.
fn mend_png(bytes: &mut [u8]) {
    if !bytes.starts_with(b"\x89PNG") {
        return;
    }
    let mut at = 8;
    while let Some(head) = bytes.get(at..at + 4) {
        let len = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let (start, end) = (at + 4, at + 8 + len);
        if bytes.len() < end + 4 {
            return;
        }
        let sum = crc32(&bytes[start..end]);
        bytes[end..end + 4].copy_from_slice(&sum.to_be_bytes());
        at = end + 4;
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |s, _| {
            if s & 1 == 1 {
                s >> 1 ^ 0xedb8_8320
            } else {
                s >> 1
            }
        })
    })
}
