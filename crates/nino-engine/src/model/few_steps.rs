//! Models distilled to few steps, known by what their files are called: they need other samplers,
//! hardly any guidance, and as many steps as they were made for.

use super::Defaults;

pub(super) const TURBO: Defaults = Defaults {
    steps: 4,
    cfg: 1.0,
    sampler: "euler_ancestral",
    scheduler: "sgm_uniform",
    size: 512,
    guidance: None,
};

const LIGHTNING: Defaults = Defaults {
    sampler: "euler",
    ..TURBO
};

const LCM: Defaults = Defaults {
    steps: 6,
    cfg: 1.5,
    sampler: "lcm",
    ..TURBO
};

/// Consistency models that take their guidance as an input, which then costs nothing.
pub(super) const GUIDED: Defaults = Defaults {
    steps: 4,
    cfg: 8.0,
    ..LCM
};

/// The settings of a distilled model; `None` for all others.
pub(super) fn defaults(name: &str) -> Option<Defaults> {
    let name = name.to_ascii_lowercase();
    // `turbo` alone is many a merge that wants guidance and samplers of its own.
    let is = |words: &[&str]| words.iter().any(|w| name.contains(w));
    let settings = if is(&[
        "sd_turbo",
        "sd-turbo",
        "sdxl_turbo",
        "sdxl-turbo",
        "sd_xl_turbo",
    ]) {
        TURBO
    } else if is(&["lightning", "hyper-sd", "hyper_sd"]) {
        LIGHTNING
    } else if is(&["dmd2"]) {
        Defaults {
            steps: 4,
            cfg: 1.0,
            ..LCM
        }
    } else if is(&["lcm"]) {
        LCM
    } else {
        return None;
    };
    let steps = named_steps(&name).unwrap_or(settings.steps);
    Some(Defaults { steps, ..settings })
}

/// `4` of `..._4step...` or `...-8steps...`.
fn named_steps(name: &str) -> Option<usize> {
    let before = &name[..name.find("step")?];
    let before = before.trim_end_matches(['_', '-']);
    let digits = before
        .chars()
        .rev()
        .take_while(char::is_ascii_digit)
        .count();
    let steps = before[before.len() - digits..].parse().ok()?;
    (1..=50).contains(&steps).then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::defaults;
    use nino_sample::{Sampler, Scheduler};

    #[test]
    fn distilled_models_are_known_by_name() {
        let found = |name: &str| {
            let d = defaults(name)?;
            assert!(Sampler::find(d.sampler).is_ok() && Scheduler::find(d.scheduler).is_ok());
            Some((d.sampler, d.steps, d.cfg))
        };
        let turbo = Some(("euler_ancestral", 4, 1.0));
        assert_eq!(found("sd_xl_turbo_1.0_fp16.safetensors"), turbo);
        assert_eq!(found("sd-turbo"), turbo);
        assert_eq!(
            found("sdxl_lightning_8step.safetensors"),
            Some(("euler", 8, 1.0))
        );
        assert_eq!(
            found("Hyper-SD15-2steps.safetensors"),
            Some(("euler", 2, 1.0))
        );
        assert_eq!(
            found("LCM_Dreamshaper_v7.safetensors"),
            Some(("lcm", 6, 1.5))
        );
        assert_eq!(
            found("dmd2_sdxl_4step_unet.safetensors"),
            Some(("lcm", 4, 1.0))
        );
        assert_eq!(found("v1-5-pruned-emaonly.safetensors"), None);
        assert_eq!(found("dreamshaperXL_turboDpmppSDE.safetensors"), None);
    }
}
