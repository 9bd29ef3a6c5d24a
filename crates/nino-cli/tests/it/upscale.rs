//! `nino upscale`, `nino plan upscale`, and what `list` and `inspect` say of upscalers.

use crate::shell::{Folder, nino, nino_in, nino_with};
use std::path::{Path, PathBuf};

fn golden(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../goldens/models");
    let path = folder.join(format!("{name}.safetensors"));
    path.to_str().unwrap().to_owned()
}

/// A picture that tells how it was made.
fn picture(folder: &Folder) {
    let made = nino_in(
        folder.path(),
        &[
            "generate", "a fox", "--size", "64x64", "--steps", "1", "--seed", "1", "-o", "fox.png",
            "--device", "cpu",
        ],
    );
    assert_eq!(made.code, 0, "{}", made.err);
}

#[test]
fn a_picture_is_made_larger_and_keeps_its_settings() {
    let folder = Folder::new();
    picture(&folder);
    let model = golden("esrgan_x4");
    let said = nino_in(
        folder.path(),
        &[
            "upscale", "fox.png", "--model", &model, "--json", "--device", "cpu",
        ],
    );
    assert_eq!(said.code, 0, "{}", said.err);
    let report = said.json();
    assert_eq!(report["file"], "fox-4x.png");
    assert_eq!(
        (&report["width"], &report["height"]),
        (&256.into(), &256.into())
    );
    assert_eq!(report["bands"], serde_json::json!([1, 1]));
    let about = nino_in(folder.path(), &["inspect", "fox-4x.png", "--json"]).json();
    assert_eq!(about["width"], 256);
    assert_eq!(about["flags"]["seed"][0], "1", "{about}");
    // Another scale than the model's, to a file that is named, without what was said.
    let said = nino_in(
        folder.path(),
        &[
            "upscale",
            "fox.png",
            "--model",
            &model,
            "--scale",
            "1.5",
            "-o",
            "out/half.jpg",
            "--no-metadata",
            "--quiet",
            "--device",
            "cpu",
        ],
    );
    assert_eq!(
        (said.code, said.out.trim()),
        (0, "out/half.jpg"),
        "{}",
        said.err
    );
    let about = nino_in(folder.path(), &["inspect", "out/half.jpg", "--json"]).json();
    assert_eq!(
        (&about["width"], &about["made_by"]),
        (&96.into(), &().into())
    );
}

#[test]
fn a_plan_tells_what_is_needed_and_too_little_is_refused() {
    let folder = Folder::new();
    picture(&folder);
    let model = golden("compact_x4");
    let refused = nino_in(
        folder.path(),
        &[
            "upscale",
            "fox.png",
            "--model",
            &model,
            "-o",
            "never.png",
            "--budget",
            "1MiB",
            "--device",
            "cpu",
        ],
    );
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(!Path::new(&folder.at("never.png")).exists());
    let planned = nino_in(
        folder.path(),
        &[
            "plan", "upscale", "fox.png", "--model", &model, "--json", "--device", "cpu",
        ],
    );
    assert_eq!(planned.code, 0, "{}", planned.err);
    let plan = planned.json();
    assert_eq!(plan["stages"][0]["stage"], "upscale", "{plan}");
    assert_eq!(plan["width"], 256);
    assert_eq!(plan["fits"], true, "{plan}");
}

#[test]
fn upscalers_are_found_and_told() {
    let folder = Folder::new();
    picture(&folder);
    let place = folder.path().join("models/upscale_models");
    std::fs::create_dir_all(&place).unwrap();
    let models = folder.at("models");
    let env = [("NINO_MODELS", models.as_str())];
    let fox = folder.at("fox.png");
    let said = nino_with(&["upscale", &fox, "--device", "cpu"], &env);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("no upscaler"), "{}", said.err);
    std::fs::copy(golden("esrgan_trunk"), place.join("old.safetensors")).unwrap();
    let out = folder.at("larger.png");
    let said = nino_with(&["upscale", &fox, "-o", &out, "--device", "cpu"], &env);
    assert_eq!(said.code, 0, "{}", said.err);
    let listed = nino_with(&["list", "upscalers", "--json", "--device", "cpu"], &env).json();
    let row = &listed["files"][0];
    assert_eq!(row["kind"], "upscaler", "{listed}");
    assert_eq!(
        (&row["model"], &row["runs"]),
        (&"ESRGAN".into(), &true.into())
    );
    let said = nino_with(
        &["upscale", &fox, "--model", "absent", "--device", "cpu"],
        &env,
    );
    assert_eq!(said.code, 1);
    assert!(said.err.contains("absent"), "{}", said.err);
    let about = nino(&["inspect", &golden("compact_x4"), "--json"]).json();
    assert_eq!(about["parts"][0]["role"], "upscaler", "{about}");
    let no = nino(&[
        "upscale",
        &fox,
        "--model",
        &golden("taesd"),
        "--device",
        "cpu",
    ]);
    assert_eq!(no.code, 1);
    assert!(no.err.contains("not a supported upscaler"), "{}", no.err);
}
