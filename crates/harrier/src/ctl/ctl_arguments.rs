//! The command line of `harrier ctl`, read by the table of commands.
//!
//! Options may stand anywhere; behind `--` there are none.

use super::command_table::{self, CtlCommand, CtlOption};
use super::exit_status::CtlError;
use super::output_format::OutputFormat;
use std::time::Duration;

/// Seconds of the longest wait that may be asked for: a day.
const TIMEOUT_S_MAX: u64 = 86_400;

/// Options that every command has.
const COMMON: [CtlOption; 6] = [
    CtlOption { long: "--url", short: None, value: Some("URL"), does: "" },
    CtlOption { long: "--formatter", short: None, value: Some("FORMAT"), does: "" },
    CtlOption { long: "--json", short: None, value: None, does: "" },
    CtlOption { long: "--quiet", short: Some("-q"), value: None, does: "" },
    CtlOption { long: "--silent", short: Some("-s"), value: None, does: "" },
    CtlOption { long: "--timeout", short: Some("-t"), value: Some("SECONDS"), does: "" },
];

/// A command with what was given to it.
pub struct CtlArguments<'a> {
    pub command: &'static CtlCommand,
    /// Named arguments.
    values: Vec<(&'static str, &'a str)>,
    /// What `NAME...` takes.
    pub rest: Vec<&'a str>,
    /// By their long words; those without a value have an empty one.
    options: Vec<(&'static str, &'a str)>,
    pub format: OutputFormat,
    pub timeout: Option<Duration>,
    pub is_quiet: bool,
    pub is_silent: bool,
    /// `--help`.
    pub wants_help: bool,
}

impl<'a> CtlArguments<'a> {
    /// # Errors
    /// The command is not known, or the words behind it are not as it takes them.
    pub fn of(words: &[&'a str]) -> Result<Self, CtlError> {
        let mut plain = Vec::new();
        let mut options: Vec<(&'a str, Option<&'a str>)> = Vec::new();
        // Which options have a value is known with the command.
        let command = find_command(words)?;
        let known = |word: &str| COMMON.iter().chain(command.options).find(|option| option.is(word));
        let mut rest = words;
        while let [word, behind @ ..] = rest {
            rest = behind;
            if *word == "--" {
                plain.extend_from_slice(rest);
                break;
            }
            if ["-h", "--help"].contains(word) {
                options.push(("--help", None));
                continue;
            }
            if !is_option(word) {
                plain.push(*word);
                continue;
            }
            let (name, value) = match word.split_once('=').filter(|_| word.starts_with("--")) {
                Some((name, value)) => (name, Some(value)),
                None => (*word, None),
            };
            let unknown = || CtlError::usage(format!("'{}' has no option '{name}'", command.name));
            let option = known(name).ok_or_else(unknown)?;
            let value = match (option.value, value, rest) {
                (None, None, _) => None,
                (None, Some(_), _) => return Err(CtlError::usage(format!("{name} takes no value"))),
                (Some(_), Some(value), _) => Some(value),
                (Some(_), None, [value, behind @ ..]) => {
                    rest = behind;
                    Some(*value)
                }
                (Some(_), None, []) => Some(""),
            };
            if value == Some("") {
                return Err(CtlError::usage(format!("{name} needs a value")));
            }
            if options.iter().any(|(given, _)| option.is(given)) {
                return Err(CtlError::usage(format!("{name} is given twice")));
            }
            options.push((option.long, value));
        }
        let wants_help = options.iter().any(|(name, _)| *name == "--help");
        let given = |name: &str| options.iter().find(|(given, _)| *given == name);
        let format = match (given("--formatter"), given("--json")) {
            (Some(_), Some(_)) => return Err(CtlError::usage("--json is --formatter json: one of them will do")),
            (Some((_, name)), None) => OutputFormat::parse(name.unwrap_or_default())
                .ok_or_else(|| CtlError::usage("--formatter takes table, json or csv"))?,
            (None, Some(_)) => OutputFormat::Json,
            (None, None) => OutputFormat::default(),
        };
        let timeout = given("--timeout").map(|(_, text)| seconds(text.unwrap_or_default())).transpose()?;
        let mut arguments = CtlArguments {
            command,
            values: Vec::new(),
            rest: Vec::new(),
            options: Vec::new(),
            format,
            timeout,
            is_quiet: given("--quiet").is_some(),
            is_silent: given("--silent").is_some(),
            wants_help,
        };
        let all = COMMON.iter().chain(command.options);
        let given = all.filter_map(|option| Some((option.long, given(option.long)?.1.unwrap_or_default())));
        arguments.options = given.collect();
        if !wants_help {
            // The command may have been taken for the value of an option in front of it.
            let behind = plain.split_first().filter(|(word, _)| **word == command.name).map(|(_, behind)| behind);
            let behind =
                behind.ok_or_else(|| CtlError::usage(format!("options of '{}' stand behind it", command.name)))?;
            arguments.place(behind)?;
        }
        Ok(arguments)
    }

    /// Gives the words behind the command their names.
    fn place(&mut self, words: &[&'a str]) -> Result<(), CtlError> {
        let usage = || CtlError::usage(format!("usage: harrier ctl {}", self.command.usage()));
        let mut words = words.iter();
        for name in self.command.arguments.split(' ').filter(|name| !name.is_empty()) {
            if name.ends_with("...]") {
                self.rest = words.copied().collect();
                return Ok(());
            }
            match (words.next(), name.strip_prefix('[')) {
                (Some(word), _) => self.values.push((name.trim_matches(['[', ']']), word)),
                (None, Some(_)) => {}
                (None, None) => return Err(usage()),
            }
        }
        match words.next() {
            None => Ok(()),
            Some(_) => Err(usage()),
        }
    }

    /// An argument, or the value of an option, by its name.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.values.iter().chain(&self.options).find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// An argument that has to be there.
    pub fn at(&self, name: &str) -> &'a str {
        self.get(name).unwrap_or_default()
    }

    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(known, _)| *known == option)
    }
}

