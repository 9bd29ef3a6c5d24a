//! One face for every diffusion model: what a file holds, what it takes beside the latent, and its
//! graph.
//!
//! A new model is a file of its own, a variant here, a row in [`Family`](crate::Family) and a
//! golden; `docs/adding-a-model.md` walks through it.

use crate::control::{ControlInputs, Controlled};
use crate::{
    ControlNet, Find, Params, anima, flux, flux2, krea2, qwen_image, t2i_adapter, unet,
    wan_transformer, z_image,
};
use nino_dtype::DType;
use nino_graph::{Graph, GraphError, Node, Shape};
use std::ops::Range;

/// A diffusion model by its architecture, with the sizes its tensors tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denoiser {
    Anima(anima::Config),
    Unet(unet::Config),
    Flux(flux::Config),
    Flux2(flux2::Config),
    Krea2(krea2::Config),
    QwenImage(qwen_image::Config),
    Wan(wan_transformer::Config),
    ZImage(z_image::Config),
}

/// What a graph of a denoiser is recorded for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DenoiserShape {
    /// Latents of one run.
    pub rows: usize,
    /// Latent frames: 1 for pictures.
    pub frames: usize,
    pub height: usize,
    pub width: usize,
    /// Tokens of the prompt.
    pub tokens: usize,
    /// Words in T5's vocabulary that ask for the prompt; only of models that take them
    /// ([`Denoiser::takes_queries`]).
    pub queries: usize,
    /// Rows and columns of the latents to look at beside the one that is denoised; only of models
    /// that take them ([`Denoiser::takes_references`]).
    pub references: Vec<[usize; 2]>,
    /// `ControlNet`s that steer it.
    pub steering: Vec<Controlled>,
    /// Tokens of CLIP's view of pictures; only of models that look at it ([`Wants::image`]).
    pub image_tokens: usize,
    /// Clips to follow; only of models that follow some ([`Wants::control`]).
    pub controls: usize,
    /// Stretches of the prompt's tokens that attention is told to heed more or less, in the order
    /// they were added to it; only of models that can be told ([`Denoiser::takes_bias`]).
    pub biased: Vec<Range<usize>>,
    /// Whether a model that takes guidance as a number is told none.
    pub unguided: bool,
    /// Where the latents to look at are; where the model has them of itself when `None`.
    pub places: Option<flux::Places>,
}

/// What a denoiser's inputs are, beside the noisy latent and the timestep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wants {
    /// Channels of the latent.
    pub channels: usize,
    /// Whether latents have frames: clips, or pictures as clips of one frame.
    pub frames: bool,
    /// Width of the encoded prompt.
    pub context: usize,
    /// Length of the label vector, such as SDXL's pooled text and sizes.
    pub label: Option<usize>,
    /// What it is told of the guidance.
    pub guidance: Guidance,
    /// Channels that stand beside the latent's: a mask and a picture to paint over, or a picture to
    /// edit.
    pub extra: usize,
    /// Whether every frame has a timestep of its own.
    pub frame_times: bool,
    /// Width of the tokens of CLIP's view of a picture, which it may be shown.
    pub image: Option<usize>,
    /// Channels of clips to follow (VACE); it needs at least one.
    pub control: Option<usize>,
}

impl Wants {
    /// Of a model of pictures that takes nothing but a prompt.
    fn plain(channels: usize, context: usize) -> Wants {
        Wants {
            channels,
            frames: false,
            context,
            label: None,
            guidance: Guidance::None,
            extra: 0,
            frame_times: false,
            image: None,
            control: None,
        }
    }
}

/// How a model takes guidance as an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Guidance {
    /// Not at all: it is guided by a negative prompt, or not guided.
    None,
    /// The sampler's guidance, embedded in so many values: it is told that instead of being guided
    /// by a negative prompt.
    Cfg(usize),
    /// A number of the prompt's own, beside the sampler's guidance; this one where a prompt has
    /// none.
    Number(f32),
}

