//! Parameters of a graph out of a file: found by name, brought to the graph's layout and dtype.

use crate::describe::{self, DescribeError, Network};
use crate::params::in_blocks;
use crate::{anima, llm, t5};
use nino_dtype::DType;
use nino_graph::{ParamError, ParamSource, ParamSpec, Shape, StoredRows};
use nino_weights::{Entry, Index, TensorReader};
use std::ops::Range;
use std::sync::Arc;

/// Reads a model's parameters from a file whose names are the canonical ones below `prefix`.
#[derive(Clone, Debug)]
pub struct FileParams {
    reader: Arc<TensorReader>,
    index: Arc<Index>,
    prefix: String,
    /// What plain weights become while they are read.
    quantize: Option<DType>,
}

/// How a stored tensor becomes the graph's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The bytes stay: the shapes differ at most in dimensions of size one.
    Same,
    /// `[cout, cin, k..]` to `[cout, k.., cin]`.
    ChannelsLast { cin: usize, taps: usize },
}

/// How the weight of a linear layer is held where the file has it divided by factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// The type of the stored values, which the factors belong to.
    pub dtype: DType,
    /// The layer's input is multiplied by a Hadamard matrix of this size, group by group.
    pub rotated: Option<usize>,
}

/// What ends the name of a scaled weight's factors.
pub(crate) const SCALE: &str = ".scale";

/// The step from a stored shape to a graph's shape, or `None` when they do not belong together.
pub fn layout(stored: &[usize], wanted: Shape) -> Option<Layout> {
    // A kernel over one frame may be stored with or without that dimension.
    let over_one_frame = |rank: usize, kernel: &[usize]| rank == 4 && kernel.first() == Some(&1);
    if let [cout, cin, kernel @ ..] = stored
        && matches!(kernel.len(), 2 | 3)
        && (wanted.rank() == stored.len() || over_one_frame(wanted.rank(), kernel))
    {
        let kernel = &kernel[stored.len() - wanted.rank()..];
        let fits = wanted[0] == *cout
            && wanted[1..wanted.rank() - 1] == *kernel
            && wanted.last_dim() == *cin;
        let taps = kernel.iter().product();
        return match taps {
            1 if fits => Some(Layout::Same),
            _ if fits => Some(Layout::ChannelsLast { cin: *cin, taps }),
            // Our own files hold quantized kernels as the graph wants them: blocks run along cin.
            _ => (*stored == *wanted).then_some(Layout::Same),
        };
    }
    let squeezed = |s: &[usize]| s.iter().copied().filter(|&d| d != 1).collect::<Vec<_>>();
    (squeezed(stored) == squeezed(&wanted)).then_some(Layout::Same)
}

/// The storage type a graph should ask for to keep a tensor as the file has it.
pub fn storage(entry: &Entry) -> DType {
    let taps: usize = entry.shape.iter().skip(2).product();
    let last = entry.shape.last().copied().unwrap_or(1);
    match entry.scale {
        // A scaled tensor's values are not its bytes; bf16 holds eight bits and any scale. Linear
        // layers hold the bytes ([`FileParams::scaled`]).
        Some(_) => DType::BF16,
        // Blocks that run over a kernel's positions cannot follow when its channels are moved last.
        None if entry.dtype.is_block()
            && taps > 1
            && !last.is_multiple_of(entry.dtype.block_len()) =>
        {
            DType::F16
        }
        None => entry.dtype,
    }
}

/// Shape and storage type of a tensor, for the models' `detect`. Scalars and tensors without
/// values, which only damaged files have among weights, are as good as absent: a size is never
/// zero.
pub(crate) fn find_in(index: &Index, name: &str) -> Option<(Shape, DType)> {
    let entry = index.get(name)?;
    let is_weight = !entry.shape.is_empty() && !entry.shape.contains(&0);
    let shape = Shape::try_new(&entry.shape).filter(|_| is_weight)?;
    Some((shape, storage(entry)))
}

