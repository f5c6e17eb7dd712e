//! `harrier store`: looks at the store of a broker that is stopped, and has a broker that runs copy its own.

mod backup;
mod check;
mod footer_check;
mod live_messages;
mod log_steps;
mod position_runs;
mod queue_listing;
mod stopped_store;

use cli::{Command, WordsError, print, print_error, usage_error};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use stopped_store::StoppedStore;

const DESCRIPTION: &str = "\
Looks at the durable store in the state folder of a broker that is stopped, without changing anything;
or has a broker that runs copy its state folder.";

const CHECK: &str = "\
Reads every frame of every log, and says what is there and what is damaged. A write that was under way when the broker was
killed or the power failed is a torn tail, and no damage. A footer that is not that of its segment is named, and no damage
either: the broker reads that segment when it starts.";

const BACKUP: &str = "\
Has a running broker make FOLDER, a new one on the file system of its state folder: a state folder with all that is durable
at one moment. Most of it are links, which take no space until the broker needs their segments no more. FOLDER is an
absolute path of the broker's machine.";

const USAGE: [&str; 3] = [
    "harrier store check STATE",
    "harrier store show STATE [--json]",
    "harrier store backup FOLDER [--url URL] [--json]",
];

const BEHIND: &str = "\
Status: 0 for success, 1 for damage, a store that cannot be read, a broker that runs or does not answer or
refuses, 2 for wrong usage.

Examples
  harrier store check /var/lib/harrier
  harrier store show /var/lib/harrier --json
  harrier store backup /var/lib/harrier-backup && tar -C /var/lib -cf backup.tar harrier-backup";

/// The command as declared.
pub fn command() -> Command {
    let state = || cli::word("STATE", "the state folder").value_parser(cli::value_parser!(PathBuf));
    let json = || cli::flag("json", "print JSON");
    let one = |name, usage, about| Command::new(name).about(about).override_usage(usage);
    let url = "the broker and the login of an administrator, as of harrier ctl; default: \
               amqp://guest:guest@127.0.0.1:5672/%2F";
    let [check, show, backup] = USAGE;
    Command::new("store")
        .about("check and show the durable store of a stopped broker")
        .long_about(DESCRIPTION)
        .override_usage(USAGE.join("\n"))
        .after_help(BEHIND)
        .subcommand_required(true)
        .subcommands([
            one("check", check, "check every frame of every log").long_about(CHECK).arg(state()),
            one("show", show, "list the queues that have messages in the store").args([state(), json()]),
            one("backup", backup, "have a running broker copy its state folder").long_about(BACKUP).args([
                cli::word("FOLDER", "the folder that is made"),
                cli::valued("url", "URL", url),
                json(),
            ]),
        ])
}

/// What a command prints: on standard output, and the lines of what is wrong.
struct StoreReport {
    text: String,
    /// What costs time and loses nothing.
    notes: Vec<String>,
    faults: Vec<String>,
}

/// Runs `harrier store`.
pub fn main(words: &[OsString]) -> ExitCode {
    let given = match cli::parse(command(), words) {
        Ok(given) => given,
        Err(WordsError::Words(why)) if why.starts_with("STATE") => return wrong_words("which state folder?"),
        Err(WordsError::Words(why)) if why.starts_with("FOLDER") => return wrong_words("which folder is made?"),
        Err(WordsError::Help(text)) => return print(&text),
        Err(WordsError::Usage(why) | WordsError::Words(why)) => return wrong_words(&why),
    };
    let Some((name, given)) = given.subcommand() else { return wrong_words("store needs a command") };
    if name == "backup" {
        return backup::main(given).unwrap_or_else(|why| wrong_words(&why));
    }
    let state = given.get_one::<PathBuf>("STATE").map_or(Path::new(""), PathBuf::as_path);
    let findings = StoppedStore::open(state).map(|store| match name {
        "check" => check::check(&store),
        _ => queue_listing::show(&store, cli::has(given, "json")),
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

fn wrong_words(why: &str) -> ExitCode {
    usage_error(&format!("{why}\n{}", cli::help(&command())))
}

#[cfg(test)]
mod tests {
    use super::command;
    use cli::WordsError;
    use std::path::PathBuf;

    #[test]
    fn words_are_understood_or_refused() {
        for (line, expect) in [
            ("check /s", "check /s"),
            ("show /s", "show /s"),
            ("show --json s", "show s json"),
            ("backup /b --json --url amqp://h", "backup /b amqp://h json"),
            ("backup --url=- /b", "backup /b -"),
            ("", "! store needs a command"),
            ("copy /s", "! unknown command 'store copy'"),
            ("check", "STATE is missing"),
            ("check a b", "'b' is one word too many"),
            ("check a --json", "! unknown option '--json'"),
            ("show a --json --json", "! --json is given twice"),
            ("backup", "FOLDER is missing"),
            ("backup /b /c", "'/c' is one word too many"),
            ("backup /b --url", "! --url needs a value"),
            ("backup /b --fast", "! unknown option '--fast'"),
        ] {
            let found = match cli::parse(command(), line.split_whitespace()) {
                Ok(given) => {
                    let (name, given) = given.subcommand().expect("a command");
                    let state = given.try_get_one::<PathBuf>("STATE").ok().flatten();
                    let mut found = vec![name.to_owned()];
                    found.extend(state.map(|state| state.display().to_string()));
                    found
                        .extend(["FOLDER", "url"].into_iter().filter_map(|id| cli::text(given, id)).map(str::to_owned));
                    found.extend(cli::has(given, "json").then(|| "json".to_owned()));
                    found.join(" ")
                }
                Err(WordsError::Words(why)) => why,
                Err(WordsError::Usage(why)) => format!("! {why}"),
                Err(WordsError::Help(_)) => "help".to_owned(),
            };
            assert_eq!(found, expect, "{line}");
        }
    }
}
