//! Which settings get which tip.

use super::*;
use nino_engine::Checkpoint;

#[test]
fn tips_follow_from_settings_alone() {
    let model = Checkpoint::spec("sdxl").unwrap();
    let facts = |few_steps, bits| Facts {
        name: "m",
        family: Family::Sdxl,
        size: 1024,
        few_steps,
        takes_guidance: false,
        bits,
        picture: None,
    };
    let plain = facts(false, 16.0);
    let good = GenerateRequest::new(&model, "x");
    assert_eq!(of(&good, &plain), Vec::<String>::new());
    let with = |change: &dyn Fn(&mut GenerateRequest)| {
        let mut request = good.clone();
        change(&mut request);
        request
    };
    for (request, model, part) in [
        (
            with(&|r| (r.width, r.height) = (512, 512)),
            &plain,
            "1024 pixels",
        ),
        (
            with(&|r| (r.width, r.height) = (2048, 2048)),
            &plain,
            "--hires",
        ),
        (with(&|r| r.steps = 5), &plain, "low --cfg"),
        (
            with(&|r| (r.steps, r.cfg) = (5, 2.0)),
            &facts(false, 4.5),
            "4.5 bits",
        ),
        (with(&|r| r.steps = 4), &facts(true, 16.0), "--cfg 1"),
        (with(&|r| r.cfg = 1.0), &facts(true, 16.0), "--steps 4"),
        (
            with(&|r| (r.cfg, r.negative) = (1.0, "text".to_owned())),
            &plain,
            "ignores --negative",
        ),
    ] {
        let tips = of(&request, model);
        assert_eq!(tips.len(), 1, "{part}: {tips:?}");
        assert!(tips[0].contains(part), "{part}: {tips:?}");
        assert_eq!(tips, of(&request, model));
    }
}
