//! Files of which one network is wanted.

use super::identity::Origin;
use crate::EngineError;
use nino_models::{FileParams, Network};
use nino_weights::names::{self, Net};
use std::path::Path;
use std::sync::Arc;

/// The first network of a kind in a file that `take` takes, with its weights and where they come
/// from; `None` where there is none.
pub(crate) fn first<T>(
    path: &Path,
    net: Net,
    take: impl Fn(Network) -> Option<T>,
) -> Result<Option<(T, FileParams, Origin)>, EngineError> {
    let reader = Arc::new(nino_weights::open(path)?);
    let (components, _) = names::canonical(reader.index())?;
    for component in components.into_iter().filter(|c| c.net == net) {
        let Some(opened) = nino_models::open(&reader, component)? else {
            continue;
        };
        if let Some(config) = take(opened.network) {
            let origin = Origin::files(&reader.index().files);
            return Ok(Some((config, opened.params, origin)));
        }
    }
    Ok(None)
}
