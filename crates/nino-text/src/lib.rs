//! Prompts to tokens: tokenizers, prompt weights, chunks; pure values.
//!
//! [`tokenize`] goes the whole way: it reads the weights and embeddings out of a prompt, turns the
//! text into ids with a [`Tokenizer`] ([`Bpe`] for CLIP, [`Unigram`] for T5, [`ByteBpe`] for
//! language models), and fills chunks of the length a [`Layout`] names. The text encoder runs on
//! each chunk, and [`apply_weights`] moves its output away from the empty prompt's.
//! Tokens, weights and chunks are ComfyUI's.

mod bpe;
mod byte_bpe;
mod chunk;
mod error;
mod merges;
mod prompt;
mod unigram;
mod weights;

pub use bpe::Bpe;
pub use byte_bpe::ByteBpe;
pub use chunk::{Chat, Chunk, IMAGE, IMAGE_ID, Layout, Piece, Token, Tokenizer, Tokens, tokenize};
pub use error::Error;
pub use unigram::{Pieces, Unigram};
pub use weights::apply_weights;
