//! Prompts to conditioning, as ComfyUI does it for each family.

mod encoder;
mod inversion;
#[cfg(test)]
mod tests;

use super::GenerateRequest;
use super::checkpoint::{Checkpoint, Family, TextEncoder};
use super::request::Told;
use crate::{Control, EngineError};
use inversion::Inversions;
pub use inversion::embedding_size;
use nino_graph::Device;
use nino_models::clip;
use nino_text::{Layout, Tokens, tokenize};

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
    let [mut positive, mut negative] = each(device, model, request, control)?;
    same_length(&mut positive, &mut negative);
    Ok((positive, negative))
}

/// The prompt and the negative prompt at their own lengths.
pub(super) fn each(
    device: &dyn Device,
    model: &Checkpoint,
    request: &GenerateRequest,
    control: &mut Control<'_>,
) -> Result<[Conditioning; 2], EngineError> {
    let mut contexts: [Vec<(usize, Vec<f32>)>; 2] = [Vec::new(), Vec::new()];
    let mut pooled: [Vec<f32>; 2] = [Vec::new(), Vec::new()];
    for (i, encoder) in model.text().iter().enumerate() {
        let layout = layout(model, encoder);
        let inversions = Inversions::new(&request.embeddings, key(encoder));
        let read = |prompt: &str| {
            tokenize(&model.bpe, &layout, prompt, &|name| {
                inversions.get(name).map(|v| v.len())
            })
        };
        let prompts = [read(&request.prompt)?, read(&request.negative)?];
        if i == 0 {
            notes(&prompts, &inversions, control);
        }
        let want = wanted(model.family, &encoder.config, request.clip_skip);
        let prompts = (&prompts[..], &inversions);
        let outputs = encoder::run(device, model, encoder, &layout, want, prompts, control)?;
        for (i, mut output) in outputs.into_iter().enumerate() {
            if i == 1 && request.zero_negative {
                output.hidden.fill(0.0);
                output.pooled.fill(0.0);
            }
            contexts[i].push((encoder.config.width, output.hidden));
            // The last, widest encoder's is the one that counts.
            pooled[i] = output.pooled;
        }
    }
    Ok([0, 1].map(|i| {
        let (tokens, context) = side_by_side(&contexts[i]);
        Conditioning {
            tokens,
            context,
            vector: vector(model.family, &pooled[i], request, i == 1),
        }
    }))
}

/// Inversions that are named and not there, or there and not readable, are left out.
fn notes(prompts: &[Tokens], inversions: &Inversions<'_>, control: &mut Control<'_>) {
    for text in inversions.unreadable() {
        control.note(text);
    }
    for name in prompts.iter().flat_map(|p| &p.missing) {
        control.note(format!("there is no embedding:{name}; it is left out"));
    }
}

fn layout(model: &Checkpoint, encoder: &TextEncoder) -> Layout {
    match (model.family, encoder.config.width) {
        (Family::Emoji, _) => Layout::new(&model.bpe, encoder.config.max_tokens),
        (_, ..=768) => Layout::clip_l(),
        (_, 1024) => Layout::clip_h(),
        _ => Layout::clip_g(),
    }
}

/// What files with vectors for several encoders call this one.
fn key(encoder: &TextEncoder) -> &'static str {
    match encoder.config.width {
        ..=768 => "clip_l",
        1024 => "clip_h",
        _ => "clip_g",
    }
}

/// Which hidden states each family is conditioned on. `skip` counts layers from the last, which is 1;
/// an encoder with fewer layers keeps to its usual one, as ComfyUI's does.
fn wanted(family: Family, c: &clip::Config, skip: Option<usize>) -> clip::Want {
    let (usual, norm, pooled) = match family {
        Family::Sd1 | Family::Emoji => (1, true, false),
        Family::Sd2 => (2, true, false),
        Family::Sdxl | Family::SdxlRefiner => (2, false, true),
    };
    // Diffusers leaves out the last layer of SD 2.x's encoder, which nothing reads.
    let left_out = usize::from(family == Family::Sd2 && c.n_layers == 23);
    let skip = skip.filter(|&n| n <= c.n_layers + left_out);
    let skip = skip.unwrap_or(usual).saturating_sub(left_out).max(1);
    clip::Want { skip, norm, pooled }
}

/// Joins the encoders' outputs token by token, as far as the shorter goes: `(tokens, values)`.
fn side_by_side(parts: &[(usize, Vec<f32>)]) -> (usize, Vec<f32>) {
    let lengths = parts.iter().map(|(width, values)| values.len() / width);
    let n = lengths.min().unwrap_or(0);
    let mut joined = Vec::new();
    for token in 0..n {
        for (width, values) in parts {
            joined.extend_from_slice(&values[token * width..][..*width]);
        }
    }
    (n, joined)
}

impl Conditioning {
    /// The same for a picture of another width and height, which SDXL is told unless the request says
    /// what to tell.
    pub(super) fn at_size(
        &self,
        family: Family,
        told: &Told,
        size: (usize, usize),
        negative: bool,
    ) -> Conditioning {
        let sizes = sizes(family, told, size, negative);
        let pooled = &self.vector[..self.vector.len() - sizes.len()];
        Conditioning {
            vector: pooled.iter().copied().chain(sizes).collect(),
            ..self.clone()
        }
    }
}

/// SDXL: pooled text, then what it is told of sizes.
fn vector(family: Family, pooled: &[f32], request: &GenerateRequest, negative: bool) -> Vec<f32> {
    let size = (request.width, request.height);
    let sizes = sizes(family, &request.told, size, negative);
    if sizes.is_empty() {
        return sizes;
    }
    pooled.iter().copied().chain(sizes).collect()
}

/// Original size, crop and target size; the refiner has an aesthetic score instead of the last.
fn sizes(family: Family, told: &Told, size: (usize, usize), negative: bool) -> Vec<f32> {
    let number = |n: usize| n as f32;
    let (w, h) = told.original.unwrap_or(size);
    let (target_w, target_h) = told.target.unwrap_or((w, h));
    let (left, top) = told.crop;
    let mut numbers = [h, w, top, left].map(number).to_vec();
    match family {
        Family::Sdxl => numbers.extend([target_h, target_w].map(number)),
        Family::SdxlRefiner => numbers.push(if negative { 2.5 } else { 6.0 }),
        _ => return Vec::new(),
    }
    numbers.into_iter().flat_map(sinusoids).collect()
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
