//! The command line of `harrier ctl`, read by the table of commands.
//!
//! Options may stand anywhere; behind `--` there are none.

use crate::command_table;
use crate::ctl_command::{CtlCommand, CtlOption, VHOST};
use crate::exit_status::CtlError;
use crate::limits::TIMEOUT_S_MAX;
use crate::output_format::OutputFormat;
use cli::{ArgMatches, Command, WordsError};
use std::time::Duration;

const URL: &str = "the broker and the login: amqp://USER:PASSWORD@HOST:PORT/VHOST, amqps://..., or \
                   amqp+unix://USER:PASSWORD@/PATH?vhost=VHOST. VHOST is any that the user may open, and the default of -p. \
                   '-' reads it from standard input and @FILE from a file, where nobody else sees the password. \
                   Default: amqp://guest:guest@127.0.0.1:5672/%2F";

/// Options that every command has.
const COMMON: [CtlOption; 6] = [
    CtlOption { long: "--url", short: None, value: Some("URL"), does: URL },
    CtlOption { long: "--formatter", short: None, value: Some("FORMAT"), does: "table (default), json or csv" },
    CtlOption { long: "--json", short: None, value: None, does: "the same as --formatter json" },
    CtlOption {
        long: "--quiet",
        short: Some("-q"),
        value: None,
        does: "no notes and no progress, which a terminal gets on standard error",
    },
    CtlOption { long: "--silent", short: Some("-s"), value: None, does: "the same, and no headings of tables" },
    CtlOption {
        long: "--timeout",
        short: Some("-t"),
        value: Some("S"),
        does: "seconds to wait for an answer; default 60",
    },
];

/// A command with what was given to it.
pub struct CtlArguments {
    pub command: &'static CtlCommand,
    /// What `NAME...` takes.
    pub rest: Vec<String>,
    /// Options in front of the command, and what stands behind it.
    given: [ArgMatches; 2],
    pub format: OutputFormat,
    pub timeout: Option<Duration>,
    pub is_quiet: bool,
    pub is_silent: bool,
}

/// What a command line comes to.
pub enum CtlLine {
    Run(Box<CtlArguments>),
    /// The help of a command, or of all.
    Help(Option<&'static CtlCommand>),
}

/// The options in front of a command.
pub fn front() -> Command {
    let options = COMMON.iter().chain([&VHOST]).map(CtlOption::arg);
    Command::new("ctl").args(options)
}

impl CtlLine {
    /// # Errors
    /// The command is not known, or the words behind it are not as it takes them.
    pub fn read(words: &[&str]) -> Result<Self, CtlError> {
        // Which options have a value is known with the command.
        let any = front().allow_external_subcommands(true).external_subcommand_value_parser(cli::value_parser!(String));
        let front = match cli::parse(any, words) {
            Ok(front) => front,
            Err(WordsError::Help(_)) => return Ok(CtlLine::Help(None)),
            Err(WordsError::Usage(why) | WordsError::Words(why)) => return Err(CtlError::usage(why)),
        };
        let (word, behind) =
            front.subcommand().ok_or_else(|| CtlError::usage("ctl needs a command (harrier ctl help lists them)"))?;
        let unknown = || CtlError::usage(format!("unknown command 'ctl {word}' (harrier ctl help lists them)"));
        let command = command_table::find(word).ok_or_else(unknown)?;
        match cli::parse(command.declared(), cli::texts(behind, "")) {
            Ok(behind) => {
                CtlArguments::new(command, [front.clone(), behind]).map(|arguments| CtlLine::Run(Box::new(arguments)))
            }
            Err(WordsError::Help(_)) => Ok(CtlLine::Help(Some(command))),
            Err(WordsError::Words(_)) => Err(CtlError::usage(format!("usage: harrier ctl {}", command.usage()))),
            Err(WordsError::Usage(why)) => Err(CtlError::usage(match why.strip_prefix("unknown option ") {
                Some(option) => format!("'{}' has no option {option}", command.name),
                None => why,
            })),
        }
    }
}

impl CtlArguments {
    fn new(command: &'static CtlCommand, given: [ArgMatches; 2]) -> Result<Self, CtlError> {
        for option in COMMON.iter().chain([&VHOST]) {
            let [front, behind] = given.each_ref().map(|given| cli::has(given, option.id()));
            if front && behind {
                return Err(CtlError::usage(format!("{} is given twice", option.long)));
            }
            let is_known = COMMON.iter().chain(command.options).any(|known| known.long == option.long);
            if front && !is_known {
                let word = option.short.unwrap_or(option.long);
                return Err(CtlError::usage(format!("'{}' has no option '{word}'", command.name)));
            }
        }
        let rest = command.arguments.rsplit(' ').next().filter(|name| name.ends_with("...]"));
        let rest = rest.map(|name| cli::texts(&given[1], name.trim_matches(['[', ']', '.']))).unwrap_or_default();
        let mut arguments = CtlArguments {
            command,
            rest: rest.into_iter().map(str::to_owned).collect(),
            given,
            format: OutputFormat::default(),
            timeout: None,
            is_quiet: false,
            is_silent: false,
        };
        (arguments.is_quiet, arguments.is_silent) = (arguments.has("--quiet"), arguments.has("--silent"));
        arguments.timeout = arguments.get("--timeout").map(seconds).transpose()?;
        arguments.format = match (arguments.get("--formatter"), arguments.has("--json")) {
            (Some(_), true) => return Err(CtlError::usage("--json is --formatter json: one of them will do")),
            (Some(name), false) => {
                OutputFormat::parse(name).ok_or_else(|| CtlError::usage("--formatter takes table, json or csv"))?
            }
            (None, true) => OutputFormat::Json,
            (None, false) => OutputFormat::default(),
        };
        Ok(arguments)
    }

