//! `harrier store backup`: has a running broker copy its state folder.

use crate::admin_connection::ask;
use crate::{address_source, print, print_error};
use definitions::Json;
use std::ffi::OsString;
use std::process::ExitCode;

/// What is asked for.
#[derive(PartialEq, Eq, Debug)]
struct BackupArguments<'a> {
    folder: &'a str,
    url: Option<&'a str>,
    is_json: bool,
}

/// Asks the broker.
///
/// # Errors
/// Wrong usage.
pub fn main(words: &[OsString]) -> Result<ExitCode, String> {
    let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let words = words.ok_or("store backup takes words of UTF-8 only")?;
    let BackupArguments { folder, url, is_json } = parse(&words)?;
    let url = address_source::url(url)?;
    let outcome = ask(&url, "backup", vec![("folder", Json::text(folder))]);
    Ok(match outcome {
        Ok(found) if is_json => print(&(found.page() + "\n")),
        Ok(found) => {
            let number = |key: &str| match found.get(key) {
                Some(Json::Int(number)) => *number,
                _ => 0,
            };
            let (segments, held_ms) = (number("segments"), number("held_us") as f64 / 1_000.0);
            print(&format!("{folder}: {segments} segments; nothing was written for {held_ms:.1} ms\n"))
        }
        Err(why) => {
            print_error(&format!("harrier store: {why}"));
            ExitCode::FAILURE
        }
    })
}

fn parse<'a>(words: &[&'a str]) -> Result<BackupArguments<'a>, String> {
    let (mut folder, mut url, mut is_json) = (None, None, false);
    let mut rest = words;
    while let [word, behind @ ..] = rest {
        rest = behind;
        let (place, value) = match (*word, behind) {
            ("--json", _) => {
                is_json = true;
                continue;
            }
            ("--url", [value, behind @ ..]) => {
                rest = behind;
                (&mut url, *value)
            }
            ("--url", []) => return Err("--url needs a value".to_owned()),
            (word, _) => match word.strip_prefix("--url=") {
                Some(value) => (&mut url, value),
                None if word.starts_with('-') => return Err(format!("unknown option '{word}'")),
                None => (&mut folder, word),
            },
        };
        if place.replace(value).is_some() {
            return Err(format!("there is no second '{value}'"));
        }
    }
    let folder = folder.ok_or("which folder is made?")?;
    if !folder.starts_with('/') {
        return Err(format!("'{folder}' is no absolute path"));
    }
    Ok(BackupArguments { folder, url, is_json })
}

#[cfg(test)]
mod tests {
    use super::{BackupArguments, parse};

    #[test]
    fn words_are_understood_or_refused() {
        let asked = |url, is_json| Ok(BackupArguments { folder: "/b", url, is_json });
        for (line, expect) in [
            ("/b", asked(None, false)),
            ("/b --json --url amqp://h", asked(Some("amqp://h"), true)),
            ("--url=- /b", asked(Some("-"), false)),
            ("", Err("which folder is made?".to_owned())),
            ("b", Err("'b' is no absolute path".to_owned())),
            ("/b /c", Err("there is no second '/c'".to_owned())),
            ("/b --url", Err("--url needs a value".to_owned())),
            ("/b --fast", Err("unknown option '--fast'".to_owned())),
        ] {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(parse(&words), expect, "{line}");
        }
    }
}
