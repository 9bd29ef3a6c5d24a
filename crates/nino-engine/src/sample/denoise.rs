//! A diffusion model as a network to sample with: prompts and latents in, predictions out.

use super::planned::DenoiserPlan;
use super::shape::{channels_first, to_channels_last};
use super::steer::Pull;
use super::{LatentShape, SampleRequest};
use crate::store::Lease;
use crate::{Conditioning, DiffusionModel, EngineError};
use nino_graph::{Node, RunOptions, Session};
use nino_models::wan_transformer::MOTION_FRAMES;
use nino_sample::{Beside, Network, Stop};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A rectangle of the latent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Rect {
    pub(super) fn whole(shape: LatentShape) -> Rect {
        Rect {
            x: 0,
            y: 0,
            width: shape.width,
            height: shape.height,
        }
    }

    /// The rectangle's part of values `[b, t, h, w, c]` of that shape.
    fn cut(self, values: Vec<f32>, shape: LatentShape) -> Vec<f32> {
        if self == Rect::whole(shape) {
            return values;
        }
        let planes = shape.batch * shape.frames;
        let c = values.len() / (planes * shape.height * shape.width).max(1);
        let rows = (0..planes).flat_map(|plane| {
            let first = plane * shape.height + self.y;
            first..first + self.height
        });
        rows.flat_map(|row| {
            let at = (row * shape.width + self.x) * c;
            &values[at..at + self.width * c]
        })
        .copied()
        .collect()
    }
}

/// A prompt of a run.
#[derive(Clone, Copy)]
pub(super) struct Prompt<'p> {
    pub(super) conditioning: &'p Conditioning,
    pub(super) negative: bool,
    /// The part of the picture it is for.
    pub(super) rect: Rect,
}

/// The prompts that one session of a denoiser runs with. Buffers are made once: a step allocates
/// nothing.
pub(super) struct Prompted<'a> {
    plan: Arc<DenoiserPlan>,
    shape: LatentShape,
    cancel: &'a AtomicBool,
    /// What a run takes beside latent and timestep, encoded: one set for both prompts, or one for
    /// each.
    fixed: Vec<Vec<(Node, Vec<u8>)>>,
    /// How each of those sets is steered: for every `ControlNet` a number for each row.
    pulls: Vec<Vec<Vec<Pull>>>,
    /// The noise level of the call that runs.
    sigma: Rc<Cell<f32>>,
    /// What the timestep of every frame is multiplied by; one for all frames where the model has
    /// one timestep for them.
    shares: Vec<f32>,
    /// The set that inputs which stay between runs hold.
    written: Option<usize>,
    values: Vec<f32>,
    bytes: Vec<u8>,
    /// How much each place was looked at in the last run, `[b, n]`, where that is watched.
    pub(super) attended: Vec<f32>,
}

impl<'a> Prompted<'a> {
    pub(super) fn new(
        plan: Arc<DenoiserPlan>,
        model: &DiffusionModel,
        sets: &[&[Prompt<'_>]],
        request: &SampleRequest<'_>,
        cancel: &'a AtomicBool,
    ) -> Result<Prompted<'a>, EngineError> {
        let fixed = sets
            .iter()
            .map(|prompts| plan.fixed(prompts, model, request))
            .collect::<Result<_, EngineError>>()?;
        let pulls = sets
            .iter()
            .map(|prompts| plan.pulls(prompts, model))
            .collect();
        let (graph, nodes) = (plan.plan.graph(), &plan.nodes);
        let most = [nodes.x, nodes.t, nodes.out].map(|n| (graph.shape(n).numel(), graph.bytes(n)));
        Ok(Prompted {
            values: vec![0.0; most.iter().map(|m| m.0).max().unwrap_or(0)],
            bytes: vec![0; most.iter().map(|m| m.1).max().unwrap_or(0)],
            shape: plan.shape,
            plan,
            cancel,
            fixed,
            pulls,
            sigma: Rc::default(),
            shares: if model.net().wants().frame_times {
                request.frame_shares()
            } else {
                vec![1.0]
            },
            written: None,
            attended: Vec::new(),
        })
    }

    /// Where the noise level of a call is put before it.
    pub(super) fn sigma(&self) -> Rc<Cell<f32>> {
        Rc::clone(&self.sigma)
    }

    /// One more value that stays over the steps, for the first set of prompts.
    pub(super) fn tell(&mut self, node: Node, bytes: Vec<u8>) {
        self.fixed[0].push((node, bytes));
    }

    /// The same place for several networks.
    pub(super) fn hear(&mut self, sigma: &Rc<Cell<f32>>) {
        self.sigma = Rc::clone(sigma);
    }
}

/// A denoiser that sees the whole picture with both prompts.
pub(super) struct Whole<'a> {
    lease: Lease,
    prompted: Prompted<'a>,
    /// Why the last forward stopped.
    error: Option<EngineError>,
}

