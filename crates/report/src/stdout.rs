//! Writes to standard output and flushes after each piece.

use std::io::Write;

/// Prints to standard output at once.
///
/// # Errors
/// When standard output is gone.
pub fn put(text: &str) -> Result<(), String> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|error| format!("standard output: {error}"))
}
