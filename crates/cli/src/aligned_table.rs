//! Tables in aligned columns.

use wire::Escaped;

/// How a column is aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// To the left.
    Name,
    /// To the right.
    Number,
}

/// A table with its heading. What a peer has named in a cell stays in it: control characters are escaped, tabulators and ends
/// of lines, too.
pub fn table(columns: &[Column], rows: &[Vec<String>]) -> String {
    let escaped = |row: &Vec<String>| row.iter().map(|cell| Escaped(cell).to_string()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(escaped).collect();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(columns).zip(&widths).map(|((cell, column), &width)| match column {
            Column::Name => format!("{cell:<width$}"),
            Column::Number => format!("{cell:>width$}"),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Column, table};

    #[test]
    fn a_cell_stays_in_its_column_and_its_line_whatever_is_in_it() {
        let columns = [Column::Name, Column::Number, Column::Name];
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["name", "count", "of"]), row(["a\tb\nall", "7", "\u{202e}x"]), row(["c", "12", "\u{1b}]0;y"])];
        let expect = "name       count  of\na\\tb\\nall      7  \\u202ex\nc             12  \\u001b]0;y\n";
        assert_eq!(table(&columns, &rows), expect);
    }
}
