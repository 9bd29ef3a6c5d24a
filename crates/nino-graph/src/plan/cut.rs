//! Cuts an op into steps of rows, so that no limit is passed.

use super::Step;
use super::limits::Strategy;
use crate::{Graph, Node, Use};
use std::ops::Range;

/// The most steps of a plan. More would take longer to go through than most computations, and a
/// plan should itself be small.
pub(super) const MAX_STEPS: usize = 1 << 22;

/// Cuts one op into the fewest steps of equal rows that respect the limits; gives what they need at
/// most, or what the smallest steps would need. `windowed` says by node which values pass
/// through windows. Where that makes more than [`MAX_STEPS`] in all, they are counted but not made.
pub(super) fn steps(
    graph: &Graph,
    node: Node,
    how: &Strategy,
    windowed: &[bool],
    steps: &mut Steps,
) -> Result<Need, Need> {
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
    steps.count += cutter.count(cut);
    if steps.count > MAX_STEPS {
        return Ok(cutter.scratch);
    }
    let need = cutter.needs(cut).fold(cutter.scratch, Need::max);
    for rows in cutter.ranges(cut) {
        steps.made.push(Step {
            node,
            last: rows.end == cutter.rows,
            rows,
        });
    }
    Ok(need)
}

/// Steps of a plan in the making.
#[derive(Default)]
pub(super) struct Steps {
    pub(super) made: Vec<Step>,
    /// More than are made where they are too many.
    pub(super) count: usize,
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
            // The most blocks that fit. Invariant: `fit` blocks do (once known), `over` do not.
            let all = within.div_ceil(block);
            let most = |fits: &dyn Fn(Cut) -> bool| {
                let (mut fit, mut over) = (0, all);
                while over - fit > 1 {
                    let middle = fit.midpoint(over);
                    if fits(cut(middle)) {
                        fit = middle;
                    } else {
                        over = middle;
                    }
                }
                fit
            };
            // A few steps tell for all of them, nearly always.
            let mut fits = most(&|cut| self.some_fit(cut));
            if fits > 0 && !self.fits(cut(fits)) {
                fits = most(&|cut| self.fits(cut));
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
        self.ranges(cut).map(|rows| self.need(&rows))
    }

    fn need(&self, rows: &Range<usize>) -> Need {
        let uses = self.graph.uses(self.node, rows);
        Need::of(&uses, self.how.limits.align, self.windowed)
    }

    /// How many steps a cut makes.
    fn count(&self, cut: Cut) -> usize {
        let Cut { within, each } = cut;
        let (within, each) = (within.max(1), each.max(1));
        let rest = self.rows % within;
        self.rows / within * within.div_ceil(each) + rest.div_ceil(each)
    }

    /// Whether every step respects the limits. Of a cut into too many steps only a few are looked
    /// at, because no plan comes of it.
    fn fits(&self, cut: Cut) -> bool {
        if self.count(cut) > MAX_STEPS {
            return self.some_fit(cut);
        }
        self.all_fit(cut, self.needs(cut))
    }

    /// The same of the first steps alone, and of the last.
    fn some_fit(&self, cut: Cut) -> bool {
        let Cut { within, each } = cut;
        let end = self.rows.saturating_sub(1);
        let block = end / within.max(1) * within;
        let last = block + (end - block) / each.max(1) * each;
        let some = self
            .ranges(cut)
            .take(3)
            .chain(std::iter::once(last..self.rows));
        self.all_fit(cut, some.map(|rows| self.need(&rows)))
    }

    fn all_fit(&self, cut: Cut, mut needs: impl Iterator<Item = Need>) -> bool {
        cut.each <= self.most
            && self.scratch.fits(self.how)
            && needs.all(|need| need.fits(self.how))
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
