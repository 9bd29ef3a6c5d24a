//! Bands of rows that overlap by what a row can see, so that the rows which are kept are what they
//! would be in one piece.

use std::ops::Range;

/// Bands of one height over all rows of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bands {
    /// Rows of the picture.
    height: usize,
    /// Rows of a band.
    pub(super) rows: usize,
    /// Rows at a cut that are not right.
    reach: usize,
}

/// One band.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Band {
    /// Rows of the picture that it is computed from.
    pub(super) rows: Range<usize>,
    /// Rows of the picture that it is kept for.
    pub(super) kept: Range<usize>,
}

/// The least rows that a band is kept for.
const LEAST: usize = 8;

impl Bands {
    /// One band that is the whole picture.
    pub(super) fn whole(height: usize) -> Bands {
        Bands {
            height,
            rows: height,
            reach: 0,
        }
    }

    /// About `n` bands of a network that sees `reach` rows; the whole where that is no more.
    fn new(height: usize, n: usize, reach: usize) -> Bands {
        let rows = height.div_ceil(n).max(LEAST) + 2 * reach;
        if rows >= height {
            return Bands::whole(height);
        }
        Bands {
            height,
            rows,
            reach,
        }
    }

    /// From the whole to the thinnest bands, each kind once.
    pub(super) fn choices(height: usize, reach: usize) -> Vec<Bands> {
        let counts = (0..usize::BITS).map(|i| 1 << i);
        let counts = counts.take_while(|&n: &usize| n < 2 * height.max(1));
        let mut choices: Vec<Bands> = counts.map(|n| Bands::new(height, n, reach)).collect();
        choices.dedup();
        choices
    }

    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Band> + use<> {
        let Bands {
            height,
            rows,
            reach,
        } = *self;
        let mut at = 0;
        std::iter::from_fn(move || {
            if at >= height {
                return None;
            }
            let start = at.saturating_sub(reach).min(height - rows);
            let end = start + rows;
            let right = if end == height { height } else { end - reach };
            let band = Band {
                rows: start..end,
                kept: at..right,
            };
            at = right;
            Some(band)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_keep_every_row_once_and_see_far_enough() {
        for height in [1, 7, 40, 64, 100, 333, 1024] {
            for reach in [0, 2, 17, 34] {
                for bands in Bands::choices(height, reach) {
                    let mut at = 0;
                    for band in bands.iter() {
                        let Band { rows, kept } = band.clone();
                        assert_eq!((rows.len(), kept.start), (bands.rows, at), "{bands:?}");
                        assert!(kept.end > kept.start, "{bands:?} {band:?}");
                        let above = rows.start == 0 || kept.start - rows.start >= reach;
                        let below = rows.end == height || rows.end - kept.end >= reach;
                        assert!(above && below, "{bands:?} {band:?}");
                        at = kept.end;
                    }
                    assert_eq!(at, height, "{bands:?}");
                }
            }
        }
        let thinnest = Bands::choices(1000, 2).pop().unwrap();
        assert_eq!(thinnest.rows, 12, "8 rows and 2 more at each side");
    }
}