/// A recorded denoiser. Latents are `[rows, h, w, c]`, or `[rows, t, h, w, c]` where
/// [`Wants::frames`] says so.
#[derive(Clone, Debug)]
pub struct DenoiserGraph {
    pub graph: Graph,
    pub x: Node,
    /// An input of the latent's shape with [`Wants::extra`] channels; given exactly when that is
    /// not 0.
    pub extra: Option<Node>,
    /// Timesteps `[rows]`, f32; `[rows·frames]` of [`Wants::frame_times`].
    pub t: Node,
    /// `[rows, tokens, context]`
    pub context: Node,
    /// Words that ask for the context: [`anima::Queries`].
    pub queries: Option<anima::Queries>,
    /// `[rows, label]`
    pub label: Option<Node>,
    /// `[rows, n]` of [`Guidance::Cfg`], `[rows]` in f32 of [`Guidance::Number`].
    pub guidance: Option<Node>,
    /// Latents to look at, `[rows, h, w, c]` each.
    pub references: Vec<Node>,
    /// Inputs of the `ControlNet`s. Strengths may differ from step to step.
    pub steering: Vec<ControlInputs>,
    /// CLIP's view of pictures, `[rows, n, width]`.
    pub image: Option<Node>,
    /// Clips to follow: frames of the latent's shape with [`Wants::control`] channels, and how much
    /// each counts, `[1]`.
    pub controls: Vec<wan_transformer::Control>,
    /// What is added to the scores of the prompt's tokens, `[rows, stretches, 1, tokens]`:
    /// [`flux::Bias`].
    pub bias: Option<Node>,
    /// The prediction, of the latent's shape.
    pub out: Node,
}

impl DenoiserGraph {
    /// The inputs that stay the same from one step to the next.
    pub fn fixed(&self) -> impl Iterator<Item = Node> {
        let optional = [self.label, self.guidance, self.extra, self.image, self.bias];
        let optional = optional.into_iter().flatten();
        let references = self.references.iter().copied();
        let controls = self.controls.iter().flat_map(|c| [c.frames, c.strength]);
        let queries = self.queries.iter().flat_map(|q| [q.ids, q.weights]);
        let hints = self.steering.iter().map(|c| c.hint);
        std::iter::once(self.context)
            .chain(optional)
            .chain(queries)
            .chain(references)
            .chain(controls)
            .chain(hints)
    }
}

impl Denoiser {
    /// What the tensors of a file make up; `None` when it is no known diffusion model.
    pub fn detect(find: &Find) -> Option<Denoiser> {
        let unet = unet::Config::detect(find).map(Denoiser::Unet);
        unet.or_else(|| flux::Config::detect(find).map(Denoiser::Flux))
            .or_else(|| flux2::Config::detect(find).map(Denoiser::Flux2))
            .or_else(|| wan_transformer::Config::detect(find).map(Denoiser::Wan))
            .or_else(|| z_image::Config::detect(find).map(Denoiser::ZImage))
            .or_else(|| qwen_image::Config::detect(find).map(Denoiser::QwenImage))
            .or_else(|| krea2::Config::detect(find).map(Denoiser::Krea2))
            .or_else(|| anima::Config::detect(find).map(Denoiser::Anima))
    }

