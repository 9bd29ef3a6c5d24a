//! Finds a step's operands in memory.

use std::ops::{Deref, Range};

use nino_dtype::DType;
use nino_graph::{ExecError, Node, Place, Use};

use super::bind::Binder;
use crate::gemm::weights::Packed;
use crate::memory::View;
use crate::params::packed_shape;

/// The weights of a product: a packed parameter, or a slice of one that an op has made.
pub(super) enum Weights<'a> {
    Kept(&'a Packed),
    Lent(Packed),
}

impl Deref for Weights<'_> {
    type Target = Packed;

    fn deref(&self) -> &Packed {
        match self {
            Weights::Kept(packed) => packed,
            Weights::Lent(packed) => packed,
        }
    }
}

impl Binder<'_> {
    /// Gives a view of a value as if all of it lay in memory, wherever its rows are now.
    pub(super) fn view(&self, n: Node) -> Result<View, ExecError> {
        // A value that is several operands of an op has a window for each, and the largest covers
        // the others.
        self.view_at(n, |uses| {
            let mine = (0..uses.len()).filter(|&i| uses[i].node == n);
            mine.max_by_key(|&i| uses[i].bytes.len())
        })
    }

    /// Gives the same for the window of the op's `i`-th operand, which `n` must be.
    pub(super) fn operand(&self, i: usize, n: Node) -> Result<View, ExecError> {
        self.view_at(n, |_| Some(i))
    }

    fn view_at(
        &self,
        n: Node,
        position: impl Fn(&[Use]) -> Option<usize>,
    ) -> Result<View, ExecError> {
        let plan = &self.session.plan;
        let g = plan.graph();
        let dtype = g.dtype(n);
        let arena = self.session.arena.as_ptr();
        let absent = || ExecError::NotInPlan {
            what: g.op_label(n),
        };
        let ptr = match plan.place(n) {
            Place::Arena(span) => arena.wrapping_add(span.offset),
            Place::Host(_) => {
                let uses = g.uses(self.step.node, &self.step.rows);
                let i = position(&uses).ok_or_else(absent)?;
                let offset = plan
                    .locate(self.step.node, i, &uses[i])
                    .ok_or_else(absent)?;
                // For later rows this points before the arena; kernels only touch the step's rows.
                arena.wrapping_add(offset).wrapping_sub(uses[i].bytes.start)
            }
            Place::Param => self.session.param(n)?.raw().ok_or_else(absent)?.as_ptr(),
            Place::Pages(_) | Place::Nowhere => return Err(absent()),
        };
        Ok(View { ptr, dtype })
    }

    /// Gives the address of the op's scratch in the arena.
    pub(super) fn scratch(&self) -> *mut u8 {
        let span = self.session.plan.scratch(self.step.node);
        self.session.arena.as_ptr().wrapping_add(span.offset)
    }

    pub(super) fn out(&self) -> Result<View, ExecError> {
        // The result is a use of its own, also when an operand lies in the same bytes.
        self.view(self.step.node)
    }

    /// Gives a small f32 vector, or null where there is none.
    pub(super) fn vector(&self, n: Option<Node>) -> Result<*const f32, ExecError> {
        let Some(n) = n else {
            return Ok(std::ptr::null());
        };
        if self.session.plan.graph().is_param(n) {
            let missing = || self.unsupported("a vector that was not loaded as one");
            return self.session.param(n)?.vector().ok_or_else(missing);
        }
        let view = self.view(n)?;
        if view.dtype != DType::F32 {
            return Err(self.unsupported("a computed bias or norm weight that is not f32"));
        }
        Ok(view.ptr.cast_const().cast())
    }

    pub(super) fn weights(&self, w: Node) -> Result<Weights<'_>, ExecError> {
        let g = self.session.plan.graph();
        let shape = packed_shape(g, w);
        if !g.is_param(w) {
            let view = self.view(w)?;
            // SAFETY: the plan keeps an operand while its op runs.
            return Ok(Weights::Lent(unsafe { Packed::lent(view, shape) }));
        }
        let missing = || self.unsupported("weights that were not packed");
        let packed = self.session.param(w)?.packed(shape);
        packed.map(Weights::Kept).ok_or_else(missing)
    }

    /// Gives the image rows of `x` that are in memory during the step, counted over batch and
    /// frames.
    pub(super) fn readable(&self, x: Node) -> Range<usize> {
        let plan = &self.session.plan;
        if !matches!(plan.place(x), Place::Host(_)) {
            return 0..usize::MAX;
        }
        let uses = plan.graph().uses(self.step.node, &self.step.rows);
        let shape = plan.graph().shape(x);
        let rows: usize = shape[..shape.rank() - 2].iter().product();
        let row = plan.graph().bytes(x) / rows.max(1);
        let mine = uses.iter().filter(|u| u.node == x);
        mine.max_by_key(|u| u.bytes.len())
            .map_or(0..0, |u| u.bytes.start / row..u.bytes.end / row)
    }
}
