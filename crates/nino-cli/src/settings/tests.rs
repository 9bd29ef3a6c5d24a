use super::{KEYS, ProfileName, Settings, config_path};
use crate::bytes::Bytes;
use std::fs;

fn number(settings: &Settings, key: &str, flag: Option<usize>) -> Option<usize> {
    settings.pick(key, flag, str::parse).unwrap()
}

#[test]
fn flags_beat_variables_beat_the_file_beat_the_profile() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    fs::write(
        &path,
        "profile = \"rx580-4gb\"\noverlap = 64\ntile_size = 640\n",
    )
    .unwrap();
    let var = |name: &str| (name == "NINO_TILE_SIZE").then(|| "384".to_owned());
    let settings = Settings::read(var, Some(&path), false).unwrap();
    let all = settings.with_profile(None).unwrap();
    assert_eq!(number(&all, "tile_size", Some(256)), Some(256));
    assert_eq!(number(&all, "tile_size", None), Some(384));
    assert_eq!(number(&all, "overlap", None), Some(64));
    let budget = all.pick("budget", None, str::parse::<Bytes>).unwrap();
    assert_eq!(budget, Some(Bytes(3584 << 20)), "the profile's");
    assert!(all.batch_tip(1).is_none());
    assert!(all.batch_tip(2).unwrap().contains("rx580-4gb"));
    let other = settings
        .with_profile(Some("safe".parse().unwrap()))
        .unwrap();
    let budget = other.pick("budget", None, str::parse::<Bytes>).unwrap();
    assert_eq!(budget, Some(Bytes(6656 << 20)), "the flag's profile");
}

#[test]
fn every_profile_says_what_its_settings_understand() {
    for name in [
        "rx580-4gb",
        "rx580-8gb",
        "gfx1151",
        "safe",
        "RX580-4GB",
        "4gb",
        "6gb",
        "8gb",
        "12gb",
        "16gb",
    ] {
        let profile: ProfileName = name.parse().unwrap();
        let all = Settings::default().with_profile(Some(profile.clone()));
        let all = all.unwrap();
        all.pick("budget", None, str::parse::<Bytes>).unwrap();
        number(&all, "tile_size", None);
        number(&all, "overlap", None);
        for (key, _) in profile.settings().unwrap() {
            assert!(KEYS.iter().any(|(k, _)| *k == key), "{key}");
        }
    }
    let error = "rx580".parse::<ProfileName>().unwrap_err().to_string();
    assert!(
        error.contains("rx580-4gb") && error.contains("safe"),
        "{error}"
    );
}

#[test]
fn mistakes_in_the_file_are_told_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    let cases = [
        ("bugdet = \"4GiB\"", "did you mean budget"),
        ("budget", "is not TOML"),
        ("tile = [1]", "not array"),
    ];
    for (text, wanted) in cases {
        fs::write(&path, text).unwrap();
        let error = Settings::read(|_| None, Some(&path), true).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains(wanted) && error.contains("config.toml"),
            "{error}"
        );
    }
    fs::write(&path, "models = [\"a\", \"b\"]").unwrap();
    let settings = Settings::read(|_| None, Some(&path), true).unwrap();
    let both = std::env::join_paths(["a", "b"]).unwrap();
    assert_eq!(settings.text("models"), both.to_str());
    for (value, wanted) in [("\"lots\"", "lots"), ("3.5", "write 3.5GiB or 3.5MiB")] {
        fs::write(&path, format!("budget = {value}")).unwrap();
        let settings = Settings::read(|_| None, Some(&path), true).unwrap();
        let error = settings.pick("budget", None, str::parse::<Bytes>);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("config.toml") && error.contains(wanted),
            "{error}"
        );
    }
}

#[test]
fn a_file_that_was_named_has_to_be_there() {
    let missing = tempfile::tempdir().unwrap().path().join("none.toml");
    assert!(Settings::read(|_| None, Some(&missing), true).is_err());
    let none = Settings::read(|_| None, Some(&missing), false).unwrap();
    assert_eq!(none.file, None);
}

#[test]
fn where_the_file_is() {
    let home = |name: &str| (name == "HOME").then(|| "home".to_owned());
    let (path, named) = config_path(home);
    assert!(path.unwrap().ends_with(".config/nino/config.toml") && !named);
    let (path, named) = config_path(|name| (name == "NINO_CONFIG").then(|| "here".to_owned()));
    assert!(path.unwrap().ends_with("here") && named);
}

/// A file at its usual place is believed only where no other user can have written it; one that was
/// named is its user's own choice.
#[cfg(unix)]
#[test]
fn a_file_that_others_can_write_is_not_read() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    fs::write(&path, "steps = 4").unwrap();
    let allow = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let read = |named| Settings::read(|_| None, Some(&path), named);
    assert!(read(false).is_ok());
    for (place, open, closed) in [(&*path, 0o646, 0o644), (dir.path(), 0o757, 0o755)] {
        allow(place, open);
        let error = read(false).unwrap_err().to_string();
        assert!(
            error.contains("other users can write") && error.contains("NINO_CONFIG"),
            "{error}"
        );
        assert!(read(true).is_ok());
        allow(place, closed);
    }
    assert!(read(false).is_ok());
}