    /// An argument, or the value of an option, by its name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given.iter().find_map(|given| cli::text(given, name.trim_start_matches('-')))
    }

    /// An argument that has to be there.
    pub fn at(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub fn has(&self, option: &str) -> bool {
        self.given.iter().any(|given| cli::has(given, option.trim_start_matches('-')))
    }
}

impl CtlOption {
    fn id(&self) -> &'static str {
        self.long.trim_start_matches('-')
    }

    fn arg(&self) -> cli::Arg {
        let option = match self.value {
            Some(value) => cli::valued(self.id(), value, self.does),
            None => cli::flag(self.id(), self.does),
        };
        match self.short.and_then(|short| short.chars().nth(1)) {
            Some(letter) => option.short(letter),
            None => option,
        }
    }
}

impl CtlCommand {
    /// The command as declared, with the options that every one has.
    pub fn declared(&self) -> Command {
        let words = self.arguments.split(' ').filter(|name| !name.is_empty()).map(|name| cli::word(name, ""));
        Command::new(self.name)
            .about(self.does)
            .override_usage(format!("harrier ctl {}", self.usage()))
            .args(self.options.iter().chain(&COMMON).map(CtlOption::arg))
            .args(words)
    }
}

fn seconds(text: &str) -> Result<Duration, CtlError> {
    match text.parse::<u64>() {
        Ok(seconds @ 1..=TIMEOUT_S_MAX) => Ok(Duration::from_secs(seconds)),
        _ => Err(CtlError::usage(format!("--timeout takes whole seconds from 1 to {TIMEOUT_S_MAX}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{CtlArguments, CtlLine};
    use crate::exit_status::SysExit;
    use crate::output_format::OutputFormat;
    use std::time::Duration;

    fn line(line: &str) -> CtlLine {
        let words: Vec<&str> = line.split(' ').collect();
        CtlLine::read(&words).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn read(words: &str) -> CtlArguments {
        match line(words) {
            CtlLine::Run(arguments) => *arguments,
            CtlLine::Help(_) => panic!("{words}: help"),
        }
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
            assert!(arguments.is_quiet && !arguments.is_silent, "{line}");
        }
        let arguments = read("set_permissions u .* -- -a .*");
        assert_eq!(["USER", "CONFIGURE", "WRITE", "READ"].map(|name| arguments.at(name)), ["u", ".*", "-a", ".*"]);
        assert_eq!((arguments.get("--vhost"), arguments.format), (None, OutputFormat::Table));
        assert_eq!(read("list_users --json").format, OutputFormat::Json);
        assert_eq!(read("list_users --formatter csv -t 5").timeout, Some(Duration::from_secs(5)));
        assert_eq!((read("import_definitions -").get("FILE"), read("add_user u").get("PASSWORD")), (Some("-"), None));
        assert!(read("delete_queue q -e").has("--if-empty"));
        for (words, expect) in [("set_policy --help", Some("set_policy")), ("-q --help", None)] {
            let CtlLine::Help(command) = line(words) else { panic!("{words}: no help") };
            assert_eq!(command.map(|command| command.name), expect, "{words}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (line, expect) in [
            ("", "unknown command 'ctl ' (harrier ctl help lists them)"),
            ("-q", "ctl needs a command (harrier ctl help lists them)"),
            ("queues", "unknown command 'ctl queues' (harrier ctl help lists them)"),
            ("eval x", "unknown command 'ctl eval' (harrier ctl help lists them)"),
            ("-p v list_users", "'list_users' has no option '-p'"),
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
            let error = CtlLine::read(&words).map(|_| ()).expect_err(line);
            assert_eq!((error.status, &*error.text), (SysExit::Usage, expect), "{line}");
        }
    }
}