    pub fn wants(&self) -> Wants {
        match self {
            Denoiser::Unet(c) => Wants {
                channels: c.out_channels,
                frames: false,
                context: c.context_dim,
                label: c.adm_in,
                guidance: c.guidance.map_or(Guidance::None, Guidance::Cfg),
                extra: c.in_channels.saturating_sub(c.out_channels),
                frame_times: false,
                image: None,
                control: None,
            },
            Denoiser::Flux(c) => Wants {
                channels: c.out_channels,
                frames: false,
                context: c.context_dim,
                label: c.vec_in(),
                guidance: match c.modulation {
                    flux::Modulation::PerBlock { guidance: true, .. } => Guidance::Number(3.5),
                    flux::Modulation::PerBlock { .. } => Guidance::None,
                    flux::Modulation::Approximated { .. } => Guidance::Number(0.0),
                },
                extra: c.in_channels.saturating_sub(c.out_channels),
                frame_times: false,
                image: None,
                control: None,
            },
            Denoiser::Flux2(c) => Wants {
                guidance: if c.guidance {
                    Guidance::Number(3.5)
                } else {
                    Guidance::None
                },
                ..Wants::plain(c.channels, c.context_dim)
            },
            Denoiser::Anima(c) => Wants::plain(c.channels, c.context_dim),
            Denoiser::Krea2(c) => Wants::plain(c.channels, c.txt_layers * c.txt_dim),
            Denoiser::QwenImage(c) => Wants::plain(c.channels, c.context_dim),
            Denoiser::Wan(c) => Wants {
                channels: c.out_channels,
                frames: true,
                context: c.context_dim,
                label: None,
                guidance: Guidance::None,
                extra: c.in_channels.saturating_sub(c.out_channels),
                frame_times: c.has_frame_times(),
                image: c.image.map(|i| i.width),
                control: c.vace.map(|v| v.in_channels),
            },
            Denoiser::ZImage(c) => Wants::plain(c.channels, c.cap_dim),
        }
    }

