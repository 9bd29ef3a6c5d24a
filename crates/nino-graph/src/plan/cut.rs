//! Cuts an op into steps of rows, so that no limit is passed.

use super::{PlanError, PlanOptions, Step};
use crate::{Graph, Node, Use};

/// Cuts one op into the fewest steps of equal rows that respect the limits; gives the largest
/// binding.
pub(super) fn steps(
    graph: &Graph,
    node: Node,
    options: &PlanOptions,
    spilled: &[bool],
    steps: &mut Vec<Step>,
) -> Result<usize, PlanError> {
    let rows = graph.op_rows(node);
    let largest = |each: usize| {
        (0..rows)
            .step_by(each.max(1))
            .map(|r| {
                Need::of(
                    &graph.uses(node, &(r..(r + each).min(rows))),
                    options,
                    spilled,
                )
            })
            .fold(
                Need {
                    binding: options.scratch_bytes(graph, node),
                    window: 0,
                },
                Need::max,
            )
    };
    let mut each = rows;
    if let Some(max) = options.max_step_flops {
        let share = (max / graph.cost(node).flops).min(1.0);
        each = ((rows as f64 * share) as usize).clamp(1, rows.max(1));
    }
    let mut need = largest(each);
    if !need.fits(options) {
        // Invariant: `fits` rows fit (once known), `over` rows do not.
        let (mut fits, mut over) = (0, each);
        while over - fits > 1 {
            let middle = fits.midpoint(over);
            if largest(middle).fits(options) {
                fits = middle;
            } else {
                over = middle;
            }
        }
        if fits == 0 {
            let Need { binding, window } = largest(1);
            let (bytes, limit) = if binding > options.max_binding {
                (binding, options.max_binding)
            } else {
                (window, options.window)
            };
            return Err(PlanError::BindingTooLarge {
                op: graph.op_label(node),
                bytes,
                limit,
            });
        }
        let n_steps = rows.div_ceil(fits);
        each = rows.div_ceil(n_steps);
        // Kernels compute in tiles of rows: a cut between tiles leaves them whole.
        if let Some(tile) = [16, 4].into_iter().find(|&tile| each >= tile) {
            each -= each % tile;
        }
        need = largest(each);
    }
    for start in (0..rows).step_by(each.max(1)) {
        let end = (start + each).min(rows);
        steps.push(Step {
            node,
            rows: start..end,
            last: end == rows,
        });
    }
    Ok(need.binding)
}

/// What one step asks of the device.
#[derive(Clone, Copy)]
struct Need {
    /// Bytes of its largest operand.
    binding: usize,
    /// Bytes that come from or go outside the arena.
    window: usize,
}

impl Need {
    fn of(uses: &[Use], options: &PlanOptions, spilled: &[bool]) -> Need {
        // A binding starts at an aligned offset below its first byte.
        let bytes = |u: &Use| u.bytes.len() + u.bytes.start % options.align;
        let outside = uses.iter().filter(|u| spilled[u.node.index()]);
        Need {
            binding: uses.iter().map(bytes).max().unwrap_or(0),
            window: outside
                .map(|u| bytes(u).next_multiple_of(options.align))
                .sum(),
        }
    }

    fn max(self, other: Need) -> Need {
        Need {
            binding: self.binding.max(other.binding),
            window: self.window.max(other.window),
        }
    }

    fn fits(self, options: &PlanOptions) -> bool {
        self.binding <= options.max_binding && self.window <= options.window
    }
}
