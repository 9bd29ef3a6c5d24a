//! Cached frames on their way from one graph of a clip to the next.
//!
//! Both sessions of such a step would not fit side by side, so the frames wait outside: where the device
//! sets them aside, else in memory when they are few, else in a temporary file without a name.

use super::Part;
use crate::EngineError;
use nino_graph::{Aside, Node, Session};
use nino_models::Cache;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

/// Bytes moved at a time.
const PIECE: usize = 4 << 20;
/// More than this waits in a file.
const IN_MEMORY: usize = 32 << 20;

/// What the graph before has kept, by layer.
#[derive(Default)]
pub(crate) struct Carried {
    /// Layers' frames that the device has.
    aside: BTreeMap<String, Aside>,
    /// Where each other layer's frames begin in the store.
    layers: BTreeMap<String, usize>,
    store: Store,
    piece: Vec<u8>,
}

enum Store {
    Memory(Vec<u8>),
    File(File),
}

impl Default for Store {
    fn default() -> Store {
        Store::Memory(Vec::new())
    }
}

impl Carried {
    /// Gives a new session the frames the graph before kept; zeros where it kept none.
    pub(crate) fn enter(
        &mut self,
        session: &mut dyn Session,
        part: &Part,
    ) -> Result<(), EngineError> {
        self.piece.resize(PIECE, 0);
        for cache in &part.caches {
            let Some(input) = cache.input else { continue };
            if let Some(value) = self.aside.get(&cache.name) {
                session.take_back(input, value)?;
                continue;
            }
            let bytes = part.plan.graph().bytes(input);
            let from = self.layers.get(&cache.name).copied();
            for at in (0..bytes).step_by(PIECE) {
                let piece = &mut self.piece[..PIECE.min(bytes - at)];
                match from {
                    Some(from) => self.store.read(from + at, piece)?,
                    None => piece.fill(0),
                }
                session.write_part(input, at, piece)?;
            }
        }
        *self = Carried::default();
        Ok(())
    }

    /// Between two runs of one session: what is carried in place stays, the rest is moved.
    pub(crate) fn stay(
        &mut self,
        session: &mut dyn Session,
        part: &Part,
    ) -> Result<(), EngineError> {
        self.piece.resize(PIECE, 0);
        for (cache, input) in part.caches.iter().filter_map(|c| Some((c, c.input?))) {
            if part.plan.place(input) == part.plan.place(cache.output) {
                continue;
            }
            let bytes = part.plan.graph().bytes(input);
            for at in (0..bytes).step_by(PIECE) {
                let piece = &mut self.piece[..PIECE.min(bytes - at)];
                session.read_part(cache.output, at, piece)?;
                session.write_part(input, at, piece)?;
            }
        }
        Ok(())
    }

    /// After a session's last run: keeps everything for the next graph.
    pub(crate) fn leave(
        &mut self,
        session: &mut dyn Session,
        part: &Part,
    ) -> Result<(), EngineError> {
        *self = Carried::default();
        let mut left = Vec::new();
        for cache in &part.caches {
            match session.set_aside(cache.output)? {
                Some(value) => drop(self.aside.insert(cache.name.clone(), value)),
                None => left.push(cache),
            }
        }
        self.piece.resize(PIECE, 0);
        let size = |node: Node| part.plan.graph().bytes(node);
        self.store = Store::new(left.iter().map(|c| size(c.output)).sum())?;
        let mut end = 0;
        for Cache { name, output, .. } in left {
            let bytes = size(*output);
            for at in (0..bytes).step_by(PIECE) {
                let piece = &mut self.piece[..PIECE.min(bytes - at)];
                session.read_part(*output, at, piece)?;
                self.store.append(piece)?;
            }
            self.layers.insert(name.clone(), end);
            end += bytes;
        }
        Ok(())
    }
}

impl Store {
    fn new(bytes: usize) -> Result<Store, EngineError> {
        if bytes <= IN_MEMORY {
            return Ok(Store::Memory(Vec::with_capacity(bytes)));
        }
        let file = tempfile::tempfile().map_err(|source| EngineError::Carry { source })?;
        Ok(Store::File(file))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        match self {
            Store::Memory(all) => all.extend_from_slice(bytes),
            Store::File(file) => file
                .write_all(bytes)
                .map_err(|source| EngineError::Carry { source })?,
        }
        Ok(())
    }

    fn read(&mut self, at: usize, dst: &mut [u8]) -> Result<(), EngineError> {
        match self {
            Store::Memory(all) => dst.copy_from_slice(&all[at..at + dst.len()]),
            Store::File(file) => file
                .seek(SeekFrom::Start(at as u64))
                .and_then(|_| file.read_exact(dst))
                .map_err(|source| EngineError::Carry { source })?,
        }
        Ok(())
    }
}
