//! Files that are needed next, read while something else computes: the system then has them in its
//! cache of files.

use crate::device::HostMemory;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Bytes that are read at a time.
const PIECE: usize = 4 << 20;

/// Reads files until it is dropped.
pub(crate) struct ReadAhead {
    stop: Arc<AtomicBool>,
}

impl ReadAhead {
    /// Begins to read `next`, unless there is no room in memory for it beside `present`, the files
    /// in use, which may be read from again and again.
    pub(crate) fn begin(present: &[&Path], next: &[&Path]) -> Option<ReadAhead> {
        let size = |paths: &[&Path]| -> u64 {
            let sizes = paths.iter().filter_map(|path| path.metadata().ok());
            sizes.map(|about| about.len()).sum()
        };
        let memory = HostMemory::read();
        let free = memory.available?;
        let free = memory.limit.map_or(free, |limit| free.min(limit.bytes));
        if next.is_empty() || size(present).saturating_add(size(next)) > free {
            return None;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, paths) = (Arc::clone(&stop), next.iter());
        let paths: Vec<_> = paths.map(|path| path.to_path_buf()).collect();
        let reading = thread::Builder::new().name("read ahead".to_owned());
        let reading = reading.spawn(move || {
            // What cannot be read is told when it is loaded.
            paths.iter().try_for_each(|path| read(path, &asked))
        });
        reading.ok().map(|_| ReadAhead { stop })
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn read(path: &Path, stop: &AtomicBool) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let mut piece = vec![0; PIECE];
    while !stop.load(Ordering::Relaxed) && file.read(&mut piece)? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn files_are_read_to_their_end_or_until_a_stop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        std::fs::write(&path, vec![1; 2 * PIECE + 5]).unwrap();
        let stop = AtomicBool::new(false);
        read(&path, &stop).unwrap();
        assert!(read(&folder.path().join("none"), &stop).is_err());
        // Where the system tells nothing of its memory, nothing is read ahead.
        if HostMemory::read().available.is_none() {
            return;
        }
        let ahead = ReadAhead::begin(&[], &[&path]).unwrap();
        let stop = Arc::clone(&ahead.stop);
        drop(ahead);
        assert!(stop.load(Ordering::Relaxed));
        let started = Instant::now();
        while Arc::strong_count(&stop) > 1 {
            assert!(started.elapsed() < Duration::from_secs(30), "it reads on");
            thread::sleep(Duration::from_millis(1));
        }
        assert!(ReadAhead::begin(&[], &[]).is_none());
    }
}
