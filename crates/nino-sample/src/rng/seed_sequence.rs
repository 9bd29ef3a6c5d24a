//! numpy's `SeedSequence` (O'Neill's `seed_seq_fe`): hashes a seed and a spawn key into a pool of
//! words, and the pool into as many 32-bit seeds as asked for. torchsde names every node of a
//! Brownian tree with one.

const XSHIFT: u32 = 16;

/// The first `N` words of `SeedSequence(entropy, spawn_key, pool_size=POOL).generate_state(N)`.
pub fn generate<const POOL: usize, const N: usize>(entropy: u64, spawn_key: &[u64]) -> [u32; N] {
    let mut words = split(entropy);
    if !spawn_key.is_empty() {
        words.resize(words.len().max(POOL), 0);
        words.extend(spawn_key.iter().flat_map(|&k| split(k)));
    }

    let mut hash = Hash(0x43b0_d7e5);
    let mut pool = [0u32; POOL];
    for (i, slot) in pool.iter_mut().enumerate() {
        *slot = hash.mix_in(words.get(i).copied().unwrap_or(0));
    }
    for src in 0..POOL {
        for dst in (0..POOL).filter(|&dst| dst != src) {
            pool[dst] = merge(pool[dst], hash.mix_in(pool[src]));
        }
    }
    for &word in words.iter().skip(POOL) {
        for slot in &mut pool {
            *slot = merge(*slot, hash.mix_in(word));
        }
    }

    let mut constant = 0x8b51_f9dd_u32;
    std::array::from_fn(|i| {
        let mut word = pool[i % POOL] ^ constant;
        constant = constant.wrapping_mul(0x58f3_8ded);
        word = word.wrapping_mul(constant);
        word ^ (word >> XSHIFT)
    })
}

struct Hash(u32);

impl Hash {
    fn mix_in(&mut self, word: u32) -> u32 {
        let word = word ^ self.0;
        self.0 = self.0.wrapping_mul(0x931e_8875);
        let word = word.wrapping_mul(self.0);
        word ^ (word >> XSHIFT)
    }
}

fn merge(x: u32, y: u32) -> u32 {
    let r = x
        .wrapping_mul(0xca01_f9dd)
        .wrapping_sub(y.wrapping_mul(0x4973_f715));
    r ^ (r >> XSHIFT)
}

/// Little-endian words without leading zeros, but at least one.
fn split(v: u64) -> Vec<u32> {
    let high = (v >> 32) as u32;
    if high == 0 {
        vec![v as u32]
    } else {
        vec![v as u32, high]
    }
}
