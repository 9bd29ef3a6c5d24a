//! The graph of a diffusion model: its inputs, those of its `ControlNet`s, and its output.

use super::{Denoiser, DenoiserShape, Guidance, KvCache, Wants};
use crate::control::{ControlInputs, ControlSpec};
use crate::{
    ControlNet, Params, anima, flux, flux2, krea2, qwen_image, t2i_adapter, unet, wan_transformer,
    z_image,
};
use nino_dtype::DType;
use nino_graph::{Graph, GraphError, Node, Shape};

/// A recorded denoiser. Latents are `[rows, h, w, c]`, or `[rows, t, h, w, c]` with
/// [`Wants::frames`].
#[derive(Clone, Debug)]
pub struct DenoiserGraph {
    pub graph: Graph,
    pub x: Node,
    /// Channels concatenated to the latent: of its shape with [`Wants::extra`] channels. `Some`
    /// exactly when that is not 0.
    pub extra: Option<Node>,
    /// Timesteps `[rows]`, f32; `[rows·frames]` with [`Wants::frame_times`].
    pub t: Node,
    /// Text embeddings, `[rows, tokens, context]`.
    pub context: Node,
    /// The prompt's T5 tokens.
    pub t5_tokens: Option<anima::T5Tokens>,
    /// Vector conditioning, `[rows, y]`.
    pub y: Option<Node>,
    /// `[rows, n]` for [`Guidance::Cfg`], `[rows]` in f32 for [`Guidance::Distilled`].
    pub guidance: Option<Node>,
    /// Reference latents, `[rows, h, w, c]` each.
    pub references: Vec<Node>,
    /// Inputs of the `ControlNet`s. Strengths may differ from step to step.
    pub control_nets: Vec<ControlInputs>,
    /// CLIP vision hidden states, `[rows, n, width]`.
    pub image: Option<Node>,
    /// VACE control videos, of the latent's shape with [`Wants::control`] channels, and their
    /// strengths, `[1]`.
    pub controls: Vec<wan_transformer::Control>,
    /// Camera embeddings, of the latent's shape with [`Wants::camera`] channels.
    pub camera: Option<Node>,
    /// What a sound-to-video model is given.
    pub sound: wan_transformer::SoundInputs,
    /// Attention bias of the text tokens, `[rows, spans, 1, tokens]`: [`flux::Bias`].
    pub bias: Option<Node>,
    /// Style tokens, `[rows, n, style_width]`.
    pub style: Option<Node>,
    /// Keys and values of the reference tokens in every block, `[rows, n, heads, hd]` each: outputs
    /// with [`KvCache::Write`], inputs with [`KvCache::Read`].
    pub reference_kv: Vec<[Node; 2]>,
    /// How much each place is looked at, `[rows, n]` in f32: [`unet::Outputs::attended`].
    pub attended: Option<Node>,
    /// The prediction, of the latent's shape.
    pub out: Node,
}

impl DenoiserGraph {
    /// The inputs that stay the same from one step to the next.
    pub fn fixed(&self) -> impl Iterator<Item = Node> {
        let optional = [
            self.y,
            self.guidance,
            self.extra,
            self.image,
            self.camera,
            self.sound.audio,
            self.sound.control,
            self.sound.motion,
            self.bias,
            self.style,
        ];
        let optional = optional.into_iter().flatten();
        let references = self.references.iter().copied();
        let controls = self.controls.iter().flat_map(|c| [c.frames, c.strength]);
        let t5_tokens = self.t5_tokens.iter().flat_map(|t| [t.ids, t.weights]);
        let hints = self.control_nets.iter().map(|c| c.hint);
        std::iter::once(self.context)
            .chain(optional)
            .chain(t5_tokens)
            .chain(references)
            .chain(controls)
            .chain(hints)
    }
}

