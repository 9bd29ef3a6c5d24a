//! What a plan must keep to: the device's limits, the memory there is, and the strategy the search
//! tries.

use super::ring::SLOTS;
use crate::{Graph, Node};

/// What a device can address, hold and do at once. The same for every plan made for it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // what a device can, each by itself
pub struct Limits {
    /// Offsets in the arena are multiples of this.
    pub align: usize,
    /// The most bytes one operand of one step may cover.
    pub max_binding: usize,
    /// Bytes of the largest buffer. The arena is cut into pages of this size; a value that is
    /// larger lies over several pages of its own and passes through windows.
    pub page: usize,
    /// The most bytes of windows one step may have, where the budget does not ask for less.
    pub window: usize,
    /// A step does at most about this much arithmetic: drivers reset a device that is busy for too
    /// long.
    pub max_step_flops: Option<f64>,
    /// Conv and linear may write over their residual operand.
    pub residual_in_place: bool,
    /// Parameters that stay lie side by side in large buffers, so that each takes
    /// [`Limits::packed_bytes`]; otherwise each takes its own bytes and no more.
    pub packs_params: bool,
    /// How many times the largest fetch of streamed parameters takes memory at once: its two slots,
    /// and what it needs on its way there.
    pub fetch_copies: usize,
    /// Weights in blocks, fp8 or bf16 are expanded to f16 in scratch before the product that reads
    /// them, where at least this many 16-bit rows or pixels share them and there is memory for it.
    pub expand_rows: Option<usize>,
    /// Where `Q8_0` weights would be expanded, the rows of a linear layer are rounded to 8 bits in
    /// scratch instead, and multiplied so.
    pub int8: bool,
    /// Where at least `expand_rows` bf16 rows share weights, rows and weights are written as f16
    /// into scratch, each row times a power of two, and multiplied so; so are the operands of
    /// attention with as many queries. For devices whose matrix units take f16 alone.
    pub halves: bool,
    /// What is computed from kept inputs and parameters alone may stay in the arena for later runs.
    pub keep_steady: bool,
    /// Values of at least this many bytes are kept on the host in every plan. `usize::MAX` leaves
    /// it to the search; tests use less to see values pass through windows.
    pub host_above: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            align: 256,
            max_binding: usize::MAX,
            page: usize::MAX,
            window: usize::MAX,
            max_step_flops: None,
            residual_in_place: true,
            packs_params: false,
            fetch_copies: SLOTS,
            expand_rows: None,
            int8: false,
            halves: false,
            keep_steady: true,
            host_above: usize::MAX,
        }
    }
}

/// Kernels that decode blocks look one word past the end of a parameter.
const PARAM_SLACK: usize = 16;

impl Limits {
    /// Bytes from the beginning of a parameter of `bytes` to the next one in the same buffer. This
    /// is all of the rule: a device that packs parameters allocates the sum and nothing besides.
    pub fn packed_bytes(&self, bytes: usize) -> usize {
        (bytes + PARAM_SLACK).next_multiple_of(self.align)
    }

    /// Bytes that a parameter of `bytes` takes on the device while it stays there.
    pub fn resident_bytes(&self, bytes: usize) -> usize {
        if self.packs_params {
            self.packed_bytes(bytes)
        } else {
            bytes
        }
    }
}

/// The memory that plans may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Bytes for weights, arena, `reserve` and `beside` together; `None` where there is no limit.
    pub total: Option<usize>,
    /// Bytes of the program itself, where its memory is the device's; 0 where the device has its
    /// own.
    pub reserve: usize,
    /// Bytes that a request holds outside its plans, such as pictures, where they count.
    pub beside: usize,
}

impl Budget {
    /// So many bytes for plans alone.
    pub fn of(bytes: usize) -> Budget {
        Budget {
            total: Some(bytes),
            ..Budget::default()
        }
    }

    /// With `bytes` held outside the plans. They count only where the program's memory is the
    /// device's, which is where something is reserved for the program.
    #[must_use]
    pub fn with_beside(self, bytes: usize) -> Budget {
        let counts = self.reserve > 0;
        Budget {
            beside: self.beside + if counts { bytes } else { 0 },
            ..self
        }
    }

    /// The same with at most `bytes` for the plans, where that is less than now.
    #[must_use]
    pub fn capped(self, bytes: Option<usize>) -> Budget {
        let cap = bytes.map(|bytes| bytes.saturating_add(self.outside_plans()));
        Budget {
            total: self.total.into_iter().chain(cap).min(),
            ..self
        }
    }

    /// Bytes of the budget that are in no plan.
    pub fn outside_plans(self) -> usize {
        self.reserve + self.beside
    }

    /// Bytes that are left for plans; `None` without a limit.
    pub fn for_plans(self) -> Option<usize> {
        let left = |total: usize| total.saturating_sub(self.outside_plans());
        self.total.map(left)
    }
}

/// How one plan trades time for memory, within the limits of its device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Strategy {
    pub(super) limits: Limits,
    /// Values of at least this many bytes are kept on the host.
    pub(super) host_above: usize,
    /// So are values that are idle for long.
    pub(super) host_idle: Option<Idle>,
    /// The most bytes of windows one step has.
    pub(super) window: usize,
    pub(super) keep_steady: bool,
    pub(super) expand_rows: Option<usize>,
}

/// Values that take their place for long and are seldom used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Idle {
    /// From a value's first op to its last. What graphs share ([`Graph::share`]) is there all the
    /// time.
    pub(super) ops: usize,
    /// The least bytes of a value that counts.
    pub(super) above: usize,
}

impl Strategy {
    /// Nothing is done to save memory that the limits do not ask for.
    pub(super) fn fastest(limits: &Limits) -> Strategy {
        let limits = Limits {
            page: limits.page - limits.page % limits.align,
            ..*limits
        };
        Strategy {
            limits,
            host_above: limits.host_above,
            host_idle: None,
            window: limits.window,
            keep_steady: limits.keep_steady,
            expand_rows: limits.expand_rows,
        }
    }

    /// Bytes an op needs besides its operands and result.
    pub(super) fn scratch_bytes(&self, graph: &Graph, node: Node) -> usize {
        let prepared = self
            .expand_rows
            .map_or(0, |least| graph.prepared_bytes(node, least, &self.limits));
        graph.scratch_bytes(node).max(prepared)
    }
}
