//! The `harrier` program: dispatches to the subcommands and sets the allocator.
//!
//! Exit status: 0, 1 for a failure, 2 for wrong usage; those of `harrier ctl` are of sysexits.h.
#![forbid(unsafe_code)]

#[cfg(not(feature = "broker"))]
compile_error!("the tools start `harrier broker`, so that each program has the feature `broker`");

mod admin_server;
mod broker;
mod broker_declaration;
mod checked_text;
mod default_folder;
mod definitions_command;
mod dialler;
#[cfg(test)]
mod documented_commands;
mod generate;
mod greeting;
mod hash_password;
mod initial_definitions;
mod kept_definitions;
mod limits;
mod log;
mod management;
mod options;
mod own_process;
mod plan_file;
mod policies;
mod process;
mod proxy;
mod rdma;
mod rdma_options;
mod reload;
mod resharding;
mod service_manager;
mod state_folder;
mod stated_definitions;
mod store_command;
mod store_file;
mod tls;
#[cfg(any(feature = "bench", feature = "topology", feature = "market"))]
mod tools;

use cli::{Command, USAGE_STATUS, print, usage_error};
use std::ffi::OsString;
use std::process::ExitCode;

#[global_allocator]
static HEAP: slab::Heap = slab::Heap;

/// A command of the program.
struct ProgramCommand {
    name: &'static str,
    /// What it is, what it takes.
    declared: fn() -> Command,
    run: fn(&[OsString]) -> ExitCode,
}

/// The commands, in the order of the help. A program that is built without a tool has no line for it.
const COMMANDS: &[ProgramCommand] = &[
    ProgramCommand { name: "broker", declared: broker_declaration::command, run: broker::main },
    #[cfg(feature = "bench")]
    ProgramCommand { name: "bench", declared: bench::command, run: tools::bench },
    #[cfg(feature = "topology")]
    ProgramCommand { name: "topology", declared: trees::command, run: tools::topology },
    #[cfg(feature = "market")]
    ProgramCommand { name: "market", declared: trade::command, run: tools::market },
    ProgramCommand { name: "proxy", declared: proxy::command, run: proxy::main },
    ProgramCommand { name: "definitions", declared: definitions_command::command, run: definitions_command::main },
    ProgramCommand { name: "ctl", declared: ctl::command, run: ctl::main },
    ProgramCommand { name: "route", declared: route::command, run: route::main },
    ProgramCommand { name: "store", declared: store_command::command, run: store_command::main },
    ProgramCommand { name: "rdma", declared: rdma::command, run: rdma::main },
    ProgramCommand { name: "hash-password", declared: hash_password::command, run: hash_password::main },
    ProgramCommand { name: "generate", declared: generate::command, run: generate::main },
    ProgramCommand {
        name: "help",
        declared: || Command::new("help").about("print this and end"),
        run: |_words| print(&usage()),
    },
    ProgramCommand {
        name: "version",
        declared: || Command::new("version").about("print the version and end"),
        run: |_words| print(&format!("harrier {}\n", greeting::VERSION)),
    },
];

/// The program with all its commands, as declared.
fn program() -> Command {
    Command::new("harrier")
        .about("an AMQP 0-9-1 broker over TCP and RDMA, and its tools")
        .version(greeting::VERSION)
        .override_usage("harrier COMMAND [OPTIONS]")
        .subcommands(COMMANDS.iter().map(|command| (command.declared)()))
}

/// The commands that a program may be built without; each is a feature of this crate.
const TOOLS: [&str; 3] = ["bench", "topology", "market"];

/// The width of a name in the help.
const NAME_WIDTH: usize = 15;

fn usage() -> String {
    let mut text = "usage: harrier COMMAND [OPTIONS]\n\n".to_owned();
    for ProgramCommand { name, declared, .. } in COMMANDS {
        let does = declared().get_about().map(ToString::to_string).unwrap_or_default();
        text.push_str(&format!("  {name:<NAME_WIDTH$}{does}\n"));
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
        assert!(usage.contains("\n  broker         run a broker\n"), "{usage}");
        for command in COMMANDS {
            let declared = (command.declared)();
            assert_eq!((declared.get_name(), declared.get_about().is_some()), (command.name, true));
        }
    }
}
