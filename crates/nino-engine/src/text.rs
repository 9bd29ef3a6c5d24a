//! The text stage: prompts to conditioning, as ComfyUI does it for each family.

mod encoder;
mod inversion;
mod seen;

use crate::store::TextKey;
use crate::{
    Conditioning, Control, Encoder, EngineError, Family, Stage, Store, TextEncoders, capture,
};
use inversion::Inversions;
pub use inversion::embedding_size;
use nino_models::llm;
use nino_text::{Tokens, tokenize};
pub use seen::{encode_seen, pictures_before};
use std::path::PathBuf;
use std::sync::Arc;

/// The most bytes of a prompt. No model was made for more.
pub const MAX_PROMPT_BYTES: usize = 100 * 1024;

/// The most chunks of 75 tokens of a prompt. Each is a run of the text encoders; so many tokens of
/// SDXL are 250 MiB. A prompt of words has fewer in its bytes, one of signs or of `BREAK` may have
/// more.
const MAX_CHUNKS: usize = 400;

/// The most tokens of one run. T5 takes a prompt whole, and what it adds to its scores grows with
/// the square of the tokens: so many are 1 GiB.
const MAX_TOKENS: usize = 2048;

/// Encodes a prompt in ComfyUI's syntax. `embeddings` are folders with textual inversions, for
/// `embedding:name`. ComfyUI's `CLIPTextEncode`.
pub fn encode_text(
    store: &Store,
    text: &TextEncoders,
    prompt: &str,
    embeddings: &[PathBuf],
    control: &mut Control<'_>,
) -> Result<Conditioning, EngineError> {
    let mut encoded = encode_texts(store, text, &[prompt], embeddings, control)?;
    Ok(encoded.remove(0))
}

/// Encodes several prompts with one load of each encoder. Prompts that were encoded before, and
/// name no textual inversion, come from the store.
pub fn encode_texts(
    store: &Store,
    text: &TextEncoders,
    prompts: &[&str],
    embeddings: &[PathBuf],
    control: &mut Control<'_>,
) -> Result<Vec<Conditioning>, EngineError> {
    encode_beside(store, text, prompts, embeddings, 0, control)
}

/// [`encode_texts`] while the caller holds `beside` bytes of host memory, such as a start picture.
pub(crate) fn encode_beside(
    store: &Store,
    text: &TextEncoders,
    prompts: &[&str],
    embeddings: &[PathBuf],
    beside: usize,
    control: &mut Control<'_>,
) -> Result<Vec<Conditioning>, EngineError> {
    if let Some(prompt) = prompts.iter().find(|p| p.len() > MAX_PROMPT_BYTES) {
        return Err(EngineError::PromptLength {
            bytes: prompt.len(),
            most: MAX_PROMPT_BYTES,
        });
    }
    let store = store.for_text();
    control.stage(Stage::Text)?;
    for i in 0..text.encoders().len() {
        text.id(i).check_unchanged()?;
    }
    let known: Vec<Option<Conditioning>> = prompts
        .iter()
        .map(|p| store.known_text(&key(text, p)))
        .collect();
    let mut missing: Vec<&str> = Vec::new();
    for (prompt, known) in prompts.iter().zip(&known) {
        if known.is_none() && !missing.contains(prompt) {
            missing.push(prompt);
        }
    }
    let made = if missing.is_empty() {
        Vec::new()
    } else {
        encode(store, text, &missing, embeddings, beside, control)?
    };
    for (prompt, made) in missing.iter().zip(&made) {
        if !prompt.contains("embedding:") {
            store.remember_text(key(text, prompt), made.clone());
        }
    }
    let encoded = prompts.iter().zip(known).map(|(prompt, known)| {
        let at = missing.iter().position(|m| m == prompt);
        known.or_else(|| at.map(|i| made[i].clone()))
    });
    let encoded: Vec<Conditioning> = encoded.flatten().collect();
    if capture::is_on(store) {
        let alone = prompts.iter().all(|p| !p.contains("embedding:"));
        capture::text(text, prompts, &encoded, alone);
    }
    Ok(encoded)
}

/// What an encoded prompt is remembered by.
fn key(text: &TextEncoders, prompt: &str) -> TextKey {
    let ids = (0..text.encoders().len()).map(|i| text.id(i)).collect();
    // Families prompt one encoder differently.
    let (family, skip, padding) = (text.family, text.clip_skip, text.t5_padding);
    let precision = text.precision;
    (
        ids,
        format!("{family:?} {skip:?} {padding:?} {precision:?} {prompt}"),
    )
}

