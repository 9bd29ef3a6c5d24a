//! Weights that are not as the file has them: quantized while they are loaded, or with LoRAs
//! merged.
//!
//! Those that stream would be made anew in every run. They are made once, into a temporary file
//! without a name, and come from there afterwards.

use super::lora::Source;
use nino_graph::{Def, ParamError, ParamSource, ParamSpec, Plan, StoredRows};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// A source that remembers what it made of the parameters that stream.
struct Remade {
    source: Source,
    /// Places of the parameters to remember, by name.
    places: Mutex<BTreeMap<String, Place>>,
    store: Mutex<File>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    ToBeMade,
    /// Its bytes begin here.
    At(u64),
}

/// The weights for `plans`; as they are where nothing that streams has to be made, or there is no
/// room for a file.
pub(crate) fn source(source: Source, plans: &[&Plan]) -> Arc<dyn ParamSource> {
    let specs = plans.iter().flat_map(|plan| {
        let nodes = plan.fetches().iter().flat_map(|f| &f.params);
        nodes.filter_map(|(node, _)| match &plan.graph().value(*node).def {
            Def::Param(spec) => Some(spec),
            _ => None,
        })
    });
    let made = specs.filter(|spec| source.makes(spec));
    let places: BTreeMap<_, _> = made
        .map(|spec| (spec.name.clone(), Place::ToBeMade))
        .collect();
    if places.is_empty() {
        return Arc::new(source);
    }
    match nino_files::scratch(None) {
        Ok((store, _)) => Arc::new(Remade {
            source,
            places: Mutex::new(places),
            store: Mutex::new(store),
        }),
        Err(error) => {
            tracing::warn!(
                "streamed weights are recomputed in every step, because there is no temporary \
                 file: {error}"
            );
            Arc::new(source)
        }
    }
}

impl Remade {
    fn place(&self, name: &str) -> Option<Place> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.get(name).copied()
    }

    fn take(&self, at: u64, dst: &mut [u8]) -> Result<(), Error> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.seek(SeekFrom::Start(at))?;
        store.read_exact(dst)
    }

    fn put(&self, bytes: &[u8]) -> Result<u64, Error> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let at = store.seek(SeekFrom::End(0))?;
        store.write_all(bytes)?;
        Ok(at)
    }
}

impl ParamSource for Remade {
    fn stored_rows(&self, param: &ParamSpec) -> Option<StoredRows> {
        match self.place(&param.name) {
            None => self.source.stored_rows(param),
            Some(_) => None,
        }
    }

    fn read_rows(
        &self,
        param: &ParamSpec,
        rows: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ParamError> {
        self.source.read_rows(param, rows, dst)
    }

    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        match self.place(&param.name) {
            None => return self.source.read(param, dst),
            Some(Place::At(at)) => {
                return self.take(at, dst).map_err(|e| ParamError {
                    name: param.name.clone(),
                    what: format!("its temporary file: {e}"),
                });
            }
            Some(Place::ToBeMade) => self.source.read(param, dst)?,
        }
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        match self.put(dst) {
            Ok(at) => places.insert(param.name.clone(), Place::At(at)),
            // A full disk: this one is made anew each time.
            Err(_) => places.remove(&param.name),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
