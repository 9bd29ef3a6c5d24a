//! Runs stopped in the midst of sampling: what is kept of them, and that they go on from it.

use super::image::{emoji, inpaint, run, upper_half};
use super::{cpu, nmse, store};
use nino_engine::{
    Checkpoint, Control, EngineError, Event, GenerateRequest, Hires, Latent, SamplerInfo, Stage,
    Start, Stopped, Upscale, Window, generate,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Small and quick.
fn request(model: &Checkpoint) -> GenerateRequest {
    GenerateRequest {
        steps: 4,
        width: 64,
        height: 64,
        ..GenerateRequest::new(model, "a cat")
    }
}

/// Stops after `steps` steps of a pass; what was kept.
fn stop_after(
    model: &Checkpoint,
    request: &GenerateRequest,
    pass: usize,
    steps: usize,
) -> Option<(Latent, Option<Stopped>)> {
    let stop = AtomicBool::new(false);
    let mut now = (0, Stage::Text);
    let mut on_event = |event: Event| match event {
        Event::Pass { index, .. } => now.0 = index,
        Event::Stage(stage) => now.1 = stage,
        Event::Progress { done, .. } if now == (pass, Stage::Sample) => {
            assert!(done <= steps, "a stop is heard within a step");
            stop.store(done == steps, Ordering::Relaxed);
        }
        _ => {}
    };
    let mut control = Control {
        cancel: &stop,
        on_event: &mut on_event,
    };
    let mut kept = None;
    let result = generate(&store(cpu()), model, request, &mut control, &mut |k| {
        kept = Some((k.latent.clone(), k.stopped.cloned()));
        Ok(())
    });
    assert!(matches!(result, Err(EngineError::Cancelled)), "{result:?}");
    kept
}

/// The rest of a stopped run, as the flags that are told make it.
fn rest(request: &GenerateRequest, stopped: &Stopped) -> GenerateRequest {
    let go_on = stopped.go_on.as_ref().unwrap();
    GenerateRequest {
        steps: go_on.steps,
        denoise: 1.0,
        window: Some(Window {
            start_at_step: go_on.start_at_step,
            end_at_step: go_on.steps,
            return_with_leftover_noise: false,
        }),
        add_noise: false,
        width: go_on.noisy.width * 8,
        height: go_on.noisy.height * 8,
        start: Start::Latent(go_on.noisy.clone()),
        ..request.clone()
    }
}

#[test]
fn a_stopped_run_goes_on_to_the_same_picture() {
    let model = emoji();
    let base = GenerateRequest {
        steps: 6,
        ..request(&model)
    };
    let (_, start, _) = run(&model, &base);
    let cases = [
        base.clone(),
        GenerateRequest {
            sampler: SamplerInfo::find("dpm_2").unwrap(),
            ..base.clone()
        },
        GenerateRequest {
            window: Some(Window {
                start_at_step: 1,
                end_at_step: 6,
                return_with_leftover_noise: false,
            }),
            ..base.clone()
        },
        GenerateRequest {
            start: Start::Latent(start.clone()),
            denoise: 0.55,
            steps: 4,
            ..base.clone()
        },
    ];
    for request in &cases {
        let (_, whole, _) = run(&model, request);
        let (shown, stopped) = stop_after(&model, request, 0, 3).unwrap();
        let stopped = stopped.unwrap();
        assert_eq!(stopped.done, 3);
        let go_on = stopped.go_on.clone().unwrap();
        assert!(go_on.same);
        let (_, again, _) = run(&model, &rest(request, &stopped));
        let error = nmse(&again.values, &whole.values);
        assert!(
            error < 1e-9,
            "{error:.1e} from step {}",
            go_on.start_at_step
        );
        // What is shown is nearer to the picture than the noise is.
        let [shown, noisy] = [&shown, &go_on.noisy].map(|l| nmse(&l.values, &whole.values));
        assert!(shown < noisy, "{shown} {noisy}");
    }
}

#[test]
fn a_second_pass_that_is_stopped_goes_on_or_leaves_the_first() {
    let model = emoji();
    let base = GenerateRequest {
        steps: 3,
        ..request(&model)
    };
    let request = GenerateRequest {
        hires: Some(Hires {
            width: 128,
            height: 128,
            method: Upscale::Bislerp,
            steps: 3,
            denoise: 0.5,
        }),
        ..base.clone()
    };
    let (_, whole, _) = run(&model, &request);
    let (_, stopped) = stop_after(&model, &request, 1, 2).unwrap();
    let alone = GenerateRequest {
        hires: None,
        ..rest(&request, &stopped.unwrap())
    };
    let (_, again, _) = run(&model, &alone);
    assert!(nmse(&again.values, &whole.values) < 1e-9);
    let (first, stopped) = stop_after(&model, &request, 1, 0).unwrap();
    assert!(stopped.is_none());
    assert_eq!(first, run(&model, &base).1);
}

#[test]
fn what_cannot_go_on_is_only_shown() {
    let model = emoji();
    let base = request(&model);
    assert!(stop_after(&model, &base, 0, 0).is_none(), "no step");
    let ancestral = GenerateRequest {
        sampler: SamplerInfo::find("euler_ancestral").unwrap(),
        ..base.clone()
    };
    let (_, stopped) = stop_after(&model, &ancestral, 0, 2).unwrap();
    assert!(!stopped.unwrap().go_on.unwrap().same);
    let adaptive = GenerateRequest {
        sampler: SamplerInfo::find("dpm_adaptive").unwrap(),
        ..base.clone()
    };
    let masked = GenerateRequest {
        start: Start::Latent(run(&model, &base).1),
        inpaint: Some(inpaint(upper_half(base.width, base.height))),
        ..base.clone()
    };
    for (request, steps) in [(adaptive, 2), (masked, 2), (base, 1)] {
        let (_, stopped) = stop_after(&model, &request, 0, steps).unwrap();
        assert_eq!(stopped.unwrap().go_on, None);
    }
}

#[test]
fn a_file_holds_what_is_shown_and_what_goes_on() {
    let model = emoji();
    let request = request(&model);
    let (shown, stopped) = stop_after(&model, &request, 0, 2).unwrap();
    let noisy = stopped.unwrap().go_on.unwrap().noisy;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.latent");
    shown
        .save_beside(Some(&noisy), &path, &BTreeMap::new())
        .unwrap();
    assert_eq!(Latent::open(&path).unwrap(), shown);
    assert_eq!(Latent::open_noisy(&path).unwrap(), noisy);
    shown.save(&path, &BTreeMap::new()).unwrap();
    assert_eq!(Latent::open_noisy(&path).unwrap(), shown);
}
