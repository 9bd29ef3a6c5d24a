//! Ops that only move values: slices, permutations, padding, nearest upsampling, concatenation,
//! embedding lookup.

use nino_graph::{Concat, Gather, Pad, PadMode, Permute, Reshape, Slice};

use super::{Launches, Lower, six};
use crate::kernel::dtype_code;
use crate::shader::KernelKey;

/// How the one source of `gather_nd.wgsl` is indexed.
struct Source {
    /// Strides of the input by output dimension; they and the offset may wrap.
    strides: [u32; 6],
    /// Elements added to every index.
    offset: u32,
    pad: Option<(usize, Pad)>,
    /// Divisors of h and w.
    nearest: [u32; 2],
}

/// Bindings one concat kernel reads from; more operands take more launches.
const CONCAT_INPUTS: usize = 6;

impl<'a> Lower<'a> {
    fn gather_nd(&self, source: &Source) -> Launches<'a> {
        let x = self.operands[0];
        let dims = six(&self.shape());
        let mode = match &source.pad {
            None => 0,
            Some((_, pad)) => match pad.mode {
                PadMode::Constant(_) => 1,
                PadMode::Replicate => 2,
                PadMode::Reflect => 3,
            },
        };
        let axis = source.pad.as_ref().map_or(0, |(axis, _)| *axis);
        let quads = source.strides[..5].iter().all(|s| s.is_multiple_of(4))
            && source.strides[5] == 1
            && dims[5].is_multiple_of(4)
            && source.offset.is_multiple_of(4)
            && !(mode > 0 && axis == 5);
        let key = KernelKey::new("gather_nd")
            .with("XT", self.code(&x)?)
            .with("MODE", mode)
            .with("AX", axis as i64)
            .with("NEAREST", source.nearest != [1, 1]);
        let mut params = vec![self.caps.base(&x).wrapping_add(source.offset)];
        params.extend(&dims[1..5]);
        params.extend(source.strides);
        match &source.pad {
            Some((axis, pad)) => {
                let size = dims[*axis] - (pad.before + pad.after) as u32;
                let fill = if let PadMode::Constant(v) = pad.mode {
                    v
                } else {
                    0.0
                };
                params.extend([pad.before as u32, size, fill.to_bits()]);
            }
            None => params.extend([0; 3]),
        }
        params.extend(source.nearest);
        self.each(key, &[x], &params, quads && self.quads(&[x]))
    }

    pub(super) fn slice(&self, o: &Slice) -> Launches<'a> {
        let strides = self.graph.shape(o.x).strides();
        let offset = (o.start * strides[o.axis]) as u32;
        let strides = row_strides(&strides);
        self.gather_nd(&Source {
            strides,
            offset,
            pad: None,
            nearest: [1, 1],
        })
    }

    pub(super) fn permute(&self, o: &Permute) -> Launches<'a> {
        let own = self.graph.shape(o.x).strides();
        let strides: Vec<usize> = o.perm.iter().map(|&p| own[p]).collect();
        let strides = row_strides(&strides);
        self.gather_nd(&Source {
            strides,
            offset: 0,
            pad: None,
            nearest: [1, 1],
        })
    }

    /// A view: no step and no kernel.
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)] // as every op is called
    pub(super) fn reshape(&self, _: &Reshape) -> Launches<'a> {
        Ok(Vec::new())
    }

    pub(super) fn pad(&self, o: &Pad) -> Launches<'a> {
        let shape = self.graph.shape(o.x);
        let strides = row_strides(&shape.strides());
        let pad = Some((o.axis + 6 - shape.rank(), *o));
        self.gather_nd(&Source {
            strides,
            offset: 0,
            pad,
            nearest: [1, 1],
        })
    }

    pub(super) fn nearest(&self, factor: [usize; 2]) -> Launches<'a> {
        let mut shape = self.shape();
        let rank = shape.rank();
        shape[rank - 3] /= factor[0];
        shape[rank - 2] /= factor[1];
        let strides = row_strides(&shape.strides());
        let nearest = factor.map(|f| f as u32);
        self.gather_nd(&Source {
            strides,
            offset: 0,
            pad: None,
            nearest,
        })
    }

    pub(super) fn concat(&self, o: &Concat) -> Launches<'a> {
        let shape = self.shape();
        let inner: usize = shape[o.axis + 1..].iter().product();
        let sizes: Vec<usize> = o.xs.iter().map(|&x| self.graph.shape(x)[o.axis]).collect();
        // One division finds the place in a block; where a block is too long to be divided by, or
        // begins before the step, its rows are counted.
        let block = shape[o.axis] * inner;
        let by_rows =
            block > u32::MAX as usize || !self.elements().start.is_multiple_of(block.max(1));
        let d = if by_rows { shape.last_dim() } else { block };
        let unit = if by_rows { shape.last_dim().max(1) } else { 1 };
        let units = |n: usize| (n * inner / unit) as u32;
        let mut launches = Vec::new();
        let mut base = 0;
        for (group, sizes) in sizes.chunks(CONCAT_INPUTS).enumerate() {
            let first = group * CONCAT_INPUTS;
            let views = &self.operands[first..first + sizes.len()];
            let quads = sizes.iter().all(|n| (n * inner).is_multiple_of(4))
                && (base * inner).is_multiple_of(4)
                && block.is_multiple_of(4)
                && self.quads(views);
            let key = KernelKey::new("concat")
                .with("N", sizes.len() as i64)
                .with("ROWS", by_rows);
            let mut params = vec![units(shape[o.axis]), units(base)];
            for (view, &n) in views.iter().zip(sizes) {
                params.extend([self.caps.base(view), units(n)]);
            }
            launches.extend(self.each_row(d, key, views, &params, quads)?);
            base += sizes.iter().sum::<usize>();
        }
        Ok(launches)
    }

    pub(super) fn gather(&self, _: &Gather) -> Launches<'a> {
        let (table, ids) = (self.operands[0], self.operands[1]);
        let d = self.shape().last_dim();
        let code = dtype_code(table.dtype)
            .ok_or_else(|| self.unsupported(format!("a table stored as {}", table.dtype)))?;
        let per_row = table.dtype.bytes_for(d).unwrap_or(1).max(1);
        let rows = table.bytes as usize / per_row;
        let key = KernelKey::new("gather").with("WT", code);
        let params = [self.caps.base(&table), self.caps.base(&ids), rows as u32];
        self.each(
            key,
            &[table, ids],
            &params,
            d.is_multiple_of(4) && self.quads(&[table]),
        )
    }
}

fn row_strides(strides: &[usize]) -> [u32; 6] {
    let mut six = [0; 6];
    for (to, &from) in six[6 - strides.len()..].iter_mut().zip(strides) {
        *to = from as u32;
    }
    six
}
