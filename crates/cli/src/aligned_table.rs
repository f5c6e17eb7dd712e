//! Tables in aligned columns.

/// How a column is aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// To the left.
    Name,
    /// To the right.
    Number,
}

/// A table with its heading.
pub fn table(columns: &[Column], rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(columns).zip(&widths).map(|((cell, column), &width)| match column {
            Column::Name => format!("{cell:<width$}"),
            Column::Number => format!("{cell:>width$}"),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}
