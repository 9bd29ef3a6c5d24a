//! A hash is remembered, and forgotten when its file changes.

use super::*;

#[test]
fn a_file_is_hashed_once_and_again_when_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let (model, list) = (dir.path().join("m"), dir.path().join("list.json"));
    fs::write(&model, b"abc").unwrap();
    assert_eq!(hash(&model, Some(&list)).unwrap(), "ba7816bf8f");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, text.replace("ba7816bf8f", "0123456789")).unwrap();
    assert_eq!(hash(&model, Some(&list)).unwrap(), "0123456789");
    fs::write(&model, b"abcd").unwrap();
    assert_eq!(hash(&model, Some(&list)).unwrap(), "88d4266fd4");
    assert_eq!(ModelHash::start(dir.path(), None).wait(), None);
}
