//! Which options stay.

use super::trial::{Setting, Tried};
use nino_engine::EngineError;

/// A way that takes so much of the base's time, or less, is faster: the rest is noise.
const FASTER: f64 = 0.97;
/// So much of the base's memory, or less, is worth a little time.
const SMALLER: f64 = 0.95;
/// The most of the base's time that a smaller way may take, or of its memory that a faster one may.
const MORE: f64 = 1.1;

/// What a way takes of the base's time and memory.
#[derive(Clone, Copy)]
struct Shares {
    time: f64,
    memory: f64,
}

fn shares(base: &Tried, tried: &Tried) -> Shares {
    let seconds = |tried: &Tried| tried.median().as_secs_f64().max(f64::MIN_POSITIVE);
    Shares {
        time: seconds(tried) / seconds(base),
        memory: tried.peak_bytes as f64 / base.peak_bytes.max(1) as f64,
    }
}

/// Whether a way is like enough and faster, or smaller, and not much worse in the other.
pub(super) fn worth_it(base: &Tried, tried: &Tried, min_psnr: f64) -> bool {
    let Shares { time, memory } = shares(base, tried);
    // Below every run of the base: a difference within its spread is none.
    let faster = time <= FASTER && tried.median() < base.times[0] && memory <= MORE;
    let smaller = memory <= SMALLER && time <= MORE;
    tried.psnr >= min_psnr && (faster || smaller)
}

/// Why a way is kept, in a few words.
pub(super) fn why(base: &Tried, tried: &Tried) -> String {
    let Shares { time, memory } = shares(base, tried);
    let like = if tried.psnr.is_finite() {
        format!("{:.1} dB to the picture in f32", tried.psnr)
    } else {
        "the same picture as in f32".to_owned()
    };
    format!(
        "{:.0} % of the time and {:.0} % of the memory of f32, {like}",
        time * 100.0,
        memory * 100.0
    )
}

/// The fastest of each kind that was kept, together; what cost most likeness goes until the picture
/// is like enough. One way alone is not tried again, and wins where it is faster than all together.
/// `None` where nothing is left.
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
    while best.len() > 1 {
        let settings: Vec<Setting> = best.iter().filter_map(|t| t.setting.clone()).collect();
        let tried = run(&settings)?;
        if tried.psnr >= min_psnr {
            let limit = tried.median().mul_f64(FASTER);
            best.retain(|alone| alone.median() < limit);
            best.sort_by_key(|alone| std::cmp::Reverse(alone.median()));
            if best.is_empty() {
                return Ok(Some((settings, tried)));
            }
            break;
        }
        best.pop();
    }
    Ok(best
        .pop()
        .map(|tried| (tried.setting.clone().into_iter().collect(), tried)))
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
        assert!(worth_it(&base, &tried(105, 900, 41.0), 40.0));
        assert!(!worth_it(&base, &tried(120, 900, 41.0), 40.0), "too slow");
        assert!(!worth_it(&base, &tried(50, 1200, 41.0), 40.0), "too large");
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
        let one = combined(kept[2..].to_vec(), 40.0, |_| panic!("it was tried"));
        assert_eq!(one.unwrap().unwrap().0, [Setting::Precision("fp16")]);
        let slow = combined(kept.clone(), 40.0, |_| Ok(tried(90, 800, 45.0)));
        let fastest = slow.unwrap().unwrap().0;
        assert_eq!(fastest, [Setting::Quantize(DType::Q4_K)]);
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
