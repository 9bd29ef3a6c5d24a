//! Wan's models of full width with few blocks against ComfyUI. The goldens are
//! `goldens/generate/wide_wan.py`'s.

use super::{
    Case, SIZE, Told, check_5b, check_camera, check_experts, check_first, check_first_and_last,
    check_text, check_vace,
};
use crate::generate::tests::comfy::planes;
use crate::tests::{lists, made};
use crate::{CameraMove, CameraPath, DiffusionModel, Lens};

/// Widths of a token and of the MLP between.
const SMALL: (usize, usize) = (1536, 8960);
const MEDIUM: (usize, usize) = (3072, 14336);
const LARGE: (usize, usize) = (5120, 13824);

fn case() -> Case {
    let list = lists::wide_wan(&made::list("tiny_wan"), SMALL);
    Case::of("wide_wan", &list)
}

fn other(case: &Case, small: &str, widths: (usize, usize)) -> DiffusionModel {
    case.other_of(small, &lists::wide_wan(&made::list(small), widths))
}

#[test]
#[ignore = "half a gigabyte of weights"]
fn wide_wan_makes_what_comfyui_makes_of_text() {
    let case = case();
    check_text(&case, 97);
    let told = Told {
        sampler: "uni_pc",
        cfg: 6.0,
        ..case.told()
    };
    case.close("t2v", &planes(&case.sampled(&case.model.diffusion, &told)));
    check_experts(&case, &other(&case, "tiny_wan_low", SMALL));
}

#[test]
#[ignore = "a gigabyte of weights"]
fn wide_wan_follows_as_in_comfyui() {
    let case = case();
    check_vace(
        &case,
        &other(&case, "tiny_wan_vace", SMALL),
        "WanVaceToVideo",
    );
    let list = lists::with_camera("tiny_wan22_i2v");
    let model = case.other_of("camera", &lists::wide_wan(&list, SMALL));
    let path = CameraPath {
        motion: CameraMove::find("Zoom In").unwrap(),
        size: SIZE,
        speed: 1.0,
        lens: Lens::default(),
    };
    check_camera(&case, &model, path, "WanCameraImageToVideo");
    check_5b(&case, &other(&case, "tiny_wan_5b", MEDIUM));
}

#[test]
#[ignore = "two gigabytes of weights"]
fn wide_wan_makes_what_comfyui_makes_of_pictures() {
    let case = case();
    let seen = other(&case, "tiny_wan_i2v", LARGE);
    check_first(&case, &seen, "wide_wan_i2v");
    let unseen = other(&case, "tiny_wan22_i2v", LARGE);
    check_first(&case, &unseen, "wide_wan22_i2v");
    let places = "model.diffusion_model.img_emb.emb_pos 1x12x1280\n";
    let list = lists::wide_wan(&made::list("tiny_wan_i2v"), LARGE) + places;
    let both = case.other_of("flf", &list);
    check_first_and_last(&case, &both, "wide_wan_flf");
}
