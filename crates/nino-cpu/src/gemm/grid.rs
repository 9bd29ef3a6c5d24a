//! How a product is cut into tasks: tiles of rows times ranges of panels.

use super::micro::PANEL;

/// Most rows of a tile: its A pack and its sums stay in a core's second-level cache.
pub(crate) const TILE_ROWS: usize = 168;
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
}

/// One tile: `row..row + rows` and `panel..panel + panels`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    pub row: usize,
    pub rows: usize,
    pub panel: usize,
    pub panels: usize,
}

impl Grid {
    /// Makes few large tiles, as long as every thread gets several. Rows are cut before panels,
    /// because each tile of panels packs A again. `one_pass` says that a pass covers all of k.
    pub(crate) fn new(rows: usize, cols: usize, one_pass: bool, threads: usize) -> Grid {
        const SMALLEST_ROWS: usize = 56;
        let panels = cols.div_ceil(PANEL);
        let wanted = if threads == 1 { 1 } else { threads * 6 };
        let mut row_tiles = rows.div_ceil(TILE_ROWS).max(1);
        let most = if one_pass {
            ONE_PASS_PANELS
        } else {
            TILE_PANELS
        };
        let mut panel_tiles = panels.div_ceil(most).max(1);
        if row_tiles * panel_tiles < wanted {
            row_tiles = wanted
                .div_ceil(panel_tiles)
                .min(rows.div_ceil(SMALLEST_ROWS))
                .max(row_tiles);
        }
        if row_tiles * panel_tiles < wanted {
            panel_tiles = wanted.div_ceil(row_tiles).min(panels).max(panel_tiles);
        }
        Grid {
            rows,
            panels,
            row_tiles,
            panel_tiles,
        }
    }

    pub(crate) fn tasks(&self) -> usize {
        self.row_tiles * self.panel_tiles
    }

    /// Tiles of one panel range follow each other, so that threads share the weights in cache.
    pub(crate) fn tile(&self, task: usize) -> Tile {
        let (p, r) = (task / self.row_tiles, task % self.row_tiles);
        let cut = |n: usize, parts: usize, i: usize| i * n / parts;
        let (row, panel) = (
            cut(self.rows, self.row_tiles, r),
            cut(self.panels, self.panel_tiles, p),
        );
        Tile {
            row,
            rows: cut(self.rows, self.row_tiles, r + 1) - row,
            panel,
            panels: cut(self.panels, self.panel_tiles, p + 1) - panel,
        }
    }
}