impl CtlOption {
    fn is(&self, word: &str) -> bool {
        self.long == word || self.short == Some(word)
    }
}

/// A word that begins with a dash, but for `-` alone, which is standard input.
fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// The command among some words: the first word that is no option and no option's value.
fn find_command(words: &[&str]) -> Result<&'static CtlCommand, CtlError> {
    let takes_value = |word: &str| {
        let common = COMMON.iter().chain(std::iter::once(&command_table::VHOST));
        common.into_iter().any(|option| option.is(word) && option.value.is_some())
    };
    let mut rest = words;
    while let [word, behind @ ..] = rest {
        rest = match is_option(word) {
            true if takes_value(word) => behind.get(1..).unwrap_or_default(),
            true => behind,
            false => {
                let unknown = || CtlError::usage(format!("unknown command 'ctl {word}' (harrier ctl help lists them)"));
                return command_table::find(word).ok_or_else(unknown);
            }
        };
    }
    Err(CtlError::usage("ctl needs a command (harrier ctl help lists them)"))
}

fn seconds(text: &str) -> Result<Duration, CtlError> {
    match text.parse::<u64>() {
        Ok(seconds @ 1..=TIMEOUT_S_MAX) => Ok(Duration::from_secs(seconds)),
        _ => Err(CtlError::usage(format!("--timeout takes whole seconds from 1 to {TIMEOUT_S_MAX}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::CtlArguments;
    use crate::ctl::exit_status::SysExit;
    use crate::ctl::output_format::OutputFormat;
    use std::time::Duration;

    fn read<'a>(line: &'a str) -> CtlArguments<'a> {
        let words: Vec<&str> = line.split(' ').collect();
        CtlArguments::of(&words).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[test]
    fn options_may_stand_anywhere() {
        for line in [
            "-p v -q list_queues name messages,consumers",
            "list_queues -p v name -q messages,consumers",
            "list_queues name messages,consumers --vhost=v --quiet",
            "--vhost v list_queues -q -- name messages,consumers",
        ] {
            let arguments = read(line);
            assert_eq!((arguments.command.name, arguments.get("--vhost")), ("list_queues", Some("v")), "{line}");
            assert_eq!(arguments.rest, ["name", "messages,consumers"], "{line}");
            assert!(arguments.is_quiet && !arguments.is_silent && !arguments.wants_help, "{line}");
        }
        let arguments = read("set_permissions u .* -- -a .*");
        assert_eq!(["USER", "CONFIGURE", "WRITE", "READ"].map(|name| arguments.at(name)), ["u", ".*", "-a", ".*"]);
        assert_eq!((arguments.get("--vhost"), arguments.format), (None, OutputFormat::Table));
        assert_eq!(read("list_users --json").format, OutputFormat::Json);
        assert_eq!(read("list_users --formatter csv -t 5").timeout, Some(Duration::from_secs(5)));
        assert_eq!((read("import_definitions -").get("FILE"), read("add_user u").get("PASSWORD")), (Some("-"), None));
        assert!(read("delete_queue q -e").has("--if-empty") && read("set_policy --help").wants_help);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (line, expect) in [
            ("", "unknown command 'ctl ' (harrier ctl help lists them)"),
            ("-q", "ctl needs a command (harrier ctl help lists them)"),
            ("queues", "unknown command 'ctl queues' (harrier ctl help lists them)"),
            ("eval x", "unknown command 'ctl eval' (harrier ctl help lists them)"),
            ("list_users -p v", "'list_users' has no option '-p'"),
            ("list_queues -x", "'list_queues' has no option '-x'"),
            ("list_queues --json=1", "--json takes no value"),
            ("list_queues -p", "-p needs a value"),
            ("list_queues -p a --vhost=b", "--vhost is given twice"),
            ("list_queues --formatter xml", "--formatter takes table, json or csv"),
            ("list_queues --json --formatter json", "--json is --formatter json: one of them will do"),
            ("list_queues -t 0", "--timeout takes whole seconds from 1 to 86400"),
            ("delete_user", "usage: harrier ctl delete_user USER"),
            ("delete_user a b", "usage: harrier ctl delete_user USER"),
            (
                "set_policy p x",
                "usage: harrier ctl set_policy [-p VHOST] [--priority NUMBER] [--apply-to WHAT] NAME PATTERN DEFINITION",
            ),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let error = CtlArguments::of(&words).map(|_| ()).expect_err(line);
            assert_eq!((error.status, &*error.text), (SysExit::Usage, expect), "{line}");
        }
    }
}
