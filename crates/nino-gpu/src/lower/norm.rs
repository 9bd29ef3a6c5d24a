//! Norms, their statistics, and softmax.

use nino_graph::{NormKind, Normalize, Over, RowNorm, Softmax, Stats, stat_chunks};

use super::{Launches, Lower};
use crate::Tier;
use crate::kernel::{Launch, MOST_GROUPS, View, grid};
use crate::ops::act::{self, ActCode};
use crate::shader::KernelKey;

/// Lanes of a workgroup of `rows_held.wgsl`.
const HELD_LANES: u32 = 128;

/// How lanes share a row of vectors of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowLanes {
    /// A power of two.
    lanes: u32,
    /// Vectors of each.
    held: u32,
}

impl RowLanes {
    /// Eight lanes read a line of memory.
    const LINE: u32 = 8;
    const MOST_HELD: u32 = 8;

    /// Whole lines with the fewest lanes idle; of those the most lanes, up to `most`.
    fn of(vectors: u32, most: u32) -> Option<RowLanes> {
        let fewest = vectors.next_power_of_two().min(Self::LINE);
        (0..=most.checked_ilog2()?)
            .map(|log| RowLanes {
                lanes: 1 << log,
                held: vectors.div_ceil(1 << log),
            })
            .filter(|row| row.lanes >= fewest.min(most) && row.held <= Self::MOST_HELD)
            .min_by_key(|row| (row.lanes * row.held, row.held))
    }
}

