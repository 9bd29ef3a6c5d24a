//! The arithmetic of updates: a file's small matrices to the difference they make to a weight, with
//! ComfyUI's results. Differences are computed in the layout of the original weight,
//! `[out, in, taps..]`, and moved to the graph's, channels last, at the end.

use super::turned;
use crate::EngineError;
use crate::fit::fit;
use crate::values::{read, write};
use nino_cpu::{Cpu, CpuOptions};
use nino_dtype::DType;
use nino_graph::{Device, ExecError, Graph, ParamError, ParamSource, ParamSpec, RunOptions, Shape};
use nino_weights::lora::{Delta, Factor, General, LowRank, Pair, Rows, Update};
use nino_weights::{Entry, TensorReader};
use std::sync::{Arc, OnceLock};

/// Whether an update's sizes are those of a weight stored as `shape`.
pub(super) fn fits(update: &Update, shape: &[usize]) -> bool {
    let (rows, len) = (shape.first().copied().unwrap_or(1), numel(shape));
    let columns = len / rows.max(1);
    let magnitude = update.magnitude.as_ref().map(Entry::n_values);
    let magnitude_fits = magnitude.is_none_or(|n| n == rows || Some(&n) == shape.get(1));
    magnitude_fits
        && match &update.delta {
            Delta::LowRank(low) => {
                let out = low.up.n_values() / low.rank;
                let height = match update.rows {
                    Some(_) => out <= rows,
                    None => out == rows,
                };
                height && low_rank_columns(low) == columns
            }
            Delta::Hadamard(pair) => pair.factors.iter().all(|f| factor_len(f) == len),
            Delta::Kronecker(pair) => pair.factors.iter().map(factor_len).product::<usize>() == len,
            Delta::Turned(turn) => update.rows.is_none() && turned::fits(turn, rows),
            Delta::General(general) => {
                update.rows.is_none() && turned::order(general, shape).is_some()
            }
            Delta::Full(entry) => update.rows.is_some() || entry.n_values() == len,
            Delta::Set(entry) => update.rows.is_none() && entry.n_values() == len,
        }
}

/// The size that a weight grows to before it is updated.
pub(super) fn grown(update: &Update) -> Option<[usize; 2]> {
    match &update.delta {
        Delta::LowRank(low) => low.reshape,
        _ => None,
    }
}

/// A matrix `[rows, columns]` filled up with zeros.
pub(super) fn grow(values: &[f32], [_, columns]: [usize; 2], to: [usize; 2]) -> Vec<f32> {
    let mut out = vec![0.0; to[0] * to[1]];
    let rows = values.chunks_exact(columns.max(1));
    for (from, to) in rows.zip(out.chunks_exact_mut(to[1].max(1))) {
        to[..columns].copy_from_slice(from);
    }
    out
}

fn low_rank_columns(low: &LowRank) -> usize {
    let taps = low.mid.as_ref().map_or(1, |mid| numel(&mid.shape[2..]));
    low.down.n_values() / low.rank * taps
}

fn factor_len(factor: &Factor) -> usize {
    match factor {
        Factor::Whole(entry) => entry.n_values(),
        Factor::Product { a, b, core: None } => {
            a.shape.first().map_or(0, |m| m * b.n_values()) / b.shape.first().copied().unwrap_or(1)
        }
        Factor::Product {
            a,
            b,
            core: Some(core),
        } => numel(&a.shape[1..]) * numel(&b.shape[1..]) * numel(&core.shape[2..]),
    }
}

