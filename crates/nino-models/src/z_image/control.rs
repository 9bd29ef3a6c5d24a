//! Z-Image's union `ControlNet` ("Fun"): blocks like the model's that process the encoded hint.
//! Their residuals are added to the image tokens after every few layers of the model.
//! Behavior: ComfyUI's `ZImage_Control` and `ZImageFunControlnet`; names are the authors'.
//!
//! In the first version, the refiners process the hint alone. In later versions they also give
//! residuals for the model's `noise_refiner`, and the hint may have an inpainting mask and image.

use super::block::{BlockArgs, block};
use super::{Config, PATCH, patchify};
use crate::denoiser::scaled;
use crate::flux::add_at;
use crate::{Find, Params};
use nino_graph::{Graph, Node};
use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControlConfig {
    /// Sizes and numbers of its blocks.
    pub blocks: Config,
    /// Whether the hint has an inpainting mask and image.
    pub inpaint: bool,
    /// Whether its refiners give residuals for the model's `noise_refiner`.
    pub refiner_control: bool,
    /// Whether its refiners were published untrained, so that its layers run in their place: the
    /// weights of [`ControlConfig::UNTRAINED`] are zeros.
    pub untrained_refiners: bool,
}

/// A `ControlNet` in a graph of the model.
pub(crate) struct Control<'a> {
    /// At the prefix of its names.
    pub(crate) p: Params<'a>,
    pub(crate) config: &'a ControlConfig,
    /// `[b, h, w, c]`
    pub(crate) hint: Node,
    /// `[b]`
    pub(crate) strength: Node,
}

/// Layers of the published model. The `ControlNet`'s layers are distributed over this many.
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
            inpaint: true,
            refiner_control: true,
            untrained_refiners: false,
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
        let (_, time_out) = matrix("control_layers.0.adaLN_modulation.0.weight")?;
        let refiner_control = find(ControlConfig::UNTRAINED).is_some();
        let hint_channels = patch / (PATCH * PATCH);
        let blocks = Config {
            channels: if refiner_control {
                hint_channels / 2
            } else {
                hint_channels
            },
            dim,
            head,
            mlp,
            cap_dim: 0,
            time: [0, time_out],
            n_layers: count("control_layers"),
            n_refiners: count("control_noise_refiner"),
        };
        let fits = head > 0 && dim.is_multiple_of(head) && blocks.channels > 0;
        let fits = fits && blocks.n_layers > 0 && blocks.n_layers <= LAYERS;
        fits.then_some(ControlConfig {
            blocks,
            inpaint: refiner_control,
            refiner_control,
            untrained_refiners: false,
        })
    }

    /// Layers of the model per layer of its own.
    fn stride(&self) -> usize {
        let n = self.blocks.n_layers;
        // ComfyUI rounds halves to even; no published number of layers gives a half.
        (2 * LAYERS + n) / (2 * n)
    }
}

impl Control<'_> {
    /// Hint tokens, `[b, n, d]`.
    pub(super) fn embed(&self, g: &mut Graph, args: BlockArgs) -> Node {
        let (x, _) = patchify(g, self.hint);
        let mut x = self.p.linear(g, EMBEDDER, x, self.config.blocks.dim);
        if !self.config.refiner_control {
            for i in 0..self.config.blocks.n_refiners {
                let p = self.p.at(format_args!("control_noise_refiner.{i}"));
                x = block(g, &p, &self.config.blocks, x, args);
            }
        }
        x
    }

    /// Runs after refiner `i` of the model: the residual for the image tokens, and the next hint
    /// tokens. `x` is the image tokens before the first refiner.
    pub(super) fn after_refiner(
        &self,
        g: &mut Graph,
        i: usize,
        [hint, x]: [Node; 2],
        args: BlockArgs,
    ) -> (Option<Node>, Node) {
        let c = self.config;
        let (name, range): (&str, Range<usize>) = match (c.refiner_control, c.untrained_refiners) {
            (false, _) => return (None, hint),
            (true, false) => ("control_noise_refiner", i..i + 1),
            (true, true) if i == 0 => ("control_layers", 0..1),
            (true, true) => ("control_layers", 1..c.blocks.n_layers),
        };
        let (mut first_residual, mut hint) = (None, hint);
        for i in range {
            let (residual, next) = self.layer(g, (name, i), [hint, x], args);
            (first_residual, hint) = (first_residual.or(Some(residual)), next);
        }
        (first_residual, hint)
    }

    /// The same after layer `i` of the model; `x` is the image tokens before the first layer.
    pub(super) fn after_layer(
        &self,
        g: &mut Graph,
        i: usize,
        [hint, x]: [Node; 2],
        args: BlockArgs,
    ) -> (Option<Node>, Node) {
        let (stride, n) = (self.config.stride(), self.config.blocks.n_layers);
        if !i.is_multiple_of(stride) || i / stride >= n {
            return (None, hint);
        }
        let (residual, hint) = self.layer(g, ("control_layers", i / stride), [hint, x], args);
        (Some(residual), hint)
    }

    /// Adds a residual times the strength to the tokens from `start` on.
    pub(super) fn add_residual(
        &self,
        g: &mut Graph,
        x: Node,
        start: usize,
        residual: Option<Node>,
    ) -> Node {
        let Some(residual) = residual else { return x };
        let residual = scaled(g, residual, self.strength);
        add_at(g, x, start, residual)
    }

    /// Layer `name.i`: its residual, and the next hint tokens.
    fn layer(
        &self,
        g: &mut Graph,
        (name, i): (&str, usize),
        [hint, x]: [Node; 2],
        args: BlockArgs,
    ) -> (Node, Node) {
        let (p, c) = (self.p.at(format_args!("{name}.{i}")), &self.config.blocks);
        let mut hint = hint;
        if i == 0 {
            hint = p.linear(g, "before_proj", hint, c.dim);
            hint = g.add(hint, x);
        }
        let hint = block(g, &p, c, hint, args);
        (p.linear(g, "after_proj", hint, c.dim), hint)
    }

    /// Records every layer once, without a model: for the list of its tensors.
    pub(crate) fn record_alone(&self, g: &mut Graph, x: Node, [rope, t]: [Node; 2]) {
        let args = BlockArgs { rope, t: Some(t) };
        let mut hint = self.embed(g, args);
        for i in 0..self.config.blocks.n_refiners {
            hint = self.after_refiner(g, i, [hint, x], args).1;
        }
        for i in 0..self.config.blocks.n_layers {
            hint = self.layer(g, ("control_layers", i), [hint, x], args).1;
        }
    }
}
