//! Tokens in chunks of the encoder's length: start, up to 75 of the prompt's, end, padding. T5 has
//! no start and one chunk of any length, and language models neither start nor end.

#[cfg(test)]
mod tests;

use crate::bpe::Bpe;
use crate::byte_bpe::ByteBpe;
use crate::error::Error;
use crate::prompt::{self, Run};
use crate::unigram::Unigram;
use crate::weights::is_neutral;
use std::sync::Arc;

/// Stretches of fewer tokens than this move to the next chunk rather than being cut.
const LARGE: usize = 8;

/// What stands for a picture in a prompt, and its id.
pub const IMAGE: &str = "<|vision_start|><|image_pad|><|vision_end|>";
pub const IMAGE_ID: u32 = 151_655;
/// What begins a turn of a conversation with Qwen, and its id.
const TURN: &str = "<|im_start|>";
const TURN_ID: u32 = 151_644;
/// `user` and the end of a line.
const USER_ID: u32 = 872;
const LINE_END_ID: u32 = 198;

/// Text without weights and embeddings to ids.
pub trait Tokenizer {
    fn ids(&self, text: &str) -> Vec<u32>;
}

impl Tokenizer for Bpe {
    fn ids(&self, text: &str) -> Vec<u32> {
        self.encode(text)
    }
}

impl Tokenizer for ByteBpe {
    fn ids(&self, text: &str) -> Vec<u32> {
        self.encode(text)
    }
}

impl Tokenizer for Unigram {
    fn ids(&self, text: &str) -> Vec<u32> {
        self.encode(text)
    }
}

/// How an encoder wants its chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub start: Option<u32>,
    pub end: Option<u32>,
    pub pad: u32,
    /// The tokens of a chunk, start and end included; `None` for one chunk of any length, where
    /// `BREAK` is a word like others. Fewer than 3 leave no room, and count as 3.
    pub max_length: Option<usize>,
    /// Padding that a chunk has whatever its length; 0 where chunks have a largest one.
    pub min_padding: usize,
    /// Chunks are filled up to so many tokens.
    pub min_length: usize,
    /// Whether the empty prompt that weights are measured from has an end.
    pub empty_ends: bool,
    /// What a language model is told around the prompt, which then has no weights.
    pub chat: Option<Chat>,
}

/// The turns of a conversation, of which the prompt is a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chat {
    pub before: &'static str,
    pub after: &'static str,
    /// Whether what the model makes of the turns before the prompt's own is left out.
    pub cut: bool,
}

/// A prompt for one encoder.
#[derive(Clone, Debug, PartialEq)]
pub struct Tokens {
    /// The chunks, of which there is at least one.
    pub chunks: Vec<Chunk>,
    /// The embeddings that the prompt names but that do not exist; they are left out.
    pub missing: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    pub tokens: Vec<Token>,
    /// The first end token's place, where CLIP's pooled output is read. Without an end token it is
    /// the last place before the padding.
    pub end: usize,
    /// Tokens at the front that the model sees and the prompt's states go without.
    pub cut: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub piece: Piece,
    pub weight: f32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Id(u32),
    /// Vector `index` of a textual inversion.
    Embedding {
        name: Arc<str>,
        index: usize,
    },
}

impl Layout {
    /// Chunks of `max_length` padded with the vocabulary's end token.
    pub fn new(bpe: &Bpe, max_length: usize) -> Layout {
        Layout {
            start: Some(bpe.start()),
            end: Some(bpe.end()),
            pad: bpe.end(),
            max_length: Some(max_length),
            min_padding: 0,
            min_length: max_length.max(3),
            empty_ends: true,
            chat: None,
        }
    }

    /// SD 1.x's encoder and SDXL's first.
    pub fn clip_l() -> Layout {
        Layout {
            start: Some(49406),
            end: Some(49407),
            pad: 49407,
            max_length: Some(77),
            min_padding: 0,
            min_length: 77,
            empty_ends: true,
            chat: None,
        }
    }

    /// SDXL's second encoder (OpenCLIP bigG).
    pub fn clip_g() -> Layout {
        Layout {
            pad: 0,
            ..Layout::clip_l()
        }
    }

    /// SD 2.x's encoder (OpenCLIP H).
    pub fn clip_h() -> Layout {
        Layout::clip_g()
    }

    /// T5 as Flux was trained with it: at least 256 tokens.
    pub fn t5_flux() -> Layout {
        Layout {
            start: None,
            end: Some(1),
            pad: 0,
            max_length: None,
            min_padding: 0,
            min_length: 256,
            empty_ends: true,
            chat: None,
        }
    }

