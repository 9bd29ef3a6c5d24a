//! One face for every diffusion model: what a file holds, what it takes beside the latent, and its
//! graph.
//!
//! A new model is a file of its own, a variant here, a row in [`Family`](crate::Family) and a
//! golden; `docs/adding-a-model.md` walks through it.

use crate::{Find, Params, unet};
use nino_dtype::DType;
use nino_graph::{Graph, GraphError, Node, Shape};

/// A diffusion model by its architecture, with the sizes its tensors tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denoiser {
    Unet(unet::Config),
}

/// What a graph of a denoiser is recorded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DenoiserShape {
    /// Latents of one run.
    pub rows: usize,
    /// Latent frames: 1 for pictures.
    pub frames: usize,
    pub height: usize,
    pub width: usize,
    /// Tokens of the prompt.
    pub tokens: usize,
}

/// What a denoiser's inputs are, beside the noisy latent and the timestep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    /// Channels of the latent.
    pub channels: usize,
    /// Whether latents have frames: clips, or pictures as clips of one frame.
    pub frames: bool,
    /// Width of the encoded prompt.
    pub context: usize,
    /// Length of the label vector, such as SDXL's pooled text and sizes.
    pub label: Option<usize>,
    /// Length of the embedded guidance, for models that are told it instead of being guided.
    pub guidance: Option<usize>,
    /// Channels that stand beside the latent's: a mask and a picture to paint over, or a picture to
    /// edit.
    pub extra: usize,
}

/// A recorded denoiser. Latents are `[rows, h, w, c]`, or `[rows, t, h, w, c]` where
/// [`Wants::frames`] says so.
#[derive(Clone, Debug)]
pub struct DenoiserGraph {
    pub graph: Graph,
    pub x: Node,
    /// An input of the latent's shape with [`Wants::extra`] channels; given exactly when that is not 0.
    pub extra: Option<Node>,
    /// Timesteps `[rows]`, f32.
    pub t: Node,
    /// `[rows, tokens, context]`
    pub context: Node,
    /// `[rows, label]`
    pub label: Option<Node>,
    /// `[rows, guidance]`
    pub guidance: Option<Node>,
    /// The prediction, of the latent's shape.
    pub out: Node,
}

impl DenoiserGraph {
    /// The inputs that stay the same from one step to the next.
    pub fn fixed(&self) -> impl Iterator<Item = Node> {
        let optional = [self.label, self.guidance, self.extra];
        std::iter::once(self.context).chain(optional.into_iter().flatten())
    }
}

impl Denoiser {
    /// What the tensors of a file make up; `None` when it is no known diffusion model.
    pub fn detect(find: &Find) -> Option<Denoiser> {
        unet::Config::detect(find).map(Denoiser::Unet)
    }

    pub fn wants(&self) -> Wants {
        match self {
            Denoiser::Unet(c) => Wants {
                channels: c.out_channels,
                frames: false,
                context: c.context_dim,
                label: c.adm_in,
                guidance: c.guidance,
                extra: c.in_channels.saturating_sub(c.out_channels),
            },
        }
    }

    /// Records the network with activations in `dtype`. With `keep`, what is the same in every step
    /// is computed once ([`Graph::keep`]); that takes one set of prompts for all runs.
    pub fn record(
        &self,
        params: &Params,
        shape: DenoiserShape,
        dtype: DType,
        keep: bool,
    ) -> Result<DenoiserGraph, GraphError> {
        let mut graph = Graph::new();
        let mut recorded = self.record_into(&mut graph, params, shape, dtype);
        graph.output(recorded.out);
        if keep {
            recorded.fixed().for_each(|n| graph.keep(n));
        }
        recorded.graph = graph.finish()?;
        Ok(recorded)
    }

    fn record_into(
        &self,
        g: &mut Graph,
        params: &Params,
        shape: DenoiserShape,
        dtype: DType,
    ) -> DenoiserGraph {
        let Wants {
            channels,
            frames,
            context,
            label,
            guidance,
            extra,
        } = self.wants();
        let rows = shape.rows;
        let latent = |channels: usize| match (frames, shape.frames, shape.height, shape.width) {
            (true, t, h, w) => Shape::from([rows, t, h, w, channels]),
            (false, _, h, w) => Shape::from([rows, h, w, channels]),
        };
        let x = g.input("x", latent(channels), dtype);
        let extra = (extra > 0).then(|| g.input("extra", latent(extra), dtype));
        let t = g.input("t", [rows], DType::F32);
        let context = g.input("context", [rows, shape.tokens, context], dtype);
        let label = label.map(|n| g.input("label", [rows, n], dtype));
        let guidance = guidance.map(|n| g.input("guidance", [rows, n], dtype));
        let seen = extra.map_or(x, |extra| g.concat(&[x, extra], g.shape(x).rank() - 1));
        let out = match self {
            Denoiser::Unet(config) => {
                let inputs = unet::Inputs {
                    x: seen,
                    t,
                    context,
                    y: label,
                    guidance,
                };
                unet::unet(g, params, config, inputs)
            }
        };
        DenoiserGraph {
            graph: Graph::new(),
            x,
            extra,
            t,
            context,
            label,
            guidance,
            out,
        }
    }

    /// What the guidance input is given for a guidance of `cfg`.
    pub fn guidance_values(&self, cfg: f32) -> Vec<f32> {
        match self {
            Denoiser::Unet(c) => c
                .guidance
                .map_or_else(Vec::new, |n| guidance_embedding(cfg, n)),
        }
    }
}

/// Sines and cosines of the guidance, in f32 as the models were trained with: angles are thousands,
/// so rounding shows.
fn guidance_embedding(cfg: f32, size: usize) -> Vec<f32> {
    let half = size / 2;
    let fall = -(10_000f64.ln() / (half as f64 - 1.0)) as f32;
    let angle = |i: usize| f64::from((cfg - 1.0) * 1000.0 * (i as f32 * fall).exp());
    let sines = (0..half).map(|i| angle(i).sin() as f32);
    let cosines = (0..half).map(|i| angle(i).cos() as f32);
    let mut out: Vec<f32> = sines.chain(cosines).collect();
    out.resize(size, 0.0);
    out
}

#[cfg(test)]
mod tests {
    use super::guidance_embedding;

    #[test]
    fn guidance_is_embedded_as_diffusers_does() {
        let found = guidance_embedding(8.5, 256);
        let some: Vec<f32> = [0, 1, 40, 127, 128, 150, 255].map(|i| found[i]).to_vec();
        let wanted = [
            -0.85124, 0.84213, -0.68636, 0.68164, -0.52478, 0.86048, 0.73169,
        ];
        for (f, w) in some.iter().zip(wanted) {
            assert!((f - w).abs() < 2e-3, "{some:?}");
        }
    }
}
