//! Which options stay.

use super::trial::{Setting, Tried};
use nino_engine::EngineError;

/// A way that takes so much of the base's time, or less, is faster: the rest is noise.
const FASTER: f64 = 0.97;

/// Whether a way is like enough, and takes less time or memory than the base.
pub(super) fn worth_it(base: &Tried, tried: &Tried, min_psnr: f64) -> bool {
    let share = tried.median().as_secs_f64() / base.median().as_secs_f64().max(f64::MIN_POSITIVE);
    tried.psnr >= min_psnr && (share <= FASTER || tried.peak_bytes < base.peak_bytes)
}

/// The fastest of each kind that was kept, together; what cost most likeness goes until the picture
/// is like enough. `None` where nothing is left.
pub(super) fn combined(
    kept: Vec<Tried>,
    min_psnr: f64,
    mut run: impl FnMut(&[Setting]) -> Result<Tried, EngineError>,
) -> Result<Option<(Vec<Setting>, Tried)>, EngineError> {
    let mut best: Vec<Tried> = Vec::new();
    for tried in kept {
        let Some(setting) = &tried.setting else {
            continue;
        };
        let same = |other: &Tried| other.setting.as_ref().is_some_and(|o| o.is_like(setting));
        match best.iter().position(same) {
            Some(i) if best[i].median() <= tried.median() => {}
            Some(i) => best[i] = tried,
            None => best.push(tried),
        }
    }
    best.sort_by(|a, b| b.psnr.total_cmp(&a.psnr));
    while !best.is_empty() {
        let settings: Vec<Setting> = best.iter().filter_map(|t| t.setting.clone()).collect();
        let tried = run(&settings)?;
        if tried.psnr >= min_psnr {
            return Ok(Some((settings, tried)));
        }
        best.pop();
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::{combined, worth_it};
    use crate::optimize::trial::{Setting, Tried};
    use nino_engine::{DType, Picture};
    use std::time::Duration;

    fn tried(ms: u64, peak_bytes: usize, psnr: f64) -> Tried {
        Tried {
            setting: None,
            times: vec![Duration::from_millis(ms)],
            peak_bytes,
            psnr,
            picture: Picture::default(),
        }
    }

    #[test]
    fn a_way_must_be_like_enough_and_take_less() {
        let base = tried(100, 1000, f64::INFINITY);
        assert!(worth_it(&base, &tried(50, 1000, 41.0), 40.0));
        assert!(worth_it(&base, &tried(120, 900, 41.0), 40.0));
        assert!(!worth_it(&base, &tried(50, 900, 39.0), 40.0));
        assert!(!worth_it(&base, &tried(99, 1000, 60.0), 40.0));
    }

    #[test]
    fn what_costs_most_goes_until_it_is_like_enough() {
        let kept = vec![
            tried(50, 900, 41.0).of(Setting::Quantize(DType::Q4_K)),
            tried(60, 900, 55.0).of(Setting::Quantize(DType::Q8_0)),
            tried(70, 900, 60.0).of(Setting::Precision("fp16")),
        ];
        let mut asked = Vec::new();
        let best = combined(kept, 40.0, |settings| {
            asked.push(settings.to_vec());
            Ok(tried(40, 800, if settings.len() > 1 { 38.0 } else { 60.0 }))
        });
        let (settings, _) = best.unwrap().unwrap();
        assert_eq!(settings, [Setting::Precision("fp16")]);
        // Of quantizations the faster was tried first.
        assert_eq!(asked[0].len(), 2);
        assert!(asked[0].contains(&Setting::Quantize(DType::Q4_K)));
    }
}
