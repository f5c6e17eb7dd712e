//! Tables as the OSU micro-benchmarks print them, a row as soon as it is known, and a line of progress on terminals.
//!
//! Enters: numbers.  Leaves: lines on standard output; progress on standard error.
//! Owns:   widths and digits (10 for the size, 18 for the others, two decimals).
//! Never:  shows progress to a file or pipe.

use std::io::{IsTerminal, Write};

/// A table that is printed row by row.
pub struct Table {
    progress: bool,
}

impl Table {
    /// Prints the head: comment lines, then the columns' names.
    pub fn begin(comments: &[String], columns: &[&str]) -> Result<Self, String> {
        let mut text = String::new();
        for comment in comments {
            text.push_str(&format!("# {comment}\n"));
        }
        text.push_str(&format!("{:<10}", "# Size"));
        for column in columns {
            text.push_str(&format!("{column:>18}"));
        }
        text.push('\n');
        put(&text)?;
        Ok(Self { progress: std::io::stderr().is_terminal() && std::io::stdout().is_terminal() })
    }

    /// Prints a row and flushes it.
    pub fn row(&self, size_bytes: usize, values: &[Option<f64>]) -> Result<(), String> {
        self.progress("");
        put(&format_row(size_bytes, values))
    }

    /// Shows what is being done, on a terminal only; an empty text clears it.
    pub fn progress(&self, text: &str) {
        if self.progress {
            // Progress is an ornament: a terminal that takes none is no reason to stop.
            let _ornament = write!(std::io::stderr(), "\r\x1b[K{text}");
        }
    }
}

fn format_row(size_bytes: usize, values: &[Option<f64>]) -> String {
    let mut text = format!("{size_bytes:<10}");
    for value in values {
        match value {
            Some(value) => text.push_str(&format!("{value:>18.2}")),
            None => text.push_str(&format!("{:>18}", "-")),
        }
    }
    text.push('\n');
    text
}

/// Prints to standard output at once.
///
/// # Errors
/// When standard output is gone.
pub fn put(text: &str) -> Result<(), String> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|error| format!("standard output: {error}"))
}

#[cfg(test)]
mod tests {
    use super::format_row;

    #[test]
    fn rows_look_as_the_osu_benchmarks_print_them() {
        assert_eq!(format_row(64, &[Some(1.5), Some(1234567.891)]), "64                      1.50        1234567.89\n");
        assert_eq!(format_row(1, &[None]), "1                          -\n");
    }
}
