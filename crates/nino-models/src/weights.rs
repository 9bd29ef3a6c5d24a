//! Reads the parameters of a graph from a file: by name, converted to the graph's layout and dtype.

use crate::describe::{self, DescribeError, Network};
use crate::params::in_blocks;
use crate::{Params, anima, llm, t5};
use nino_dtype::DType;
use nino_graph::{ParamError, ParamSource, ParamSpec, Shape, StoredRows};
use nino_weights::{Entry, Index, TensorReader};
use std::ops::Range;
use std::sync::Arc;

/// Reads a model's parameters from a file with canonical names below `prefix`.
#[derive(Clone, Debug)]
pub struct FileParams {
    reader: Arc<TensorReader>,
    index: Arc<Index>,
    prefix: String,
    /// Block type that float weights are quantized to at load.
    quantize: Option<DType>,
}

/// The conversion from a stored tensor to the graph's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// None: the shapes differ at most in dimensions of size one.
    Same,
    /// `[cout, cin, k..]` to `[cout, k.., cin]`.
    ChannelsLast { cin: usize, taps: usize },
}

/// How a linear layer's weight with separate scales is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// Type of the stored values, before their scale.
    pub dtype: DType,
    /// Group size of the Hadamard rotation of the layer's input.
    pub rotated: Option<usize>,
}

/// Suffix of the parameter with a weight's scales.
pub(crate) const SCALE: &str = ".scale";

/// The conversion from a stored shape to a graph's shape, or `None` when they do not match.
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
            // Our own files have quantized kernels in the graph's layout: blocks run along cin.
            _ => (*stored == *wanted).then_some(Layout::Same),
        };
    }
    // A kernel over a sequence is recorded as one over images of height one.
    if let [cout, cin, taps] = *stored
        && *wanted == [cout, 1, taps, cin]
        && taps > 1
    {
        return Some(Layout::ChannelsLast { cin, taps });
    }
    let squeezed = |s: &[usize]| s.iter().copied().filter(|&d| d != 1).collect::<Vec<_>>();
    (squeezed(stored) == squeezed(&wanted)).then_some(Layout::Same)
}

/// The storage type for which a graph reads a tensor as it is in the file.
pub fn storage(entry: &Entry) -> DType {
    let taps: usize = entry.shape.iter().skip(2).product();
    let last = entry.shape.last().copied().unwrap_or(1);
    match entry.scale {
        // The values of a scaled tensor are dequantized; bf16 represents eight bits with any scale.
        // Linear layers keep the quantized values ([`FileParams::scaled`]).
        Some(_) => DType::BF16,
        // Blocks that run along a kernel's taps do not survive the move to channels last.
        None if entry.dtype.is_block()
            && taps > 1
            && !last.is_multiple_of(entry.dtype.block_len()) =>
        {
            DType::F16
        }
        None => entry.dtype,
    }
}

