//! Only regular files are read, and only as they were.

use super::{fifo, within};
use crate::{FileError, Opened, open_to_resume, read_small, read_text};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(5);

#[test]
fn pipes_devices_and_folders_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = fifo(dir.path());
    let zeros = dir.path().join("zeros.json");
    symlink("/dev/zero", &zeros).unwrap();
    let folder = dir.path().to_owned();
    for (path, says) in [(pipe, "a pipe"), (zeros, "a device"), (folder, "a folder")] {
        let opened = path.clone();
        let error = within(SOON, move || Opened::open(&opened).unwrap_err());
        assert!(error.to_string().contains(says), "{error}");
        let read = path.clone();
        let error = within(SOON, move || read_small(&read, "a list", 10).unwrap_err());
        assert!(matches!(error, FileError::NotRegular { .. }), "{error}");
        let written = path.clone();
        let error = within(SOON, move || open_to_resume(&written).unwrap_err());
        assert!(matches!(error, FileError::NotRegular { .. }), "{error}");
    }
}

#[test]
fn texts_are_read_up_to_their_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.toml");
    std::fs::write(&path, "a = 1").unwrap();
    assert_eq!(read_text(&path, "the configuration", 5).unwrap(), "a = 1");
    let error = read_text(&path, "the configuration", 4).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("more than 4 bytes (it has 5)"), "{error}");
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    let error = read_text(&path, "the configuration", 5).unwrap_err();
    assert!(matches!(error, FileError::NotText { .. }), "{error}");
    let missing = read_small(&dir.path().join("none"), "a list", 5).unwrap_err();
    assert_eq!(missing.kind(), Some(std::io::ErrorKind::NotFound));
}

/// Files of `/proc` are regular, say that they are empty, and are not.
#[cfg(target_os = "linux")]
#[test]
fn files_without_a_size_are_bounded_too() {
    let maps = Path::new("/proc/self/maps");
    assert!(read_small(maps, "a list", 1 << 24).unwrap().len() > 100);
    let error = read_small(maps, "a list", 100).unwrap_err();
    assert!(
        matches!(error, FileError::TooLong { found: None, .. }),
        "{error}"
    );
}

#[test]
fn a_file_written_in_place_is_noticed_and_a_replaced_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.bin");
    let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let make = || {
        std::fs::write(&path, [1; 64]).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(long_ago).unwrap();
        Opened::open(&path).unwrap()
    };
    let same_size = make();
    same_size.check_unchanged().unwrap();
    let mut file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all(&[2; 8]).unwrap();
    let error = same_size.check_unchanged().unwrap_err().to_string();
    assert!(error.contains("it was written to"), "{error}");

    let shrunk = make();
    file.set_len(8).unwrap();
    let error = shrunk.check_unchanged().unwrap_err().to_string();
    assert!(error.contains("had 64 bytes and has 8"), "{error}");

    let replaced = make();
    let other = dir.path().join("other");
    std::fs::write(&other, [3; 64]).unwrap();
    std::fs::rename(&other, &path).unwrap();
    replaced.check_unchanged().unwrap();
    let mut bytes = [0; 64];
    replaced.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [1; 64]);
}

#[test]
fn a_download_does_not_go_on_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let victim = dir.path().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    let link = dir.path().join("x.incomplete");
    symlink(&victim, &link).unwrap();
    let error = open_to_resume(&link).unwrap_err().to_string();
    assert!(error.contains("a link"), "{error}");
    let own = dir.path().join("y.incomplete");
    open_to_resume(&own).unwrap().write_all(b"12").unwrap();
    assert_eq!(open_to_resume(&own).unwrap().metadata().unwrap().len(), 2);
    assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
}

#[test]
fn a_cache_that_others_can_write_is_not_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    std::fs::write(&path, "kernels").unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    mode(&path, 0o644);
    assert_eq!(crate::read_own(&path, 100).unwrap(), b"kernels");
    assert!(
        crate::read_own(&path, 3).is_none(),
        "larger than was asked for"
    );
    mode(&path, 0o666);
    assert!(
        crate::read_own(&path, 100).is_none(),
        "others write the file"
    );
    mode(&path, 0o644);
    mode(folder.path(), 0o777);
    assert!(
        crate::read_own(&path, 100).is_none(),
        "others replace the file"
    );
    mode(folder.path(), 0o1777);
    assert!(
        crate::read_own(&path, 100).is_some(),
        "a sticky folder like /tmp"
    );
    assert!(crate::read_own(&folder.path().join("none"), 100).is_none());
}
