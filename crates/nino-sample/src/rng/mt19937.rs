//! The 32-bit Mersenne Twister (Matsumoto and Nishimura, 1998), seeded as torch's CPU generator
//! seeds it: by the low 32 bits of the seed.

const N: usize = 624;
const M: usize = 397;
const UPPER: u32 = 0x8000_0000;
const LOWER: u32 = 0x7fff_ffff;
const MATRIX_A: u32 = 0x9908_b0df;

#[derive(Clone)]
pub struct Mt19937 {
    state: [u32; N],
    next: usize,
}

impl Mt19937 {
    pub fn new(seed: u64) -> Self {
        let mut state = [0u32; N];
        state[0] = seed as u32;
        for j in 1..N {
            let prev = state[j - 1];
            state[j] = 1_812_433_253u32
                .wrapping_mul(prev ^ (prev >> 30))
                .wrapping_add(j as u32);
        }
        Self { state, next: N }
    }

    pub fn next_u32(&mut self) -> u32 {
        if self.next == N {
            self.refill();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// Two draws, the first in the high half.
    pub fn next_u64(&mut self) -> u64 {
        let high = u64::from(self.next_u32());
        high << 32 | u64::from(self.next_u32())
    }

    fn refill(&mut self) {
        for i in 0..N {
            let bits = (self.state[i] & UPPER) | (self.state[(i + 1) % N] & LOWER);
            let twist = (bits >> 1) ^ if bits & 1 == 1 { MATRIX_A } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ twist;
        }
        self.next = 0;
    }
}
