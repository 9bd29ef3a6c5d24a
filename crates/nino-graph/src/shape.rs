//! A tensor shape of up to six dimensions, stored inline so that it copies like a number.

use std::fmt;
use std::ops::{Deref, DerefMut};

const MAX_RANK: usize = 6;

/// Sizes of a contiguous, row-major tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: u8,
}

impl Shape {
    /// The shape with these sizes, or `None` above six dimensions.
    pub fn try_new(dims: &[usize]) -> Option<Shape> {
        if dims.len() > MAX_RANK {
            return None;
        }
        let mut shape = Shape {
            dims: [1; MAX_RANK],
            rank: dims.len() as u8,
        };
        shape.dims[..dims.len()].copy_from_slice(dims);
        Some(shape)
    }

    /// The shape with these sizes.
    #[track_caller]
    pub fn new(dims: &[usize]) -> Shape {
        Shape::try_new(dims).expect("a shape has at most six dimensions")
    }

    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    pub fn numel(&self) -> usize {
        self.iter().product()
    }

    /// Number of values unless the product overflows.
    pub fn checked_numel(&self) -> Option<usize> {
        self.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
    }

    /// Size of the last dimension; 1 for a scalar.
    pub fn last_dim(&self) -> usize {
        self.last().copied().unwrap_or(1)
    }

    /// Number of rows when the tensor is seen as `[rows, last_dim]`.
    pub fn rows(&self) -> usize {
        self.leading(1)
    }

    /// Product of all but the last `tail` sizes.
    pub(crate) fn leading(&self, tail: usize) -> usize {
        self[..self.rank().saturating_sub(tail)].iter().product()
    }

    /// An image or video as `[b, t, h, w, c]`; a missing frame axis is 1.
    pub fn as_video(&self) -> Option<[usize; 5]> {
        match **self {
            [b, h, w, c] => Some([b, 1, h, w, c]),
            [b, t, h, w, c] => Some([b, t, h, w, c]),
            _ => None,
        }
    }

    /// The shape with the last dimension replaced.
    #[must_use]
    pub fn with_last(mut self, d: usize) -> Shape {
        if let Some(last) = self.last_mut() {
            *last = d;
        }
        self
    }

    /// Element strides of the contiguous layout.
    #[must_use]
    pub fn strides(&self) -> Shape {
        let mut strides = *self;
        let mut step = 1;
        for i in (0..self.rank()).rev() {
            strides.dims[i] = step;
            step *= self.dims[i];
        }
        strides
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.dims[..self.rank as usize]
    }
}

impl DerefMut for Shape {
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.dims[..self.rank as usize]
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Shape {
        const { assert!(N <= MAX_RANK) };
        Shape::new(&dims)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}
