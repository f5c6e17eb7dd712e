//! `harrier store`: looks at the store of a broker that is stopped, and has a broker that runs copy its own.

mod backup;
mod check;
mod footer_check;
mod live_messages;
mod log_steps;
mod position_runs;
mod queue_listing;
mod stopped_store;
mod table;

pub use table::{Column, table};

use crate::{print, print_error, usage_error};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use stopped_store::StoppedStore;

const USAGE: &str = "usage: harrier store check STATE
       harrier store show STATE [--json]
       harrier store backup FOLDER [--url URL] [--json]

Looks at the durable store in the state folder of a broker that is stopped, without changing anything;
or has a broker that runs copy its state folder.

  check   reads every frame of every log, and says what is there and what is damaged. A write that was under
          way when the broker was killed or the power failed is a torn tail, and no damage. A footer that is not
          that of its segment is named, and no damage either: the broker reads that segment when it starts
  show    lists the queues that have messages in the store
  backup  has a running broker make FOLDER, a new one on the file system of its state folder: a state folder
          with all that is durable at one moment. Most of it are links, which take no space until the broker
          needs their segments no more. FOLDER is an absolute path of the broker's machine

  --json  as JSON
  --url   the broker and the login of an administrator, as of harrier ctl; default:
          amqp://guest:guest@127.0.0.1:5672/%2F

Status: 0 for success, 1 for damage, a store that cannot be read, a broker that runs or does not answer or
refuses, 2 for wrong usage.

Examples
  harrier store check /var/lib/harrier
  harrier store show /var/lib/harrier --json
  harrier store backup /var/lib/harrier-backup && tar -C /var/lib -cf backup.tar harrier-backup
";

/// What a command prints: on standard output, and the lines of what is wrong.
struct StoreReport {
    text: String,
    /// What costs time and loses nothing.
    notes: Vec<String>,
    faults: Vec<String>,
}

/// Runs `harrier store`.
pub fn main(words: &[OsString]) -> ExitCode {
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return print(USAGE);
    }
    if let [command, rest @ ..] = words
        && command == "backup"
    {
        return backup::main(rest).unwrap_or_else(|why| usage_error(&format!("{why}\n{USAGE}")));
    }
    let (command, state) = match parse(words) {
        Ok(parsed) => parsed,
        Err(why) => return usage_error(&format!("{why}\n{USAGE}")),
    };
    let findings = StoppedStore::open(Path::new(state)).map(|store| match command {
        StoreCommand::Check => check::check(&store),
        StoreCommand::Show { is_json } => queue_listing::show(&store, is_json),
    });
    let StoreReport { text, notes, faults } = match findings {
        Ok(findings) => findings,
        Err(why) => StoreReport { text: String::new(), notes: Vec::new(), faults: vec![why] },
    };
    let printed = print(&text);
    for fault in notes.iter().chain(&faults) {
        print_error(&format!("harrier store: {fault}"));
    }
    if faults.is_empty() { printed } else { ExitCode::FAILURE }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StoreCommand {
    Check,
    Show { is_json: bool },
}

/// The command and the state folder.
fn parse(words: &[OsString]) -> Result<(StoreCommand, &OsString), String> {
    let Some((command, rest)) = words.split_first() else { return Err("store needs a command".to_owned()) };
    let is_show = match command.to_str() {
        Some("check") => false,
        Some("show") => true,
        _ => return Err(format!("unknown command 'store {}'", command.display())),
    };
    let (mut is_json, mut state) = (false, None);
    for word in rest {
        if word == "--json" && is_show && !is_json {
            is_json = true;
        } else if word.as_encoded_bytes().starts_with(b"-") {
            return Err(format!("unknown option '{}'", word.display()));
        } else if state.replace(word).is_some() {
            return Err("there is more than one state folder".to_owned());
        }
    }
    let state = state.ok_or("which state folder?")?;
    Ok((if is_show { StoreCommand::Show { is_json } } else { StoreCommand::Check }, state))
}

#[cfg(test)]
mod tests {
    use super::{StoreCommand, parse};
    use std::ffi::OsString;

    #[test]
    fn words_are_understood_or_refused() {
        for (line, expect) in [
            ("check /s", Ok((StoreCommand::Check, "/s"))),
            ("show /s", Ok((StoreCommand::Show { is_json: false }, "/s"))),
            ("show --json s", Ok((StoreCommand::Show { is_json: true }, "s"))),
            ("", Err("store needs a command")),
            ("copy /s", Err("unknown command 'store copy'")),
            ("check", Err("which state folder?")),
            ("check a b", Err("there is more than one state folder")),
            ("check a --json", Err("unknown option '--json'")),
            ("show a --json --json", Err("unknown option '--json'")),
        ] {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let parsed = parse(&words);
            let found = parsed.as_ref().map(|(command, state)| (*command, state.to_str().expect("UTF-8")));
            assert_eq!(found.map_err(|why| &**why), expect, "{line}");
        }
    }
}
