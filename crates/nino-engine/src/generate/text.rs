//! Prompts to conditioning, as ComfyUI does it for each family.

use super::GenerateRequest;
use super::checkpoint::{Checkpoint, Family, TextEncoder};
use crate::fit::fit;
use crate::values::{read, write};
use crate::{Control, EngineError};
use nino_dtype::DType;
use nino_graph::{Device, Graph, RunOptions};
use nino_models::clip;
use nino_text::{Chunk, Layout, Piece, Tokens, apply_weights, tokenize};
use std::sync::Arc;

/// What the UNet is told of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Conditioning {
    /// `[tokens, context_dim]`
    pub(super) context: Vec<f32>,
    pub(super) tokens: usize,
    /// SDXL's pooled text and sizes; empty for other families.
    pub(super) vector: Vec<f32>,
}

/// Both prompts, brought to one length: the shorter is repeated, as ComfyUI does.
pub(super) fn encode(
    device: &dyn Device,
    model: &Checkpoint,
    request: &GenerateRequest,
    control: &mut Control<'_>,
) -> Result<(Conditioning, Conditioning), EngineError> {
    let mut both = [&request.prompt, &request.negative].map(|_| Conditioning {
        context: Vec::new(),
        tokens: 0,
        vector: Vec::new(),
    });
    let mut contexts: [Vec<(usize, Vec<f32>)>; 2] = [Vec::new(), Vec::new()];
    let mut pooled: [Vec<f32>; 2] = [Vec::new(), Vec::new()];
    for encoder in model.text() {
        let layout = layout(model, encoder);
        let prompts = [&request.prompt, &request.negative]
            .map(|p| tokenize(&model.bpe, &layout, p, &|_| None));
        let [positive, negative] = prompts;
        let outputs = run(
            device,
            model,
            encoder,
            &layout,
            &[positive?, negative?],
            control,
        )?;
        for (i, output) in outputs.into_iter().enumerate() {
            contexts[i].push((encoder.config.width, output.hidden));
            // The last, widest encoder's is the one that counts.
            pooled[i] = output.pooled;
        }
    }
    for (i, conditioning) in both.iter_mut().enumerate() {
        conditioning.tokens = contexts[i][0].1.len() / contexts[i][0].0;
        conditioning.context = side_by_side(&contexts[i]);
        conditioning.vector = vector(model.family, &pooled[i], request, i == 1);
    }
    let [mut positive, mut negative] = both;
    same_length(&mut positive, &mut negative);
    Ok((positive, negative))
}

fn layout(model: &Checkpoint, encoder: &TextEncoder) -> Layout {
    match (model.family, encoder.config.width) {
        (Family::Emoji, _) => Layout::new(&model.bpe, encoder.config.max_tokens),
        (_, ..=768) => Layout::clip_l(),
        (_, 1024) => Layout::clip_h(),
        _ => Layout::clip_g(),
    }
}

/// Which hidden states each family is conditioned on.
fn wanted(family: Family) -> clip::Want {
    match family {
        Family::Sd1 | Family::Emoji => clip::Want {
            skip: 1,
            norm: true,
            pooled: false,
        },
        Family::Sd2 => clip::Want {
            skip: 2,
            norm: true,
            pooled: false,
        },
        Family::Sdxl | Family::SdxlRefiner => clip::Want {
            skip: 2,
            norm: false,
            pooled: true,
        },
    }
}

struct Output {
    /// `[tokens, width]` of all chunks.
    hidden: Vec<f32>,
    /// Of the first chunk; empty where the family has none.
    pooled: Vec<f32>,
}