impl<'a> Whole<'a> {
    pub(super) fn new(lease: Lease, prompted: Prompted<'a>) -> Whole<'a> {
        Whole {
            lease,
            prompted,
            error: None,
        }
    }

    /// Why the last forward stopped, if it did.
    pub(super) fn error(&mut self) -> Option<EngineError> {
        self.error.take()
    }

    /// Gives the session back for the next run.
    pub(super) fn finish(self) {
        self.lease.finish();
    }
}

impl DenoiserPlan {
    /// The inputs that stay the same over the steps, for runs of these prompts.
    fn fixed(
        &self,
        prompts: &[Prompt<'_>],
        model: &DiffusionModel,
        request: &SampleRequest<'_>,
    ) -> Result<Vec<(Node, Vec<u8>)>, EngineError> {
        let (graph, nodes) = (self.plan.graph(), &self.nodes);
        let encoded = |node: Node, values: &[f32]| -> Result<(Node, Vec<u8>), EngineError> {
            let mut bytes = vec![0; graph.bytes(node)];
            nino_dtype::encode(graph.dtype(node), values, &mut bytes)?;
            Ok((node, bytes))
        };
        let whole = LatentShape::of(request.latent);
        let each = |part: &dyn Fn(&Prompt<'_>) -> Vec<f32>| -> Vec<f32> {
            let parts = prompts.iter().map(|p| part(p).repeat(whole.batch));
            parts.flatten().collect()
        };
        let mut fixed = vec![(nodes.context, self.contexts(prompts, model, whole.batch)?)];
        if let Some(queries) = nodes.t5_tokens {
            let words = prompts.iter().flat_map(|p| {
                let ids = p.conditioning.queries.iter().map(|&(id, _)| id as i32);
                ids.collect::<Vec<i32>>().repeat(whole.batch)
            });
            fixed.push((queries.ids, words.flat_map(i32::to_le_bytes).collect()));
            let weights = each(&|p| p.conditioning.queries.iter().map(|q| q.1).collect());
            fixed.push(encoded(queries.weights, &weights)?);
        }
        if let Some(node) = nodes.y {
            // Models are told the size of the whole picture, whatever part of it they see.
            let pixels = model.pixels(whole);
            let labels = each(&|p| {
                let prompt = p.conditioning;
                prompt.label(model.family, pixels, p.negative, request.seed)
            });
            fixed.push(encoded(node, &labels)?);
        }
        if let Some(node) = nodes.guidance {
            let told = each(&|p| {
                let own = p.conditioning.guidance;
                model.net().guidance_values(request.cfg, own)
            });
            fixed.push(encoded(node, &told)?);
        }
        for (i, &node) in nodes.references.iter().enumerate() {
            let mut latents = Vec::new();
            for prompt in prompts {
                let Some(reference) = prompt.conditioning.looked_at(model).get(i) else {
                    continue;
                };
                let reference = reference.in_model_units(model.latent_format());
                latents.extend(reference.first_frames(whole.batch));
            }
            fixed.push(encoded(node, &latents)?);
        }
        for (i, inputs) in nodes.control_nets.iter().enumerate() {
            let (h, w) = (self.shape.height, self.shape.width);
            let values = graph.shape(inputs.hint).numel() / self.rows;
            let mut seen = Vec::new();
            for prompt in prompts {
                let placed = model.steering().placed(&prompt.conditioning.hints);
                seen.extend(match placed[i] {
                    None => vec![0.0; values * whole.batch],
                    Some(hint) => hint
                        .batch_values(whole.batch, h, w)
                        .filter(|shown| shown.len() == values * whole.batch)
                        .ok_or_else(|| EngineError::ControlNetArea {
                            net: hint.net.name.clone(),
                        })?,
                });
            }
            fixed.push(encoded(inputs.hint, &seen)?);
        }
        if let Some(node) = nodes.image {
            let states = each(&|p| {
                let image = p.conditioning.clip.image.as_ref();
                image.map_or_else(Vec::new, |image| image.values.clone())
            });
            fixed.push(encoded(node, &states)?);
        }
        if let Some(node) = nodes.camera {
            let seen = prompts.iter().flat_map(|p| {
                let values = p.conditioning.clip.camera_values(whole);
                p.rect.cut(values, whole)
            });
            fixed.push(encoded(node, &seen.collect::<Vec<f32>>())?);
        }
        if let Some(node) = nodes.sound.audio {
            let n = graph.shape(node)[2];
            let audio = each(&|p| p.conditioning.clip.sound.audio_values(n));
            fixed.push(encoded(node, &audio)?);
        }
        if let Some(node) = nodes.sound.control {
            let followed = prompts.iter().flat_map(|p| {
                let sound = &p.conditioning.clip.sound;
                p.rect.cut(sound.control_values(model, whole.batch), whole)
            });
            fixed.push(encoded(node, &followed.collect::<Vec<f32>>())?);
        }
        if let Some(node) = nodes.sound.motion {
            let motion = LatentShape {
                frames: MOTION_FRAMES,
                ..whole
            };
            let before = prompts.iter().flat_map(|p| {
                let sound = &p.conditioning.clip.sound;
                p.rect.cut(sound.motion_values(model, whole.batch), motion)
            });
            fixed.push(encoded(node, &before.collect::<Vec<f32>>())?);
        }
        if let Some(node) = nodes.bias {
            let biases = each(&|p| p.conditioning.bias_values());
            fixed.push(encoded(node, &biases)?);
        }
        if let Some(node) = nodes.style {
            fixed.push(encoded(node, &model.style_values().repeat(self.rows))?);
        }
        let mut controls = vec![(Vec::new(), 1.0); nodes.controls.len()];
        for prompt in prompts {
            let followed = prompt.conditioning.clip.control_values(model, whole);
            for (all, (values, strength)) in controls.iter_mut().zip(followed) {
                all.0.extend(prompt.rect.cut(values, whole));
                all.1 = strength;
            }
        }
        for (node, (frames, strength)) in nodes.controls.iter().zip(&controls) {
            fixed.push(encoded(node.frames, frames)?);
            fixed.push(encoded(node.strength, &[*strength])?);
        }
        if let Some(node) = nodes.extra {
            let extra = prompts.iter().flat_map(|p| {
                let values = p.conditioning.extra_values(model, request);
                p.rect.cut(values, whole)
            });
            fixed.push(encoded(node, &extra.collect::<Vec<f32>>())?);
        }
        Ok(fixed)
    }
}

impl DenoiserPlan {
    /// The encoded contexts of a run, each repeated for every image of a batch. They are the
    /// largest inputs, so each is converted straight to its place.
    fn contexts(
        &self,
        prompts: &[Prompt<'_>],
        model: &DiffusionModel,
        batch: usize,
    ) -> Result<Vec<u8>, EngineError> {
        let (graph, node) = (self.plan.graph(), self.nodes.context);
        let mut bytes = vec![0; graph.bytes(node)];
        let mut rows = bytes.chunks_exact_mut(graph.bytes(node) / (prompts.len() * batch));
        for prompt in prompts {
            let context = prompt.conditioning.context_for(model, self.tokens);
            for row in rows.by_ref().take(batch) {
                nino_dtype::encode(graph.dtype(node), &context, row)?;
            }
        }
        Ok(bytes)
    }

    /// How runs of these prompts are steered.
    fn pulls(&self, prompts: &[Prompt<'_>], model: &DiffusionModel) -> Vec<Vec<Pull>> {
        let each: Vec<Vec<Pull>> = prompts
            .iter()
            .map(|p| Pull::of(model, p.conditioning))
            .collect();
        let of_net = |net: usize| {
            let rows = each.iter().map(|pulls| pulls[net]);
            rows.flat_map(|pull| std::iter::repeat_n(pull, self.shape.batch))
                .collect()
        };
        (0..self.nodes.control_nets.len()).map(of_net).collect()
    }
}

impl Network for &mut Whole<'_> {
    fn forward(
        &mut self,
        input: &[f32],
        timestep: f32,
        positive: &mut [f32],
        negative: Option<&mut [f32]>,
    ) -> Result<(), Stop> {
        let both = self.prompted.fixed.len() == 1;
        let session = self.lease.session();
        let mut run = |set, outs: &mut [&mut [f32]]| {
            let prompted = &mut self.prompted;
            prompted.run(session, set, input, timestep, outs)
        };
        let ran = match negative {
            Some(negative) if both => run(0, &mut [positive, negative]),
            Some(negative) => run(0, &mut [positive]).and_then(|()| run(1, &mut [negative])),
            // A plan for two prompts gives both; only the first is wanted.
            None => run(0, &mut [positive]),
        };
        ran.map_err(|error| {
            self.error = Some(error);
            Stop
        })
    }

    fn beside(
        &mut self,
        _what: Beside,
        _input: &[f32],
        _timestep: f32,
        _out: &mut [f32],
    ) -> Result<(), Stop> {
        unreachable!("a request with more predictions than two is not plain")
    }
}

impl Prompted<'_> {
    /// One run with a set of prompts; `outs` are the predictions of the first of them. Latents are
    /// `[b, c, t, h, w]` outside.
    pub(super) fn run(
        &mut self,
        session: &mut dyn Session,
        set: usize,
        input: &[f32],
        timestep: f32,
        outs: &mut [&mut [f32]],
    ) -> Result<(), EngineError> {
        let plan = Arc::clone(&self.plan);
        let (graph, nodes) = (plan.plan.graph(), &plan.nodes);
        let numel = |node: Node| graph.shape(node).numel();
        for latents in self.values[..numel(nodes.x)].chunks_exact_mut(input.len()) {
            to_channels_last(input, self.shape, latents);
        }
        self.write(session, nodes.x)?;
        let times = self.values[..numel(nodes.t)].iter_mut();
        for (time, share) in times.zip(self.shares.iter().cycle()) {
            *time = timestep * share;
        }
        self.write(session, nodes.t)?;
        for (node, bytes) in &self.fixed[set] {
            if self.written != Some(set) || !plan.plan.keeps(*node) {
                session.write(*node, bytes)?;
            }
        }
        self.written = Some(set);
        let sigma = self.sigma.get();
        for (inputs, pulls) in nodes.control_nets.iter().zip(&self.pulls[set]) {
            let strengths = pulls.iter().flat_map(|pull| pull.at(sigma).to_le_bytes());
            session.write(inputs.strength, &strengths.collect::<Vec<u8>>())?;
        }
        session.run(RunOptions {
            cancel: Some(self.cancel),
            ..RunOptions::default()
        })?;
        let bytes = &mut self.bytes[..graph.bytes(nodes.out)];
        session.read(nodes.out, bytes)?;
        let values = &mut self.values[..numel(nodes.out)];
        nino_dtype::decode(graph.dtype(nodes.out), bytes, values)?;
        // A sampler would carry them through every step to a black picture.
        if !values.iter().all(|v| v.is_finite()) {
            return Err(EngineError::NotFinite {
                dtype: graph.dtype(nodes.x),
            });
        }
        for (out, values) in outs.iter_mut().zip(values.chunks_exact(input.len())) {
            channels_first(values, self.shape, out);
        }
        if let Some(node) = nodes.attended {
            let mut bytes = vec![0; graph.bytes(node)];
            session.read(node, &mut bytes)?;
            self.attended.resize(numel(node), 0.0);
            nino_dtype::decode(graph.dtype(node), &bytes, &mut self.attended)?;
        }
        Ok(())
    }

    /// Writes the first of `values` as an input.
    fn write(&mut self, session: &mut dyn Session, node: Node) -> Result<(), EngineError> {
        let graph = self.plan.plan.graph();
        let bytes = &mut self.bytes[..graph.bytes(node)];
        let values = &self.values[..graph.shape(node).numel()];
        nino_dtype::encode(graph.dtype(node), values, bytes)?;
        Ok(session.write(node, bytes)?)
    }
}

impl DiffusionModel {
    /// Width and height of the picture that a latent becomes.
    pub(super) fn pixels(&self, shape: LatentShape) -> (usize, usize) {
        let scale = self.latent_format().map_or(8, |f| f.scale_down);
        (shape.width * scale, shape.height * scale)
    }
}
