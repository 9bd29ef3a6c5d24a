//! Plain aligned tables: words to the left, numbers to the right, two spaces between.

#[derive(Clone, Copy)]
pub(crate) enum Align {
    Left,
    Right,
}

pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Table {
        Table {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// `row` has a cell for every column.
    pub(crate) fn push(&mut self, row: Vec<String>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// Header and rows, without a newline at the end.
    pub(crate) fn render(&self) -> String {
        let head: Vec<String> = self.columns.iter().map(|c| c.0.to_owned()).collect();
        let lines = || std::iter::once(&head).chain(&self.rows);
        let width = |i: usize| lines().map(|r| r[i].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text: Vec<String> = Vec::new();
        for row in lines() {
            let cells = row.iter().zip(&self.columns).zip(&widths);
            let cells = cells.map(|((cell, (_, align)), &w)| match align {
                Align::Left => format!("{cell:<w$}"),
                Align::Right => format!("{cell:>w$}"),
            });
            let line: Vec<String> = cells.collect();
            text.push(line.join("  ").trim_end().to_owned());
        }
        text.join("\n")
    }
}
