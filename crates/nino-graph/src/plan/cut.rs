//! Cuts an op into steps of rows, so that no limit is passed.

use super::Step;
use super::limits::Strategy;
use crate::{Graph, Node, Use};
use std::ops::Range;

/// Cuts one op into the fewest steps of equal rows that respect the limits; gives the largest
/// binding, or what the smallest steps would need. `windowed` says by node which values pass
/// through windows.
pub(super) fn steps(
    graph: &Graph,
    node: Node,
    how: &Strategy,
    windowed: &[bool],
    steps: &mut Vec<Step>,
) -> Result<usize, Need> {
    let rows = graph.op_rows(node);
    let cutter = Cutter {
        graph,
        node,
        how,
        windowed,
        rows,
        scratch: Need {
            binding: how.scratch_bytes(graph, node),
            window: 0,
        },
        most: match how.limits.max_step_flops {
            Some(max) => {
                let share = (max / graph.cost(node).flops).min(1.0);
                ((rows as f64 * share) as usize).clamp(1, rows.max(1))
            }
            None => usize::MAX,
        },
    };
    let cut = cutter.best()?;
    let need = cutter.needs(cut).fold(cutter.scratch, Need::max);
    for rows in cutter.ranges(cut) {
        steps.push(Step {
            node,
            last: rows.end == cutter.rows,
            rows,
        });
    }
    Ok(need.binding)
}

struct Cutter<'a> {
    graph: &'a Graph,
    node: Node,
    how: &'a Strategy,
    windowed: &'a [bool],
    rows: usize,
    /// What each step needs besides its operands.
    scratch: Need,
    /// Rows of one step at most, for its arithmetic.
    most: usize,
}

/// Steps of `each` rows; none crosses a multiple of `within`.
#[derive(Clone, Copy)]
struct Cut {
    within: usize,
    each: usize,
}

impl Cutter<'_> {
    fn best(&self) -> Result<Cut, Need> {
        let mut within = self.rows;
        let whole = Cut {
            within,
            each: within,
        };
        if self.fits(whole) {
            return Ok(whole);
        }
        for block in self.graph.row_blocks(self.node) {
            let cut = |blocks: usize| Cut {
                within,
                each: blocks * block,
            };
            // Invariant: `fits` blocks fit (once known), `over` blocks do not.
            let all = within.div_ceil(block);
            let (mut fits, mut over) = (0, all);
            while over - fits > 1 {
                let middle = fits.midpoint(over);
                if self.fits(cut(middle)) {
                    fits = middle;
                } else {
                    over = middle;
                }
            }
            if fits == 0 {
                within = block;
                continue;
            }
            let mut blocks = all.div_ceil(all.div_ceil(fits));
            // Kernels compute in tiles of rows: a cut between tiles leaves them whole.
            if let Some(tile) = [16, 4]
                .into_iter()
                .find(|&tile| block == 1 && blocks >= tile)
            {
                blocks -= blocks % tile;
            }
            return Ok(cut(blocks));
        }
        let least = Cut { within, each: 1 };
        let over = self.needs(least).find(|need| !need.fits(self.how));
        Err(over.map_or(self.scratch, |need| need.max(self.scratch)))
    }

    fn ranges(&self, cut: Cut) -> impl Iterator<Item = Range<usize>> {
        let Cut { within, each } = cut;
        let rows = self.rows;
        (0..rows).step_by(within.max(1)).flat_map(move |start| {
            let end = (start + within).min(rows);
            let firsts = (start..end).step_by(each.max(1));
            firsts.map(move |first| first..(first + each).min(end))
        })
    }

    fn needs(&self, cut: Cut) -> impl Iterator<Item = Need> {
        self.ranges(cut).map(|rows| {
            let uses = self.graph.uses(self.node, &rows);
            Need::of(&uses, self.how.limits.align, self.windowed)
        })
    }

    fn fits(&self, cut: Cut) -> bool {
        // Most often the first step tells: there may be millions.
        let mut needs = [self.scratch].into_iter().chain(self.needs(cut));
        cut.each <= self.most && needs.all(|need| need.fits(self.how))
    }
}

/// What one step asks of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Bytes of its largest operand.
    pub(super) binding: usize,
    /// Bytes of its windows.
    pub(super) window: usize,
}

impl Need {
    fn of(uses: &[Use], align: usize, windowed: &[bool]) -> Need {
        // A binding starts at an aligned offset below its first byte.
        let bytes = |u: &Use| u.bytes.len() + u.bytes.start % align;
        let windows = uses.iter().filter(|u| windowed[u.node.index()]);
        Need {
            binding: uses.iter().map(bytes).max().unwrap_or(0),
            window: windows.map(|u| bytes(u).next_multiple_of(align)).sum(),
        }
    }

    fn max(self, other: Need) -> Need {
        Need {
            binding: self.binding.max(other.binding),
            window: self.window.max(other.window),
        }
    }

    fn fits(self, how: &Strategy) -> bool {
        self.binding <= how.limits.max_binding && self.window <= how.window
    }
}
