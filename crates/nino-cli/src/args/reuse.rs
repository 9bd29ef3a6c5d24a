//! `--step-cache`: steps that use an earlier one again.

use nino_engine::{CacheWay, StepReuse};
use std::str::FromStr;

/// A way and its threshold, as ComfyUI's EasyCache and LazyCache have them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepCacheArg(pub(crate) StepReuse);

impl FromStr for StepCacheArg {
    type Err = String;

    fn from_str(text: &str) -> Result<StepCacheArg, String> {
        let (way, threshold) = match text.split_once(':') {
            Some((way, threshold)) => (way, Some(threshold)),
            None => (text, None),
        };
        let way = match way.trim() {
            "easy" => CacheWay::Easy,
            "lazy" => CacheWay::Lazy,
            _ => {
                return Err("easy or lazy is wanted, or with a threshold, such as easy:0.2".into());
            }
        };
        let mut reuse = StepReuse::new(way);
        if let Some(text) = threshold {
            let number = text.trim().parse().ok();
            let number = number.filter(|n| (0.0..=3.0).contains(n));
            reuse.threshold = number.ok_or_else(|| {
                format!("the threshold is {text:?}, and a number from 0 to 3 is wanted")
            })?;
        }
        Ok(StepCacheArg(reuse))
    }
}

#[cfg(test)]
mod tests {
    use super::StepCacheArg;
    use nino_engine::CacheWay;

    #[test]
    fn a_way_and_its_threshold_are_read() {
        let read = |text: &str| text.parse::<StepCacheArg>().map(|arg| arg.0);
        let easy = read("easy").unwrap();
        assert_eq!((easy.way, easy.threshold), (CacheWay::Easy, 0.2));
        let lazy = read("lazy:0.35").unwrap();
        assert_eq!((lazy.way, lazy.threshold), (CacheWay::Lazy, 0.35));
        for wrong in [
            "", "fast", "easy:", "easy:x", "lazy:-1", "lazy:NaN", "easy:4",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
