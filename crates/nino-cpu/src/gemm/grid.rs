//! How a product is cut into tasks: tiles of rows times ranges of panels.

use super::micro::PANEL;
use crate::split::{self, PIECES, Way};

/// Most rows of a tile: its A pack and its sums stay in a core's second-level cache.
pub(crate) const TILE_ROWS: usize = 168;
/// Fewer rows that are tried.
const FEWER_ROWS: [usize; 4] = [128, 84, 56, 32];
/// Most panels of a tile whose sums are kept from one pass over k to the next.
pub(crate) const TILE_PANELS: usize = 32;
/// Most panels of a tile that is finished panel by panel, in one pass. Each tile packs A again.
const ONE_PASS_PANELS: usize = 128;
/// k values of one pass over a tile.
pub(crate) const PASS: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub rows: usize,
    pub panels: usize,
    pub row_tiles: usize,
    pub panel_tiles: usize,
    /// Tiles begin at multiples of this many rows.
    pub unit: usize,
}

/// One tile of the output: `row..row + rows` and `panel..panel + panels`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    pub row: usize,
    pub rows: usize,
    pub panel: usize,
    pub panels: usize,
}

/// What decides how large tiles are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Work {
    /// Whether a pass covers all of k.
    pub one_pass: bool,
    /// The times of packing a row of A, and of packing a panel of B or getting it from memory, for
    /// a tile. That of multiplying a row with a panel is 1.
    pub pack_row: f64,
    pub pack_panel: f64,
    /// Rows that are multiplied together; fewer take as long.
    pub unit: usize,
    /// Panels of B for one of the output.
    pub panels: usize,
}

impl Grid {
    pub(crate) fn new(rows: usize, cols: usize, work: &Work, threads: usize) -> Grid {
        let panels = cols.div_ceil(PANEL);
        let most = if work.one_pass {
            ONE_PASS_PANELS
        } else {
            TILE_PANELS
        } / work.panels;
        let whole = Grid {
            rows,
            panels,
            row_tiles: rows.div_ceil(TILE_ROWS).max(1),
            panel_tiles: panels.div_ceil(most).max(1),
            unit: 1,
        };
        let units = rows.div_ceil(work.unit);
        let heights = std::iter::once(TILE_ROWS).chain(FEWER_ROWS);
        let ways = heights.flat_map(|height| {
            let row_tiles = units.div_ceil(height / work.unit).max(1);
            let height = (units.div_ceil(row_tiles) * work.unit) as f64;
            let widths = PIECES.into_iter().filter(|&n| n <= most);
            widths.map(move |width| {
                let panel_tiles = panels.div_ceil(width).max(1);
                let width = (panels.div_ceil(panel_tiles) * work.panels) as f64;
                Way {
                    cut: Grid {
                        row_tiles,
                        panel_tiles,
                        unit: work.unit,
                        ..whole
                    },
                    tasks: row_tiles * panel_tiles,
                    task: height * work.pack_row + width * (work.pack_panel + height),
                }
            })
        });
        split::fastest(ways, threads).unwrap_or(whole)
    }

    pub(crate) fn tasks(&self) -> usize {
        self.row_tiles * self.panel_tiles
    }

    /// Tiles of one panel range follow each other, so that threads share the weights in cache.
    pub(crate) fn tile(&self, task: usize) -> Tile {
        let (p, r) = (task / self.row_tiles, task % self.row_tiles);
        let cut = |n: usize, parts: usize, i: usize| i * n / parts;
        let units = self.rows.div_ceil(self.unit);
        let row_at = |i: usize| (cut(units, self.row_tiles, i) * self.unit).min(self.rows);
        let (row, panel) = (row_at(r), cut(self.panels, self.panel_tiles, p));
        Tile {
            row,
            rows: row_at(r + 1) - row,
            panel,
            panels: cut(self.panels, self.panel_tiles, p + 1) - panel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Grid, PANEL, TILE_PANELS, TILE_ROWS, Work};

    /// Tiles cover every row and panel once and keep to the sizes that scratch is counted for.
    #[test]
    fn tiles_cover_the_product() {
        for (rows, cols, threads) in [(1, 3, 1), (8192, 320, 2), (512, 1280, 16), (77, 5000, 16)] {
            for (one_pass, unit, each) in [(true, 1, 1), (false, 32, 1), (false, 1, 2)] {
                let work = Work {
                    one_pass,
                    pack_row: 0.3,
                    pack_panel: 2.0,
                    unit,
                    panels: each,
                };
                let grid = Grid::new(rows, cols, &work, threads);
                let mut seen = vec![0; rows * grid.panels];
                for tile in (0..grid.tasks()).map(|t| grid.tile(t)) {
                    assert!(tile.rows <= TILE_ROWS, "{tile:?}");
                    assert!(one_pass || tile.panels * each <= TILE_PANELS, "{tile:?}");
                    for row in tile.row..tile.row + tile.rows {
                        for panel in tile.panel..tile.panel + tile.panels {
                            seen[row * grid.panels + panel] += 1;
                        }
                    }
                }
                assert!(seen.iter().all(|&n| n == 1), "{rows} {cols} {grid:?}");
                assert_eq!(grid.panels, cols.div_ceil(PANEL));
            }
        }
    }
}
