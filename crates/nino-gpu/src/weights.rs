//! Parameters on the device, in pages that are filled through mapped staging. Those that a plan
//! streams stay in pages of host memory, as the kernels want them. Constants that a model computed
//! itself are loaded for each session: they depend on sizes, and weights serve all of these.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use nino_graph::{
    Def, ExecError, Limits, Node, Op, ParamError, ParamSource, ParamSpec, Plan, StoredRows,
};

use crate::block::{Block, HOST_PAGE};
use crate::exec::exec_error;
use crate::memory::ask_host;
use crate::ops::gemm::{packed_channels, packs_weights};
use crate::pages::Pages;
use crate::{Caps, Gpu, GpuError};

/// Parameters as some plans hold them.
#[derive(Debug)]
pub(crate) struct GpuWeights {
    pub(crate) resident: Pages<wgpu::Buffer>,
    /// Parameters that pass through a plan's slots.
    pub(crate) outside: Pages<Block>,
    /// 3x3 weights stored in the order the convolution kernel reads them.
    pub(crate) packed: HashSet<String>,
}

/// Parameters that carry their values with them.
pub(crate) type Constants = Pages<wgpu::Buffer>;

/// Bytes of a page on the device, at most. A driver that gives memory in units of 2 MiB rounds each
/// up by 0.4 % of this or less. wgpu's allocator shares blocks of up to 64 MiB among the buffers
/// that fit; larger ones have memory of exactly their size. It is easier to find room for less.
const DEVICE_PAGE: usize = 512 << 20;

/// Why a parameter is found in its pages.
const PLACED: &str = "pages have a place for each of their parameters";

/// Staging memory in flight before it is handed back.
const STAGING_BYTES: u64 = 256 << 20;
/// Bytes of a parameter that are staged at a time, where it can be read by parts.
const PART_BYTES: usize = 64 << 20;

impl Gpu {
    pub(crate) fn load_weights(
        &self,
        plans: &[&Plan],
        source: &dyn ParamSource,
    ) -> Result<GpuWeights, ExecError> {
        let fail = |e| exec_error(e, self);
        let wanted: Vec<_> = wanted(plans).collect();
        let held = |streams: bool| -> Vec<&ParamSpec> {
            let held = wanted.iter().filter(|(_, streamed)| *streamed == streams);
            held.map(|(spec, _)| *spec).collect()
        };
        let mut weights = GpuWeights {
            resident: self.device_pages("weights", plans, &held(false))?,
            outside: self.host_pages(plans, &held(true)).map_err(fail)?,
            packed: packable(&self.caps, plans),
        };
        let mut staged = 0;
        for (spec, streamed) in wanted {
            let packed = weights.packed.contains(&spec.name);
            if streamed {
                let (block, at) = weights.outside.find_mut(&spec.name).expect(PLACED);
                match block {
                    Block::Buffer(buffer) => self.load(spec, source, packed, (buffer, at))?,
                    Block::Bytes(all) => {
                        let values = &mut all[at][..spec.bytes()];
                        self.fill(spec, source, packed, values)?;
                    }
                }
            } else {
                let place = weights.resident.find(&spec.name).expect(PLACED);
                self.load(spec, source, packed, place)?;
            }
            staged += spec.bytes() as u64;
            if staged > STAGING_BYTES {
                self.queue.submit([]);
                self.wait().map_err(fail)?;
                staged = 0;
            }
        }
        self.queue.submit([]);
        self.wait().map_err(fail)?;
        Ok(weights)
    }

    /// The constants of some plans, each once.
    pub(crate) fn load_constants(&self, plans: &[&Plan]) -> Result<Constants, ExecError> {
        let params = plans.iter().flat_map(|plan| plan.graph().params());
        let inline = params.filter(|(_, spec)| spec.inline.is_some());
        let specs: BTreeMap<_, _> = inline.map(|(_, spec)| (&spec.name, spec)).collect();
        let specs: Vec<&ParamSpec> = specs.into_values().collect();
        let constants = self.device_pages("constants", plans, &specs)?;
        for spec in &specs {
            let place = constants.find(&spec.name).expect(PLACED);
            self.load(spec, &NoSource, false, place)?;
        }
        if !specs.is_empty() {
            self.queue.submit([]);
        }
        Ok(constants)
    }

