//! Embeddings: of tokens by a table, of positions by rotation, of timesteps by sinusoids.

use super::check::{Inferred, activation, expect_dtype, like, wrong};
use super::{Facts, InPlace, OpDef, Operand, Part, Rows, Scratch, Traffic, map_all};
use crate::{Graph, Kind, Node, Shape};
use nino_dtype::DType;

/// Rows of table `[v, d]` (any weight dtype) by ids (i32) `[..]` → `[.., d]` in `dtype`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gather {
    pub table: Node,
    pub ids: Node,
    pub dtype: DType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeLayout {
    /// Pairs are (0,1), (2,3), … (Flux, Wan).
    Interleaved,
    /// Pairs are (i, i + hd/2) (GPT-NeoX).
    Halves,
}

/// Rotates x `[b, n, heads, hd]` by a table `[n, hd/2, 2]` of (cos, sin), f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    pub x: Node,
    pub table: Node,
    pub layout: RopeLayout,
}

/// t `[b]` f32 → `[b, dim]` of cos and sin of `t · max_period^(−i/(half − shift))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimestepEmbed {
    pub t: Node,
    pub dim: usize,
    pub max_period: f32,
    /// Subtracted from `dim/2` in the exponent's denominator (0 for SD and Flux).
    pub shift: f32,
    /// Cosines first (SD, Flux) or sines first.
    pub cos_first: bool,
}

impl Graph {
    #[track_caller]
    pub fn gather(&mut self, table: Node, ids: Node, dtype: DType) -> Node {
        self.push(Gather { table, ids, dtype })
    }

    #[track_caller]
    pub fn rope(&mut self, x: Node, table: Node, layout: RopeLayout) -> Node {
        self.push(Rope { x, table, layout })
    }

    /// Stable Diffusion's and Flux's sinusoids: cosines first, period 10000.
    #[track_caller]
    pub fn timestep_embed(&mut self, t: Node, dim: usize) -> Node {
        self.push(TimestepEmbed {
            t,
            dim,
            max_period: 10_000.0,
            shift: 0.0,
            cos_first: true,
        })
    }
}

impl OpDef for Gather {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        map_all(&mut [&mut self.table, &mut self.ids], f);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        let (table, ids) = (g.shape(self.table), g.shape(self.ids));
        expect_dtype(g, self.ids, DType::I32)?;
        let mut dims = ids.to_vec();
        dims.push(table.last_dim());
        match Shape::try_new(&dims) {
            Some(shape) if table.rank() == 2 => Ok((shape, self.dtype)),
            _ => wrong!("table {table}, ids {ids}"),
        }
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        Facts {
            flops: 0.0,
            traffic: Traffic::AsWritten,
            rows: Rows::Result(g.shape(out).rows()),
            blocks: vec![],
            scratch: Scratch::None,
            in_place: InPlace::Never,
            kind: Kind::Other,
        }
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        match operand.index {
            // Any row of the table, as the ids say.
            0 => Part::All,
            _ => Part::SameRows,
        }
    }
}

impl OpDef for Rope {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        map_all(&mut [&mut self.x, &mut self.table], f);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        activation(g, self.x)?;
        let (x, t) = (g.shape(self.x), g.shape(self.table));
        match (&*x, &*t) {
            (&[_, n, _, hd], &[tn, half, 2]) if tn == n && half * 2 == hd => {}
            _ => wrong!("x is {x}, the table must be [n, hd/2, 2] but is {t}"),
        }
        expect_dtype(g, self.table, DType::F32)?;
        Ok(like(g, self.x))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        let shape = g.shape(out);
        Facts {
            flops: 4.0 * shape.numel() as f64,
            traffic: Traffic::EachOnce,
            rows: Rows::Result(shape.rows()),
            blocks: vec![],
            scratch: Scratch::None,
            in_place: InPlace::Never,
            kind: Kind::Other,
        }
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        match operand.index {
            0 => Part::SameRows,
            _ => Part::All,
        }
    }
}

impl OpDef for TimestepEmbed {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.t = f(self.t);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        let t = g.shape(self.t);
        expect_dtype(g, self.t, DType::F32)?;
        if t.rank() != 1 || self.dim < 2 || !self.dim.is_multiple_of(2) {
            wrong!("t is {t}, dim {} must be even", self.dim);
        }
        Ok(([t[0], self.dim].into(), DType::F32))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        let shape = g.shape(out);
        Facts {
            flops: 4.0 * shape.numel() as f64,
            traffic: Traffic::EachOnce,
            rows: Rows::Result(shape.rows()),
            blocks: vec![],
            scratch: Scratch::None,
            in_place: InPlace::Never,
            kind: Kind::Other,
        }
    }

    fn reads(&self, _: &Operand<'_>) -> Part {
        Part::SameRows
    }
}