    /// Records the network with activations in `dtype`. With `keep`, what is the same in every step
    /// is computed once ([`Graph::keep`]); that takes one set of prompts for all runs.
    pub fn record(
        &self,
        params: &Params,
        shape: &DenoiserShape,
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
        shape: &DenoiserShape,
        dtype: DType,
    ) -> DenoiserGraph {
        let Wants {
            channels,
            frames,
            context,
            label,
            guidance,
            extra,
            frame_times,
            image,
            control,
        } = self.wants();
        let rows = shape.rows;
        let latent = |channels: usize| match (frames, shape.frames, shape.height, shape.width) {
            (true, t, h, w) => Shape::from([rows, t, h, w, channels]),
            (false, _, h, w) => Shape::from([rows, h, w, channels]),
        };
        let x = g.input("x", latent(channels), dtype);
        let extra = (extra > 0).then(|| g.input("extra", latent(extra), dtype));
        let n_times = if frame_times {
            rows * shape.frames
        } else {
            rows
        };
        let t = g.input("t", [n_times], DType::F32);
        let context = g.input("context", [rows, shape.tokens, context], dtype);
        let queries = (self.takes_queries() && shape.queries > 0).then(|| anima::Queries {
            ids: g.input("queries", [rows, shape.queries], DType::I32),
            weights: g.input("query weights", [rows, shape.queries, 1], dtype),
        });
        let label = label.map(|n| g.input("label", [rows, n], dtype));
        let guidance = match guidance {
            Guidance::None => None,
            Guidance::Cfg(n) => Some(g.input("guidance", [rows, n], dtype)),
            Guidance::Number(_) if shape.unguided && self.goes_unguided() => None,
            Guidance::Number(_) => Some(g.input("guidance", [rows], DType::F32)),
        };
        let looked_at = shape.references.iter().enumerate();
        let references: Vec<Node> = looked_at
            .map(|(i, &[h, w])| g.input(&format!("reference {i}"), [rows, h, w, channels], dtype))
            .collect();
        let steering: Vec<ControlInputs> = control_inputs(g, shape, dtype);
        let image = image.filter(|_| shape.image_tokens > 0);
        let image = image.map(|width| g.input("image", [rows, shape.image_tokens, width], dtype));
        let followed = control
            .into_iter()
            .flat_map(|n| (0..shape.controls).map(move |i| (i, n)));
        let controls: Vec<_> = followed
            .map(|(i, channels)| wan_transformer::Control {
                frames: g.input(&format!("control {i}"), latent(channels), dtype),
                strength: g.input(&format!("strength {i}"), [1], dtype),
            })
            .collect();
        let stretches = &shape.biased;
        let bias = (self.takes_bias() && !stretches.is_empty())
            .then(|| g.input("bias", [rows, stretches.len(), 1, shape.tokens], DType::F32));
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
                let latent = unet::Inputs { x, ..inputs };
                let mut added = Vec::new();
                for (place, net, told) in nets(params, shape, &steering) {
                    let made = match &net.net {
                        ControlNet::Unet(c) => {
                            unet::control(g, &place, c, latent, told.hint, net.mode)
                        }
                        ControlNet::Adapter(c) => t2i_adapter::adapter(g, &place, c, told.hint),
                        ControlNet::Flux(_) | ControlNet::ZImage(_) => continue,
                    };
                    added.push(made.map(|node| scaled(g, node, told.strength)));
                }
                unet::unet(g, params, config, inputs, &added)
            }
            Denoiser::Flux(config) => {
                let inputs = flux::Inputs {
                    x: seen,
                    t,
                    context,
                    y: label,
                    guidance,
                    references: &references,
                    places: shape.places.unwrap_or_default(),
                    bias: bias.map(|values| flux::Bias { values, stretches }),
                };
                let latent = flux::Inputs {
                    x,
                    references: &[],
                    places: flux::Places::default(),
                    bias: None,
                    ..inputs
                };
                let mut added = Vec::new();
                for (place, net, told) in nets(params, shape, &steering) {
                    if let ControlNet::Flux(c) = &net.net {
                        let made = flux::control(g, &place, c, latent, told.hint, net.mode);
                        added.push(made.map(|node| scaled(g, node, told.strength)));
                    }
                }
                flux::flux(g, params, config, inputs, &added)
            }
            Denoiser::Flux2(config) => {
                let inputs = flux2::Inputs {
                    x,
                    t,
                    context,
                    guidance,
                    references: &references,
                };
                flux2::transformer(g, params, config, inputs)
            }
            Denoiser::Anima(config) => {
                let inputs = anima::Inputs {
                    x,
                    t,
                    context,
                    queries,
                };
                anima::transformer(g, params, config, inputs)
            }
            Denoiser::Krea2(config) => {
                let inputs = krea2::Inputs { x, t, context };
                krea2::transformer(g, params, config, inputs)
            }
            Denoiser::QwenImage(config) => {
                let inputs = qwen_image::Inputs {
                    x,
                    t,
                    context,
                    references: &references,
                };
                qwen_image::transformer(g, params, config, inputs)
            }
            Denoiser::Wan(config) => {
                let inputs = wan_transformer::Inputs {
                    x: seen,
                    t,
                    context,
                    image,
                    reference: references.last().copied(),
                    controls: &controls,
                };
                wan_transformer::transformer(g, params, config, inputs)
            }
            Denoiser::ZImage(config) => {
                let inputs = z_image::Inputs { x, t, context };
                let controls = nets(params, shape, &steering).filter_map(|(p, net, told)| {
                    let ControlNet::ZImage(config) = &net.net else {
                        return None;
                    };
                    Some(z_image::Control {
                        p,
                        config,
                        hint: told.hint,
                        strength: told.strength,
                    })
                });
                let controls: Vec<_> = controls.collect();
                z_image::transformer(g, params, config, inputs, &controls)
            }
        };
        DenoiserGraph {
            graph: Graph::new(),
            x,
            extra,
            t,
            context,
            queries,
            label,
            guidance,
            references,
            steering,
            image,
            controls,
            bias,
            out,
        }
    }

    /// What the guidance input is given, for one row: for a sampler's guidance of `cfg` and a
    /// prompt's own of `number`.
    pub fn guidance_values(&self, cfg: f32, number: Option<f32>) -> Vec<f32> {
        match self.wants().guidance {
            Guidance::None => Vec::new(),
            Guidance::Cfg(n) => guidance_embedding(cfg, n),
            Guidance::Number(usual) => vec![number.unwrap_or(usual)],
        }
    }

    /// Whether it can look at other latents beside the one that it denoises, as Flux Kontext was
    /// trained to, Flux.2 and Qwen-Image-Edit. Wan looks at the last one, a frame of the clip's
    /// size.
    pub fn takes_references(&self) -> bool {
        match self {
            Denoiser::Anima(_) | Denoiser::Unet(_) | Denoiser::Krea2(_) | Denoiser::ZImage(_) => {
                false
            }
            Denoiser::Flux2(_) | Denoiser::QwenImage(_) => true,
            Denoiser::Flux(c) => c.vec_in().is_some() && c.in_channels == c.out_channels,
            Denoiser::Wan(c) => c.reference.is_some(),
        }
    }

    /// Whether it can do without the guidance that it takes as a number.
    pub fn goes_unguided(&self) -> bool {
        match self {
            Denoiser::Flux(c) => c.vec_in().is_some(),
            Denoiser::Flux2(_) => true,
            Denoiser::Anima(_)
            | Denoiser::Unet(_)
            | Denoiser::Krea2(_)
            | Denoiser::QwenImage(_)
            | Denoiser::Wan(_)
            | Denoiser::ZImage(_) => false,
        }
    }

    /// Whether attention can be told to heed some of the prompt's tokens more or less.
    pub fn takes_bias(&self) -> bool {
        matches!(self, Denoiser::Flux(_))
    }

    /// Whether every token of a prompt counts for itself. Where it does not, as with UNets, a
    /// prompt repeated to a longer one's length stays the same.
    pub fn counts_tokens(&self) -> bool {
        match self {
            Denoiser::Unet(_) => false,
            Denoiser::Anima(_)
            | Denoiser::Flux(_)
            | Denoiser::Flux2(_)
            | Denoiser::Krea2(_)
            | Denoiser::QwenImage(_)
            | Denoiser::Wan(_)
            | Denoiser::ZImage(_) => true,
        }
    }

    /// Whether it asks for the context with words in T5's vocabulary.
    pub fn takes_queries(&self) -> bool {
        matches!(self, Denoiser::Anima(_))
    }
}