    fn device_pages(
        &self,
        what: &str,
        plans: &[&Plan],
        specs: &[&ParamSpec],
    ) -> Result<Pages<wgpu::Buffer>, ExecError> {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
        let make = |bytes| self.raw_buffer(what, bytes as u64, usage);
        let pages = Pages::new(specs, limits(plans), DEVICE_PAGE, make);
        pages.map_err(|e| exec_error(e, self))
    }

    fn host_pages(&self, plans: &[&Plan], specs: &[&ParamSpec]) -> Result<Pages<Block>, GpuError> {
        let limits = limits(plans);
        let bytes = specs.iter().map(|spec| limits.packed_bytes(spec.bytes()));
        ask_host(bytes.sum())?;
        Pages::new(specs, limits, HOST_PAGE, |bytes| {
            Block::on_host(self, bytes)
        })
    }

    /// Fills a parameter's place with its bytes, and with zeros behind them. A large one goes by
    /// parts, where its source can give them: the driver may take the memory of staging from the
    /// device's.
    fn load(
        &self,
        spec: &ParamSpec,
        source: &dyn ParamSource,
        packed: bool,
        (buffer, place): (&wgpu::Buffer, Range<usize>),
    ) -> Result<(), ExecError> {
        let bytes = spec.bytes();
        let Some(rows) = rows_at_once(spec, source).filter(|_| !packed) else {
            return self.stage(spec, (buffer, place), |dst| {
                let (values, behind) = dst.split_at_mut(bytes);
                behind.fill(0);
                self.fill(spec, source, packed, values)
            });
        };
        let n_rows = spec.shape[0];
        let row = bytes / n_rows;
        for first in (0..n_rows).step_by(rows) {
            let part = first..n_rows.min(first + rows);
            let at = place.start + part.start * row..place.start + part.end * row;
            self.stage(spec, (buffer, at), |dst| {
                Ok(source.read_rows(spec, part, dst)?)
            })?;
            self.queue.submit([]);
            self.wait().map_err(|e| exec_error(e, self))?;
        }
        let behind = place.start + bytes..place.end;
        self.stage(spec, (buffer, behind), |dst| {
            dst.fill(0);
            Ok(())
        })
    }

    /// Fills some bytes of a buffer through memory that the driver gives.
    fn stage(
        &self,
        spec: &ParamSpec,
        (buffer, bytes): (&wgpu::Buffer, Range<usize>),
        fill: impl FnOnce(&mut [u8]) -> Result<(), ExecError>,
    ) -> Result<(), ExecError> {
        let len = bytes.len() as u64;
        let staging = self.scoped(&spec.name, len, || {
            let len = wgpu::BufferSize::new(len)?;
            self.queue
                .write_buffer_with(buffer, bytes.start as u64, len)
        });
        let staging = staging.and_then(|view| {
            view.ok_or_else(|| GpuError::Validation {
                what: spec.name.clone(),
                reason: "no memory to stage it in".to_owned(),
            })
        });
        let mut view = staging.map_err(|e| exec_error(e, self))?;
        let pointer = view.slice(..).as_raw_element_ptr();
        // SAFETY: the mapping is `len` long, is memory the driver handed out, lives as long as
        // `view`, and nothing else refers to it meanwhile.
        let dst = unsafe { std::slice::from_raw_parts_mut(pointer.as_ptr(), len as usize) };
        fill(dst)
    }