fn encode(
    store: &Store,
    text: &TextEncoders,
    prompts: &[&str],
    embeddings: &[PathBuf],
    beside: usize,
    control: &mut Control<'_>,
) -> Result<Vec<Conditioning>, EngineError> {
    let mut contexts: Vec<Vec<(usize, Vec<f32>)>> = vec![Vec::new(); prompts.len()];
    let mut pooled: Vec<Vec<f32>> = vec![Vec::new(); prompts.len()];
    for (i, encoder) in text.encoders().iter().enumerate() {
        let inversions = Inversions::new(
            embeddings,
            inversion_key(text.family, encoder.config.kind()),
        );
        let tokenizer = text.tokenizer(i)?;
        let read = |prompt: &&str| {
            tokenize(tokenizer, &text.layout(i), prompt, &|name| {
                inversions.get(name).map(|v| v.len())
            })
        };
        let mut tokens = prompts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        check_length(&tokens)?;
        if text.family == Family::Anima {
            // The weights of its words count where they ask for these.
            let chunks = tokens.iter_mut().flat_map(|t| &mut t.chunks);
            chunks
                .flat_map(|c| &mut c.tokens)
                .for_each(|t| t.weight = 1.0);
        }
        if i == 0 {
            tell_missing(&tokens, &inversions, control);
        }
        if !text.gives_context(i) {
            // The pooled vector is the first chunk's.
            tokens.iter_mut().for_each(|t| t.chunks.truncate(1));
        }
        let outputs = encoder::run(store, text, i, &tokens, &inversions, beside, control)?;
        for (at, output) in outputs.into_iter().enumerate() {
            if text.gives_context(i) {
                contexts[at].push((text.width(i), output.hidden));
            }
            // The last, widest encoder's is the one that counts.
            if !output.pooled.is_empty() {
                pooled[at] = output.pooled;
            }
        }
    }
    let mut joined = Vec::new();
    for ((parts, pooled), prompt) in contexts.iter().zip(pooled).zip(prompts) {
        joined.push(Conditioning {
            context: Arc::new(side_by_side(parts)),
            width: parts.iter().map(|(width, _)| width).sum(),
            queries: text.queries(prompt)?,
            pooled,
            ..Conditioning::default()
        });
    }
    Ok(joined)
}

fn check_length(prompts: &[Tokens]) -> Result<(), EngineError> {
    let chunks = prompts.iter().map(|p| p.chunks.len()).max().unwrap_or(0);
    if chunks > MAX_CHUNKS {
        return Err(EngineError::PromptChunks {
            chunks,
            most: MAX_CHUNKS,
        });
    }
    let all = prompts.iter().flat_map(|p| &p.chunks);
    let tokens = all.map(|c| c.tokens.len()).max().unwrap_or(0);
    if tokens > MAX_TOKENS {
        return Err(EngineError::PromptTokens {
            tokens,
            most: MAX_TOKENS,
        });
    }
    Ok(())
}

/// Tells which inversions are left out because they are not there, or there and not readable.
fn tell_missing(prompts: &[Tokens], inversions: &Inversions<'_>, control: &mut Control<'_>) {
    for text in inversions.unreadable() {
        control.note(text);
    }
    for name in prompts.iter().flat_map(|p| &p.missing) {
        control.note(format!("there is no embedding:{name}; it is left out"));
    }
}

/// What files with vectors for several encoders call those of this one.
fn inversion_key(family: Family, encoder: Encoder) -> &'static str {
    match encoder {
        Encoder::Llm(_) if family == Family::Anima => "qwen3_06b",
        Encoder::Clip(..=768) => "clip_l",
        Encoder::Clip(1024) => "clip_h",
        Encoder::Clip(_) => "clip_g",
        Encoder::T5 => "t5xxl",
        Encoder::Umt5 => "umt5xxl",
        Encoder::Llm(llm::Kind::Qwen3) => "qwen3_4b",
        Encoder::Llm(llm::Kind::Qwen3Vl) => "qwen3vl_4b",
        Encoder::Llm(llm::Kind::Qwen25Vl) => "qwen25_7b",
        Encoder::Llm(llm::Kind::Mistral3) => "mistral3_24b",
    }
}

/// Joins the encoders' outputs token by token, as far as the shorter goes.
fn side_by_side(parts: &[(usize, Vec<f32>)]) -> Vec<f32> {
    let lengths = parts.iter().map(|(width, values)| values.len() / width);
    let n = lengths.min().unwrap_or(0);
    let mut joined = Vec::new();
    for token in 0..n {
        for (width, values) in parts {
            joined.extend_from_slice(&values[token * width..][..*width]);
        }
    }
    joined
}
