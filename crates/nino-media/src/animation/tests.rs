//! A disk that is full is an error, however little was left to write.

use super::{FrameSink, Gif, Pending};
use crate::Picture;
use std::fs::File;

#[test]
fn a_full_disk_is_told_at_the_end() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        println!("skipped: no /dev/full on this system");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.gif");
    let (pending, _file) = Pending::file(&path).unwrap();
    let mut gif = Box::new(Gif::to(full, pending, 16.0).unwrap());
    gif.frame(&Picture::new(4, 4)).unwrap();
    let error = gif.finish().unwrap_err().to_string();
    assert!(error.contains("a.gif: cannot write"), "{error}");
    assert!(!path.exists());
}
