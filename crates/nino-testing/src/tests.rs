use super::find_in;
use std::fs;

#[test]
fn the_whole_path_comes_before_the_name_alone() {
    let folder = std::env::temp_dir().join(format!("nino-testing-{}", std::process::id()));
    let file = |path: &str| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        path
    };
    assert_eq!(find_in(&folder, "taesd/a.safetensors"), None);
    let below = file("vae_approx/a.safetensors");
    assert_eq!(find_in(&folder, "taesd/a.safetensors"), Some(below));
    let alone = file("a.safetensors");
    assert_eq!(find_in(&folder, "taesd/a.safetensors"), Some(alone));
    let whole = file("taesd/a.safetensors");
    assert_eq!(find_in(&folder, "taesd/a.safetensors"), Some(whole));
    assert_eq!(find_in(&folder, "taesd/b.safetensors"), None);
    fs::remove_dir_all(&folder).unwrap();
}
