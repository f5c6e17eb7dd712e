//! The configuration file: TOML.
//!
//! Enters: a path.  Leaves: values with their lines, accounts, and every fault of the file at once.
//! Owns:   what a key may be.

use crate::accounts::Accounts;
use crate::broker::SETTINGS;
use crate::limits::FILE_BYTES_MAX;
use crate::load::SourceValues;
use crate::origin::{ConfigFault, Origin, SourceText};
use crate::setting::type_of;
use crate::tables::TABLES;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads a file. `Ok(None)`: there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, ConfigFault> {
    let fault = |why: String| ConfigFault::new(Origin::File { path: path.into(), line: 0 }, "", why);
    let mut bytes = Vec::new();
    match std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)) {
        Ok(_) if bytes.len() as u64 > FILE_BYTES_MAX => {
            Err(fault(format!("a configuration file has {FILE_BYTES_MAX} bytes at most")))
        }
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(fault(format!("cannot be read: {error}"))),
    }
}

/// Takes in the text of a file.
pub(crate) fn take(path: &Path, bytes: &[u8], values: &mut SourceValues, faults: &mut Vec<ConfigFault>) -> Accounts {
    let mut accounts = Accounts::default();
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let sound = String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or_default());
            let origin = SourceText::new(PathBuf::from(path), &sound).line_of(sound.len());
            faults.push(ConfigFault::new(origin, "", "this is not UTF-8"));
            return accounts;
        }
    };
    let place = SourceText::new(PathBuf::from(path), text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        faults.push(ConfigFault::new(place.line_of(at), "", error.message()));
    }
    // What was made of broken TOML is guesswork: its other faults would mislead.
    if !errors.is_empty() {
        return accounts;
    }
    for (key, value) in table.get_ref() {
        let name = &**key.get_ref();
        let origin = place.line_of(key.span().start);
        if TABLES.iter().any(|form| form.name == name) {
            accounts.read(&place, name, value, faults);
        } else if let Some(at) = SETTINGS.iter().position(|setting| setting.name == name) {
            let place_of_value = place.line_of(value.span().start);
            match SETTINGS[at].kind.read_toml(value.get_ref()) {
                Ok(value) => values.set(at, value, origin),
                Err(why) => faults.push(ConfigFault::new(place_of_value, name, why)),
            }
        } else {
            faults.push(ConfigFault::new(origin, name, unknown(name, value)));
        }
    }
    accounts
}

fn unknown(name: &str, value: &Spanned<DeValue<'_>>) -> String {
    if let DeValue::Table(_) = value.get_ref() {
        return format!("{} of that name is unknown; settings stand alone, above all tables", type_of(value.get_ref()));
    }
    unknown_setting(name, |name| name.to_owned())
}

/// What to say of a setting that is none, and which was meant. `written` is how the source writes a name.
pub(crate) fn unknown_setting(name: &str, written: impl Fn(&str) -> String) -> String {
    let wanted = name.replace('-', "_").to_ascii_lowercase();
    let nearest = SETTINGS.iter().map(|setting| (distance(&wanted, setting.name), setting)).min_by_key(|(far, _)| *far);
    match nearest {
        Some((far, setting)) if far <= 1 + setting.name.len() / 5 => {
            format!("unknown setting; did you mean {}?", written(setting.name))
        }
        _ => "unknown setting".to_owned(),
    }
}

/// Letters to insert, drop or replace to make one word of the other.
fn distance(left: &str, right: &str) -> usize {
    // Nothing that long is meant to be a setting.
    if left.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, letter) in left.bytes().enumerate() {
        let mut diagonal = at;
        row[0] = at + 1;
        for (to, other) in right.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[to + 1];
            row[to + 1] = replaced.min(diagonal + 1).min(row[to] + 1);
        }
    }
    row[right.len()]
}