impl FileParams {
    pub fn new(reader: &Arc<TensorReader>) -> FileParams {
        FileParams::below(reader, "")
    }

    /// Names of the graph are looked up with `prefix` in front.
    pub fn below(reader: &Arc<TensorReader>, prefix: &str) -> FileParams {
        FileParams {
            reader: Arc::clone(reader),
            index: Arc::new(reader.index().clone()),
            prefix: prefix.to_owned(),
            quantize: None,
        }
    }

    /// One network of the file, under the canonical names that `nino_weights::names` found for it.
    pub fn of(reader: &Arc<TensorReader>, index: Index) -> FileParams {
        FileParams {
            reader: Arc::clone(reader),
            index: Arc::new(index),
            prefix: String::new(),
            quantize: None,
        }
    }

    /// Names and shapes of a network's weights, in f16 as most files have them, and no bytes: to
    /// plan with no file at hand.
    pub fn described(network: &Network) -> Result<FileParams, DescribeError> {
        let index = describe::index(network, DType::F16)?;
        let reader = Arc::new(TensorReader::without_files(index.clone()));
        Ok(FileParams::of(&reader, index))
    }

    /// The tensors the names are looked up in.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Makes [`FileParams::dtype`] ask for `dtype` where a matrix or a kernel is stored as plain
    /// numbers and blocks fill its rows. Embedding tables, which rows are picked from, stay as
    /// stored.
    pub fn quantize(&mut self, dtype: DType) {
        self.quantize = Some(dtype);
    }

    /// The type to hold a weight in: as the file stores it, or quantized. f32 for one that the file
    /// lacks, which [`crate::open()`] reports.
    pub fn dtype(&self, name: &str) -> DType {
        let Some(entry) = self.entry(name) else {
            return DType::F32;
        };
        let stored = storage(entry);
        // Scaled weights are quantized already.
        let plain =
            matches!(stored, DType::F32 | DType::F16 | DType::BF16) && entry.scale.is_none();
        match (self.quantize, &entry.shape[..]) {
            // Rows run along the input channels, the second dimension of files.
            (Some(dtype), [_, cin, ..]) if plain && !is_table(name) => {
                in_blocks(dtype, *cin).unwrap_or(stored)
            }
            _ => stored,
        }
    }

    /// How the weight of a linear layer is held as the file has it, with its factors apart; `None`
    /// for one that has none.
    pub fn scaled(&self, name: &str) -> Option<Scaled> {
        let entry = self.entry(name)?;
        let scale = entry.scale?;
        let [_, row] = entry.shape[..] else {
            return None;
        };
        let dtype = match entry.dtype {
            // Blocks of the factor one: kernels for 8-bit integers exist for these.
            DType::I8 => in_blocks(DType::Q8_0, row)?,
            dtype => dtype,
        };
        Some(Scaled {
            dtype,
            rotated: scale.rotated,
        })
    }

    /// Whether the file has a parameter in the type it is wanted in. The values of a scaled weight
    /// are never wanted in the type they are stored in but with the factors apart.
    pub fn has_as_wanted(&self, param: &ParamSpec) -> bool {
        let entry = self.entry(&param.name);
        entry.is_some_and(|e| e.dtype == param.dtype)
    }

    /// Reads the factors of a scaled weight, one for each row. `None` for any other parameter.
    fn factors(&self, param: &ParamSpec) -> Option<Result<Vec<f32>, ParamError>> {
        let entry = self.entry(param.name.strip_suffix(SCALE)?)?;
        let scales = match self.reader.scales(entry) {
            Ok(scales) => scales?,
            Err(error) => {
                return Some(Err(ParamError {
                    name: param.name.clone(),
                    what: error.to_string(),
                }));
            }
        };
        let repeated = scales.iter().copied().cycle().take(param.shape.numel());
        Some(Ok(repeated.collect()))
    }