/// Encodes prompts chunk by chunk with one session.
fn run(
    device: &dyn Device,
    model: &Checkpoint,
    encoder: &TextEncoder,
    layout: &Layout,
    prompts: &[Tokens],
    control: &mut Control<'_>,
) -> Result<Vec<Output>, EngineError> {
    let (c, n) = (&encoder.config, layout.max_length);
    let want = wanted(model.family);
    let file = model.text_params(encoder);
    let params = file.params(|stored| model.held(stored, device));
    let mut g = Graph::new();
    let ids = g.input("ids", [1, n], DType::I32);
    let end = g.input("end", [1, 1, n], DType::F32);
    // Text encoders are small and their rounding shows in every step: always f32.
    let x = clip::embed(&mut g, &params, c, ids, DType::F32);
    let encoded = clip::encoder(&mut g, &params, c, x, end, want);
    g.output(encoded.hidden);
    encoded.pooled.iter().for_each(|&p| g.output(p));
    let plan = fit(device, &g.finish()?)?;
    let weights = device.load(&[&plan], Arc::new(file.clone()))?;
    let mut session = device.session(plan.clone(), &weights)?;
    let graph = plan.graph();
    let mut once = |tokens: &[u32], end_at: usize| -> Result<(Vec<f32>, Vec<f32>), EngineError> {
        let bytes: Vec<u8> = tokens
            .iter()
            .flat_map(|&id| (id as i32).to_le_bytes())
            .collect();
        session.write(ids, &bytes)?;
        if encoded.pooled.is_some() {
            let mark: Vec<f32> = (0..n)
                .map(|i| if i == end_at { 1.0 } else { 0.0 })
                .collect();
            write(&mut *session, graph, end, &mark)?;
        }
        session.run(RunOptions {
            cancel: Some(control.cancel),
            profile: false,
        })?;
        let pooled = encoded
            .pooled
            .map(|p| read(&mut *session, graph, p))
            .transpose()?;
        Ok((
            read(&mut *session, graph, encoded.hidden)?,
            pooled.unwrap_or_default(),
        ))
    };
    let empty = if prompts.iter().any(Tokens::weighted) {
        once(&layout.empty(n), 1)?.0
    } else {
        Vec::new()
    };
    let mut outputs = Vec::new();
    for prompt in prompts {
        let mut output = Output {
            hidden: Vec::new(),
            pooled: Vec::new(),
        };
        for (i, chunk) in prompt.chunks.iter().enumerate() {
            let (mut hidden, pooled) = once(&ids_of(chunk, layout), chunk.end)?;
            if prompt.weighted() {
                apply_weights(&mut hidden, &empty, &chunk.weights(), c.width);
            }
            output.hidden.append(&mut hidden);
            if i == 0 {
                output.pooled = pooled;
            }
        }
        outputs.push(output);
    }
    Ok(outputs)
}

fn ids_of(chunk: &Chunk, layout: &Layout) -> Vec<u32> {
    let id = |piece: &Piece| match piece {
        Piece::Id(id) => *id,
        // Never made: no embedding is known by name yet, and unknown ones are left out.
        Piece::Embedding { .. } => layout.pad,
    };
    chunk.tokens.iter().map(|t| id(&t.piece)).collect()
}

/// Joins the encoders' outputs token by token; a shorter one is filled with zeros.
fn side_by_side(parts: &[(usize, Vec<f32>)]) -> Vec<f32> {
    let n = parts
        .iter()
        .map(|(width, values)| values.len() / width)
        .max()
        .unwrap_or(0);
    let mut joined = Vec::new();
    for token in 0..n {
        for (width, values) in parts {
            match values.get(token * width..(token + 1) * width) {
                Some(row) => joined.extend_from_slice(row),
                None => joined.extend(std::iter::repeat_n(0.0, *width)),
            }
        }
    }
    joined
}

impl Conditioning {
    /// The same for a picture of another width and height, which SDXL is told.
    pub(super) fn at_size(
        &self,
        family: Family,
        size: (usize, usize),
        negative: bool,
    ) -> Conditioning {
        let sizes = sizes(family, size, negative);
        let pooled = &self.vector[..self.vector.len() - sizes.len()];
        Conditioning {
            vector: pooled.iter().copied().chain(sizes).collect(),
            ..self.clone()
        }
    }
}

/// SDXL: pooled text, then what it is told of sizes.
fn vector(family: Family, pooled: &[f32], request: &GenerateRequest, negative: bool) -> Vec<f32> {
    let sizes = sizes(family, (request.width, request.height), negative);
    if sizes.is_empty() {
        return sizes;
    }
    pooled.iter().copied().chain(sizes).collect()
}

/// Original size, crop and target size; the refiner has an aesthetic score.
fn sizes(family: Family, (width, height): (usize, usize), negative: bool) -> Vec<f32> {
    let (w, h) = (width as f32, height as f32);
    let numbers: &[f32] = match family {
        Family::Sdxl => &[h, w, 0.0, 0.0, h, w],
        Family::SdxlRefiner => &[h, w, 0.0, 0.0, if negative { 2.5 } else { 6.0 }],
        _ => return Vec::new(),
    };
    numbers.iter().flat_map(|&v| sinusoids(v)).collect()
}

/// 256 values: cosines, then sines, of 128 frequencies from 1 to 1/10000.
fn sinusoids(v: f32) -> impl Iterator<Item = f32> {
    let angle = move |i: usize| v * (-(10_000f32.ln()) * i as f32 / 128.0).exp();
    (0..128)
        .map(move |i| angle(i).cos())
        .chain((0..128).map(move |i| angle(i).sin()))
}

/// Repeats the contexts to their least common length.
fn same_length(a: &mut Conditioning, b: &mut Conditioning) {
    let (mut x, mut y) = (a.tokens, b.tokens);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    let n = a.tokens / x.max(1) * b.tokens;
    for c in [a, b] {
        c.context = c.context.repeat(n / c.tokens.max(1));
        c.tokens = n;
    }
}