    /// UMT5 as Wan was trained with it: at least 512 tokens.
    pub fn umt5_wan() -> Layout {
        Layout {
            min_length: 512,
            ..Layout::t5_flux()
        }
    }

    /// T5 as Chroma was trained with it: nothing but the prompt.
    pub fn t5_chroma() -> Layout {
        Layout {
            min_length: 1,
            empty_ends: false,
            ..Layout::t5_flux()
        }
    }

    /// Qwen3 as Z-Image was trained with it: nothing but the question.
    pub fn qwen3_z_image() -> Layout {
        Layout {
            start: None,
            end: None,
            pad: 151_643,
            max_length: None,
            min_padding: 0,
            min_length: 1,
            empty_ends: false,
            chat: Some(Chat {
                before: "<|im_start|>user\n",
                after: "<|im_end|>\n<|im_start|>assistant\n",
                cut: false,
            }),
        }
    }

    /// Qwen3 as Anima was trained with it: the prompt alone, of which it takes no weights.
    pub fn qwen3_anima() -> Layout {
        Layout {
            chat: None,
            ..Layout::qwen3_z_image()
        }
    }

    /// T5's words as Anima asks with them.
    pub fn t5_anima() -> Layout {
        Layout::t5_chroma()
    }

    /// Qwen3 as Flux.2 klein was trained with it: at least 512 tokens, and no thoughts.
    pub fn qwen3_klein() -> Layout {
        Layout {
            min_length: 512,
            chat: Some(Chat {
                before: "<|im_start|>user\n",
                after: "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
                cut: false,
            }),
            ..Layout::qwen3_z_image()
        }
    }

    /// Qwen2.5-VL as Qwen-Image was trained with it.
    pub fn qwen_image() -> Layout {
        Layout {
            chat: Some(Chat {
                before: concat!(
                    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, ",
                    "texture, quantity, text, spatial relationships of the objects and ",
                    "background:<|im_end|>\n<|im_start|>user\n"
                ),
                after: "<|im_end|>\n<|im_start|>assistant\n",
                cut: true,
            }),
            ..Layout::qwen3_z_image()
        }
    }

    /// The same for the models that edit. [`IMAGE`] in a prompt stands for a picture.
    pub fn qwen_image_edit() -> Layout {
        Layout {
            chat: Some(Chat {
                before: concat!(
                    "<|im_start|>system\nDescribe the key features of the input image (color, ",
                    "shape, size, texture, objects, background), then explain how the user's text ",
                    "instruction should alter or modify the image. Generate a new image that meets ",
                    "the user's requirements while maintaining consistency with the original input ",
                    "where appropriate.<|im_end|>\n<|im_start|>user\n"
                ),
                after: "<|im_end|>\n<|im_start|>assistant\n",
                cut: true,
            }),
            ..Layout::qwen3_z_image()
        }
    }

    /// Mistral as Flux.2 dev was trained with it.
    pub fn mistral_flux2() -> Layout {
        Layout {
            start: Some(1),
            pad: 11,
            chat: Some(Chat {
                before: concat!(
                    "[SYSTEM_PROMPT]You are an AI that reasons about image descriptions. You give ",
                    "structured responses focusing on object relationships, object\nattribution ",
                    "and actions without speculation.[/SYSTEM_PROMPT][INST]"
                ),
                after: "[/INST]",
                cut: false,
            }),
            ..Layout::qwen3_z_image()
        }
    }

    /// The empty prompt of `length` tokens: what weights are measured from.
    pub fn empty(&self, length: usize) -> Vec<u32> {
        let end = self.end.filter(|_| self.empty_ends);
        let mut ids: Vec<u32> = self.start.into_iter().chain(end).collect();
        ids.resize(length.max(ids.len()), self.pad);
        ids
    }

    fn token(id: u32) -> Token {
        Token {
            piece: Piece::Id(id),
            weight: 1.0,
        }
    }
}

impl Tokens {
    /// Whether any weight differs from 1, so that the empty prompt must be encoded too.
    pub fn weighted(&self) -> bool {
        let mut tokens = self.chunks.iter().flat_map(|c| &c.tokens);
        tokens.any(|t| !is_neutral(t.weight))
    }
}

impl Chunk {
    pub fn weights(&self) -> Vec<f32> {
        self.tokens.iter().map(|t| t.weight).collect()
    }
}

