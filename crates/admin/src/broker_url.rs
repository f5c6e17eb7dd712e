//! The broker that a command line names.

use client::Url;
use secrets::read_address;
use std::borrow::Cow;

/// The default address.
const DEFAULT: &str = "amqp://guest:guest@127.0.0.1:5672/%2F";

/// The address of a broker: as a word of the command line says, or the default.
///
/// # Errors
/// It cannot be read, or is none. The text does not contain it if it was not on the command line.
pub fn broker_url(word: Option<&str>) -> Result<Url, String> {
    let word = word.unwrap_or(DEFAULT);
    let text = read_address(word)?;
    Url::parse(&text).map_err(|error| match &text {
        Cow::Borrowed(_) => error.to_string(),
        Cow::Owned(text) => error.to_string().replace(&**text, "the address"),
    })
}
