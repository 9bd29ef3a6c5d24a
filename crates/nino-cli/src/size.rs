//! Picture sizes as people write them: `1024x768`.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Size, &'static str> {
        let sides = text.split_once(['x', 'X', '×']);
        let sides = sides.and_then(|(w, h)| Some((w.trim().parse().ok()?, h.trim().parse().ok()?)));
        match sides {
            Some((width @ 1..=65_536, height @ 1..=65_536)) => Ok(Size { width, height }),
            _ => Err("a size is WIDTHxHEIGHT in pixels, such as 1024x768"),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn sizes_are_read_or_refused() {
        assert_eq!(
            "1024x768".parse(),
            Ok(Size {
                width: 1024,
                height: 768
            })
        );
        for wrong in ["1024", "0x5", "axb", "-1x5", "99999999x1", ""] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }
}
