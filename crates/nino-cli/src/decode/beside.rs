//! Files written while the device computes what comes next.

use super::sink::Sink;
use nino_engine::{EngineError, OnPicture, Picture};
use nino_graph::ExecError;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

/// Bytes of pictures that may wait for their file: a chunk of a clip's frames are there all at
/// once.
const WAITING: usize = 128 << 20;

/// Calls `decode` with a place for pictures to go, from where another thread takes them into
/// `sink`.
pub(super) fn write_beside<T>(
    mut sink: Sink,
    decode: impl FnOnce(&mut OnPicture<'_>) -> Result<T, EngineError>,
) -> Result<(T, Sink), EngineError> {
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting = (WAITING / sink.picture_bytes().max(1)).clamp(2, 64);
        let (send, receive) = sync_channel::<(usize, usize, Picture)>(waiting);
        let failed = &failed;
        let write = move || {
            for (b, i, picture) in receive {
                // Pictures are whole; frames are of a clip that will not be.
                if failed.load(Ordering::Relaxed) && !sink.is_still() {
                    break;
                }
                sink.take(b, i, &picture)?;
            }
            Ok::<_, EngineError>(sink)
        };
        let thread = thread::Builder::new().name("writes files".to_owned());
        let writer = thread
            .spawn_scoped(scope, write)
            .map_err(|e| ExecError::Device {
                message: format!("cannot start a thread that writes files: {e}"),
            })?;
        let decoded = decode(&mut |b, i, picture| {
            // The writer is gone when it has failed, and says why below.
            let sent = send.send((b, i, picture));
            sent.map_err(|_| EngineError::Cancelled)
        });
        failed.store(decoded.is_err(), Ordering::Relaxed);
        drop(send);
        let sink = writer.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok((decoded?, sink))
    })
}

#[cfg(test)]
mod tests {
    use super::write_beside;
    use crate::decode::sink::Sink;
    use nino_engine::{EngineError, Latent, Picture, VaeFile};
    use std::path::Path;

    fn latent(batch: usize) -> Latent {
        let values = vec![0.0; batch * 4];
        Latent::from_planes(&[batch, 4, 1, 1], &values, Path::new("made up")).unwrap()
    }

    #[test]
    fn a_file_that_cannot_be_written_ends_the_decode() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("a.png");
        let vae = VaeFile::spec("taesd").unwrap();
        let sink = Sink::new(&output, &latent(1000), &vae, 16.0).unwrap();
        dir.close().unwrap();
        let mut given = 0;
        let written = write_beside(sink, |on_picture| {
            for b in 0..1000 {
                given += 1;
                on_picture(b, 0, Picture::new(8, 8))?;
            }
            Ok(())
        });
        let error = written.err().unwrap();
        assert!(matches!(error, EngineError::Media(_)), "{error}");
        assert!(given < 1000, "it went on to the end");
    }

    #[test]
    fn what_was_decoded_before_a_failure_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("a.png");
        let vae = VaeFile::spec("taesd").unwrap();
        let sink = Sink::new(&output, &latent(9), &vae, 16.0).unwrap();
        let written = write_beside(sink, |on_picture| {
            (0..7).try_for_each(|b| on_picture(b, 0, Picture::new(8, 8)))?;
            Err::<(), _>(EngineError::NoFrames)
        });
        assert!(matches!(written, Err(EngineError::NoFrames)));
        assert_eq!(dir.path().read_dir().unwrap().count(), 7);
    }

    #[test]
    fn of_a_clip_that_fails_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("a.y4m");
        let vae = VaeFile::spec("wan21-vae").unwrap();
        let clip = Latent::from_planes(&[1, 16, 5, 1, 1], &[0.0; 80], Path::new("made up"));
        let sink = Sink::new(&output, &clip.unwrap(), &vae, 16.0).unwrap();
        let written = write_beside(sink, |on_picture| {
            (0..9).try_for_each(|i| on_picture(0, i, Picture::new(8, 8)))?;
            Err::<(), _>(EngineError::NoFrames)
        });
        assert!(matches!(written, Err(EngineError::NoFrames)));
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }
}
