//! A section of a page as a table for a terminal.

use crate::page::PageSection;

/// A table for a terminal: the first column left-aligned, the others right-aligned; other lines begin with #.
pub fn text(section: &PageSection) -> String {
    let columns = section.columns.len();
    let width = |column: usize| {
        let cells = section.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(section.columns.get(column).map(|name| name.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |cells: &[String]| {
        let mut text = String::new();
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            match column {
                0 => text.push_str(&format!("{cell:<width$}")),
                _ => text.push_str(&format!("  {cell:>width$}")),
            }
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = format!("# {}\n", section.name);
    section.facts.iter().for_each(|fact| text.push_str(&format!("# {fact}\n")));
    text.push_str(&format!("# {}", line(&section.columns)));
    section.rows.iter().for_each(|row| text.push_str(&format!("  {}", line(row))));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_its_words_are_comments() {
        let cells = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let section = PageSection {
            name: "Trees".to_owned(),
            facts: vec!["a fact".to_owned()],
            columns: cells(["tree", "MB/s"]),
            rows: vec![cells(["B-2C", "1.5"]), cells(["B-B-C", "12.5"])],
        };
        assert_eq!(text(&section), "# Trees\n# a fact\n# tree   MB/s\n  B-2C    1.5\n  B-B-C  12.5\n");
    }
}
