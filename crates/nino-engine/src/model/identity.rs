//! What makes two networks the same: the bytes of their files, the LoRAs on them, how they are
//! held.
//!
//! The store keeps weights by this. Two checkpoints of one family, or one checkpoint with and
//! without a LoRA, have the same tensor names and must never be taken for each other.

use crate::EngineError;
use nino_dtype::DType;
use nino_files::Identity;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file as it was when its header was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    path: PathBuf,
    /// `None` for a file that cannot be asked.
    identity: Option<Identity>,
}

impl FileId {
    /// The file as it is now.
    pub(crate) fn of(path: &Path) -> FileId {
        FileId {
            path: path.to_owned(),
            identity: Identity::at(path),
        }
    }

    /// An error when the file is not what it was when the model was opened: its header may describe
    /// other bytes now.
    fn check_unchanged(&self) -> Result<(), EngineError> {
        if self.identity == Identity::at(&self.path) {
            return Ok(());
        }
        Err(EngineError::FileChanged {
            path: self.path.clone(),
        })
    }
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

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let files = match self {
            Origin::Files(files) => &files[..],
            Origin::Unique(_) => &[],
        };
        files.iter().map(|file| file.path.as_path())
    }

    /// Its first file.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Origin::Files(files) => files.first().map(|f| f.path.as_path()),
            Origin::Unique(_) => None,
        }
    }

    /// An origin that equals no other.
    pub(crate) fn unique() -> Origin {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Origin::Unique(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Which network of its files it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Diffusion,
    /// Text encoders by their place in the model.
    Text(usize),
    /// The image encoder.
    Image,
    /// The audio encoder.
    Audio,
    /// A style model.
    Style,
    Vae,
    Upscaler,
    ControlNet,
}

/// A change of a network's weights.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    /// A LoRA with the bits of its strength.
    Lora(FileId, u32),
    /// Tensors with the bits of what they are multiplied by.
    Factors(Arc<[(String, u32)]>),
    /// Another network, and the tensors that are mixed with its own: each with the bits of what the
    /// tensor and the other network's are multiplied by.
    Mixed(Arc<NetId>, Arc<[(String, [u32; 2])]>),
}

impl Change {
    fn check_unchanged(&self) -> Result<(), EngineError> {
        match self {
            Change::Lora(file, _) => file.check_unchanged(),
            Change::Factors(_) => Ok(()),
            Change::Mixed(other, _) => other.check_unchanged(),
        }
    }
}

/// A network with everything that decides its weights' values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NetId {
    pub(crate) origin: Origin,
    pub(crate) part: Part,
    /// What its weights are changed by, in order.
    pub(crate) loras: Arc<[Change]>,
    pub(crate) quantize: Option<DType>,
    /// `ControlNet`s whose weights are beside its own.
    pub(crate) controls: Arc<[NetId]>,
}

impl NetId {
    /// A network as its files have it.
    pub(crate) fn plain(origin: Origin, part: Part) -> NetId {
        NetId {
            origin,
            part,
            loras: Arc::new([]),
            quantize: None,
            controls: Arc::new([]),
        }
    }

    /// An error when one of its files, LoRAs among them, is not what it was when it was opened.
    pub(crate) fn check_unchanged(&self) -> Result<(), EngineError> {
        if let Origin::Files(files) = &self.origin {
            files.iter().try_for_each(FileId::check_unchanged)?;
        }
        self.loras.iter().try_for_each(Change::check_unchanged)?;
        self.controls.iter().try_for_each(NetId::check_unchanged)
    }
}
