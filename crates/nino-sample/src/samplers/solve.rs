//! Small dense linear systems, in f32 with partial pivoting: what `torch.linalg.solve` does to the
//! coefficient systems of multistep solvers. Multiplying by reciprocals, column by column, rounds
//! as LAPACK does; these systems are ill-conditioned enough for that to show.

/// The solution of `a` * w = `b`; `a` is given by rows.
pub(super) fn solve(mut a: Vec<Vec<f32>>, mut b: Vec<f32>) -> Vec<f32> {
    let n = b.len();
    for k in 0..n {
        let pivot = (k..n).fold(k, |best, i| {
            if a[i][k].abs() > a[best][k].abs() {
                i
            } else {
                best
            }
        });
        a.swap(k, pivot);
        b.swap(k, pivot);
        let inverse = 1.0 / a[k][k];
        let (done, below) = a.split_at_mut(k + 1);
        for (i, row) in below.iter_mut().enumerate() {
            let factor = row[k] * inverse;
            row.iter_mut()
                .zip(&done[k])
                .for_each(|(v, p)| *v -= factor * p);
            b[k + 1 + i] -= factor * b[k];
        }
    }
    for i in (0..n).rev() {
        b[i] *= 1.0 / a[i][i];
        for j in 0..i {
            b[j] -= a[j][i] * b[i];
        }
    }
    b
}
