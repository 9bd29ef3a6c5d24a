//! What makes two networks the same: the bytes of their files, the LoRAs on them, how they are
//! held.
//!
//! The store keeps weights by this. Two checkpoints of one family, or one checkpoint with and
//! without a LoRA, have the same tensor names and must never be taken for each other.

use crate::EngineError;
use nino_dtype::DType;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// A file as it was when its header was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    path: PathBuf,
    len: u64,
    modified: Option<SystemTime>,
    /// Device and number of the file, where the system tells.
    inode: Option<(u64, u64)>,
}

impl FileId {
    /// The file as it is now; a file that cannot be asked has no length and no time.
    pub(crate) fn of(path: &Path) -> FileId {
        let meta = std::fs::metadata(path).ok();
        FileId {
            path: path.to_owned(),
            len: meta.as_ref().map_or(0, std::fs::Metadata::len),
            modified: meta.as_ref().and_then(|m| m.modified().ok()),
            inode: meta.as_ref().and_then(inode),
        }
    }
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps)] // other systems have none
fn inode(meta: &std::fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> Option<(u64, u64)> {
    None
}

/// Where a network's bytes come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    Files(Arc<[FileId]>),
    /// Tensors in memory, or a description with made-up weights: each is one of its own.
    Unique(u64),
}

impl Origin {
    pub(crate) fn files(paths: &[PathBuf]) -> Origin {
        Origin::Files(paths.iter().map(|p| FileId::of(p)).collect())
    }

    /// An origin that equals no other.
    pub(crate) fn unique() -> Origin {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Origin::Unique(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// An error when a file is not what it was when the model was opened: its header may describe
    /// other bytes now.
    pub(crate) fn check_unchanged(&self) -> Result<(), EngineError> {
        let Origin::Files(files) = self else {
            return Ok(());
        };
        match files
            .iter()
            .find(|known| **known != FileId::of(&known.path))
        {
            None => Ok(()),
            Some(changed) => Err(EngineError::FileChanged {
                path: changed.path.clone(),
            }),
        }
    }
}

/// Which network of its files it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Diffusion,
    /// Text encoders by their place in the model.
    Text(usize),
    Vae,
}

/// A network with everything that decides its weights' values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NetId {
    pub(crate) origin: Origin,
    pub(crate) part: Part,
    /// LoRA files with the bits of their strength, in the order they are applied.
    pub(crate) loras: Arc<[(FileId, u32)]>,
    pub(crate) quantize: Option<DType>,
}

impl NetId {
    /// A network as its files have it.
    pub(crate) fn plain(origin: Origin, part: Part) -> NetId {
        NetId {
            origin,
            part,
            loras: Arc::new([]),
            quantize: None,
        }
    }

    /// See [`Origin::check_unchanged`]; LoRA files are looked at too.
    pub(crate) fn check_unchanged(&self) -> Result<(), EngineError> {
        self.origin.check_unchanged()?;
        let files = self.loras.iter().map(|(file, _)| file.clone()).collect();
        Origin::Files(files).check_unchanged()
    }
}