fn numel(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// One half of a low-rank update as a layer's weight: `up` times `factor` and the file's own scale,
/// or `down`, in the graph's layout.
pub(super) fn half(
    reader: &TensorReader,
    update: &Update,
    is_up: bool,
    factor: f32,
    shape: Shape,
) -> Result<Vec<f32>, EngineError> {
    let Delta::LowRank(low) = &update.delta else {
        return Ok(vec![0.0; shape.numel()]);
    };
    if !is_up {
        return Ok(to_graph(tensor(reader, &low.down)?, shape));
    }
    let mut up = tensor(reader, &low.up)?;
    up.iter_mut().for_each(|v| *v *= factor * low.scale);
    let mut whole = vec![0.0; shape.numel()];
    let start = first_row(update.rows, up.len() / low.rank, shape[0]) * low.rank;
    whole[start..start + up.len()].copy_from_slice(&up);
    Ok(whole)
}

/// Values of a difference that are computed at a time.
const BAND: usize = 2 << 20;

/// Computes differences; large products run on all cores.
#[derive(Default)]
pub(super) struct Deltas {
    cpu: OnceLock<Cpu>,
}

impl Deltas {
    /// Adds an update to a weight in the graph's layout.
    pub(super) fn merge(
        &self,
        reader: &TensorReader,
        update: &Update,
        strength: f32,
        shape: Shape,
        weight: &mut [f32],
    ) -> Result<(), EngineError> {
        if let (Delta::LowRank(low), None) = (&update.delta, &update.magnitude) {
            let (up, down) = (tensor(reader, &low.up)?, Self::down(reader, low)?);
            let start = first_row(update.rows, up.len() / low.rank.max(1), shape[0]);
            let columns = weight.len() / shape[0].max(1);
            let weight = &mut weight[start * columns..];
            return self.merge_bands((&up, &down, low.rank), strength * low.scale, shape, weight);
        }
        if let Delta::Turned(turn) = &update.delta {
            return turned::merge(reader, turn, strength, shape[0], weight);
        }
        if let Delta::General(general) = &update.delta {
            return self.merge_general(reader, general, strength, shape, weight);
        }
        let (delta, scale) = self.delta(reader, update)?;
        let columns = weight.len() / shape[0].max(1);
        let mut piece = shape;
        piece[0] = delta.len() / columns.max(1);
        let start = first_row(update.rows, piece[0], shape[0]) * columns;
        let delta = to_graph(delta, piece);
        let weight = &mut weight[start..start + delta.len()];
        if matches!(update.delta, Delta::Set(_)) {
            weight.copy_from_slice(&delta);
            return Ok(());
        }
        match &update.magnitude {
            None => {
                let factor = strength * scale;
                for (w, d) in weight.iter_mut().zip(&delta) {
                    *w += factor * d;
                }
            }
            Some(entry) => {
                let magnitude = tensor(reader, entry)?;
                decompose(weight, &delta, piece, &magnitude, scale, strength);
            }
        }
        Ok(())
    }

    /// The usual update, a band of rows after the other: a whole difference is as large as its
    /// weight.
    fn merge_bands(
        &self,
        (up, down, rank): (&[f32], &[f32], usize),
        factor: f32,
        shape: Shape,
        weight: &mut [f32],
    ) -> Result<(), EngineError> {
        let columns = down.len() / rank.max(1);
        let rows = (BAND / columns.max(1)).max(1);
        let bands = up.chunks(rows * rank);
        for (up, weight) in bands.zip(weight.chunks_mut(rows * columns)) {
            let mut band = shape;
            band[0] = up.len() / rank.max(1);
            let delta = to_graph(self.product(up, down, rank)?, band);
            for (w, d) in weight.iter_mut().zip(&delta) {
                *w += factor * d;
            }
        }
        Ok(())
    }

    /// The lower half `[rank, in, taps..]`, spread over the taps where the file has a middle.
    fn down(reader: &TensorReader, low: &LowRank) -> Result<Vec<f32>, EngineError> {
        let down = tensor(reader, &low.down)?;
        Ok(match &low.mid {
            Some(mid) => spread(&tensor(reader, mid)?, mid, &down, low.rank),
            None => down,
        })
    }

    /// The difference `[out, in, taps..]` and the factor the file gives it.
    fn delta(
        &self,
        reader: &TensorReader,
        update: &Update,
    ) -> Result<(Vec<f32>, f32), EngineError> {
        match &update.delta {
            Delta::LowRank(low) => {
                let (up, down) = (tensor(reader, &low.up)?, Self::down(reader, low)?);
                Ok((self.product(&up, &down, low.rank)?, low.scale))
            }
            Delta::Hadamard(pair) => {
                let [a, b] = self.factors(reader, pair)?;
                let delta = a.iter().zip(&b).map(|(a, b)| a * b).collect();
                Ok((delta, pair.scale))
            }
            Delta::Kronecker(pair) => {
                let [a, b] = self.factors(reader, pair)?;
                let rows = pair.factors.each_ref().map(factor_rows);
                Ok((kronecker(&a, rows[0], &b, rows[1]), pair.scale))
            }
            Delta::Full(entry) | Delta::Set(entry) => Ok((tensor(reader, entry)?, 1.0)),
            Delta::Turned(_) | Delta::General(_) => {
                unreachable!("these are made of the weight itself")
            }
        }
    }

    /// GLoRA, for the weight of a linear layer.
    fn merge_general(
        &self,
        reader: &TensorReader,
        general: &General,
        strength: f32,
        shape: Shape,
        weight: &mut [f32],
    ) -> Result<(), EngineError> {
        let Some((order, rank)) = turned::order(general, &shape) else {
            return Ok(());
        };
        let [[left, right], [up, down]] = order.map(|pair| pair.map(|i| &general.factors[i]));
        let [left, right, up, down] = [left, right, up, down].map(|e| tensor(reader, e));
        let of_weight = self.product(&self.product(weight, &left?, shape[1])?, &right?, rank)?;
        let own = self.product(&up?, &down?, rank)?;
        let scale = strength * general.alpha.map_or(1.0, |alpha| alpha / rank as f32);
        for ((w, a), b) in weight.iter_mut().zip(&of_weight).zip(&own) {
            *w += scale * (a + b);
        }
        Ok(())
    }

    fn factors(&self, reader: &TensorReader, pair: &Pair) -> Result<[Vec<f32>; 2], EngineError> {
        let [a, b] = &pair.factors;
        Ok([self.factor(reader, a)?, self.factor(reader, b)?])
    }

    fn factor(&self, reader: &TensorReader, factor: &Factor) -> Result<Vec<f32>, EngineError> {
        let (a, b, core) = match factor {
            Factor::Whole(entry) => return tensor(reader, entry),
            Factor::Product { a, b, core } => (a, b, core),
        };
        let rank = b.shape.first().copied().unwrap_or(1);
        let (left, right) = (tensor(reader, a)?, tensor(reader, b)?);
        let Some(core) = core else {
            return self.product(&left, &right, rank);
        };
        // a is [i, out]: what a product without a core has the other way round.
        let i = a.shape.first().copied().unwrap_or(1);
        let spread = spread(&tensor(reader, core)?, core, &right, rank);
        self.product(&transposed(&left, i), &spread, i)
    }

    /// `[m, k]` times `[k, n]`.
    fn product(&self, a: &[f32], b: &[f32], k: usize) -> Result<Vec<f32>, EngineError> {
        let cpu = self.cpu()?;
        let (m, n) = (a.len() / k.max(1), b.len() / k.max(1));
        let mut g = Graph::new();
        let left = g.input("a", [1, m, k], DType::F32);
        let right = g.input("b", [1, k, n], DType::F32);
        let out = g.matmul(left, right); // [1, m, n]
        g.output(out);
        let plan = fit(cpu, &g.finish()?, 1)?;
        let weights = cpu.load(&[&plan], Arc::new(NoParams))?;
        let mut session = cpu.session(plan.clone(), &weights)?;
        write(&mut *session, plan.graph(), left, a)?;
        write(&mut *session, plan.graph(), right, b)?;
        session.run(RunOptions::default())?;
        read(&mut *session, plan.graph(), out)
    }

    fn cpu(&self) -> Result<&Cpu, EngineError> {
        if let Some(cpu) = self.cpu.get() {
            return Ok(cpu);
        }
        let cpu = Cpu::new(CpuOptions::default()).map_err(|e| ExecError::Device {
            message: e.to_string(),
        })?;
        Ok(self.cpu.get_or_init(|| cpu))
    }
}

/// A source of weights for graphs that have none.
struct NoParams;

impl ParamSource for NoParams {
    fn read(&self, param: &ParamSpec, _: &mut [u8]) -> Result<(), ParamError> {
        Err(ParamError {
            name: param.name.clone(),
            what: "a product has no weights".to_owned(),
        })
    }
}

pub(super) fn tensor(reader: &TensorReader, entry: &Entry) -> Result<Vec<f32>, EngineError> {
    let mut values = vec![0.0; entry.n_values()];
    reader.read_f32(entry, &mut values)?;
    Ok(values)
}

/// The row an update begins at: the last of several pieces ends where the weight does.
fn first_row(rows: Option<Rows>, height: usize, all: usize) -> usize {
    match rows {
        None => 0,
        Some(Rows { part, of }) if part + 1 == of => all - height,
        Some(Rows { part, .. }) => part * height,
    }
}

fn factor_rows(factor: &Factor) -> usize {
    match factor {
        Factor::Whole(entry) => entry.shape.first().copied().unwrap_or(1),
        Factor::Product { a, core: None, .. } => a.shape.first().copied().unwrap_or(1),
        Factor::Product {
            a, core: Some(_), ..
        } => a.shape.get(1).copied().unwrap_or(1),
    }
}

/// Tucker's core `[i, j, taps..]` applied to `[j, columns]`: `[i, columns, taps..]`.
fn spread(core: &[f32], entry: &Entry, down: &[f32], rank: usize) -> Vec<f32> {
    let taps = numel(&entry.shape[2..]);
    let columns = down.len() / rank.max(1);
    let n = entry.shape[0];
    let mut out = vec![0.0; n * columns * taps];
    for (out, core) in out
        .chunks_exact_mut(columns * taps)
        .zip(core.chunks_exact(rank * taps))
    {
        for (core, down) in core.chunks_exact(taps).zip(down.chunks_exact(columns)) {
            for (out, d) in out.chunks_exact_mut(taps).zip(down) {
                out.iter_mut().zip(core).for_each(|(o, c)| *o += d * c);
            }
        }
    }
    out
}

/// `[rows, columns]` to `[columns, rows]`.
fn transposed(values: &[f32], rows: usize) -> Vec<f32> {
    let columns = values.len() / rows.max(1);
    (0..values.len())
        .map(|at| values[at % rows * columns + at / rows])
        .collect()
}

fn kronecker(a: &[f32], a_rows: usize, b: &[f32], b_rows: usize) -> Vec<f32> {
    let (a_columns, b_columns) = (a.len() / a_rows, b.len() / b_rows);
    let mut out = Vec::with_capacity(a.len() * b.len());
    for a in a.chunks_exact(a_columns) {
        for b in b.chunks_exact(b_columns) {
            for a in a {
                out.extend(b.iter().map(|b| a * b));
            }
        }
    }
    out
}

/// `[out, in, taps..]` to `[out, taps.., in]` where the graph's shape has taps.
fn to_graph(values: Vec<f32>, shape: Shape) -> Vec<f32> {
    if shape.rank() < 4 {
        return values;
    }
    let cin = shape.last_dim();
    let taps = numel(&shape[1..shape.rank() - 1]);
    if taps == 1 {
        return values;
    }
    let mut moved = vec![0.0; values.len()];
    let row = cin * taps;
    for (from, to) in values.chunks_exact(row).zip(moved.chunks_exact_mut(row)) {
        for (at, v) in to.iter_mut().enumerate() {
            *v = from[at % cin * taps + at / cin];
        }
    }
    moved
}

/// DoRA as ComfyUI computes it: the updated weight, its rows (or columns) brought to `magnitude`.
/// Rows are measured before the update, columns after it.
fn decompose(
    weight: &mut [f32],
    delta: &[f32],
    shape: Shape,
    magnitude: &[f32],
    scale: f32,
    strength: f32,
) {
    let updated: Vec<f32> = weight
        .iter()
        .zip(delta)
        .map(|(w, d)| w + scale * d)
        .collect();
    let columns = weight.len() / shape[0].max(1);
    let cin = shape.last_dim();
    let by_row = magnitude.len() == shape[0];
    let group = |at: usize| if by_row { at / columns } else { at % cin };
    let mut squares = vec![0f64; magnitude.len()];
    let measured = if by_row { &*weight } else { &updated[..] };
    for (at, v) in measured.iter().enumerate() {
        squares[group(at)] += f64::from(*v) * f64::from(*v);
    }
    let factors: Vec<f32> = squares
        .iter()
        .zip(magnitude)
        .map(|(s, m)| m / (s.sqrt() as f32 + f32::EPSILON))
        .collect();
    for (at, (w, u)) in weight.iter_mut().zip(&updated).enumerate() {
        *w += strength * (u * factors[group(at)] - *w);
    }
}
