//! Verdicts of programs that end well, badly and not at all like a driver.

use super::*;
use crate::testing::{gpus, some_adapter};

#[cfg(unix)]
fn trial(script: &str, folder: &Path) -> Trial {
    Trial {
        program: "/bin/sh".into(),
        args: ["-c", script].map(OsString::from).to_vec(),
        folder: Some(folder.to_owned()),
    }
}

#[cfg(unix)]
#[test]
fn a_verdict_is_kept_until_the_driver_changes() {
    let folder = tempfile::tempdir().unwrap();
    let mut info = some_adapter();
    let dies = trial("echo no such instruction >&2; kill -SEGV $$", folder.path());
    let passes = trial("exit 0", folder.path());
    let why = dies.verdict(&info).unwrap();
    assert!(why.contains("no such instruction"), "{why}");
    assert_eq!(passes.verdict(&info), Some(why), "it is not tried again");
    info.driver_info = "newer".to_owned();
    assert_eq!(passes.verdict(&info), None);
    assert_eq!(dies.verdict(&info), None, "what passed stays passed");
    info.device_id += 1;
    assert!(dies.verdict(&info).is_some());
}

#[cfg(unix)]
#[test]
fn a_damaged_verdict_is_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let info = some_adapter();
    let passes = trial("exit 0", folder.path());
    let dies = trial("exit 139", folder.path());
    assert!(dies.verdict(&info).is_some());
    let mut files = std::fs::read_dir(folder.path()).unwrap();
    std::fs::write(files.next().unwrap().unwrap().path(), "").unwrap();
    assert_eq!(passes.verdict(&info), None);
}

#[cfg(unix)]
#[test]
fn an_error_is_no_lasting_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let info = some_adapter();
    let fails = trial("echo out of memory >&2; exit 1", folder.path());
    assert!(fails.verdict(&info).unwrap().contains("out of memory"));
    assert_eq!(trial("exit 0", folder.path()).verdict(&info), None);
}

#[test]
fn only_matrices_of_amds_cards_are_tried() {
    let amd = some_adapter();
    assert!(Trial::concerns(&amd));
    let nvidia = AdapterInfo {
        vendor_id: 0x10de,
        ..amd.clone()
    };
    let old = AdapterInfo {
        tiers: vec![Tier::F32, Tier::F16, Tier::Subgroup],
        ..amd
    };
    assert!(!Trial::concerns(&nvidia) && !Trial::concerns(&old));
}

/// On any tier: the product is the same.
#[test]
fn gpu_the_product_of_the_trial_is_right() {
    for gpu in gpus(None) {
        gpu.multiply_and_look().unwrap();
    }
}
