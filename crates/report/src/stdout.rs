//! Writes to standard output and flushes after each piece. Whatever a broker chose in a text leaves the terminal as it is.

use std::io::Write;
use wire::EscapedLines;

/// Prints lines to standard output and flushes.
///
/// # Errors
/// Standard output is closed.
pub fn put(text: &str) -> Result<(), String> {
    let mut output = std::io::stdout().lock();
    write!(output, "{}", EscapedLines(text))
        .and_then(|()| output.flush())
        .map_err(|error| format!("standard output: {error}"))
}
