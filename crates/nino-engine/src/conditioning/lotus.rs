//! The one prompt of Lotus, which makes depths out of pictures: no text. ComfyUI's
//! `LotusConditioning`.

use super::Conditioning;
use std::sync::Arc;

/// What OpenCLIP-H makes of an empty text, start and end: `[2, 1024]` in f16, little-endian.
/// `goldens/nodes/lotus.py` recorded it from ComfyUI's node.
const EMPTY: &[u8] = include_bytes!("lotus.f16");
const WIDTH: usize = 1024;

impl Conditioning {
    /// The prompt of Lotus.
    pub fn lotus() -> Conditioning {
        let (pairs, _) = EMPTY.as_chunks::<2>();
        let value = |bits: &[u8; 2]| nino_dtype::f16_to_f32(u16::from_le_bytes(*bits));
        Conditioning {
            context: Arc::new(pairs.iter().map(value).collect()),
            width: WIDTH,
            ..Conditioning::default()
        }
    }
}
