//! Prompts that speak about pictures: a language model that sees gets a picture's tokens in the
//! place of words. ComfyUI's `TextEncodeQwenImageEdit` and `TextEncodeQwenImageEditPlus`.

use super::inversion::{Inversions, Vectors};
use super::{check_length, encoder, inversion_key, key};
use crate::fit::fit;
use crate::model::identity::{NetId, Part};
use crate::model::{Sight, SightConfig};
use crate::store::Network;
use crate::values::{read, write};
use crate::{Conditioning, Control, EngineError, Family, Image, Stage, Store, TextEncoders};
use nino_dtype::DType;
use nino_graph::{Graph, Node, Plan, RunOptions};
use nino_models::{clip_vision, qwen_vision, qwen3_vision};
use nino_text::{Chunk, IMAGE, IMAGE_ID, Layout, Piece, Token, tokenize};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

/// Pixels of a picture that is seen.
const MIN_PIXELS: usize = 56 * 56;
const MAX_PIXELS: usize = 12_845_056;

/// Where a prompt speaks of `n` pictures by number: the pictures, in front of it.
pub fn pictures_before(n: usize) -> String {
    let pictures: Vec<String> = (1..=n).map(|i| format!("Picture {i}: {IMAGE}")).collect();
    pictures.concat()
}

/// Encodes a prompt for Qwen-Image-Edit or Krea 2 in which every [`IMAGE`](nino_text::IMAGE) is one of
/// `images`, in their order.
pub fn encode_seen(
    store: &Store,
    text: &TextEncoders,
    prompt: &str,
    images: &[Image],
    embeddings: &[PathBuf],
    control: &mut Control<'_>,
) -> Result<Conditioning, EngineError> {
    let blind = || EngineError::Blind {
        family: text.family.name(),
    };
    let speaks = matches!(text.family, Family::QwenImage | Family::Krea2);
    let sight = match text.sight().filter(|_| speaks) {
        Some(sight) => Some(sight),
        None if images.is_empty() && speaks => None,
        None => return Err(blind()),
    };
    let store = store.for_text();
    control.stage(Stage::Text)?;
    text.id(0).check_unchanged()?;
    let known_by = key(text, &format!("{:x} {prompt}", fingerprint(images)));
    if let Some(known) = store.known_text(&known_by) {
        return Ok(known);
    }
    let inversions = Inversions::new(
        embeddings,
        inversion_key(text.family, text.encoders()[0].config.kind()),
    );
    for (i, image) in images.iter().enumerate() {
        let Some(sight) = sight else { break };
        inversions.give(&name(i), look(store, sight, image, control)?);
    }
    let length = |name: &str| inversions.get(name).map(|v| v.len());
    let layout = Layout::qwen_image_edit();
    let mut tokens = tokenize(text.tokenizer(0)?, &layout, prompt, &length)?;
    tokens.chunks.iter_mut().for_each(|c| show(c, &length));
    check_length(std::slice::from_ref(&tokens))?;
    let made = encoder::run(store, text, 0, &[tokens], &inversions, 0, control)?;
    let made = made.into_iter().next().unwrap_or_default();
    let encoded = Conditioning {
        context: Arc::new(made.hidden),
        width: text.width(0),
        ..Conditioning::default()
    };
    if !prompt.contains("embedding:") {
        store.remember_text(known_by, encoded.clone());
    }
    Ok(encoded)
}

/// What picture `i` is called among textual inversions; none of a file is.
fn name(i: usize) -> String {
    format!("<|image_pad|> {i}")
}

fn fingerprint(images: &[Image]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for image in images {
        (image.width, image.height).hash(&mut hasher);
        image
            .values
            .iter()
            .for_each(|v| v.to_bits().hash(&mut hasher));
    }
    hasher.finish()
}

/// Puts the pictures' tokens where the prompt has a place for them.
fn show(chunk: &mut Chunk, length: &dyn Fn(&str) -> Option<usize>) {
    let mut shown = 0;
    let tokens = chunk.tokens.iter().flat_map(|token| {
        let name = name(shown);
        match (&token.piece, length(&name)) {
            (Piece::Id(IMAGE_ID), Some(n)) => {
                shown += 1;
                let name: Arc<str> = name.into();
                let piece = |index| Token {
                    piece: Piece::Embedding {
                        name: name.clone(),
                        index,
                    },
                    weight: 1.0,
                };
                (0..n).map(piece).collect::<Vec<_>>()
            }
            _ => vec![token.clone()],
        }
    });
    chunk.tokens = tokens.collect();
    chunk.end = chunk.tokens.len().saturating_sub(1);
}

struct Recorded {
    plan: Arc<Plan>,
    pixels: Node,
    tokens: Node,
    deep: Vec<Node>,
}