/// Reads a prompt into chunks. `n_vectors` gives the number of vectors of the embedding of that
/// name, or `None` where there is no such embedding.
pub fn tokenize(
    tokenizer: &dyn Tokenizer,
    layout: &Layout,
    prompt: &str,
    n_vectors: &dyn Fn(&str) -> Option<usize>,
) -> Result<Tokens, Error> {
    let mut missing = Vec::new();
    let mut filler = Filler::new(layout);
    let exists = |name: &str| n_vectors(name).is_some();
    let runs = match &layout.chat {
        // A prompt may bring turns of its own.
        Some(Chat { cut: true, .. }) if prompt.starts_with(TURN) => {
            prompt::without_weights(prompt, &exists)
        }
        Some(Chat { before, after, .. }) => {
            prompt::without_weights(&format!("{before}{prompt}{after}"), &exists)
        }
        None => prompt::parse(prompt, layout.max_length.is_some(), &exists)?,
    };
    for run in runs {
        match run {
            Run::Text { text, weight } => {
                let token = |id| Token {
                    piece: Piece::Id(id),
                    weight,
                };
                filler.push(tokenizer.ids(&text).into_iter().map(token).collect());
            }
            Run::Embedding { name, weight } => {
                let n = n_vectors(&name).unwrap_or(0);
                let name: Arc<str> = name.into();
                let token = |index| Token {
                    piece: Piece::Embedding {
                        name: name.clone(),
                        index,
                    },
                    weight,
                };
                filler.push((0..n).map(token).collect());
            }
            Run::Missing { name } => missing.push(name),
            Run::Break => filler.next_chunk(),
        }
    }
    Ok(Tokens {
        chunks: filler.finish(),
        missing,
    })
}

/// Where the second turn of a conversation begins, behind the name of who speaks where that is the
/// user.
fn turns_before(tokens: &[Token]) -> usize {
    let is = |at: usize, id: u32| tokens.get(at).is_some_and(|t| t.piece == Piece::Id(id));
    let mut turns = (0..tokens.len()).filter(|&at| is(at, TURN_ID)).take(2);
    let Some(at) = turns.next().map(|first| turns.next().unwrap_or(first)) else {
        return tokens.len().saturating_sub(1);
    };
    let by_user = tokens.len() > at + 3 && is(at + 1, USER_ID) && is(at + 2, LINE_END_ID);
    if by_user { at + 3 } else { at }
}

struct Filler<'a> {
    layout: &'a Layout,
    /// The tokens that fit into a chunk before its end token.
    room: usize,
    done: Vec<Chunk>,
    open: Vec<Token>,
}

impl<'a> Filler<'a> {
    fn new(layout: &'a Layout) -> Filler<'a> {
        Filler {
            layout,
            room: layout.max_length.unwrap_or(usize::MAX).max(3) - 1,
            done: Vec::new(),
            open: layout.start.map(Layout::token).into_iter().collect(),
        }
    }

    fn push(&mut self, group: Vec<Token>) {
        let whole = group.len() < LARGE && group.len() < self.room;
        let mut group = group.into_iter();
        while group.len() > 0 {
            let free = self.room - self.open.len();
            if group.len() <= free {
                self.open.extend(group);
                return;
            }
            if !whole {
                self.open.extend(group.by_ref().take(free));
            }
            self.next_chunk();
        }
    }

    fn next_chunk(&mut self) {
        let start = self.layout.start.map(Layout::token).into_iter().collect();
        let mut tokens: Vec<Token> = std::mem::replace(&mut self.open, start);
        tokens.extend(self.layout.end.map(Layout::token));
        let padded = tokens.len() + self.layout.min_padding;
        let filled = padded.max(self.layout.min_length);
        tokens.resize(filled, Layout::token(self.layout.pad));
        let place = |id: u32| tokens.iter().position(|t| t.piece == Piece::Id(id));
        let end = match self.layout.end {
            Some(end) => place(end).expect("an end token was pushed"),
            None => place(self.layout.pad).unwrap_or(filled).saturating_sub(1),
        };
        let cut = match self.layout.chat {
            Some(Chat { cut: true, .. }) => turns_before(&tokens),
            _ => 0,
        };
        self.done.push(Chunk { tokens, end, cut });
    }

    /// Gives the chunks, without an empty one that a last `BREAK` opened.
    fn finish(mut self) -> Vec<Chunk> {
        let begun = self.layout.start.iter().len();
        if self.open.len() > begun || self.done.is_empty() {
            self.next_chunk();
        }
        self.done
    }
}
