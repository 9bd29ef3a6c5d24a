//! Attention over `[b, n, heads, hd]` without ever storing the scores. One launch is some query
//! rows of one batch element, or all of several.

pub(crate) mod halves;
mod ptx;

use nino_dtype::DType;
use nino_graph::HalvedHeads;

use crate::kernel::{Launch, View, dtype_code};
use crate::shader::KernelKey;
use crate::tuning::{Problem, TiledKernel};
use crate::{Arch, Caps, GpuError, Tier};

/// Rows of one batch element. Offsets of `q`, `out` and `mask` rows count from the batch element's
/// first row.
#[derive(Clone, Debug)]
pub struct Attention<'a> {
    pub batch_idx: u32,
    /// Batch elements of this launch; the plain kernel takes one.
    pub batch: u32,
    /// Query rows of this launch and the first one.
    pub rows: u32,
    pub first: u32,
    /// Queries of a batch element.
    pub n: u32,
    /// Keys of this launch, the first one, and how many a batch element has.
    pub m: u32,
    pub first_key: u32,
    pub all_keys: u32,
    pub heads: u32,
    pub hd: u32,
    pub q: View<'a>,
    pub k: View<'a>,
    pub v: View<'a>,
    pub out: View<'a>,
    pub mask: Option<(View<'a>, [u32; 4])>,
    pub scale: f32,
    /// Where the logarithms of the sums of weights go, f32 `[rows, heads]` in units of log2.
    pub log: Option<View<'a>>,
    /// `q`, `k` and `v` are f16 in scratch; these take them back.
    pub factors: Option<View<'a>>,
}

/// Queries, keys and values, and what takes them back where they are f16 in scratch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads<'a> {
    pub(crate) qkv: [View<'a>; 3],
    pub(crate) factors: Option<View<'a>>,
}

/// Shape of a cooperative attention kernel; see `attention_coop.wgsl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionTile {
    pub bq: u32,
    pub bkv: u32,
    pub wq: u32,
    /// Values lie in shared memory by columns.
    pub by_columns: bool,
    /// Queries stay in shared memory rather than in registers.
    pub queries_shared: bool,
}

/// Keys of a block of the wide kernel, query rows at most, and the subgroups that share a head.
const WIDE_ROWS: u32 = 32;
const WIDE_SUBGROUPS: u32 = 8;