fn control_inputs(g: &mut Graph, shape: &DenoiserShape, dtype: DType) -> Vec<ControlInputs> {
    let (rows, h, w) = (shape.rows, shape.height, shape.width);
    let one = |(i, control): (usize, &Controlled)| {
        let [h, w, c] = control.net.hint().size([h, w]);
        let size = [rows, h, w, c];
        ControlInputs {
            hint: g.input(&format!("hint {i}"), size, dtype),
            strength: g.input(&format!("hint strength {i}"), [rows], DType::F32),
        }
    };
    shape.steering.iter().enumerate().map(one).collect()
}

/// The `ControlNet`s with the places of their names and their inputs.
fn nets<'a>(
    params: &Params<'a>,
    shape: &'a DenoiserShape,
    inputs: &'a [ControlInputs],
) -> impl Iterator<Item = (Params<'a>, &'a Controlled, ControlInputs)> {
    let places = (0..).map(|i| params.at(format_args!("{CONTROL}.{i}")));
    let nets = shape.steering.iter().zip(inputs.iter().copied());
    places
        .zip(nets)
        .map(|(place, (net, told))| (place, net, told))
}

/// What the names of `ControlNet`s' parameters begin with, before their number.
pub const CONTROL: &str = "control";

/// Every row of `x` times its strength.
pub(crate) fn scaled(g: &mut Graph, x: Node, strength: Node) -> Node {
    let shape = g.shape(x);
    let strength = g.cast(strength, g.dtype(x));
    let strength = match shape.rank() {
        3 => g.reshape(strength, [shape[0], 1, 1]),
        _ => g.reshape(strength, [shape[0], 1, 1, 1]),
    };
    g.mul(x, strength)
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
