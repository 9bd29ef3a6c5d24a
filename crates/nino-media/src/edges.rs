//! Edges of a picture by Canny's method, as ComfyUI's node `Canny` has them: kornia 0.9's filter.

/// Edges as 1, all else 0, `[height, width]`, of RGB values in 0..1. A pixel is an edge where the
/// gradient is largest across its own direction and above `high`, or above `low` and connected to
/// such a pixel. An edge from black to white has a gradient of about 2.6.
pub fn canny(rgb: &[f32], width: usize, height: usize, low: f32, high: f32) -> Vec<f32> {
    if width == 0 || height == 0 {
        return Vec::new();
    }
    let gray = rgb.chunks_exact(3);
    let gray = gray.map(|p| 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]);
    let gray = Plane {
        values: gray.collect(),
        width,
        height,
    };
    let gray = gray.blurred();
    let gradients = gray.gradients();
    let ridges = ridges(&gradients, width, height);
    connected(&ridges, width, height, low, high)
}

struct Plane {
    values: Vec<f32>,
    width: usize,
    height: usize,
}

/// Weights of a normal distribution of deviation 1, five wide.
const BLUR: [f32; 5] = [
    0.054_488_69,
    0.244_201_34,
    0.402_619_95,
    0.244_201_34,
    0.054_488_69,
];
/// Added to a gradient's square, so that flat places have one, too.
const EPS: f32 = 1e-6;
/// Neighbors of a pixel as (y, x), from the right one clockwise.
const AROUND: [(isize, isize); 8] = [
    (0, 1),
    (1, 1),
    (1, 0),
    (1, -1),
    (0, -1),
    (-1, -1),
    (-1, 0),
    (-1, 1),
];

impl Plane {
    fn at(&self, y: usize, x: usize) -> f32 {
        self.values[y * self.width + x]
    }

    fn map(&self, f: impl Fn(usize, usize) -> f32) -> Plane {
        let places = (0..self.height).flat_map(|y| (0..self.width).map(move |x| (y, x)));
        Plane {
            values: places.map(|(y, x)| f(y, x)).collect(),
            ..*self
        }
    }

    /// Mirrored at the borders, without the border itself.
    fn blurred(&self) -> Plane {
        let mirrored = |i: isize, n: usize| {
            let last = n as isize - 1;
            let i = if i < 0 { -i } else { i };
            (if i > last { 2 * last - i } else { i }).clamp(0, last) as usize
        };
        let sum = |value: &dyn Fn(isize) -> f32| -> f32 {
            BLUR.iter().zip(-2..).map(|(w, i)| w * value(i)).sum()
        };
        let rows = self.map(|y, x| sum(&|i| self.at(y, mirrored(x as isize + i, self.width))));
        rows.map(|y, x| sum(&|i| rows.at(mirrored(y as isize + i, self.height), x)))
    }

    /// Sobel's differences along x and y; values beyond the border are those at it.
    fn gradients(&self) -> Vec<[f32; 2]> {
        let near = |y: usize, x: usize, dy: isize, dx: isize| {
            let y = y.saturating_add_signed(dy).min(self.height - 1);
            let x = x.saturating_add_signed(dx).min(self.width - 1);
            self.at(y, x)
        };
        let places = (0..self.height).flat_map(|y| (0..self.width).map(move |x| (y, x)));
        let gradient = |(y, x): (usize, usize)| {
            let side = |dx: isize| near(y, x, -1, dx) + 2.0 * near(y, x, 0, dx) + near(y, x, 1, dx);
            let line = |dy: isize| near(y, x, dy, -1) + 2.0 * near(y, x, dy, 0) + near(y, x, dy, 1);
            [side(1) - side(-1), line(1) - line(-1)]
        };
        places.map(gradient).collect()
    }
}

/// Lengths of gradients that are largest along their own direction; 0 elsewhere.
fn ridges(gradients: &[[f32; 2]], width: usize, height: usize) -> Vec<f32> {
    let length = |[x, y]: [f32; 2]| (x * x + y * y + EPS).sqrt();
    let flat = length([0.0; 2]);
    let near = |y: usize, x: usize, direction: usize| {
        let (dy, dx) = AROUND[direction];
        let y = y.checked_add_signed(dy).filter(|&y| y < height);
        let x = x.checked_add_signed(dx).filter(|&x| x < width);
        match (y, x) {
            (Some(y), Some(x)) => length(gradients[y * width + x]),
            _ => flat,
        }
    };
    let places = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
    let ridge = |(y, x): (usize, usize)| {
        let gradient = gradients[y * width + x];
        let own = length(gradient);
        let eighths = gradient[1].atan2(gradient[0]) * (4.0 / std::f32::consts::PI);
        let along = (eighths.round_ties_even() as isize).rem_euclid(8) as usize;
        // Of two equal pixels side by side the left or upper one counts.
        let beats = |direction: usize| {
            let other = near(y, x, direction);
            own > other || (own.to_bits() == other.to_bits() && matches!(direction, 0 | 2))
        };
        let is_ridge = own > flat && beats(along) && beats((along + 4) % 8);
        if is_ridge { own } else { 0.0 }
    };
    places.map(ridge).collect()
}

/// What is above `high`, and what is above `low` and connected to it.
fn connected(ridges: &[f32], width: usize, height: usize, low: f32, high: f32) -> Vec<f32> {
    let mut edges: Vec<f32> = vec![0.0; ridges.len()];
    let mut found: Vec<usize> = (0..ridges.len()).filter(|&i| ridges[i] > high).collect();
    found.iter().for_each(|&i| edges[i] = 1.0);
    while let Some(i) = found.pop() {
        let (y, x) = (i / width, i % width);
        for (dy, dx) in AROUND {
            let y = y.checked_add_signed(dy).filter(|&y| y < height);
            let x = x.checked_add_signed(dx).filter(|&x| x < width);
            if let (Some(y), Some(x)) = (y, x) {
                let i = y * width + x;
                if edges[i] < 1.0 && ridges[i] > low {
                    edges[i] = 1.0;
                    found.push(i);
                }
            }
        }
    }
    edges
}
