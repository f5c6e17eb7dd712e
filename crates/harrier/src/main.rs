//! The `harrier` program: dispatches to the subcommands and sets the allocator.
//!
//! Exit status: 0, 1 for a failure, 2 for wrong usage; those of `harrier ctl` are of sysexits.h.
#![forbid(unsafe_code)]

#[cfg(not(feature = "broker"))]
compile_error!("the tools start `harrier broker`, so that each program has the feature `broker`");

mod address_source;
mod admin_connection;
mod admin_server;
mod broker;
mod checked_text;
mod ctl;
mod default_folder;
mod definitions_command;
mod dialler;
mod greeting;
mod hash_password;
mod initial_definitions;
mod kept_definitions;
mod limits;
mod log;
mod management;
mod options;
mod own_process;
mod peer;
mod plan_file;
mod policies;
mod process;
mod proxy;
mod rdma;
mod rdma_options;
mod reload;
mod resharding;
mod route;
mod route_spec;
mod secret_file;
mod state_folder;
mod stated_definitions;
mod store_command;
mod store_file;
mod tls;
mod toml_text;
#[cfg(any(feature = "bench", feature = "topology", feature = "market"))]
mod tools;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use wire::{Escaped, EscapedLines};

#[global_allocator]
static HEAP: slab::Heap = slab::Heap;

/// Exit status for wrong usage.
const USAGE_STATUS: u8 = 2;

/// A command of the program.
struct ProgramCommand {
    name: &'static str,
    does: &'static str,
    run: fn(&[OsString]) -> ExitCode,
}

/// The commands, in the order of the help. A program that is built without a tool has no line for it.
const COMMANDS: &[ProgramCommand] = &[
    ProgramCommand { name: "broker", does: "run a broker", run: broker::main },
    #[cfg(feature = "bench")]
    ProgramCommand { name: "bench", does: "measure a broker", run: tools::bench },
    #[cfg(feature = "topology")]
    ProgramCommand { name: "topology", does: "run trees of brokers, and measure them", run: tools::topology },
    #[cfg(feature = "market")]
    ProgramCommand {
        name: "market",
        does: "a stock exchange that trades through a broker, and measures it",
        run: tools::market,
    },
    ProgramCommand {
        name: "proxy",
        does: "connect clients of this host to a broker over another transport",
        run: proxy::main,
    },
    ProgramCommand {
        name: "definitions",
        does: "check or write a file of definitions",
        run: definitions_command::main,
    },
    ProgramCommand { name: "ctl", does: "ask and change a running broker", run: ctl::main },
    ProgramCommand { name: "route", does: "join brokers: links and routes between them", run: route::main },
    ProgramCommand {
        name: "store",
        does: "check and show the durable store of a stopped broker",
        run: store_command::main,
    },
    ProgramCommand { name: "rdma", does: "inspect and test this machine's RDMA devices", run: rdma::main },
    ProgramCommand {
        name: "hash-password",
        does: "read a password from standard input, print its hash for the configuration",
        run: hash_password::main,
    },
    ProgramCommand { name: "help", does: "print this and end", run: |_words| print(&usage()) },
    ProgramCommand {
        name: "version",
        does: "print the version and end",
        run: |_words| print(&format!("harrier {}\n", greeting::VERSION)),
    },
];

/// The commands that a program may be built without; each is a feature of this crate.
const TOOLS: [&str; 3] = ["bench", "topology", "market"];

/// The width of a name in the help; a longer one has a line of its own.
const NAME_WIDTH: usize = 12;

fn usage() -> String {
    let mut text = "usage: harrier COMMAND [OPTIONS]\n\n".to_owned();
    for ProgramCommand { name, does, .. } in COMMANDS {
        if name.len() < NAME_WIDTH {
            text.push_str(&format!("  {name:<NAME_WIDTH$}{does}\n"));
        } else {
            text.push_str(&format!("  {name}\n  {:NAME_WIDTH$}{does}\n", ""));
        }
    }
    text.push_str("\nharrier COMMAND --help describes a command.\n");
    text
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Some((command, rest)) = words.split_first() else {
        eprint!("{}", usage());
        return ExitCode::from(USAGE_STATUS);
    };
    #[cfg(any(feature = "bench", feature = "topology", feature = "market"))]
    if let Some(status) = tools::role(&words) {
        return status;
    }
    let name = match command.to_str() {
        Some("--help" | "-h") => "help",
        Some("--version" | "-V") => "version",
        Some(name) => name,
        None => "",
    };
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(rest),
        None if TOOLS.contains(&name) => usage_error(&format!("this program was built without the command '{name}'")),
        None => usage_error(&format!("unknown command '{}'\n{}", command.to_string_lossy(), usage())),
    }
}

fn usage_error(why: &str) -> ExitCode {
    usage_failure(why, ExitCode::from(USAGE_STATUS))
}

fn usage_failure(why: &str, status: ExitCode) -> ExitCode {
    eprintln!("harrier: {}", EscapedLines(why.trim_end()));
    status
}

/// Whether people read standard output.
fn is_terminal_output() -> bool {
    io::stdout().is_terminal()
}

/// Whether people read standard error.
fn is_terminal_error() -> bool {
    io::stderr().is_terminal()
}

/// Writes a text to standard output; whatever a peer chose in it leaves the terminal as it is. A closed pipe is not an
/// error.
fn print(text: &str) -> ExitCode {
    print_or(text, ExitCode::FAILURE)
}

/// The same, with a status of its own if it fails.
fn print_or(text: &str, failure: ExitCode) -> ExitCode {
    match io::stdout().lock().write_all(EscapedLines(text).to_string().as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("harrier: cannot write: {error}"));
            failure
        }
    }
}

/// Writes one line to standard error.
fn print_error(line: &str) {
    eprintln!("{}", Escaped(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_the_commands_that_the_program_has() {
        let usage = usage();
        for (tool, built) in
            TOOLS.into_iter().zip([cfg!(feature = "bench"), cfg!(feature = "topology"), cfg!(feature = "market")])
        {
            assert_eq!(usage.contains(&format!("\n  {tool} ")), built, "{tool}: {usage}");
            assert_eq!(COMMANDS.iter().any(|command| command.name == tool), built, "{tool}");
        }
        assert!(usage.contains("\n  broker      run a broker\n"), "{usage}");
        assert!(usage.contains("\n  hash-password\n              read a password"), "{usage}");
    }
}
