//! A file with a textual inversion: vectors that stand for words in a prompt.

use crate::plural::count;
use nino_weights::{Entry, Index};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct EmbeddingFacts {
    vectors: usize,
    /// Their widths, one for each text encoder.
    widths: Vec<usize>,
    /// The models whose text encoders have such widths.
    family: &'static str,
}

impl EmbeddingFacts {
    /// `None` where the file is no textual inversion: A1111's, diffusers' or ComfyUI's, which has
    /// vectors for two text encoders.
    pub(super) fn of(index: &Index) -> Option<EmbeddingFacts> {
        let entries: Vec<&Entry> = index.entries().iter().collect();
        let is_known = |e: &&Entry| {
            matches!(
                e.name.as_str(),
                "emb_params" | "clip_l" | "clip_g" | "clip_h"
            ) || e.name.starts_with("string_to_param.")
        };
        let mut found: Vec<&Entry> = entries.iter().copied().filter(is_known).collect();
        if let (true, [only]) = (found.is_empty(), &entries[..]) {
            found.push(only);
        }
        let width = |e: &&Entry| *e.shape.last().unwrap_or(&0);
        let mut widths: Vec<usize> = found.iter().map(width).collect();
        widths.sort_unstable();
        let family = match widths[..] {
            [768] => "SD 1.x",
            [1024] => "SD 2.x",
            [1280] => "the SDXL refiner",
            [768, 1280] => "SDXL",
            _ => return None,
        };
        let rows = |e: &&Entry| match e.shape[..] {
            [rows, _] => Some(rows),
            [_] => Some(1),
            _ => None,
        };
        let rows: Option<Vec<usize>> = found.iter().map(rows).collect();
        Some(EmbeddingFacts {
            vectors: rows?.into_iter().max()?,
            widths,
            family,
        })
    }

    /// `textual inversion of 8 vectors, for SD 1.x`
    pub(super) fn line(&self) -> String {
        format!(
            "textual inversion of {}, for {}: write embedding:NAME in a prompt",
            count(self.vectors, "vector"),
            self.family
        )
    }
}
