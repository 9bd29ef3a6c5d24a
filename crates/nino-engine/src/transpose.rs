//! Transposition of a matrix: latents are `[pixels, channels]` inside networks and
//! `[channels, pixels]` in samplers and files, and change between the two in every sampling step.

/// Rows and columns of the blocks that are transposed one after the other. A block's rows and
/// columns stay in the L1 cache although their distances are powers of two.
const ROWS: usize = 8;
const COLUMNS: usize = 16;

/// Transposes `[rows, columns]` to `[columns, rows]`.
pub(crate) fn transpose(src: &[f32], columns: usize, dst: &mut [f32]) {
    let rows = src.len() / columns.max(1);
    for first_column in (0..columns).step_by(COLUMNS) {
        for first_row in (0..rows).step_by(ROWS) {
            let n = ROWS.min(rows - first_row);
            for column in first_column..columns.min(first_column + COLUMNS) {
                let out = &mut dst[column * rows + first_row..][..n];
                for (i, value) in out.iter_mut().enumerate() {
                    *value = src[(first_row + i) * columns + column];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::transpose;

    #[test]
    fn every_value_is_at_its_place_in_matrices_of_any_size() {
        for (rows, columns) in [
            (1, 1),
            (1, 40),
            (40, 1),
            (8, 16),
            (9, 17),
            (23, 5),
            (16, 48),
        ] {
            let src: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
            let mut dst = vec![f32::NAN; src.len()];
            transpose(&src, columns, &mut dst);
            for (i, &value) in src.iter().enumerate() {
                let (row, column) = (i / columns, i % columns);
                let moved = dst[column * rows + row];
                assert!(moved.total_cmp(&value).is_eq(), "{rows}x{columns} at {i}");
            }
        }
        transpose(&[], 0, &mut []);
    }
}