impl Denoiser {
    /// Records the network with activations in `dtype`. With `keep`, values that depend only on the
    /// conditioning are computed once ([`Graph::keep`]); all runs must then have the same prompts.
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
        recorded.attended.into_iter().for_each(|n| graph.output(n));
        let reference_kv = recorded.reference_kv.iter().flatten();
        if shape.kv_cache == KvCache::Write {
            reference_kv.clone().for_each(|&node| graph.output(node));
        }
        if keep {
            recorded.fixed().for_each(|n| graph.keep(n));
        }
        if keep && shape.kv_cache == KvCache::Read {
            reference_kv.for_each(|&node| graph.keep(node));
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
            y,
            guidance,
            extra,
            frame_times,
            image,
            control,
            camera,
            audio,
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
        let has_t5_tokens = self.takes_t5_tokens() && shape.t5_tokens > 0;
        let t5_tokens = has_t5_tokens.then(|| anima::T5Tokens {
            ids: g.input("queries", [rows, shape.t5_tokens], DType::I32),
            weights: g.input("query weights", [rows, shape.t5_tokens, 1], dtype),
        });
        let y = y.map(|n| g.input("label", [rows, n], dtype));
        let guidance = match guidance {
            Guidance::None => None,
            Guidance::Cfg(n) => Some(g.input("guidance", [rows, n], dtype)),
            Guidance::Distilled(_) if shape.disable_guidance && self.guidance_is_optional() => None,
            Guidance::Distilled(_) => Some(g.input("guidance", [rows], DType::F32)),
        };
        let is_cached = shape.kv_cache == KvCache::Read;
        let reference_sizes = shape.references.iter().enumerate();
        let references: Vec<Node> = reference_sizes
            .filter(|_| !is_cached)
            .map(|(i, &[h, w])| g.input(&format!("reference {i}"), [rows, h, w, channels], dtype))
            .collect();
        let mut reference_kv = Vec::new();
        if let (Denoiser::Flux2(c), true) = (self, is_cached) {
            let n = shape.references.iter().map(|[h, w]| h * w).sum();
            let size = [rows, n, c.heads(), c.head];
            reference_kv.extend((0..self.kv_cache_blocks()).map(|block| {
                ["keys", "values"].map(|what| g.input(&format!("{what} {block}"), size, dtype))
            }));
        }
        let control_nets: Vec<ControlInputs> = control_inputs(g, shape, dtype);
        let image = image.filter(|_| shape.image_tokens > 0);
        let image = image.map(|width| g.input("image", [rows, shape.image_tokens, width], dtype));
        let control_videos = control
            .into_iter()
            .flat_map(|n| (0..shape.controls).map(move |i| (i, n)));
        let controls: Vec<_> = control_videos
            .map(|(i, channels)| wan_transformer::Control {
                frames: g.input(&format!("control {i}"), latent(channels), dtype),
                strength: g.input(&format!("strength {i}"), [1], dtype),
            })
            .collect();
        let camera = camera.filter(|_| shape.camera);
        let camera = camera.map(|channels| g.input("camera", latent(channels), dtype));
        let sound = audio.map_or_else(wan_transformer::SoundInputs::default, |audio| {
            sound_inputs(g, audio, shape, latent(channels), dtype)
        });
        let spans = &shape.biased_spans;
        let bias = (self.takes_bias() && !spans.is_empty())
            .then(|| g.input("bias", [rows, spans.len(), 1, shape.tokens], DType::F32));
        let style = self.style_width().filter(|_| shape.style_tokens > 0);
        let style = style.map(|width| g.input("style", [rows, shape.style_tokens, width], dtype));
        let x_extra = extra.map_or(x, |extra| g.concat(&[x, extra], g.shape(x).rank() - 1));
        let mut attended = None;
        let out = match self {
            Denoiser::Unet(config) => {
                let inputs = unet::Inputs {
                    x: x_extra,
                    t,
                    context,
                    y,
                    guidance,
                    perturbed: !shape.skipped.is_empty(),
                };
                let control_unet_inputs = unet::Inputs {
                    x,
                    perturbed: false,
                    ..inputs
                };
                let mut residuals = Vec::new();
                for (p, spec, control) in control_params(params, shape, &control_nets) {
                    let outputs = match &spec.net {
                        ControlNet::Unet(c) => {
                            let hint = control.hint;
                            unet::control(g, &p, c, control_unet_inputs, hint, spec.mode)
                        }
                        ControlNet::Adapter(c) => t2i_adapter::adapter(g, &p, c, control.hint),
                        ControlNet::Flux(_)
                        | ControlNet::ZImage(_)
                        | ControlNet::QwenImage(_)
                        | ControlNet::QwenBlocks(_)
                        | ControlNet::Anima(_) => continue,
                    };
                    residuals.push(outputs.map(|node| scaled(g, node, control.strength)));
                }
                let config = &unet::Config {
                    shrinks: shape.shrinks.clone(),
                    watched: shape.watched,
                    ..config.clone()
                };
                let made = unet::unet_outputs(g, params, config, inputs, &residuals);
                attended = made.attended;
                made.out
            }
            Denoiser::Flux(config) => {
                let inputs = flux::Inputs {
                    x: x_extra,
                    t,
                    context,
                    y,
                    guidance,
                    references: &references,
                    reference_method: shape.reference_method.unwrap_or_default(),
                    bias: bias.map(|values| flux::Bias { values, spans }),
                    style,
                };
                let control_flux_inputs = flux::Inputs {
                    x,
                    references: &[],
                    reference_method: flux::ReferenceMethod::default(),
                    bias: None,
                    style: None,
                    ..inputs
                };
                let mut residuals = Vec::new();
                for (p, spec, control) in control_params(params, shape, &control_nets) {
                    if let ControlNet::Flux(c) = &spec.net {
                        let hint = control.hint;
                        let outputs = flux::control(g, &p, c, control_flux_inputs, hint, spec.mode);
                        residuals.push(outputs.map(|node| scaled(g, node, control.strength)));
                    }
                }
                flux::flux(g, params, config, inputs, &residuals)
            }
            Denoiser::Flux2(config) => {
                let inputs = flux2::Inputs {
                    x,
                    t,
                    context,
                    guidance,
                    references: &references,
                    references_at_zero: shape.kv_cache == KvCache::Write,
                    reference_kv: &reference_kv,
                };
                let (out, computed_kv) = flux2::transformer(g, params, config, inputs);
                if shape.kv_cache == KvCache::Write {
                    reference_kv = computed_kv;
                }
                out
            }
            Denoiser::Anima(config) => {
                let inputs = anima::Inputs {
                    x,
                    t,
                    context,
                    t5_tokens,
                };
                let mut controls = Vec::new();
                for (p, spec, control) in control_params(params, shape, &control_nets) {
                    if let ControlNet::Anima(c) = &spec.net {
                        let control =
                            anima::Control::begin(g, p, c, control.hint, control.strength);
                        controls.push(control);
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
                    references_at_zero: shape.reference_method
                        == Some(flux::ReferenceMethod::IndexTimestepZero),
                };
                krea2::transformer(g, params, config, inputs)
            }
            Denoiser::QwenImage(config) => {
                let at_zero = |method| method == flux::ReferenceMethod::IndexTimestepZero;
                let inputs = qwen_image::Inputs {
                    x,
                    t,
                    context,
                    references: &references,
                    references_at_zero: shape
                        .reference_method
                        .map_or(config.index_timestep_zero, at_zero),
                };
                let latent = qwen_image::Inputs {
                    references: &[],
                    ..inputs
                };
                let mut added = qwen_image::Added::default();
                for (p, spec, control) in control_params(params, shape, &control_nets) {
                    let ControlInputs { hint, strength } = control;
                    match &spec.net {
                        ControlNet::QwenImage(c) => {
                            let residuals = qwen_image::control(g, &p, c, latent, hint);
                            let residuals = residuals.map(|node| scaled(g, node, strength));
                            added.residuals.push(residuals);
                        }
                        ControlNet::QwenBlocks(c) => {
                            let blockwise = qwen_image::Blockwise::begin(g, p, c, hint, strength);
                            added.blockwise.push(blockwise);
                        }
                        _ => {}
                    }
                }
                qwen_image::transformer(g, params, config, inputs, &added)
            }
            Denoiser::Wan(config) => {
                let inputs = wan_transformer::Inputs {
                    x: x_extra,
                    t,
                    context,
                    clip_fea: image,
                    reference: references.last().copied(),
                    controls: &controls,
                    camera,
                    sound,
                    skipped: &shape.skipped,
                };
                wan_transformer::transformer(g, params, config, inputs)
            }
            Denoiser::ZImage(config) => {
                let inputs = z_image::Inputs { x, t, context };
                let controls = control_params(params, shape, &control_nets);
                let controls = controls.filter_map(|(p, spec, control)| {
                    let ControlNet::ZImage(config) = &spec.net else {
                        return None;
                    };
                    Some(z_image::Control {
                        p,
                        config,
                        hint: control.hint,
                        strength: control.strength,
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
            t5_tokens,
            y,
            guidance,
            references,
            control_nets,
            image,
            controls,
            camera,
            sound,
            bias,
            style,
            reference_kv,
            attended,
            out,
        }
    }
}

fn sound_inputs(
    g: &mut Graph,
    audio: wan_transformer::Audio,
    shape: &DenoiserShape,
    latent: Shape,
    dtype: DType,
) -> wan_transformer::SoundInputs {
    let n = shape.sound.audio_frames;
    let features = [shape.rows, audio.states, n, audio.width];
    let mut motion = latent;
    motion[1] = wan_transformer::MOTION_FRAMES;
    wan_transformer::SoundInputs {
        audio: (n > 0).then(|| g.input("audio", features, dtype)),
        control: shape
            .sound
            .control
            .then(|| g.input("control latent", latent, dtype)),
        motion: shape.sound.motion.then(|| g.input("motion", motion, dtype)),
    }
}

fn control_inputs(g: &mut Graph, shape: &DenoiserShape, dtype: DType) -> Vec<ControlInputs> {
    let (rows, h, w) = (shape.rows, shape.height, shape.width);
    let inputs = |(i, spec): (usize, &ControlSpec)| {
        let [h, w, c] = spec.net.hint().size([h, w]);
        let size = [rows, h, w, c];
        ControlInputs {
            hint: g.input(&format!("hint {i}"), size, dtype),
            strength: g.input(&format!("hint strength {i}"), [rows], DType::F32),
        }
    };
    shape.control_nets.iter().enumerate().map(inputs).collect()
}

/// The `ControlNet`s with their parameters and their inputs.
fn control_params<'a>(
    params: &Params<'a>,
    shape: &'a DenoiserShape,
    inputs: &'a [ControlInputs],
) -> impl Iterator<Item = (Params<'a>, &'a ControlSpec, ControlInputs)> {
    let specs = shape.control_nets.iter().zip(inputs.iter().copied());
    let params = (0..).map(|i| params.at(format_args!("{CONTROL}.{i}")));
    params
        .zip(specs)
        .map(|(p, (spec, inputs))| (p, spec, inputs))
}

/// Prefix of `ControlNet`s' parameters, before their number.
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