    /// The parameter's bytes in the order the kernels read them.
    fn fill(
        &self,
        spec: &ParamSpec,
        source: &dyn ParamSource,
        packed: bool,
        dst: &mut [u8],
    ) -> Result<(), ExecError> {
        match &spec.inline {
            Some(inline) => dst.copy_from_slice(inline),
            None if packed => {
                let mut plain = vec![0; dst.len()];
                source.read(spec, &mut plain)?;
                pack(&plain, dst, spec, packed_channels(&self.caps));
            }
            None => source.read(spec, dst)?,
        }
        Ok(())
    }
}

/// The limits that plans of one device have in common.
fn limits(plans: &[&Plan]) -> Limits {
    plans.first().map_or_else(Limits::default, |p| *p.limits())
}

/// The rows of a parameter that are staged at a time; nothing where it goes whole.
fn rows_at_once(spec: &ParamSpec, source: &dyn ParamSource) -> Option<usize> {
    let bytes = spec.bytes();
    if bytes <= PART_BYTES || spec.inline.is_some() || spec.shape.rank() == 0 {
        return None;
    }
    let row = bytes / spec.shape[0].max(1);
    // Copies are of whole words.
    let by_rows =
        row > 0 && row.is_multiple_of(4) && source.stored_rows(spec) == Some(StoredRows::Same);
    by_rows.then(|| (PART_BYTES / row).max(1))
}

/// The source of constants, whose values are in their specs.
struct NoSource;

impl ParamSource for NoSource {
    fn read(&self, param: &ParamSpec, _dst: &mut [u8]) -> Result<(), ParamError> {
        Err(ParamError {
            name: param.name.clone(),
            what: "it is no constant".to_owned(),
        })
    }
}

/// Parameters that only convolutions read which all want them packed.
pub(crate) fn packable(caps: &Caps, plans: &[&Plan]) -> HashSet<String> {
    let (mut yes, mut no) = (HashSet::new(), HashSet::new());
    for graph in plans.iter().map(|p| p.graph()) {
        for (_, op) in graph.ops() {
            let conv = match op {
                Op::Conv(o) if packs_weights(caps, graph, o) => Some(o.w),
                _ => None,
            };
            if matches!(op, Op::Reshape(_)) {
                continue; // a view; who reads it counts
            }
            for node in op.operands() {
                if let Def::Param(spec) = &graph.value(graph.root(node)).def {
                    let set = if conv == Some(node) {
                        &mut yes
                    } else {
                        &mut no
                    };
                    set.insert(spec.name.clone());
                }
            }
        }
    }
    &yes - &no
}

/// Every parameter of the plans but constants once, and once more as streamed where one of them
/// streams it.
fn wanted<'a>(plans: &[&'a Plan]) -> impl Iterator<Item = (&'a ParamSpec, bool)> {
    let mut found = BTreeMap::new();
    for plan in plans {
        let fetched: HashSet<Node> = plan
            .fetches()
            .iter()
            .flat_map(|f| f.params.iter().map(|(node, _)| *node))
            .collect();
        let params = plan.graph().params();
        for (node, spec) in params.filter(|(_, spec)| spec.inline.is_none()) {
            let streamed = fetched.contains(&node);
            found.insert((spec.name.as_str(), streamed), spec);
        }
    }
    found
        .into_iter()
        .map(|((_, streamed), spec)| (spec, streamed))
}

/// `[cout, tap, cin]` of two bytes each to `[cin / block, tap, cout, block]`.
fn pack(from: &[u8], to: &mut [u8], spec: &ParamSpec, block: usize) {
    let (cout, cin) = (spec.shape[0], spec.shape.last_dim());
    let taps = spec.shape.numel() / (cout * cin);
    let run = block * 2;
    for (i, dst) in to.chunks_exact_mut(run).enumerate() {
        let (row, tap, part) = (i % cout, i / cout % taps, i / cout / taps);
        let at = ((row * taps + tap) * cin + part * block) * 2;
        dst.copy_from_slice(&from[at..at + run]);
    }
}
