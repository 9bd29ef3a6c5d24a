//! The rotation of `int8_convrot` files. Rows of a weight are cut into groups, and each group is
//! multiplied by a regular Hadamard matrix, which spreads outliers over the group. The matrix is
//! the Kronecker power of a symmetric 4 × 4 one, divided by the square root of its size: it is its
//! own inverse. A layer multiplies its input's groups by the same matrix.

/// Whether there is a matrix of this size: a power of four, and of a size that files have.
pub fn is_size(n: usize) -> bool {
    (4..=4096).contains(&n) && n.is_power_of_two() && n.trailing_zeros().is_multiple_of(2)
}

/// The matrix of a size, row by row. Panics unless [`is_size`] says that there is one.
pub fn matrix(size: usize) -> Vec<f32> {
    let mut values = vec![0.0; size * size];
    for (i, row) in values.chunks_exact_mut(size).enumerate() {
        row[i] = 1.0;
        rotate(row, size);
    }
    values
}

/// Multiplies each group of `size` values by the matrix. Twice is the identity, up to rounding.
/// Panics unless [`is_size`] says that there is a matrix, and the values are whole groups.
pub fn rotate(values: &mut [f32], size: usize) {
    assert!(is_size(size), "no Hadamard matrix of size {size}");
    assert!(values.len().is_multiple_of(size), "groups are whole");
    for group in values.chunks_exact_mut(size) {
        // One factor of the Kronecker power after the other.
        let mut step = 1;
        while step < size {
            for start in (0..size).step_by(4 * step) {
                for i in start..start + step {
                    let at = [i, i + step, i + 2 * step, i + 3 * step];
                    let v = at.map(|i| group[i]);
                    // Each row of the 4 × 4 matrix is ones with one -1; half of it is orthogonal.
                    let half = (v[0] + v[1] + v[2] + v[3]) * 0.5;
                    for (to, minus) in at.into_iter().zip([3, 2, 1, 0]) {
                        group[to] = half - v[minus];
                    }
                }
            }
            step *= 4;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_matrix_is_the_regular_one() {
        let signs = [[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]];
        let expected: Vec<f32> = signs.concat().iter().map(|&s| s as f32 / 2.0).collect();
        assert_eq!(matrix(4), expected);
    }

    #[test]
    fn larger_ones_are_kronecker_powers() {
        let (four, sixteen) = (matrix(4), matrix(16));
        for i in 0..16 {
            for j in 0..16 {
                let expected = four[i / 4 * 4 + j / 4] * four[i % 4 * 4 + j % 4];
                assert!((sixteen[i * 16 + j] - expected).abs() < 1e-7, "{i} {j}");
            }
        }
    }

    #[test]
    fn a_rotation_undoes_itself() {
        let values: Vec<f32> = (0..512).map(|i| (i as f32 * 0.37).sin()).collect();
        let mut turned = values.clone();
        rotate(&mut turned, 256);
        assert!((turned[0] - values[0]).abs() > 1e-3);
        rotate(&mut turned, 256);
        for (t, v) in turned.iter().zip(&values) {
            assert!((t - v).abs() < 1e-5, "{t} {v}");
        }
    }

    #[test]
    fn sizes_are_powers_of_four() {
        let sizes: Vec<usize> = (0..10_000).filter(|&n| is_size(n)).collect();
        assert_eq!(sizes, [4, 16, 64, 256, 1024, 4096]);
    }
}
