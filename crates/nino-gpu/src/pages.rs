//! Parameters side by side in a few large buffers. A buffer of its own for each would cost memory
//! that no plan counts, since allocators and drivers round every allocation up, and many drivers
//! allow only 4096 allocations. A parameter takes `Limits::packed_bytes` here, which is what plans
//! count; a page is as large as what is in it.

use std::collections::HashMap;
use std::ops::Range;

use nino_graph::{Limits, ParamSpec};

use crate::GpuError;

/// Where the bytes of one parameter are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    page: usize,
    /// Its own bytes and the slack behind them.
    bytes: Range<usize>,
}

/// Parameters by name, in pages of some kind of memory.
#[derive(Debug)]
pub(crate) struct Pages<B> {
    pages: Vec<B>,
    slices: HashMap<String, Slice>,
}

impl<B> Pages<B> {
    /// Room for parameters with different names, in their order, in pages of at most `page` bytes
    /// where the device's limits allow that; `make` makes a page of so many bytes.
    pub(crate) fn new(
        params: &[&ParamSpec],
        limits: Limits,
        page: usize,
        make: impl FnMut(usize) -> Result<B, GpuError>,
    ) -> Result<Pages<B>, GpuError> {
        let bytes = params.iter().map(|p| limits.packed_bytes(p.bytes()));
        let (slices, sizes) = lay_out(bytes, limits.page.min(page));
        let names = params.iter().map(|p| p.name.clone());
        Ok(Pages {
            pages: sizes.into_iter().map(make).collect::<Result<_, _>>()?,
            slices: names.zip(slices).collect(),
        })
    }

    /// The page that a parameter is in, and its bytes there.
    pub(crate) fn find(&self, name: &str) -> Option<(&B, Range<usize>)> {
        let slice = self.slices.get(name)?;
        Some((self.pages.get(slice.page)?, slice.bytes.clone()))
    }

    pub(crate) fn find_mut(&mut self, name: &str) -> Option<(&mut B, Range<usize>)> {
        let slice = self.slices.get(name)?;
        Some((self.pages.get_mut(slice.page)?, slice.bytes.clone()))
    }
}

/// Gives parameters that take so many bytes their places, one after the other in pages of at most
/// `page` bytes, and tells the bytes of each page. A larger parameter has a page to itself.
fn lay_out(sizes: impl Iterator<Item = usize>, page: usize) -> (Vec<Slice>, Vec<usize>) {
    let mut pages: Vec<usize> = Vec::new();
    // The page that still takes parameters.
    let mut open = None;
    let slices = sizes.map(|size| {
        let fits = open.filter(|&at: &usize| pages[at] + size <= page);
        let at = fits.unwrap_or_else(|| {
            pages.push(0);
            pages.len() - 1
        });
        let start = pages[at];
        pages[at] += size;
        if size <= page {
            open = Some(at);
        }
        Slice {
            page: at,
            bytes: start..start + size,
        }
    });
    (slices.collect(), pages)
}

#[cfg(test)]
mod tests;
