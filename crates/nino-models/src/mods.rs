//! Modulation of a sequence whose reference tokens may be at timestep 0.

use nino_graph::{Graph, Node};

/// Index of the modulation before attention.
pub(crate) const ATTN: usize = 0;
/// Index of the modulation before the MLP.
pub(crate) const MLP: usize = 1;

/// Modulations of a block, indexed by [`ATTN`] and [`MLP`]. `M` is one modulation: shift, scale and
/// gate.
#[derive(Clone, Copy)]
pub(crate) struct Mods<M> {
    /// For the sampling timestep: the first `n_at_t` tokens.
    pub(crate) at_t: [M; 2],
    /// For timestep 0: the reference tokens after them. `None` where all tokens use `at_t`.
    pub(crate) at_zero: Option<[M; 2]>,
    pub(crate) n_at_t: usize,
}

impl<M: Copy> Mods<M> {
    /// Applies `f` to the tokens `[b, n, d]` of each timestep with their modulation, and
    /// concatenates the results. `index` is [`ATTN`] or [`MLP`]; all of `xs` have one length.
    pub(crate) fn apply<const N: usize>(
        self,
        g: &mut Graph,
        index: usize,
        xs: [Node; N],
        f: impl Fn(&mut Graph, [Node; N], M) -> Node,
    ) -> Node {
        let Some(at_zero) = self.at_zero else {
            return f(g, xs, self.at_t[index]);
        };
        let n = g.shape(xs[0])[1];
        let noisy = xs.map(|x| g.slice(x, 1, 0, self.n_at_t));
        let noisy = f(g, noisy, self.at_t[index]);
        let reference = xs.map(|x| g.slice(x, 1, self.n_at_t, n));
        let reference = f(g, reference, at_zero[index]);
        g.concat(&[noisy, reference], 1)
    }
}