/// The tokens of a picture.
fn look(
    store: &Store,
    sight: &Sight,
    image: &Image,
    control: &mut Control<'_>,
) -> Result<Vectors, EngineError> {
    let side = sight.side();
    let (height, width) = seen_size(image.height, image.width, side);
    let net = NetId::plain(sight.origin.clone(), Part::Image);
    net.check_unchanged()?;
    let recorded = store.plan(&net, format!("tokens of {width}x{height}"), || {
        let mut g = Graph::new();
        let pixels = g.input("pixels", [1, height, width, 3], DType::F32);
        let params = sight.weights.params();
        let (tokens, deep) = match &sight.config {
            SightConfig::Qwen25(c) => {
                (qwen_vision::encoder(&mut g, &params, c, pixels), Vec::new())
            }
            SightConfig::Qwen3(c) => {
                let seen = qwen3_vision::encoder(&mut g, &params, c, pixels);
                (seen.tokens, seen.deepstack)
            }
        };
        g.output(tokens);
        deep.iter().for_each(|&node| g.output(node));
        Ok::<_, EngineError>(Recorded {
            plan: fit(store.device(), &g.finish()?, 1)?,
            pixels,
            tokens,
            deep,
        })
    })?;
    let mut lease = store.open(&Network {
        stage: Stage::Text,
        net,
        plans: std::slice::from_ref(&recorded.plan),
        beside: 0,
        source: &|| Ok(Arc::new(sight.weights.clone())),
    })?;
    let graph = recorded.plan.graph();
    let session = lease.session();
    write(
        session,
        graph,
        recorded.pixels,
        &sight.normalized(image, height, width),
    )?;
    session.run(RunOptions {
        cancel: Some(control.cancel),
        ..RunOptions::default()
    })?;
    let values = read(session, graph, recorded.tokens)?;
    let deep = recorded.deep.iter().map(|&node| read(session, graph, node));
    let deep = deep.collect::<Result<_, _>>()?;
    lease.finish();
    Ok(Vectors {
        width: sight.width(),
        values,
        grid: Some([height / side, width / side]),
        deep,
    })
}

impl Sight {
    /// Sides of pictures that are seen are multiples of this.
    fn side(&self) -> usize {
        match &self.config {
            SightConfig::Qwen25(_) => qwen_vision::PATCH * qwen_vision::MERGE,
            SightConfig::Qwen3(_) => qwen3_vision::SIDE,
        }
    }

    /// Width of the tokens of a picture.
    fn width(&self) -> usize {
        match &self.config {
            SightConfig::Qwen25(c) => c.out,
            SightConfig::Qwen3(c) => c.out,
        }
    }

    /// `[height, width, 3]` of a picture in the units of the half that sees.
    fn normalized(&self, image: &Image, height: usize, width: usize) -> Vec<f32> {
        let (mean, deviation) = match &self.config {
            SightConfig::Qwen25(_) => (clip_vision::MEAN, clip_vision::STD),
            SightConfig::Qwen3(_) => ([0.5; 3], [0.5; 3]),
        };
        let from = (image.height, image.width, 3);
        let how = nino_media::Upscale::Bilinear;
        let mut values = nino_media::resize(&image.values, from, (height, width), how);
        for (i, v) in values.iter_mut().enumerate() {
            *v = (*v - mean[i % 3]) / deviation[i % 3];
        }
        values
    }
}

/// Height and width that a picture is seen with, multiples of `unit`.
fn seen_size(height: usize, width: usize, unit: usize) -> (usize, usize) {
    let side = |pixels: f64| pixels as usize * unit;
    let nearest = |n: usize| side((n as f64 / unit as f64).round_ties_even());
    let pixels = nearest(height) * nearest(width);
    let ratio = (height * width).max(1) as f64;
    if pixels > MAX_PIXELS {
        let less = (ratio / MAX_PIXELS as f64).sqrt();
        let floor = |n: usize| side((n as f64 / less / unit as f64).floor()).max(unit);
        return (floor(height), floor(width));
    }
    if pixels < MIN_PIXELS {
        let more = (MIN_PIXELS as f64 / ratio).sqrt();
        let ceil = |n: usize| side((n as f64 * more / unit as f64).ceil()).max(unit);
        return (ceil(height), ceil(width));
    }
    (nearest(height), nearest(width))
}

#[cfg(test)]
mod tests {
    use super::seen_size;

    #[test]
    fn sizes_are_those_that_qwen_sees() {
        for (size, unit, wanted) in [
            ((384, 384), 28, (392, 392)),
            ((42, 70), 28, (56, 56)),
            ((300, 20), 28, (308, 28)),
            ((8000, 4000), 28, (5068, 2520)),
            ((384, 400), 32, (384, 384)),
            ((20, 40), 32, (64, 96)),
        ] {
            assert_eq!(seen_size(size.0, size.1, unit), wanted, "{size:?}");
        }
    }
}
