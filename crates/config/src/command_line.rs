//! The command line: `--name value` and `--name=value`.
//!
//! Enters: words.  Leaves: values, the file to read, and what else was asked for.
//! Owns:   how an option is written: `-` and `_` mean the same in its name.

use crate::broker::SETTINGS;
use crate::file::unknown_setting;
use crate::load::SourceValues;
use crate::origin::{ConfigFault, Origin};
use crate::setting::{SettingKind, SettingValue};
use std::ffi::OsString;
use std::path::PathBuf;

/// What the command line asks for, beside settings.
#[derive(Default)]
pub(crate) struct CommandLineFlags {
    pub file: Option<PathBuf>,
    pub print_config: bool,
    pub help: bool,
}

/// Takes in the words behind `harrier broker`.
pub(crate) fn take(
    words: impl IntoIterator<Item = OsString>,
    values: &mut SourceValues,
    faults: &mut Vec<ConfigFault>,
) -> CommandLineFlags {
    let mut asked = CommandLineFlags::default();
    let mut lists: Vec<(usize, Vec<String>)> = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let mut fault = |option: &str, why: String| {
            faults.push(ConfigFault::new(Origin::CommandLine(option.to_owned()), "", why));
        };
        let Some(word) = word.to_str() else {
            fault("", format!("'{}' is not UTF-8", word.to_string_lossy()));
            continue;
        };
        let (name, mut given) = match word.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (word, None),
        };
        let Some(name) = name.strip_prefix("--").map(|name| name.replace('_', "-")) else {
            if word == "-h" {
                asked.help = true;
            } else {
                fault("", format!("'{word}' is no option; options begin with --"));
            }
            continue;
        };
        let option = format!("--{name}");
        let setting = SETTINGS.iter().position(|setting| setting.option() == option);
        match (&*name, setting) {
            ("help" | "print-config", _) => {
                asked.help |= name == "help";
                asked.print_config |= name == "print-config";
                if given.is_some() {
                    fault(&option, "it takes no value".to_owned());
                }
                continue;
            }
            ("config", _) | (_, Some(_)) => {}
            (_, None) => {
                let why = unknown_setting(&name, |name| format!("--{}", name.replace('_', "-")));
                fault(&option, why.replace("setting", "option"));
                // What follows is most likely its value.
                let _value = words.next_if(|next| given.is_none() && !is_option(next));
                continue;
            }
        }
        if given.is_none() {
            given = words.next_if(|next| !is_option(next));
        }
        if given.is_none() && setting.is_some_and(|at| SETTINGS[at].kind == SettingKind::Flag) {
            given = Some("true".into());
        }
        let Some(value) = given else {
            fault(&option, "it needs a value".to_owned());
            continue;
        };
        let Some(at) = setting else {
            asked.file = Some(value.into());
            continue;
        };
        let Some(text) = value.to_str() else {
            fault(&option, format!("'{}' is not UTF-8", value.to_string_lossy()));
            continue;
        };
        match SETTINGS[at].kind.read(text) {
            Ok(SettingValue::List(mut items)) => match lists.iter_mut().find(|(list, _)| *list == at) {
                Some((_, list)) => list.append(&mut items),
                None => lists.push((at, items)),
            },
            Ok(value) => values.set(at, value, Origin::CommandLine(option)),
            Err(why) => fault(&option, why),
        }
    }
    for (at, items) in lists {
        values.set(at, SettingValue::List(items), Origin::CommandLine(SETTINGS[at].option()));
    }
    asked
}

fn is_option(word: &OsString) -> bool {
    word.as_encoded_bytes().starts_with(b"--")
}
