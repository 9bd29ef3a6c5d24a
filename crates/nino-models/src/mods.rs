//! Modulation of tokens of which the last may be told another noise level than the first: latents
//! to look at without noise.

use nino_graph::{Graph, Node};

/// Modulation of a block's tokens, before attention and before the MLP; `M` is what one half is
/// modulated by.
#[derive(Clone, Copy)]
pub(crate) struct Mods<M> {
    /// Of the first tokens.
    pub(crate) noisy: [M; 2],
    /// Of the tokens behind them, where it differs.
    pub(crate) clean: Option<[M; 2]>,
    pub(crate) n_noisy: usize,
}

impl<M: Copy> Mods<M> {
    /// Makes something of tokens `[b, n, d]`, by the modulation before attention (`half` 0) or
    /// before the MLP (1) that is theirs. All of `xs` have one length.
    pub(crate) fn each<const N: usize>(
        self,
        g: &mut Graph,
        half: usize,
        xs: [Node; N],
        make: impl Fn(&mut Graph, [Node; N], M) -> Node,
    ) -> Node {
        let Some(clean) = self.clean else {
            return make(g, xs, self.noisy[half]);
        };
        let n = g.shape(xs[0])[1];
        let first = xs.map(|x| g.slice(x, 1, 0, self.n_noisy));
        let first = make(g, first, self.noisy[half]);
        let rest = xs.map(|x| g.slice(x, 1, self.n_noisy, n));
        let rest = make(g, rest, clean[half]);
        g.concat(&[first, rest], 1)
    }
}
