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
        format!("PSNR {:.1} dB relative to the image in f32", tried.psnr)
    } else {
        "the same image as in f32".to_owned()
    };
    format!(
        "{:.0} % of the time and {:.0} % of the memory of f32, {like}",
        time * 100.0,
        memory * 100.0
    )
}

/// The fastest of each kind that was kept, together; where the picture is not like enough, what
/// costs least to do without goes until it is. One way alone is not tried again, and wins where it
/// is faster than those together. `None` where nothing was kept.
pub(super) fn combined(
    base: &Tried,
    kept: Vec<Tried>,
    min_psnr: f64,
    mut run: impl FnMut(&[Setting]) -> Result<Tried, EngineError>,
) -> Result<Option<(Vec<Setting>, Tried)>, EngineError> {
    let alone = fastest_of_each_kind(kept);
    let mut left: Vec<&Tried> = alone.iter().collect();
    let mut together = None;
    while left.len() > 1 {
        let settings: Vec<Setting> = left.iter().filter_map(|t| t.setting.clone()).collect();
        let tried = run(&settings)?;
        if tried.psnr >= min_psnr {
            together = Some((settings, tried));
            break;
        }
        let missing = min_psnr - tried.psnr;
        let costs = (0..left.len()).map(|i| cost_without(base, &left, i, min_psnr, missing));
        let least = costs.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
        left.remove(least.map_or(0, |(i, _)| i));
    }
    let fastest = alone.iter().min_by_key(|t| t.median());
    match (together, fastest) {
        (Some((settings, tried)), Some(one)) if !is_faster(one, &tried) => {
            Ok(Some((settings, tried)))
        }
        (_, one) => {
            Ok(one.map(|tried| (tried.setting.clone().into_iter().collect(), tried.clone())))
        }
    }
}

fn is_faster(one: &Tried, other: &Tried) -> bool {
    one.median() < other.median().mul_f64(FASTER)
}

fn fastest_of_each_kind(kept: Vec<Tried>) -> Vec<Tried> {
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
    best
}

/// What it costs to do without the `i`-th way, in time for each dB of the `missing` ones that this
/// gives back. Times multiply and errors add up, about; more likeness than is missing is of no use.
fn cost_without(base: &Tried, ways: &[&Tried], i: usize, min_psnr: f64, missing: f64) -> f64 {
    /// So little likeness is none.
    const LEAST: f64 = 1e-3;
    let lost = -shares(base, ways[i]).time.ln();
    let others = ways.iter().enumerate().filter(|(j, _)| *j != i);
    let error: f64 = others.map(|(_, way)| 10f64.powf(-way.psnr / 10.0)).sum();
    let gained = missing - (min_psnr + 10.0 * error.log10()).max(0.0);
    lost.max(0.0) / gained.max(LEAST)
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

    fn ways() -> [Tried; 4] {
        [
            tried(50, 900, 41.0).of(Setting::Quantize(DType::Q4_K)),
            tried(60, 900, 55.0).of(Setting::Quantize(DType::Q8_0)),
            tried(70, 900, 60.0).of(Setting::Precision("fp16")),
            tried(95, 900, 42.0).of(Setting::Steps(6)),
        ]
    }

    #[test]
    fn one_way_is_not_tried_again_and_wins_where_it_is_faster() {
        let base = tried(100, 1000, f64::INFINITY);
        let [q4, q8, half, _] = ways();
        let one = combined(&base, vec![half.clone()], 40.0, |_| panic!("it was tried"));
        assert_eq!(one.unwrap().unwrap().0, [Setting::Precision("fp16")]);
        let slow = combined(&base, vec![q4, q8, half], 40.0, |settings| {
            // Of quantizations the faster is tried.
            assert_eq!(settings.len(), 2);
            assert!(settings.contains(&Setting::Quantize(DType::Q4_K)));
            Ok(tried(90, 800, 45.0))
        });
        let fastest = slow.unwrap().unwrap().0;
        assert_eq!(fastest, [Setting::Quantize(DType::Q4_K)]);
        assert!(
            combined(&base, vec![], 40.0, |_| panic!())
                .unwrap()
                .is_none()
        );
    }

    /// Of what is least like the picture in f32, the fastest stays: fewer steps gain little time,
    /// and doing without them is enough.
    #[test]
    fn what_costs_least_time_for_its_likeness_goes() {
        let base = tried(100, 1000, f64::INFINITY);
        let [q4, _, half, steps] = ways();
        let mut asked = Vec::new();
        let best = combined(&base, vec![q4, half, steps], 40.0, |settings| {
            asked.push(settings.to_vec());
            let all = settings.len() == 3;
            Ok(tried(40, 800, if all { 38.4 } else { 40.9 }))
        });
        let (settings, _) = best.unwrap().unwrap();
        let both = [Setting::Quantize(DType::Q4_K), Setting::Precision("fp16")];
        assert_eq!(settings, both);
        assert_eq!(asked.len(), 2);
    }

    #[test]
    fn where_two_together_are_not_like_enough_the_faster_stays() {
        let base = tried(100, 1000, f64::INFINITY);
        let [q4, _, half, _] = ways();
        let best = combined(&base, vec![half, q4], 40.0, |_| Ok(tried(40, 800, 38.0)));
        let (settings, _) = best.unwrap().unwrap();
        assert_eq!(settings, [Setting::Quantize(DType::Q4_K)]);
    }
}