/// Shape and storage type of a tensor, for the models' `detect`. Scalars and empty tensors, which
/// only damaged files have among weights, count as missing: a size is never zero.
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

    /// Parameters of a graph, held in the encodings of the file.
    pub fn params(&self) -> Params<'_> {
        Params::new(|name| self.dtype(name)).with_scaled(|name| self.scaled(name))
    }

    /// The names of the graph are looked up below `prefix`.
    pub fn below(reader: &Arc<TensorReader>, prefix: &str) -> FileParams {
        FileParams {
            reader: Arc::clone(reader),
            index: Arc::new(reader.index().clone()),
            prefix: prefix.to_owned(),
            quantize: None,
        }
    }

    /// One network of the file, with the canonical names of `nino_weights::names`.
    pub fn of(reader: &Arc<TensorReader>, index: Index) -> FileParams {
        FileParams {
            reader: Arc::clone(reader),
            index: Arc::new(index),
            prefix: String::new(),
            quantize: None,
        }
    }

    /// Names and shapes of a network's weights, in f16 as in most files, without values: for
    /// planning without a file.
    pub fn described(network: &Network) -> Result<FileParams, DescribeError> {
        let index = describe::index(network, DType::F16)?;
        let reader = Arc::new(TensorReader::without_files(index.clone()));
        Ok(FileParams::of(&reader, index))
    }

    /// The reader of the files.
    pub fn reader(&self) -> &Arc<TensorReader> {
        &self.reader
    }

    /// The index that the names are looked up in.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Quantizes matrices and kernels to `dtype` at load, where they are stored as floats and
    /// blocks fill their rows: [`FileParams::dtype`] returns it for them. Embedding tables, whose
    /// rows are gathered, stay as stored.
    pub fn quantize(&mut self, dtype: DType) {
        self.quantize = Some(dtype);
    }

    /// The storage type of a weight: that of the file, or quantized. f32 for a missing one, which
    /// [`crate::open()`] reports.
    pub fn dtype(&self, name: &str) -> DType {
        let Some(entry) = self.entry(name) else {
            return DType::F32;
        };
        let stored = storage(entry);
        // Scaled weights are quantized already.
        let is_float =
            matches!(stored, DType::F32 | DType::F16 | DType::BF16) && entry.scale.is_none();
        match (self.quantize, &entry.shape[..]) {
            // Rows run along the input channels, the second dimension in files.
            (Some(dtype), [_, cin, ..]) if is_float && !is_table(name) => {
                in_blocks(dtype, *cin).unwrap_or(stored)
            }
            _ => stored,
        }
    }

    /// How a linear layer's weight is stored as in the file, with separate scales; `None` for one
    /// without scales.
    pub fn scaled(&self, name: &str) -> Option<Scaled> {
        let entry = self.entry(name)?;
        let scale = entry.scale?;
        let [_, row] = entry.shape[..] else {
            return None;
        };
        let dtype = match entry.dtype {
            // Q8_0 blocks with a scale of one: there are 8-bit integer kernels for these.
            DType::I8 => in_blocks(DType::Q8_0, row)?,
            dtype => dtype,
        };
        Some(Scaled {
            dtype,
            rotated: scale.rotated,
        })
    }

    /// Whether the file stores a parameter in the graph's type. For a scaled weight, this is only
    /// the case with separate scales.
    pub fn has_same_dtype(&self, param: &ParamSpec) -> bool {
        let entry = self.entry(&param.name);
        entry.is_some_and(|e| e.dtype == param.dtype)
    }

    /// Reads the scales of a scaled weight, one per row. `None` for any other parameter.
    fn scales(&self, param: &ParamSpec) -> Option<Result<Vec<f32>, ParamError>> {
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

    /// Shape and storage type of a tensor, for the models' `detect`.
    pub fn find(&self, name: &str) -> Option<(Shape, DType)> {
        find_in(&self.index, &format!("{}{name}", self.prefix))
    }

    /// The file's entry for a parameter, and its conversion to the graph's layout.
    fn locate(&self, param: &ParamSpec) -> Result<(&Entry, Layout), ParamError> {
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
        if let Some(values) = self.scales(param) {
            let values = values?;
            return nino_dtype::encode(param.dtype, &values, dst).map_err(|e| fail(e.to_string()));
        }
        let (entry, layout) = self.locate(param)?;
        let as_stored = self.has_same_dtype(param);
        match layout {
            Layout::Same if entry.dtype == DType::I8 && param.dtype == DType::Q8_0 => {
                let mut bytes = vec![0; entry.n_values()];
                self.reader
                    .read(entry, &mut bytes)
                    .map_err(|e| fail(e.to_string()))?;
                q8_0_with_unit_scale(&bytes, dst);
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
    /// The file's entry for a parameter and the order of its rows, if the rows can be read from the
    /// file directly: contiguous, in the graph's type, in the graph's layout or channels first.
    fn plain_rows(&self, param: &ParamSpec) -> Option<(&Entry, StoredRows)> {
        let (entry, layout) = self.locate(param).ok()?;
        let contiguous = entry.strides.is_none() && !entry.dtype.is_block();
        let order = match layout {
            Layout::Same => StoredRows::Same,
            Layout::ChannelsLast { .. } => StoredRows::ChannelsFirst,
        };
        let full = entry.shape.first() == Some(&param.shape[0]);
        (contiguous && full && self.has_same_dtype(param)).then_some((entry, order))
    }
}

/// 8-bit integers as `Q8_0` blocks with a scale of one.
fn q8_0_with_unit_scale(integers: &[u8], blocks: &mut [u8]) {
    /// 1 as f16.
    const ONE: [u8; 2] = [0x00, 0x3c];
    let integers = integers.as_chunks::<32>().0;
    for (values, block) in integers.iter().zip(blocks.as_chunks_mut::<34>().0) {
        block[..2].copy_from_slice(&ONE);
        block[2..].copy_from_slice(values);
    }
}

/// Whether a weight is a table whose rows are gathered by id, such as token embeddings.
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

/// Converts float values to another type, row by row, so that no full weight is in f32.
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
