//! The work: pieces are read, decoded, encoded and measured on all cores, and written in order by a
//! thread of its own while the next ones are in work.

use std::cell::RefCell;
use std::path::Path;
use std::sync::mpsc::sync_channel;

use rayon::prelude::*;

use super::plan::{Job, Plan};
use super::report::{Collector, Fallback, Sums};
use super::{Problem, Progress, Report, Target, total_size};
use crate::safetensors::NewTensor;
use crate::{Array, Entry, Error, Index, Metadata, Result, TensorReader, Value, gguf, safetensors};

/// Values in a piece: whole blocks of every type, and few enough for a core's cache.
const PIECE: usize = 1 << 18;
/// Pieces in work at a time, for each thread.
const PER_THREAD: usize = 16;

thread_local! {
    /// Values read and values as written. Kept, because fresh megabytes for every piece cost more
    /// in page faults than the encoding itself.
    static SCRATCH: RefCell<(Vec<f32>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// A run of values of one tensor.
#[derive(Clone, Copy)]
struct Piece {
    job: usize,
    start: usize,
    len: usize,
    last: bool,
}

pub(super) fn run(
    reader: &TensorReader,
    index: &Index,
    out: &Path,
    plan: &Plan,
    progress: &mut impl FnMut(Progress<'_>) -> bool,
) -> Result<Report> {
    // Now, because the output may replace the input.
    let before = total_size(&index.files);
    let tensors: Vec<NewTensor> = plan
        .jobs
        .iter()
        .map(|job| NewTensor {
            name: index.entries()[job.entry].name.clone(),
            dtype: job.dtype,
            shape: job.shape.clone(),
        })
        .collect();
    let mut writer = match plan.target {
        Target::Safetensors => Writer::Safetensors(safetensors::Writer::create(
            out,
            &tensors,
            &strings(&index.metadata),
        )?),
        Target::Gguf => Writer::Gguf(gguf::Writer::create(
            out,
            &tensors,
            &gguf_metadata(index, plan),
        )?),
    };
    let mut collector = Collector::default();
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<Vec<Vec<u8>>>(1);
        let write = move || {
            for batch in receiver {
                for bytes in batch {
                    writer.write(&bytes)?;
                }
            }
            Ok(writer)
        };
        let thread = std::thread::Builder::new().name("writes what is converted".to_owned());
        let written = thread.spawn_scoped(scope, write);
        let written = written.map_err(Error::io(out, "start a thread to write"))?;
        let done = work(reader, index, plan, &mut collector, progress, |batch| {
            sender.send(batch).is_ok()
        });
        drop(sender);
        let writer: Result<Writer> = written.join().expect("the writer does not panic");
        // A failed writer is why the work was cut short, so its error comes first.
        let writer = writer?;
        if done? {
            writer.finish()
        } else {
            Err(Error::Convert {
                path: out.to_owned(),
                reason: Problem::Cancelled,
            })
        }
    })?;
    let after = std::fs::metadata(out)
        .map_err(Error::io(out, "read the size of"))?
        .len();
    Ok(collector.finish(before, after))
}

/// Goes through all pieces; `false` when it was asked to stop.
fn work(
    reader: &TensorReader,
    index: &Index,
    plan: &Plan,
    collector: &mut Collector,
    progress: &mut impl FnMut(Progress<'_>) -> bool,
    send: impl Fn(Vec<Vec<u8>>) -> bool,
) -> Result<bool> {
    let total = index.n_bytes();
    let mut done = 0;
    let mut sums = Sums::default();
    let pieces = pieces(index, plan);
    for batch in pieces.chunks(PER_THREAD * rayon::current_num_threads()) {
        let results: Vec<(Vec<u8>, Sums)> = batch
            .par_iter()
            .map(|piece| {
                let job = &plan.jobs[piece.job];
                encode(reader, &index.entries()[job.entry], job, *piece)
            })
            .collect::<Result<_>>()?;
        for (piece, (_, piece_sums)) in batch.iter().zip(&results) {
            sums.add(piece_sums);
            if piece.last {
                let job = &plan.jobs[piece.job];
                let entry = &index.entries()[job.entry];
                finish_tensor(collector, entry, job, &std::mem::take(&mut sums));
                done += entry.n_bytes();
            }
        }
        if !send(results.into_iter().map(|(bytes, _)| bytes).collect()) {
            return Ok(false);
        }
        let tensor = batch
            .last()
            .map_or("", |p| &index.entries()[plan.jobs[p.job].entry].name);
        if !progress(Progress {
            done,
            total,
            tensor,
        }) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn pieces(index: &Index, plan: &Plan) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (j, job) in plan.jobs.iter().enumerate() {
        let entry = &index.entries()[job.entry];
        let n = entry.n_values();
        // A strided tensor is gathered whole.
        let step = if entry.strides.is_some() {
            n.max(1)
        } else {
            PIECE
        };
        let starts = (0..n.max(1)).step_by(step);
        pieces.extend(starts.map(|start| {
            let len = step.min(n - start);
            Piece {
                job: j,
                start,
                len,
                last: start + len == n,
            }
        }));
    }
    pieces
}

fn encode(
    reader: &TensorReader,
    entry: &Entry,
    job: &Job,
    piece: Piece,
) -> Result<(Vec<u8>, Sums)> {
    let codec = |reason| Error::Codec {
        tensor: entry.name.clone(),
        reason,
    };
    let bytes_for = |dtype: nino_dtype::DType| dtype.bytes_for(piece.len).unwrap_or(0);
    let mut bytes = vec![0; bytes_for(job.dtype)];
    if entry.dtype == job.dtype && entry.scale.is_none() {
        if entry.strides.is_some() {
            reader.read(entry, &mut bytes)?;
        } else {
            let start = piece.start / job.dtype.block_len() * job.dtype.block_bytes();
            reader.read_range(entry, start as u64, &mut bytes)?;
        }
        return Ok((
            bytes,
            Sums {
                values: piece.len as u64,
                ..Sums::default()
            },
        ));
    }
    SCRATCH.with_borrow_mut(|(values, written)| {
        values.resize(piece.len, 0.0);
        written.resize(piece.len, 0.0);
        if entry.strides.is_some() {
            reader.read_f32(entry, values)?;
        } else {
            reader.read_f32_at(entry, piece.start, values)?;
        }
        nino_dtype::encode(job.dtype, values, &mut bytes).map_err(codec)?;
        nino_dtype::decode(job.dtype, &bytes, written).map_err(codec)?;
        Ok((bytes, Sums::measure(values, written)))
    })
}

fn finish_tensor(collector: &mut Collector, entry: &Entry, job: &Job, sums: &Sums) {
    let n = entry.n_values() as u64;
    collector.add(
        &entry.name,
        job.dtype,
        entry.n_bytes(),
        job.n_bytes(),
        n,
        sums,
    );
    if let Some(wanted) = job.wanted {
        collector.fallbacks.push(Fallback {
            tensor: entry.name.clone(),
            shape: entry.shape.clone(),
            wanted,
            written: job.dtype,
        });
    }
}

enum Writer {
    Safetensors(safetensors::Writer),
    Gguf(gguf::Writer),
}

impl Writer {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Writer::Safetensors(w) => w.write(bytes),
            Writer::Gguf(w) => w.write(bytes),
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Writer::Safetensors(w) => w.finish(),
            Writer::Gguf(w) => w.finish(),
        }
    }
}

/// safetensors holds strings only; arrays such as embedded tokenizers stay behind.
fn strings(metadata: &Metadata) -> std::collections::BTreeMap<String, String> {
    let kept = metadata
        .iter()
        .filter(|(k, v)| !matches!(v, Value::Array(_)) && is_kept(k));
    kept.map(|(k, v)| (k.clone(), v.to_string())).collect()
}

fn gguf_metadata(index: &Index, plan: &Plan) -> Metadata {
    let kept = index.metadata.iter().filter(|(k, _)| is_kept(k));
    let mut metadata: Metadata = kept.map(|(k, v)| (k.clone(), v.clone())).collect();
    let named = metadata.entry("general.architecture".to_owned());
    named.or_insert_with(|| Value::Str(plan.architecture.clone()));
    metadata.insert("general.quantization_version".to_owned(), Value::U32(2));
    for job in &plan.jobs {
        let entry = &index.entries()[job.entry];
        if entry.shape != job.shape {
            let shape = entry.shape.iter().map(|&d| d as i32).collect();
            let key = format!("{}{}", gguf::ORIG_SHAPE, entry.name);
            metadata.insert(key, Value::Array(Array::I32(shape)));
        }
    }
    metadata
}

/// Keys that describe the source's layout, not the model.
fn is_kept(key: &str) -> bool {
    key != "general.alignment"
        && key != "general.file_type"
        && key != "_quantization_metadata"
        && key != "format"
        && !key.starts_with(gguf::ORIG_SHAPE)
}
