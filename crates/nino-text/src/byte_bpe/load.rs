//! Qwen's vocabulary, built in.

use super::ByteBpe;
use crate::bpe::byte_symbols;
use crate::merges::Merge;
use std::collections::HashMap;
use zlib_rs::{InflateConfig, ReturnCode, decompress_slice};

/// One zlib stream: the low, middle and high bytes of the first ids of all merges, then those of
/// the second ids. Qwen numbers its pieces 256 bytes, then one for each merge in order, so the
/// pairs are the whole vocabulary. `goldens/text/qwen.py` writes it.
static QWEN: &[u8] = include_bytes!("../../data/qwen.merges");
const QWEN_MERGES: usize = 151_387;

/// The first of Qwen's special pieces, which follow one another.
const QWEN_SPECIAL: u32 = 151_643;
const SPECIAL: [&str; 26] = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
];

impl ByteBpe {
    /// The vocabulary of Qwen 2, 2.5 and 3: 151669 pieces.
    pub fn qwen() -> ByteBpe {
        let mut plain = vec![0; 6 * QWEN_MERGES];
        let (plain, code) = decompress_slice(&mut plain, QWEN, InflateConfig::default());
        assert_eq!(code, ReturnCode::Ok, "the built-in vocabulary is whole");
        let plane = |i: usize| &plain[i * QWEN_MERGES..][..QWEN_MERGES];
        let id = |side: usize, at: usize| {
            let [low, middle, high] = [0, 1, 2].map(|i| plane(3 * side + i)[at]);
            u32::from_le_bytes([low, middle, high, 0])
        };
        let merge = |at: usize| {
            let rank = at as u32;
            let id_of_both = 256 + rank;
            let merge = Merge {
                rank,
                id: id_of_both,
            };
            ((id(0, at), id(1, at)), merge)
        };
        let mut bytes = [0; 256];
        for ((byte, _), id) in byte_symbols().zip(0..) {
            bytes[usize::from(byte)] = id;
        }
        ByteBpe {
            merges: (0..QWEN_MERGES).map(merge).collect(),
            bytes,
            special: SPECIAL
                .map(str::to_owned)
                .into_iter()
                .zip(QWEN_SPECIAL..)
                .collect(),
            whole: HashMap::new(),
            normalized: true,
            digits: 1,
        }
    }
}
