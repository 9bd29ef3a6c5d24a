//! CIELAB under daylight (D65), with the constants of kornia, which ComfyUI uses; and functions of
//! symmetric matrices.

pub(super) type Vector = [f64; 3];
pub(super) type Matrix = [[f64; 3]; 3];

const WHITE: Vector = [0.950_47, 1.0, 1.088_83];
const TO_XYZ: Matrix = [
    [0.412_453, 0.357_580, 0.180_423],
    [0.212_671, 0.715_160, 0.072_169],
    [0.019_334, 0.119_193, 0.950_227],
];
const FROM_XYZ: Matrix = [
    [
        3.240_481_343_200_526_6,
        -1.537_151_516_271_318_5,
        -0.498_536_326_168_887_8,
    ],
    [
        -0.969_254_949_996_568_2,
        1.875_990_001_489_890_7,
        0.041_555_926_558_292_8,
    ],
    [
        0.055_646_639_135_177_2,
        -0.204_041_338_366_511_2,
        1.057_311_069_645_344_3,
    ],
];

fn times(matrix: &Matrix, v: Vector) -> Vector {
    matrix.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2])
}

pub(super) fn rgb_to_lab(rgb: Vector) -> Vector {
    let linear = rgb.map(|v| {
        if v > 0.04045 {
            ((v + 0.055) / 1.055).powf(2.4)
        } else {
            v / 12.92
        }
    });
    let xyz = times(&TO_XYZ, linear);
    let f = [0, 1, 2].map(|i| {
        let v = xyz[i] / WHITE[i];
        if v > 0.008_856 {
            v.cbrt()
        } else {
            7.787 * v + 4.0 / 29.0
        }
    });
    [
        116.0 * f[1] - 16.0,
        500.0 * (f[0] - f[1]),
        200.0 * (f[1] - f[2]),
    ]
}

pub(super) fn lab_to_rgb([l, a, b]: Vector) -> Vector {
    let y = (l + 16.0) / 116.0;
    // Beyond blue there is nothing.
    let f = [a / 500.0 + y, y, (y - b / 200.0).max(0.0)];
    let xyz = [0, 1, 2].map(|i| {
        let v = if f[i] > 0.206_896_6 {
            f[i].powi(3)
        } else {
            (f[i] - 4.0 / 29.0) / 7.787
        };
        v * WHITE[i]
    });
    times(&FROM_XYZ, xyz).map(|v| {
        if v > 0.003_130_8 {
            1.055 * v.powf(1.0 / 2.4) - 0.055
        } else {
            12.92 * v
        }
    })
}

pub(super) fn product(a: &Matrix, b: &Matrix) -> Matrix {
    a.map(|row| [0, 1, 2].map(|j| row[0] * b[0][j] + row[1] * b[1][j] + row[2] * b[2][j]))
}

/// The symmetric matrix with the same directions, whose lengths are `f` of the old ones. Directions
/// are found by Jacobi's rotations.
pub(super) fn root(matrix: &Matrix, f: impl Fn(f64) -> f64) -> Matrix {
    const ROUNDS: usize = 30;
    let mut a = *matrix;
    let mut directions = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    for _ in 0..ROUNDS {
        for (p, q) in [(0, 1), (0, 2), (1, 2)] {
            if a[p][q] == 0.0 {
                continue;
            }
            let (sin, cos) = (0.5 * (2.0 * a[p][q]).atan2(a[q][q] - a[p][p])).sin_cos();
            let mut turn = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
            (turn[p][p], turn[q][q]) = (cos, cos);
            (turn[p][q], turn[q][p]) = (sin, -sin);
            a = product(&product(&transposed(&turn), &a), &turn);
            directions = product(&directions, &turn);
        }
    }
    let lengths = [0, 1, 2].map(|i| f(a[i][i]));
    let scaled = directions.map(|row| [0, 1, 2].map(|i| row[i] * lengths[i]));
    product(&scaled, &transposed(&directions))
}

fn transposed(a: &Matrix) -> Matrix {
    [0, 1, 2].map(|i| [0, 1, 2].map(|j| a[j][i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: &Matrix, b: &Matrix) -> bool {
        let pairs = a.iter().flatten().zip(b.iter().flatten());
        pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-9)
    }

    #[test]
    fn a_root_twice_is_the_matrix() {
        let matrix = [[4.0, 1.5, -0.3], [1.5, 2.0, 0.7], [-0.3, 0.7, 1.0]];
        let half = root(&matrix, f64::sqrt);
        assert!(near(&product(&half, &half), &matrix), "{half:?}");
        let inverse = root(&matrix, |v| 1.0 / v);
        let one = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        assert!(near(&product(&inverse, &matrix), &one), "{inverse:?}");
    }

    #[test]
    fn colors_come_back() {
        for rgb in [
            [0.0, 0.0, 0.0],
            [1.0, 1.0, 1.0],
            [0.8, 0.1, 0.02],
            [0.2, 0.5, 0.9],
        ] {
            let back = lab_to_rgb(rgb_to_lab(rgb));
            let off = [0, 1, 2].map(|c| (back[c] - rgb[c]).abs());
            assert!(off.iter().all(|v| *v < 1e-4), "{rgb:?} {back:?}");
        }
        let white = rgb_to_lab([1.0; 3]);
        assert!((white[0] - 100.0).abs() < 1e-3, "{white:?}");
    }
}
