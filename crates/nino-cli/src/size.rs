//! Picture sizes as people write them: `1024x768`, or `512` for a square.

use std::fmt;
use std::str::FromStr;

/// Pixels of a side, at most: what the nodes of ComfyUI take.
const MOST: u64 = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) width: usize,
    pub(crate) height: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SizeError {
    #[error("a size is WIDTHxHEIGHT in pixels, such as 1024x768, or 512 for a square")]
    NotASize,
    #[error("a side has from 1 to {MOST} pixels, not {0}")]
    Side(u64),
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Size, SizeError> {
        let (width, height) = text.split_once(['x', 'X', '×']).unwrap_or((text, text));
        let side = |text: &str| {
            let digits = text.trim();
            let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            if !is_number {
                return Err(SizeError::NotASize);
            }
            let pixels = digits.parse().unwrap_or(u64::MAX);
            if pixels == 0 || pixels > MOST {
                return Err(SizeError::Side(pixels));
            }
            Ok(pixels as usize)
        };
        Ok(Size {
            width: side(width)?,
            height: side(height)?,
        })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

#[cfg(test)]
mod tests {
    use super::{Size, SizeError};

    #[test]
    fn sizes_are_read_or_refused() {
        let size = |width, height| Ok(Size { width, height });
        assert_eq!("1024x768".parse(), size(1024, 768));
        assert_eq!("512".parse(), size(512, 512));
        assert_eq!(" 8 × 16 ".parse(), size(8, 16));
        for wrong in ["axb", "-1x5", "", "x", "5x", "1.5x2"] {
            assert_eq!(wrong.parse::<Size>(), Err(SizeError::NotASize), "{wrong}");
        }
        let large = "1000000x1000000".parse::<Size>().unwrap_err();
        assert_eq!(
            large.to_string(),
            "a side has from 1 to 16384 pixels, not 1000000"
        );
        assert_eq!("0x5".parse::<Size>(), Err(SizeError::Side(0)));
        let huge = "99999999999999999999999x1".parse::<Size>();
        assert_eq!(huge, Err(SizeError::Side(u64::MAX)));
    }
}