    /// What the models' `detect` asks.
    pub fn find(&self, name: &str) -> Option<(Shape, DType)> {
        find_in(&self.index, &format!("{}{name}", self.prefix))
    }

    /// Where a parameter is, and how it becomes the graph's.
    fn placed(&self, param: &ParamSpec) -> Result<(&Entry, Layout), ParamError> {
        let fail = |what: String| ParamError {
            name: format!("{}{}", self.prefix, param.name),
            what,
        };
        let entry = self.entry(&param.name);
        let entry = entry.ok_or_else(|| fail("not in the file".to_owned()))?;
        let layout = layout(&entry.shape, param.shape).ok_or_else(|| {
            fail(format!(
                "shape {:?} in the file, the model wants {}",
                entry.shape, param.shape
            ))
        })?;
        Ok((entry, layout))
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.index.get(&format!("{}{name}", self.prefix))
    }
}

impl ParamSource for FileParams {
    fn stored_rows(&self, param: &ParamSpec) -> Option<StoredRows> {
        self.plain_rows(param).map(|(_, order)| order)
    }

    fn read_rows(
        &self,
        param: &ParamSpec,
        rows: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ParamError> {
        let fail = |what: String| ParamError {
            name: format!("{}{}", self.prefix, param.name),
            what,
        };
        let (entry, _) = self
            .plain_rows(param)
            .ok_or_else(|| fail("is not stored by rows".to_owned()))?;
        let row = dst.len() / rows.len().max(1);
        self.reader
            .read_range(entry, (rows.start * row) as u64, dst)
            .map_err(|e| fail(e.to_string()))
    }

    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        let fail = |what: String| ParamError {
            name: format!("{}{}", self.prefix, param.name),
            what,
        };
        if let Some(values) = self.factors(param) {
            let values = values?;
            return nino_dtype::encode(param.dtype, &values, dst).map_err(|e| fail(e.to_string()));
        }
        let (entry, layout) = self.placed(param)?;
        let as_stored = self.has_as_wanted(param);
        match layout {
            Layout::Same if entry.dtype == DType::I8 && param.dtype == DType::Q8_0 => {
                let mut bytes = vec![0; entry.n_values()];
                self.reader
                    .read(entry, &mut bytes)
                    .map_err(|e| fail(e.to_string()))?;
                in_blocks_of_one(&bytes, dst);
                Ok(())
            }
            Layout::Same if as_stored => self
                .reader
                .read(entry, dst)
                .map_err(|e| fail(e.to_string())),
            Layout::ChannelsLast { cin, taps } if as_stored && !entry.dtype.is_block() => {
                let mut bytes = vec![0; dst.len()];
                self.reader
                    .read(entry, &mut bytes)
                    .map_err(|e| fail(e.to_string()))?;
                channels_last_bytes(&bytes, dst, cin, taps, entry.dtype.block_bytes());
                Ok(())
            }
            _ if entry.scale.is_none() && !entry.dtype.is_block() => {
                let mut bytes = vec![0; entry.n_values() * entry.dtype.block_bytes()];
                self.reader
                    .read(entry, &mut bytes)
                    .map_err(|e| fail(e.to_string()))?;
                recoded(entry, &bytes, layout, param, dst).map_err(|e| fail(e.to_string()))
            }
            _ => {
                let mut values = vec![0.0; entry.n_values()];
                self.reader
                    .read_f32(entry, &mut values)
                    .map_err(|e| fail(e.to_string()))?;
                if let Layout::ChannelsLast { cin, taps } = layout {
                    let mut moved = vec![0.0; values.len()];
                    channels_last(&values, &mut moved, cin, taps);
                    values = moved;
                }
                nino_dtype::encode(param.dtype, &values, dst).map_err(|e| fail(e.to_string()))
            }
        }
    }
}

