//! Z-Image's union `ControlNet` ("Fun"): blocks of the model's kind that see the encoded picture,
//! and whose results are added to the picture's tokens behind every few layers of the model.
//! Behaviour: ComfyUI's `ZImage_Control` and `ZImageFunControlnet`; names are the authors'.
//!
//! The first version refines the picture by itself. Later ones see a mask and what stays of another
//! picture, too, and add to the refined tokens of the model.

use super::block::{Told, block};
use super::{Config, PATCH, patches};
use crate::denoiser::scaled;
use crate::flux::add_at;
use crate::{Find, Params};
use nino_graph::{Graph, Node};
use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControlConfig {
    /// Its blocks; only sizes of blocks and their numbers count.
    pub blocks: Config,
    /// Whether it sees a mask and another picture beside the first.
    pub painted: bool,
    /// Whether its refiners add to the model's refined tokens.
    pub refines: bool,
    /// Whether its layers stand in for its refiners, which were published untrained: the weights of
    /// [`ControlConfig::UNTRAINED`] are zeros.
    pub unrefined: bool,
}

/// One in a graph of the model.
pub(crate) struct Control<'a> {
    /// The place of its names.
    pub(crate) p: Params<'a>,
    pub(crate) config: &'a ControlConfig,
    /// `[b, h, w, c]`
    pub(crate) hint: Node,
    /// `[b]`
    pub(crate) strength: Node,
}

/// Layers of the model, over which a `ControlNet`'s are spread, however many there are.
const LAYERS: usize = 30;
const EMBEDDER: &str = "control_all_x_embedder.2-1";

impl ControlConfig {
    pub const UNTRAINED: &'static str = "control_noise_refiner.0.after_proj.weight";

    /// The second version.
    pub fn published() -> ControlConfig {
        ControlConfig {
            blocks: Config {
                n_layers: 15,
                cap_dim: 0,
                ..Config::published()
            },
            painted: true,
            refines: true,
            unrefined: false,
        }
    }

    /// `None` when this is no `ControlNet` of Z-Image.
    pub fn detect(find: &Find) -> Option<ControlConfig> {
        let matrix = |name: &str| match *find(name)?.0 {
            [rows, columns] => Some((rows, columns)),
            _ => None,
        };
        let count = |kind: &str| {
            let name = |i: &usize| format!("{kind}.{i}.attention.qkv.weight");
            (0..256).take_while(|i| find(&name(i)).is_some()).count()
        };
        let (dim, patch) = matrix(&format!("{EMBEDDER}.weight"))?;
        let [head] = *find("control_layers.0.attention.k_norm.weight")?.0 else {
            return None;
        };
        let (mlp, _) = matrix("control_layers.0.feed_forward.w1.weight")?;
        let (_, told) = matrix("control_layers.0.adaLN_modulation.0.weight")?;
        let refines = find(ControlConfig::UNTRAINED).is_some();
        let seen = patch / (PATCH * PATCH);
        let blocks = Config {
            channels: if refines { seen / 2 } else { seen },
            dim,
            head,
            mlp,
            cap_dim: 0,
            time: [0, told],
            n_layers: count("control_layers"),
            n_refiners: count("control_noise_refiner"),
        };
        let fits = head > 0 && dim.is_multiple_of(head) && blocks.channels > 0;
        let fits = fits && blocks.n_layers > 0 && blocks.n_layers <= LAYERS;
        fits.then_some(ControlConfig {
            blocks,
            painted: refines,
            refines,
            unrefined: false,
        })
    }

    /// Layers of the model between two of its own.
    fn every(&self) -> usize {
        let n = self.blocks.n_layers;
        // Rounded, halves to even; no published number of layers comes near one.
        (2 * LAYERS + n) / (2 * n)
    }
}

impl Control<'_> {
    /// The picture's tokens, `[b, n, d]`.
    pub(super) fn begin(&self, g: &mut Graph, told: Told) -> Node {
        let (x, _) = patches(g, self.hint);
        let mut x = self.p.linear(g, EMBEDDER, x, self.config.blocks.dim);
        if !self.config.refines {
            for i in 0..self.config.blocks.n_refiners {
                let p = self.p.at(format_args!("control_noise_refiner.{i}"));
                x = block(g, &p, &self.config.blocks, x, told);
            }
        }
        x
    }

    /// Behind refiner `i` of the model, whose tokens were `seen` before the first: what it adds to
    /// them, and its own tokens.
    pub(super) fn refined(
        &self,
        g: &mut Graph,
        i: usize,
        own: Node,
        seen: Node,
        told: Told,
    ) -> (Option<Node>, Node) {
        let c = self.config;
        let (name, range): (&str, Range<usize>) = match (c.refines, c.unrefined) {
            (false, _) => return (None, own),
            (true, false) => ("control_noise_refiner", i..i + 1),
            (true, true) if i == 0 => ("control_layers", 0..1),
            (true, true) => ("control_layers", 1..c.blocks.n_layers),
        };
        let (mut added, mut own) = (None, own);
        for i in range {
            let (more, next) = self.layer(g, name, i, own, seen, told);
            (added, own) = (added.or(Some(more)), next);
        }
        (added, own)
    }

    /// The same behind layer `i` of the model.
    pub(super) fn followed(
        &self,
        g: &mut Graph,
        i: usize,
        own: Node,
        seen: Node,
        told: Told,
    ) -> (Option<Node>, Node) {
        let (every, n) = (self.config.every(), self.config.blocks.n_layers);
        if !i.is_multiple_of(every) || i / every >= n {
            return (None, own);
        }
        let (more, own) = self.layer(g, "control_layers", i / every, own, seen, told);
        (Some(more), own)
    }

    /// Adds to tokens from `start` on, as strongly as it is to.
    pub(super) fn added(&self, g: &mut Graph, x: Node, start: usize, more: Option<Node>) -> Node {
        let Some(more) = more else { return x };
        let more = scaled(g, more, self.strength);
        add_at(g, x, start, more)
    }

    fn layer(
        &self,
        g: &mut Graph,
        name: &str,
        i: usize,
        own: Node,
        seen: Node,
        told: Told,
    ) -> (Node, Node) {
        let (p, c) = (self.p.at(format_args!("{name}.{i}")), &self.config.blocks);
        let mut x = own;
        if i == 0 {
            x = p.linear(g, "before_proj", x, c.dim);
            x = g.add(x, seen);
        }
        let x = block(g, &p, c, x, told);
        (p.linear(g, "after_proj", x, c.dim), x)
    }

    /// Records every layer once, without a model around it.
    pub(crate) fn alone(&self, g: &mut Graph, seen: Node, told: [Node; 2]) {
        let told = Told {
            table: told[0],
            t: Some(told[1]),
        };
        let mut own = self.begin(g, told);
        for i in 0..self.config.blocks.n_refiners {
            own = self.refined(g, i, own, seen, told).1;
        }
        for i in 0..self.config.blocks.n_layers {
            own = self.layer(g, "control_layers", i, own, seen, told).1;
        }
    }
}
