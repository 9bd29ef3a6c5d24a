//! Updates that are made of the weight itself: rows turned by orthogonal blocks (OFT, BOFT), and
//! the sizes of GLoRA's matrices. Results are ComfyUI's, which multiplies by the strength twice.

use super::delta::tensor;
use crate::EngineError;
use nino_weights::TensorReader;
use nino_weights::lora::{General, Turn};

/// Whether the blocks turn all rows of a weight.
pub(super) fn fits(turn: &Turn, rows: usize) -> bool {
    let rescale = turn.rescale.as_ref().map(nino_weights::Entry::n_values);
    let blocks = match turn.blocks.shape[..] {
        [n, b, c] => n * b == rows && b == c,
        // Rows that are turned together lie half a block apart, then twice as far each time.
        [m, n, b, c] => {
            let widest = 1usize.checked_shl(m as u32).map(|w| w * b / 2);
            let whole = widest.is_some_and(|w| w > 0 && rows.is_multiple_of(w));
            n * b == rows && b == c && b.is_multiple_of(2) && whole
        }
        _ => false,
    };
    blocks && rescale.is_none_or(|n| n == rows)
}

/// Turns the rows of a weight.
pub(super) fn merge(
    reader: &TensorReader,
    turn: &Turn,
    strength: f32,
    rows: usize,
    weight: &mut [f32],
) -> Result<(), EngineError> {
    let columns = weight.len() / rows.max(1);
    let blocks = tensor(reader, &turn.blocks)?;
    let shape = &turn.blocks.shape;
    let b = shape.last().copied().unwrap_or(1).max(1);
    let turns = turns(&blocks, b, turn.most);
    let rescale = turn.rescale.as_ref().filter(|_| shape.len() == 4);
    let rescale = rescale.map(|entry| tensor(reader, entry)).transpose()?;
    // Each block between standing still and turning, by the strength.
    let partly = |r: &[f32], i: usize, j: usize| {
        let still = f32::from(u8::from(i == j));
        r[i * b + j] * strength + (1.0 - strength) * still
    };
    let mut turned = weight.to_vec();
    let stages = if shape.len() == 4 { shape[0] } else { 1 };
    for (stage, turns) in turns.chunks_exact(rows * b).take(stages).enumerate() {
        let places = places(rows, b, (shape.len() == 4).then_some(stage));
        let before = turned.clone();
        for (r, places) in turns.chunks_exact(b * b).zip(places.chunks_exact(b)) {
            for (i, &to) in places.iter().enumerate() {
                let to = &mut turned[to * columns..][..columns];
                to.fill(0.0);
                for (j, &from) in places.iter().enumerate() {
                    // OFT's blocks are used as they lie, from the other side.
                    let factor = match shape.len() {
                        4 => partly(r, i, j),
                        _ => partly(r, j, i),
                    };
                    let from = &before[from * columns..][..columns];
                    to.iter_mut().zip(from).for_each(|(t, f)| *t += factor * f);
                }
            }
        }
    }
    for (row, values) in turned.chunks_exact_mut(columns.max(1)).enumerate() {
        let factor = rescale.as_ref().map_or(1.0, |r| r[row]);
        values.iter_mut().for_each(|v| *v *= factor);
    }
    for (w, t) in weight.iter_mut().zip(&turned) {
        *w += strength * (t - *w);
    }
    Ok(())
}

/// Rows in the order in which blocks take them.
fn places(rows: usize, b: usize, stage: Option<usize>) -> Vec<usize> {
    let Some(stage) = stage else {
        return (0..rows).collect();
    };
    let apart = (b / 2) << stage;
    let pairs = (0..rows).step_by(2 * apart);
    let pairs = pairs.flat_map(|start| (start..start + apart).flat_map(move |i| [i, i + apart]));
    pairs.collect()
}

/// Cayley's orthogonal matrices `(I + q) / (I - q)` of blocks `q - qᵀ`, whose norm is at most
/// `most` where that is not 0.
fn turns(blocks: &[f32], b: usize, most: f32) -> Vec<f32> {
    let skew = |block: &[f32]| -> Vec<f64> {
        let at = |i: usize, j: usize| f64::from(block[i * b + j]);
        let places = (0..b * b).map(|k| (k / b, k % b));
        places.map(|(i, j)| at(i, j) - at(j, i)).collect()
    };
    let skews: Vec<Vec<f64>> = blocks.chunks_exact(b * b).map(skew).collect();
    let norm = skews.iter().flatten().map(|v| v * v).sum::<f64>().sqrt() + 1e-8;
    let most = f64::from(most);
    let scale = if most > 0.0 && norm > most {
        most / norm
    } else {
        1.0
    };
    let turn = |q: &Vec<f64>| {
        let still = |k: usize| f64::from(u8::from(k / b == k % b));
        let plus = q.iter().enumerate().map(|(k, v)| still(k) + scale * v);
        let minus = q.iter().enumerate().map(|(k, v)| still(k) - scale * v);
        over(plus.collect(), minus.collect(), b)
    };
    skews.iter().flat_map(turn).map(|v| v as f32).collect()
}

/// `a` times the inverse of `m`, which commutes with it: rows are eliminated from both. The inverse
/// is there, since a skew matrix has no real eigenvalue but 0.
fn over(mut a: Vec<f64>, mut m: Vec<f64>, b: usize) -> Vec<f64> {
    for i in 0..b {
        let size = |row: &usize| m[row * b + i].abs();
        let best = (i..b)
            .max_by(|x, y| size(x).total_cmp(&size(y)))
            .unwrap_or(i);
        for j in 0..b {
            m.swap(i * b + j, best * b + j);
            a.swap(i * b + j, best * b + j);
        }
        let pivot = m[i * b + i];
        for row in (0..b).filter(|&row| row != i) {
            let factor = m[row * b + i] / pivot;
            for j in 0..b {
                m[row * b + j] -= factor * m[i * b + j];
                a[row * b + j] -= factor * a[i * b + j];
            }
        }
        for j in 0..b {
            m[i * b + j] /= pivot;
            a[i * b + j] /= pivot;
        }
    }
    a
}

/// Which of GLoRA's matrices multiply, the first pair behind the weight, and their rank; nothing
/// where they do not fit a weight `[out, in]`. LyCORIS had the factors in the other order at first,
/// and of a square weight either may be meant.
pub(super) fn order(general: &General, weight: &[usize]) -> Option<([[usize; 2]; 2], usize)> {
    let [out, columns] = *weight else {
        return None;
    };
    let size = |i: usize| match general.factors[i].shape[..] {
        [rows, columns] => Some([rows, columns]),
        _ => None,
    };
    let fits = |order: [[usize; 2]; 2]| {
        let [[left, right], [up, down]] = order.map(|pair| pair.map(size));
        let rank = left?[1];
        let sizes = [left?, right?, up?, down?];
        let wanted = [
            [columns, rank],
            [rank, columns],
            [out, rank],
            [rank, columns],
        ];
        (sizes == wanted && rank > 0).then_some((order, rank))
    };
    let (new, old) = (fits([[0, 1], [2, 3]]), fits([[1, 0], [3, 2]]));
    if out == columns {
        old.or(new)
    } else {
        new.or(old)
    }
}
