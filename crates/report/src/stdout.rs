//! Writes to standard output and flushes after each piece.

use std::io::Write;

/// Prints to standard output and flushes.
///
/// # Errors
/// Standard output is closed.
pub fn put(text: &str) -> Result<(), String> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|error| format!("standard output: {error}"))
}
