//! Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) as CUDA's
//! `torch.randn` uses it: thread `t` of a grid of `threads` owns elements `t`, `t + threads`,
//! `t + 2*threads`, ...; each counter value gives it four normals; one call advances the counter by
//! as many values as its busiest thread used. Up to a card's `threads` only the first lane counts,
//! so all cards agree; beyond, each card has a stream of its own. Without a card to follow the grid
//! has no end, which is the stream A1111 calls "NV". CUDA takes sine and cosine from its fast
//! hardware units, so values agree to about 1e-6, not bit for bit.

#[derive(Clone)]
pub struct Philox {
    key: [u32; 2],
    offset: u64,
    threads: usize,
}

impl Philox {
    pub fn new(seed: u64) -> Self {
        Self::with_threads(seed, usize::MAX)
    }

    /// The stream of a card that keeps `threads` threads resident (streaming processors times
    /// threads of each).
    pub fn with_threads(seed: u64, threads: usize) -> Self {
        Self {
            key: [seed as u32, (seed >> 32) as u32],
            offset: 0,
            threads: threads.max(256),
        }
    }

    pub fn randn(&mut self, out: &mut [f32]) {
        let grid = self.threads.min(out.len().next_multiple_of(256));
        for (i, v) in out.iter_mut().enumerate() {
            let (thread, turn) = (i % grid, i / grid);
            let count = self.offset + (turn / 4) as u64;
            let counter = [
                count as u32,
                (count >> 32) as u32,
                thread as u32,
                (thread as u64 >> 32) as u32,
            ];
            let r = rounds(counter, self.key);
            let (sin, cos) = if turn % 4 < 2 {
                box_muller(r[0], r[1])
            } else {
                box_muller(r[2], r[3])
            };
            *v = if turn.is_multiple_of(2) { sin } else { cos };
        }
        self.offset += out.len().div_ceil(grid * 4).max(1) as u64;
    }
}

fn rounds(mut c: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key[0] = key[0].wrapping_add(0x9E37_79B9);
            key[1] = key[1].wrapping_add(0xBB67_AE85);
        }
        let a = u64::from(c[0]) * 0xD251_1F53;
        let b = u64::from(c[2]) * 0xCD9E_8D57;
        c = [
            (b >> 32) as u32 ^ c[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ c[3] ^ key[1],
            a as u32,
        ];
    }
    c
}

fn box_muller(x: u32, y: u32) -> (f32, f32) {
    const SCALE: f64 = 1.0 / 4_294_967_296.0;
    // cuRAND's constant is this f32.
    const SCALE_TAU: f64 = (SCALE as f32 * std::f32::consts::TAU) as f64;
    let u = f64::from(x) * SCALE + SCALE / 2.0;
    let v = f64::from(y) * SCALE_TAU + SCALE_TAU / 2.0;
    let radius = (-2.0 * u.ln()).sqrt();
    ((radius * v.sin()) as f32, (radius * v.cos()) as f32)
}
