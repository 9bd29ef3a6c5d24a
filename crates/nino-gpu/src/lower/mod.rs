//! From a step of a plan to kernel launches: one file per family of ops.

#![allow(clippy::trivially_copy_pass_by_ref)] // small ops are passed as all others

mod attention;
mod each;
mod gather;
mod gemm;
mod norm;

use std::ops::Range;

use nino_dtype::DType;
use nino_graph::{Graph, Node, Op, Shape, for_each_op};

use crate::kernel::{Launch, View, dtype_code};
use crate::{Caps, GpuError};

/// One step with the places of its operands and result.
pub(crate) struct Lower<'a> {
    pub(crate) caps: &'a Caps,
    pub(crate) graph: &'a Graph,
    pub(crate) node: Node,
    pub(crate) rows: Range<usize>,
    /// The op's last step.
    pub(crate) last: bool,
    /// Operands in the order of `Op::operands`.
    pub(crate) operands: Vec<View<'a>>,
    pub(crate) out: View<'a>,
    pub(crate) scratch: Option<View<'a>>,
    /// The convolution's weights are packed.
    pub(crate) packed: bool,
}

type Launches<'a> = Result<Vec<Launch<'a>>, GpuError>;

impl<'a> Lower<'a> {
    /// Kernels that do this step, in order.
    pub(crate) fn launches(&self) -> Launches<'a> {
        let Some(op) = self.graph.op(self.node) else {
            return Ok(Vec::new());
        };
        if self.rows.is_empty() {
            return Ok(Vec::new());
        }
        let mut used = op.operands().into_iter().chain([self.node]);
        used.try_for_each(|node| self.count(node))?;
        // Each op has a method of its name, in the file of its family.
        macro_rules! by_name {
            ($($op:ident $name:ident),* $(,)?) => {
                match op {
                    $(Op::$op(o) => self.$name(o)),*
                }
            };
        }
        for_each_op!(by_name)
    }

    /// Whether kernels can count a value's parts. They know rows and columns by number, some as
    /// signed ones; elements only as offsets, which wrap and are small again once a binding's start
    /// is taken off. Where blocks are stored, the number of the element says the block.
    fn count(&self, node: Node) -> Result<(), GpuError> {
        let shape = self.graph.shape(node);
        let most = i32::MAX as usize;
        let (rows, columns, values) = (shape.rows(), shape.last_dim(), shape.numel());
        let whole = if self.graph.dtype(node).is_block() {
            values
        } else {
            0
        };
        if [rows, columns, whole].iter().all(|&n| n <= most) {
            return Ok(());
        }
        Err(self.unsupported(format!(
            "{shape} is {rows} rows of {columns} values, and kernels count {most} at most"
        )))
    }

    fn unsupported(&self, why: String) -> GpuError {
        GpuError::Unsupported {
            op: self.graph.op_label(self.node),
            why,
        }
    }

    fn shape(&self) -> Shape {
        self.graph.shape(self.node)
    }

    /// The storage type of an activation as kernels number it.
    fn code(&self, view: &View<'_>) -> Result<i64, GpuError> {
        match view.dtype {
            DType::F32 | DType::F16 | DType::BF16 => Ok(dtype_code(view.dtype).unwrap_or(0)),
            other => Err(self.unsupported(format!("an activation stored as {other}"))),
        }
    }

    /// Whether element indices that are multiples of 4 stay so in every binding.
    fn quads(&self, views: &[View<'_>]) -> bool {
        views.iter().all(|v| self.caps.base(v).is_multiple_of(4))
    }

    /// Elements of the result that this step makes, when rows are equal pieces of it. Such a piece
    /// is one or more whole rows of its last dimension, whatever the op.
    fn elements(&self) -> Range<usize> {
        let each = self.shape().numel() / self.graph.op_rows(self.node).max(1);
        self.rows.start * each..self.rows.end * each
    }
}

/// Sizes padded in front with ones to six.
fn six(shape: &[usize]) -> [u32; 6] {
    let mut dims = [1; 6];
    for (to, &from) in dims[6 - shape.len()..].iter_mut().zip(shape) {
        *to = from as u32;
    }
    dims
}

#[cfg(test)]
mod tests;
