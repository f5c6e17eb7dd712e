//! Passwords, and addresses that contain one, that are not on the command line.

use crate::limits::ADDRESS_BYTES_MAX;
use crate::secret_file;
use catalog::limits::PASSWORD_BYTES_MAX;
use cli::print_error;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};

/// The address that a word of the command line stands for: `-` is the next line of standard input, `@FILE` the first line of
/// a file; anything else is itself.
///
/// # Errors
/// It cannot be read. The text does not contain it.
pub fn read_address(word: &str) -> Result<Cow<'_, str>, String> {
    let line = match word.strip_prefix('@') {
        None if word == "-" => first_line(&mut io::stdin().lock(), "standard input"),
        Some(path) if !path.is_empty() => {
            let file = File::open(path).map_err(|error| format!("{path}: cannot be read: {error}"))?;
            if let Some(warning) = secret_file::warning(path) {
                print_error(&format!("harrier: {warning}"));
            }
            first_line(&mut BufReader::new(file), path)
        }
        _ => return Ok(Cow::Borrowed(word)),
    };
    line.map(Cow::Owned)
}

/// The next line of standard input, which is a password.
///
/// # Errors
/// There is none, or it is too long.
pub fn read_password() -> Result<Vec<u8>, String> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        print_error("The password will be seen as you type it. End it with Enter:");
    }
    let mut line = Vec::new();
    let read = stdin.lock().take(PASSWORD_BYTES_MAX as u64 + 2).read_until(b'\n', &mut line);
    read.map_err(|error| format!("cannot read: {error}"))?;
    let secret = line.strip_suffix(b"\n").unwrap_or(&line);
    match secret.len() {
        0 => Err("there is no password on standard input".to_owned()),
        1..=PASSWORD_BYTES_MAX => Ok(secret.to_vec()),
        _ => Err(format!("a password has {PASSWORD_BYTES_MAX} bytes at most")),
    }
}

fn first_line(from: &mut impl BufRead, name: &str) -> Result<String, String> {
    let mut line = String::new();
    let read = from.take(ADDRESS_BYTES_MAX).read_line(&mut line);
    read.map_err(|error| format!("{name}: the address cannot be read: {error}"))?;
    match line.trim() {
        "" => Err(format!("{name}: there is no address")),
        address => Ok(address.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::first_line;

    #[test]
    fn each_line_is_an_address() {
        let mut lines = &b"amqp://a:b@h:1 \nh:2\n\n"[..];
        assert_eq!(first_line(&mut lines, "it").as_deref(), Ok("amqp://a:b@h:1"));
        assert_eq!(first_line(&mut lines, "it").as_deref(), Ok("h:2"));
        assert_eq!(first_line(&mut lines, "it"), Err("it: there is no address".to_owned()));
        assert_eq!(first_line(&mut lines, "it"), Err("it: there is no address".to_owned()));
    }
}
