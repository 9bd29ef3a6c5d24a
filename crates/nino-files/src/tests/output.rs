//! Outputs appear whole, keep permissions, follow links, and leave nothing behind.

use super::names;
use crate::{AtomicFile, FileError, Pending, orphans, unfinished};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn a_file_appears_when_it_is_whole_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.bin");
    let mut file = AtomicFile::create(&path).unwrap();
    file.write_all(b"half").unwrap();
    assert!(!path.exists());
    drop(file);
    assert!(names(dir.path()).is_empty());
    AtomicFile::replace(&path, b"whole").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    let mut file = AtomicFile::create(&path).unwrap();
    file.write_all(b"other").unwrap();
    file.commit_to_disk().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"other");
    Pending::probe(&path).unwrap();
    assert_eq!(names(dir.path()), ["a.bin"]);
}

#[test]
fn names_are_not_to_be_guessed_and_fit_any_target() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.png");
    let (a, _) = Pending::file(&path).unwrap();
    let (b, _) = Pending::file(&path).unwrap();
    assert_ne!(a.temporary(), b.temporary());
    assert!(a.temporary().extension().is_some_and(|e| e == "png"));
    let name = a.temporary().file_name().unwrap().to_str().unwrap();
    let pid = std::process::id().to_string();
    assert!(!name.contains(&format!("-{pid}")), "{name}");
    AtomicFile::replace(&dir.path().join("n".repeat(255)), b"long").unwrap();
    let long = format!("a.{}", "e".repeat(253));
    AtomicFile::replace(&dir.path().join(long), b"long").unwrap();
}

#[test]
fn what_was_private_stays_private() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [0o600, 0o640, 0o444, 0o666] {
        let path = dir.path().join(format!("{mode:o}"));
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let (pending, _file) = Pending::file(&path).unwrap();
        let found = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(found(pending.temporary()), mode, "while it is written");
        pending.keep().unwrap();
        assert_eq!(found(&path), mode);
    }
}

#[test]
fn a_link_as_output_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("there.png"), "old").unwrap();
    for target in ["there.png", "new.png"] {
        let link = dir.path().join(format!("to-{target}"));
        symlink(Path::new("inner").join(target), &link).unwrap();
        AtomicFile::replace(&link, b"picture").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(inner.join(target)).unwrap(), b"picture");
    }
    let around = dir.path().join("around");
    symlink("around", &around).unwrap();
    let error = AtomicFile::replace(&around, b"x").unwrap_err().to_string();
    assert!(error.contains("too many links"), "{error}");
}

#[test]
fn another_users_link_in_a_folder_of_everyone_is_not_followed() {
    // SAFETY: calls with plain numbers and a path that ends with a zero byte.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can make files of another user");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("everyone");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o1777)).unwrap();
    let victim = dir.path().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    let link = folder.join("out.png");
    symlink(&victim, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
    let error = AtomicFile::replace(&link, b"x").unwrap_err();
    assert!(matches!(error, FileError::ForeignLink { .. }), "{error}");
    assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
}

#[test]
fn devices_and_folders_are_no_outputs() {
    let dir = tempfile::tempdir().unwrap();
    for path in [Path::new("/dev/null"), dir.path()] {
        let error = AtomicFile::create(path).unwrap_err();
        assert!(matches!(error, FileError::NotRegular { .. }), "{error}");
    }
}

#[test]
fn a_process_that_ends_at_once_takes_its_files_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = Pending::file(&dir.path().join("a.png")).unwrap();
    let folder = Pending::folder(&dir.path().join("frames")).unwrap();
    std::fs::write(folder.temporary().join("00000.png"), "x").unwrap();
    assert_eq!(names(dir.path()).len(), 2);
    unfinished::remove_all();
    assert!(names(dir.path()).is_empty());
    drop((file, folder));
}

/// Not a test by itself: the process that the next test kills.
#[test]
fn writer_to_be_killed() {
    let Some(folder) = std::env::var_os("NINO_FILES_TEST_FOLDER") else {
        return;
    };
    let folder = Path::new(&folder);
    let _file = AtomicFile::create(&folder.join("a.gguf")).unwrap();
    let _folder = Pending::folder(&folder.join("frames")).unwrap();
    std::thread::sleep(Duration::from_mins(1));
}

#[test]
fn a_killed_process_leaves_nothing_after_the_next_output() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::output::writer_to_be_killed"])
        .env("NINO_FILES_TEST_FOLDER", dir.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while names(dir.path()).len() < 2 {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    // Of a living process nothing is touched, and of this one neither.
    let (own, _) = Pending::file(&dir.path().join("own.png")).unwrap();
    std::fs::write(dir.path().join(".nino-notes"), "of a user").unwrap();
    orphans::sweep(dir.path());
    assert_eq!(names(dir.path()).len(), 4);
    writer.kill().unwrap();
    writer.wait().unwrap();
    orphans::sweep(dir.path());
    assert!(own.temporary().exists());
    drop(own);
    assert_eq!(names(dir.path()), [".nino-notes"]);
}

/// `prlimit --fsize`: a write beyond the limit is an error, and the temporary file goes.
#[test]
fn the_limit_on_a_files_size_is_an_error() {
    if let Some(folder) = std::env::var_os("NINO_FILES_TEST_LIMIT") {
        crate::ignore_file_size_signal();
        let path = Path::new(&folder).join("large.bin");
        let error = AtomicFile::replace(&path, &vec![1; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), Some(std::io::ErrorKind::FileTooLarge));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let this = std::env::current_exe().unwrap();
    let test = "tests::output::the_limit_on_a_files_size_is_an_error";
    // Units of 512 bytes.
    let script = format!("ulimit -f 64; exec \"{}\" --exact {test}", this.display());
    let mut limited = Command::new("sh");
    limited.args(["-c", &script]);
    limited.env("NINO_FILES_TEST_LIMIT", dir.path());
    let out = limited.output().unwrap();
    assert!(out.status.success(), "{out:?}");
    assert!(names(dir.path()).is_empty());
}