impl<'a> Lower<'a> {
    pub(super) fn normalize(&self, o: &Normalize) -> Launches<'a> {
        let shape = self.shape();
        let stats = self.graph.shape(o.norm.stats);
        let (groups, rows_per) = match *stats {
            [_, groups, 2] => (groups, shape[1..shape.rank() - 1].iter().product()),
            _ => (1, 1),
        };
        let (x, table) = (self.operands[0], self.operands[1]);
        let mut rest = self.operands[2..].iter().copied();
        let weight = o.norm.weight.and_then(|_| rest.next());
        let bias = o.norm.bias.and_then(|_| rest.next());
        let c = shape.last_dim();
        let mut key = KernelKey::new("normalize")
            .with("PRO", 1)
            .with("XT", self.code(&x)?);
        let mut views = vec![x, table];
        if let Some(view) = weight {
            key = key.with("PRO_W", 1).with("NWT", self.code(&view)?);
            views.push(view);
        }
        if let Some(view) = bias {
            key = key.with("PRO_B", 1).with("NBT", self.code(&view)?);
            views.push(view);
        }
        let p4 = (c / groups).is_multiple_of(4) && self.quads(&views[2..]);
        let halves = [x, self.out]
            .iter()
            .all(|v| v.dtype.block_bytes() == 2 && self.caps.base(v).is_multiple_of(8));
        let wide = p4 && halves && c.is_multiple_of(8) && stats.rank() == 3;
        let key = ActCode::from(o.norm.act).constants(key.with("P4", p4), act::PRO_ACT);
        let base = |v: Option<View<'_>>| v.map_or(0, |v| self.caps.base(&v));
        let params = [
            self.caps.base(&x),
            self.caps.base(&table),
            base(weight),
            base(bias),
            c as u32,
            groups as u32,
            rows_per as u32,
        ];
        if wide {
            return self.normalize8(key, &views, &params);
        }
        self.each(
            key,
            &views,
            &params,
            c.is_multiple_of(4) && self.quads(&[x]),
        )
    }

    /// Eight channels a lane; `params` are those of `normalize.wgsl` after the output's offset.
    fn normalize8(&self, key: KernelKey, views: &[View<'a>], params: &[u32]) -> Launches<'a> {
        let [c, rows_per] = [params[4], params[6]];
        let (lo, hi) = (self.rows.start as u32, self.rows.end as u32);
        let (first, last) = (lo / rows_per, hi.div_ceil(rows_per));
        let lanes = c / 8;
        // About 16 positions a lane: enough to keep loads in flight, enough lanes to fill a GPU.
        let most = MOST_GROUPS * 256 / lanes;
        let stride = rows_per.min(hi - lo).div_ceil(16).min(most);
        let mut all = vec![lo, hi, self.caps.base(&self.out)];
        all.extend(params);
        all.extend([lanes, stride, first]);
        let mut bound = vec![self.out];
        bound.extend(views);
        let consts = key.consts;
        let key = KernelKey {
            file: "normalize8",
            consts,
        }
        .with("OT", self.code(&self.out)?);
        let groups = [(lanes * stride).div_ceil(256), last - first, 1];
        Ok(vec![Launch {
            kernel: key.into(),
            views: bound,
            writes: 1,
            params: all,
            groups,
        }])
    }

    pub(super) fn stats(&self, o: &Stats) -> Launches<'a> {
        let groups = match o.over {
            Over::Rows => {
                let key = self.row_key(2, o.kind == NormKind::Rms)?;
                return Ok(self.by_rows(key, &self.operands[..1], o.eps, &[0; 6], 1));
            }
            Over::Groups(groups) => groups,
        };
        let x = self.operands[0];
        let shape = self.graph.shape(o.x);
        let positions: usize = shape[1..shape.rank() - 1].iter().product();
        let chunks = stat_chunks(positions);
        let len = positions.div_ceil(chunks);
        let c = shape.last_dim();
        let cpg = c / groups;
        let v = match cpg {
            n if n.is_multiple_of(4) && self.quads(&[x]) => 4,
            n if n.is_multiple_of(2) => 2,
            _ => 1,
        };
        let lanes = c / v;
        if lanes > 1280 {
            return Err(self.unsupported(format!("{c} channels in {groups} groups")));
        }
        let scratch = self
            .scratch
            .ok_or_else(|| self.unsupported("no scratch".to_owned()))?;
        let mut params = vec![self.rows.start, chunks, len, positions, c, groups]
            .into_iter()
            .map(|v| v as u32)
            .collect::<Vec<u32>>();
        params.extend([self.caps.base(&x), self.caps.base(&scratch)]);
        params.extend([lanes as u32, (256 / lanes).max(1) as u32]);
        let mut launches = vec![Launch {
            kernel: KernelKey::new("stats_part")
                .with("XT", self.code(&x)?)
                .with("V", v as i64)
                .into(),
            views: vec![scratch, x],
            writes: 1,
            params,
            groups: [self.rows.len() as u32, 1, 1],
        }];
        if self.last {
            let mut params: Vec<u32> = [chunks, len, positions, groups, cpg]
                .map(|v| v as u32)
                .to_vec();
            params.extend([
                self.caps.base(&scratch),
                self.caps.base(&self.out),
                o.eps.to_bits(),
            ]);
            launches.push(Launch {
                kernel: KernelKey::new("stats_final")
                    .with("RMS", o.kind == NormKind::Rms)
                    .into(),
                views: vec![self.out, scratch],
                writes: 1,
                params,
                groups: [(shape[0] * groups) as u32, 1, 1],
            });
        }
        Ok(launches)
    }

    pub(super) fn softmax(&self, _: &Softmax) -> Launches<'a> {
        let key = self.row_key(0, false)?;
        Ok(self.by_rows(key, &self.operands, 0.0, &[0; 6], 1))
    }

    pub(super) fn row_norm(&self, o: &RowNorm) -> Launches<'a> {
        let shape = self.shape();
        let key = self.row_key(1, o.kind == NormKind::Rms)?;
        let mut key = ActCode::from(o.act).constants(key, act::ACT);
        let names = [
            ("WEIGHT", "WT"),
            ("BIAS", "BT"),
            ("SCALE", "SCT"),
            ("SHIFT", "SHT"),
            ("GATE", "GT"),
            ("RES", "RT"),
        ];
        let given = [o.weight, o.bias, o.scale, o.shift, o.gate, o.residual];
        let mut offsets = [0; 6];
        let mut rest = self.operands[1..].iter();
        for ((flag, dtype), (node, offset)) in names.into_iter().zip(given.iter().zip(&mut offsets))
        {
            if let (Some(_), Some(view)) = (node, node.and_then(|_| rest.next())) {
                key = key.with(flag, 1).with(dtype, self.code(view)?);
                *offset = self.caps.base(view);
            }
        }
        let rows_per = shape.rows() / shape[0].max(1);
        Ok(self.by_rows(key, &self.operands, o.eps, &offsets, rows_per as u32))
    }

    fn row_key(&self, mode: i64, rms: bool) -> Result<KernelKey, crate::GpuError> {
        Ok(KernelKey::new("rows")
            .with("MODE", mode)
            .with("RMS", rms)
            .with("SUBGROUP", self.caps.tier >= Tier::Subgroup)
            .with("OT", self.code(&self.out)?)
            .with("XT", self.code(&self.operands[0])?))
    }

    /// The norm kernel that keeps rows in registers, where they fit there, and the rows of its
    /// workgroups.
    fn held(&self, key: &KernelKey, views: &[View<'a>], d: u32) -> Option<(KernelKey, u32)> {
        let each = 16 / self.out.dtype.block_bytes() as u32;
        let whole = |v: &View<'_>| self.caps.base(v).is_multiple_of(each);
        let fits = key.consts.get("MODE") == Some(&1)
            && key.consts.get("VEC") == Some(&1)
            && d.is_multiple_of(each)
            && views[..2].iter().all(whole);
        if !fits {
            return None;
        }
        let n = d / each;
        let shuffle = (self.caps.tier >= Tier::Subgroup)
            .then(|| RowLanes::of(n, self.caps.subgroup_min.min(HELD_LANES)))
            .flatten();
        let row = shuffle.or_else(|| RowLanes::of(n, HELD_LANES))?;
        // Four vectors on their way to a lane are enough for memory to be busy.
        let rounds = (4 / row.held).max(1);
        let key = KernelKey {
            file: "rows_held",
            consts: key.consts.clone(),
        };
        let key = key
            .with("SHUFFLE", shuffle.is_some())
            .with("N", n)
            .with("L", row.lanes)
            .with("HELD", row.held)
            .with("ROUNDS", rounds);
        Some((key, HELD_LANES / row.lanes * rounds))
    }

    /// A workgroup per row, or for several that it holds. 16-bit rows of odd length share words
    /// with their neighbours, so even and odd rows take turns.
    fn by_rows(
        &self,
        key: KernelKey,
        inputs: &[View<'a>],
        eps: f32,
        offsets: &[u32; 6],
        rows_per: u32,
    ) -> Vec<Launch<'a>> {
        let x = inputs[0];
        let d = self.graph.shape(
            self.graph
                .op(self.node)
                .map_or(self.node, |o| o.operands()[0]),
        );
        let d = d.last_dim() as u32;
        let stats = key.consts.get("MODE") == Some(&2);
        let mut views = vec![self.out];
        views.extend(inputs);
        let vec = d.is_multiple_of(4) && self.quads(&views[usize::from(stats)..]);
        let key = key.with("VEC", vec);
        let held = (!stats).then(|| self.held(&key, &views, d)).flatten();
        let shares = !stats && !vec && self.out.dtype.block_bytes() == 2;
        let step = if shares { 2 } else { 1 };
        let mut launches = Vec::new();
        for first in 0..step {
            let rows = (self.rows.len() as u32 + step - 1 - first) / step;
            let mut params = vec![rows, self.rows.start as u32 + first, step];
            params.extend([
                self.caps.base(&self.out),
                self.caps.base(&x),
                d,
                eps.to_bits(),
            ]);
            params.extend(offsets);
            params.push(rows_per);
            if rows > 0 {
                let views = views.clone();
                let (key, groups) = match &held {
                    Some((key, each)) => (key.clone(), rows.div_ceil(*each)),
                    None => (key.clone(), rows),
                };
                launches.push(Launch {
                    kernel: key.into(),
                    views,
                    writes: 1,
                    params,
                    groups: grid(u64::from(groups)),
                });
            }
        }
        launches
    }
}

#[cfg(test)]
mod tests;