impl<'a> Attention<'a> {
    /// The best kernel for this attention on this device.
    pub fn best(&self, caps: &Caps) -> Result<Launch<'a>, GpuError> {
        if let Some(launch) = self.ptx_wide(caps) {
            return Ok(launch);
        }
        if self.coop_fits(caps) {
            if let Some(launch) = self.ptx(caps) {
                return Ok(launch);
            }
            let problem = Problem {
                kernel: TiledKernel::Attention,
                size: [
                    self.rows.next_power_of_two(),
                    self.m.next_power_of_two(),
                    self.hd,
                ],
            };
            return self.coop(caps, caps.tile(problem, self.coop_tile(caps)));
        }
        if self.wide_fits(caps) {
            return self.wide(caps);
        }
        if caps.arch.is_amd() && self.quads_fit(caps) {
            return self.block(caps);
        }
        self.plain(caps)
    }

    /// Whether a launch can serve several batch elements.
    pub fn takes_batch(&self, caps: &Caps) -> bool {
        self.coop_fits(caps) || self.wide_fits(caps)
    }

    /// Measured: 128 rows a workgroup are best for wide heads, where shared memory suffices. Narrow
    /// heads spend their time on scores; where keys are many, twice the rows a subgroup and half
    /// the keys a block keep more of them in registers.
    pub(crate) fn coop_tile(&self, caps: &Caps) -> AttentionTile {
        let tile = |bq, bkv, wq| AttentionTile {
            bq,
            bkv,
            wq,
            by_columns: false,
            queries_shared: false,
        };
        if caps.coop_size == Some(8) {
            return tile(32, 16, 8);
        }
        match caps.arch {
            Arch::RdnaMatrix => return self.rdna_tile(),
            Arch::Rdna4 => return self.rdna4_tile(),
            _ => {}
        }
        if self.hd <= 64 && self.m >= 2048 && caps.subgroup_size() == 32 {
            return tile(128, 16, 32);
        }
        let large = tile(128, 32, 16);
        let width = self.hd.next_multiple_of(16);
        let shared = 2 * large.bkv * (width * 2 + 16) + large.bq * (large.bkv * 6 + 32) + 16;
        let fits = shared <= caps.max_workgroup_bytes && caps.subgroup_size() <= 32;
        if fits && self.hd > 64 {
            large
        } else {
            tile(64, 32, 16)
        }
    }

    /// By the compiler's numbers for gfx1151 (docs/amd-kernels.tsv). Heads up to 80 keep their
    /// queries in registers. Wider heads would spill them, so theirs are in shared memory, which
    /// then has room for two or three workgroups at once: fewer than elsewhere, but predicted
    /// faster than smaller blocks.
    fn rdna_tile(&self) -> AttentionTile {
        let tile = |bq, bkv, wq, queries_shared| AttentionTile {
            bq,
            bkv,
            wq,
            by_columns: true,
            queries_shared,
        };
        match self.hd {
            ..=80 => tile(128, 32, 16, false),
            81..=128 => tile(64, 32, 16, true),
            _ => tile(64, 16, 16, true),
        }
    }

    /// By the compiler's numbers for gfx1201: a lane holds half of what it holds on RDNA 3, so the
    /// queries of heads up to 128 stay in registers, and values are gathered by half as many reads.
    fn rdna4_tile(&self) -> AttentionTile {
        let tile = |bq, bkv, wq, in_shared| AttentionTile {
            bq,
            bkv,
            wq,
            by_columns: in_shared,
            queries_shared: in_shared,
        };
        match self.hd {
            ..=48 => tile(128, 16, 32, false),
            49..=128 => tile(128, 32, 16, false),
            _ => tile(64, 32, 16, true),
        }
    }

    /// The kernel of 256 lanes with f32 math.
    pub fn block(&self, caps: &Caps) -> Result<Launch<'a>, GpuError> {
        let columns = self.hd.next_multiple_of(64).min(256);
        let key = KernelKey::new("attention_block")
            .with("HD", self.hd)
            .with("VC", columns)
            // As many as shared memory has room for, of a number that 64 is a multiple of.
            .with("KC", 1 << (1024 / columns).ilog2());
        let groups = [
            self.rows.div_ceil(64),
            self.heads,
            self.hd.div_ceil(columns),
        ];
        self.launch(caps, key, groups)
    }

    /// Whether operands and result can be read and written four values at a time.
    fn quads_fit(&self, caps: &Caps) -> bool {
        let views = [&self.q, &self.k, &self.v, &self.out];
        let quads = views.iter().all(|v| caps.base(v).is_multiple_of(4));
        quads && self.hd.is_multiple_of(4)
    }

    /// The kernel of 64 lanes that runs on every device.
    pub fn plain(&self, caps: &Caps) -> Result<Launch<'a>, GpuError> {
        if self.out.dtype.block_bytes() == 2 && !self.hd.is_multiple_of(2) {
            return Err(GpuError::Unsupported {
                op: "attention".to_owned(),
                why: format!("16-bit heads of odd size {}", self.hd),
            });
        }
        let columns = self.hd.next_multiple_of(32).min(256);
        let key = KernelKey::new("attention")
            .with("VC", columns)
            .with("VA", self.quads_fit(caps));
        let groups = [
            self.rows.div_ceil(32),
            self.heads,
            self.hd.div_ceil(columns),
        ];
        self.launch(caps, key, groups)
    }

    pub fn coop(&self, caps: &Caps, tile: AttentionTile) -> Result<Launch<'a>, GpuError> {
        let side = caps.coop_size.unwrap_or(16);
        let key = KernelKey::new("attention_coop")
            .with("COOP", 1)
            .with("TS", side)
            .with("SG", caps.subgroup_size())
            .with("BQ", tile.bq)
            .with("BKV", tile.bkv)
            .with("WQ", tile.wq)
            .with("VT", tile.by_columns)
            .with("QS", tile.queries_shared)
            .with("HDP", self.hd.next_multiple_of(side));
        self.launch(
            caps,
            key,
            [self.rows.div_ceil(tile.bq), self.heads, self.batch],
        )
    }

    /// The cooperative kernel for heads too wide for one subgroup's registers. RDNA 3's lanes hold
    /// each operand twice: twice the rows would not fit their registers.
    pub fn wide(&self, caps: &Caps) -> Result<Launch<'a>, GpuError> {
        let twice = caps.arch == Arch::RdnaMatrix && caps.subgroup_size() >= 32;
        let rows = if twice { 16 } else { WIDE_ROWS };
        let key = KernelKey::new("attention_wide")
            .with("COOP", 1)
            .with("WIDE", 1)
            .with("TS", caps.coop_size.unwrap_or(16))
            .with("SG", caps.subgroup_size())
            .with("BQ", rows)
            .with("VT", twice)
            .with("BKV", WIDE_ROWS)
            .with("NW", WIDE_SUBGROUPS)
            .with("HD", self.hd);
        self.launch(
            caps,
            key,
            [self.rows.div_ceil(rows), self.heads, self.batch],
        )
    }

    /// Whether the wide kernel's demands are met: whole matrices in each slice, a block of rows.
    pub fn wide_fits(&self, caps: &Caps) -> bool {
        let side = caps.coop_size.unwrap_or(16);
        let lanes = WIDE_SUBGROUPS * caps.subgroup_size();
        self.halves_fit(caps)
            && self.hd.is_multiple_of(WIDE_SUBGROUPS * side)
            && self.hd <= 512
            && self.rows.min(self.m) >= WIDE_ROWS
            && (8 * WIDE_ROWS..=1024).contains(&lanes)
    }

    /// Whether the cooperative kernel's demands are met.
    pub fn coop_fits(&self, caps: &Caps) -> bool {
        self.halves_fit(caps) && self.hd.is_multiple_of(8) && self.hd <= 160
    }

    fn halves_fit(&self, caps: &Caps) -> bool {
        caps.tier >= Tier::Coop
            && self.q.dtype == DType::F16
            && [&self.q, &self.k, &self.v, &self.out]
                .iter()
                .all(|v| caps.base(v).is_multiple_of(8))
    }

    fn launch(
        &self,
        caps: &Caps,
        key: KernelKey,
        groups: [u32; 3],
    ) -> Result<Launch<'a>, GpuError> {
        let code = |view: &View<'_>| {
            dtype_code(view.dtype).ok_or_else(|| GpuError::Unsupported {
                op: "attention".to_owned(),
                why: format!("storage type {}", view.dtype),
            })
        };
        let mut key = key.with("OT", code(&self.out)?).with("XT", code(&self.q)?);
        let mut views = vec![self.out];
        if let Some(log) = self.log {
            key = key.with("LOG", 1);
            views.push(log);
        }
        views.extend([self.q, self.k, self.v]);
        let writes = views.len() - 3;
        let width = self.heads * self.hd;
        let row0 = self.batch_idx * self.n + self.first;
        let at = |view: &View<'_>, row: u32| caps.base(view).wrapping_add(row.wrapping_mul(width));
        let mut params = vec![self.rows, self.first, self.m, self.heads, self.hd];
        params.push(at(&self.q, row0));
        let key0 = self.batch_idx * self.all_keys + self.first_key;
        params.push(at(&self.k, key0));
        params.push(at(&self.v, key0));
        params.push(at(&self.out, row0));
        match &self.mask {
            Some((mask, [mb, mh, mn, mm])) => {
                key = key.with("MASK", 1).with("MT", code(mask)?);
                views.push(*mask);
                let batch = if *mb > 1 {
                    self.batch_idx * mh * mn * mm
                } else {
                    0
                };
                let row = if *mn > 1 { *mm } else { 0 };
                let first = self.first * row + self.first_key;
                params.push(caps.base(mask).wrapping_add(batch).wrapping_add(first));
                params.push(if *mh > 1 { mn * mm } else { 0 });
                params.push(row);
            }
            None => params.extend([0, 0, 0]),
        }
        params.extend([self.n, self.all_keys].map(|rows| rows.wrapping_mul(width)));
        params.push(match &self.mask {
            Some((_, [mb, mh, mn, mm])) if *mb > 1 => mh * mn * mm,
            _ => 0,
        });
        params.push(self.log.map_or(0, |log| caps.base(&log)));
        params.push((self.scale * std::f32::consts::LOG2_E).to_bits());
        if let Some(factors) = self.factors {
            key = key.with("HALVES", HalvedHeads::FACTORS as i64);
            views.push(factors);
        }
        let factor = |f: &View<'_>| caps.base(f) + HalvedHeads::PARTS as u32;
        params.push(self.factors.as_ref().map_or(0, factor));
        Ok(Launch {
            kernel: key.into(),
            views,
            writes,
            params,
            groups,
        })
    }
}
