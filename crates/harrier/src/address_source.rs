//! Addresses of brokers that are not on the command line, where everybody on the machine sees their passwords.

use crate::secret_file;
use client::Url;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

/// The default address.
const DEFAULT: &str = "amqp://guest:guest@127.0.0.1:5672/%2F";
/// Bytes of an address.
const ADDRESS_BYTES_MAX: u64 = 64 * 1024;

/// The address that a word of the command line stands for: `-` is the next line of standard input, `@FILE` the first line of
/// a file; anything else is itself.
///
/// # Errors
/// It cannot be read. The text does not contain it.
pub fn read(word: &str) -> Result<Cow<'_, str>, String> {
    let line = match word.strip_prefix('@') {
        None if word == "-" => first_line(&mut io::stdin().lock(), "standard input"),
        Some(path) if !path.is_empty() => {
            let file = File::open(path).map_err(|error| format!("{path}: cannot be read: {error}"))?;
            if let Some(warning) = secret_file::warning(path) {
                cli::print_error(&format!("harrier: {warning}"));
            }
            first_line(&mut BufReader::new(file), path)
        }
        _ => return Ok(Cow::Borrowed(word)),
    };
    line.map(Cow::Owned)
}

/// The address of a broker: as a word of the command line says, or the default.
///
/// # Errors
/// It cannot be read, or is none. The text does not contain it if it was not on the command line.
pub fn url(word: Option<&str>) -> Result<Url, String> {
    let word = word.unwrap_or(DEFAULT);
    let text = read(word)?;
    Url::parse(&text).map_err(|error| match &text {
        Cow::Borrowed(_) => error.to_string(),
        Cow::Owned(text) => error.to_string().replace(&**text, "the address"),
    })
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