impl FileParams {
    /// Where a parameter's rows are, if the file holds them one after the other as the graph wants
    /// them, or channels first.
    fn plain_rows(&self, param: &ParamSpec) -> Option<(&Entry, StoredRows)> {
        let (entry, layout) = self.placed(param).ok()?;
        let plain = entry.strides.is_none() && !entry.dtype.is_block();
        let order = match layout {
            Layout::Same => StoredRows::Same,
            Layout::ChannelsLast { .. } => StoredRows::ChannelsFirst,
        };
        let whole = entry.shape.first() == Some(&param.shape[0]);
        (plain && whole && self.has_as_wanted(param)).then_some((entry, order))
    }
}

/// Integers as `Q8_0`: each 32 of them after a factor of one.
fn in_blocks_of_one(integers: &[u8], blocks: &mut [u8]) {
    /// 1 as f16.
    const ONE: [u8; 2] = [0x00, 0x3c];
    let integers = integers.as_chunks::<32>().0;
    for (values, block) in integers.iter().zip(blocks.as_chunks_mut::<34>().0) {
        block[..2].copy_from_slice(&ONE);
        block[2..].copy_from_slice(values);
    }
}

/// Whether rows are picked from a weight by number, instead of its being multiplied.
pub fn is_table(name: &str) -> bool {
    let tables = [
        "embedding",
        llm::TOKENS,
        t5::TOKENS,
        anima::TOKENS,
        "relative_attention_bias",
    ];
    tables.iter().any(|table| name.contains(table))
}

/// Plain numbers to another type, row by row, so that there is never a whole weight in f32.
fn recoded(
    entry: &Entry,
    bytes: &[u8],
    layout: Layout,
    param: &ParamSpec,
    dst: &mut [u8],
) -> Result<(), nino_dtype::CodecError> {
    let n_rows = if entry.shape.len() < 2 {
        1
    } else {
        entry.shape[0].max(1)
    };
    let each = entry.n_values() / n_rows;
    let (mut values, mut moved) = (vec![0.0; each], vec![0.0; each]);
    let from = bytes.chunks_exact((bytes.len() / n_rows).max(1));
    let to = dst.chunks_exact_mut((dst.len() / n_rows).max(1));
    for (from, to) in from.zip(to) {
        nino_dtype::decode(entry.dtype, from, &mut values)?;
        if let Layout::ChannelsLast { cin, taps } = layout {
            channels_last(&values, &mut moved, cin, taps);
            std::mem::swap(&mut values, &mut moved);
        }
        nino_dtype::encode(param.dtype, &values, to)?;
    }
    Ok(())
}

/// `[cout, cin, taps]` to `[cout, taps, cin]` for values of `size` bytes.
fn channels_last_bytes(src: &[u8], dst: &mut [u8], cin: usize, taps: usize, size: usize) {
    match size {
        1 => channels_last(src, dst, cin, taps),
        2 => {
            let (src, dst) = (src.as_chunks::<2>().0, dst.as_chunks_mut::<2>().0);
            channels_last(src, dst, cin, taps);
        }
        4 => {
            let (src, dst) = (src.as_chunks::<4>().0, dst.as_chunks_mut::<4>().0);
            channels_last(src, dst, cin, taps);
        }
        _ => {
            let (src, dst) = (src.as_chunks::<8>().0, dst.as_chunks_mut::<8>().0);
            channels_last(src, dst, cin, taps);
        }
    }
}

/// `[cout, cin, taps]` to `[cout, taps, cin]`
fn channels_last<T: Copy>(src: &[T], dst: &mut [T], cin: usize, taps: usize) {
    let each = cin * taps;
    for (src, dst) in src.chunks_exact(each).zip(dst.chunks_exact_mut(each)) {
        for (tap, dst) in dst.chunks_exact_mut(cin).enumerate() {
            for (value, from) in dst.iter_mut().zip(src[tap..].iter().step_by(taps)) {
                *value = *from;
            }
        }
    }
}

#[cfg(test)]
mod tests;
