//! The graph of a diffusion model: its inputs, those of what steers it, and its output.

use super::{Denoiser, DenoiserShape, Guidance, Kept, Wants};
use crate::control::{ControlInputs, Controlled};
use crate::{
    ControlNet, Params, anima, flux, flux2, krea2, qwen_image, t2i_adapter, unet, wan_transformer,
    z_image,
};
use nino_dtype::DType;
use nino_graph::{Graph, GraphError, Node, Shape};

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
    /// How a camera sees the pixels under every latent pixel: of the latent's shape with
    /// [`Wants::camera`] channels.
    pub camera: Option<Node>,
    /// What is added to the scores of the prompt's tokens, `[rows, stretches, 1, tokens]`:
    /// [`flux::Bias`].
    pub bias: Option<Node>,
    /// Styles of pictures, `[rows, n, style_width]`.
    pub style: Option<Node>,
    /// Keys and values of latents to look at in every block, `[rows, n, heads, hd]` each: outputs
    /// or inputs, as [`Kept`] says.
    pub kept: Vec<[Node; 2]>,
    /// The prediction, of the latent's shape.
    pub out: Node,
}

impl DenoiserGraph {
    /// The inputs that stay the same from one step to the next.
    pub fn fixed(&self) -> impl Iterator<Item = Node> {
        let optional = [
            self.label,
            self.guidance,
            self.extra,
            self.image,
            self.camera,
            self.bias,
            self.style,
        ];
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
        let kept = recorded.kept.iter().flatten();
        if shape.kept == Kept::Made {
            kept.clone().for_each(|&node| graph.output(node));
        }
        if keep {
            recorded.fixed().for_each(|n| graph.keep(n));
        }
        if keep && shape.kept == Kept::Given {
            kept.for_each(|&node| graph.keep(node));
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
            camera,
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
        let is_given = shape.kept == Kept::Given;
        let looked_at = shape.references.iter().enumerate();
        let looked_at = looked_at.filter(|_| !is_given);
        let references: Vec<Node> = looked_at
            .map(|(i, &[h, w])| g.input(&format!("reference {i}"), [rows, h, w, channels], dtype))
            .collect();
        let mut kept = Vec::new();
        if let (Denoiser::Flux2(c), true) = (self, is_given) {
            let n = shape.references.iter().map(|[h, w]| h * w).sum();
            let size = [rows, n, c.heads(), c.head];
            kept.extend((0..self.kept_blocks()).map(|block| {
                ["keys", "values"].map(|what| g.input(&format!("{what} {block}"), size, dtype))
            }));
        }
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
        let camera = camera.filter(|_| shape.camera);
        let camera = camera.map(|channels| g.input("camera", latent(channels), dtype));
        let stretches = &shape.biased;
        let bias = (self.takes_bias() && !stretches.is_empty())
            .then(|| g.input("bias", [rows, stretches.len(), 1, shape.tokens], DType::F32));
        let style = self.style_width().filter(|_| shape.style > 0);
        let style = style.map(|width| g.input("style", [rows, shape.style, width], dtype));
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
                        ControlNet::Flux(_)
                        | ControlNet::ZImage(_)
                        | ControlNet::QwenImage(_)
                        | ControlNet::QwenBlocks(_)
                        | ControlNet::Anima(_) => continue,
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
                    style,
                };
                let latent = flux::Inputs {
                    x,
                    references: &[],
                    places: flux::Places::default(),
                    bias: None,
                    style: None,
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
                    clean: shape.kept == Kept::Made,
                    kept: &kept,
                };
                let (out, made) = flux2::transformer(g, params, config, inputs);
                if shape.kept == Kept::Made {
                    kept = made;
                }
                out
            }
            Denoiser::Anima(config) => {
                let inputs = anima::Inputs {
                    x,
                    t,
                    context,
                    queries,
                };
                let mut controls = Vec::new();
                for (place, net, told) in nets(params, shape, &steering) {
                    if let ControlNet::Anima(c) = &net.net {
                        let made = anima::Control::begin(g, place, c, told.hint, told.strength);
                        controls.push(made);
                    }
                }
                anima::transformer(g, params, config, inputs, &controls)
            }
            Denoiser::Krea2(config) => {
                let inputs = krea2::Inputs {
                    x,
                    t,
                    context,
                    references: &references,
                    clean: shape.places == Some(flux::Places::Clean),
                };
                krea2::transformer(g, params, config, inputs)
            }
            Denoiser::QwenImage(config) => {
                let clean = |places| places == flux::Places::Clean;
                let inputs = qwen_image::Inputs {
                    x,
                    t,
                    context,
                    references: &references,
                    clean: shape.places.map_or(config.clean_references, clean),
                };
                let latent = qwen_image::Inputs {
                    references: &[],
                    ..inputs
                };
                let mut added = qwen_image::Added::default();
                for (place, net, told) in nets(params, shape, &steering) {
                    let ControlInputs { hint, strength } = told;
                    match &net.net {
                        ControlNet::QwenImage(c) => {
                            let made = qwen_image::control(g, &place, c, latent, hint);
                            let made = made.map(|node| scaled(g, node, strength));
                            added.residuals.push(made);
                        }
                        ControlNet::QwenBlocks(c) => {
                            let made = qwen_image::Blockwise::begin(g, place, c, hint, strength);
                            added.blockwise.push(made);
                        }
                        _ => {}
                    }
                }
                qwen_image::transformer(g, params, config, inputs, &added)
            }
            Denoiser::Wan(config) => {
                let inputs = wan_transformer::Inputs {
                    x: seen,
                    t,
                    context,
                    image,
                    reference: references.last().copied(),
                    controls: &controls,
                    camera,
                    skipped: &shape.skipped,
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
            camera,
            bias,
            style,
            kept,
            out,
        }
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
