//! `harrier ctl`: asks and changes a running broker from the command line. The broker decides who may.
//!
//! Enters: a command line.  Leaves: an answer on standard output, or one line on standard error and a status of sysexits.h.
//! Owns:   commands as data, in the words of rabbitmqctl, over requests to the broker's management API.
#![forbid(unsafe_code)]

mod api_client;
mod broker_commands;
mod change_table;
mod command_table;
mod connection_commands;
mod ctl_arguments;
mod ctl_command;
mod ctl_run;
mod definition_files;
mod exit_status;
mod limit_commands;
mod limits;
mod list_table;
mod output_format;
mod own_commands;
mod own_table;
mod startup_wait;
mod status_text;
mod store_table;
mod time_limit;
mod user_commands;

use admin::broker_url;
use api_client::ApiClient;
use cli::{is_terminal_output, print_error, print_or, usage_failure};
use command_table::HEADINGS;
use ctl_arguments::{CtlArguments, CtlLine};
use ctl_command::{CtlAction, CtlCommand, OfflineCommand, StatedKeys};
use ctl_run::{CtlOutput, CtlRun};
use exit_status::{CtlError, SysExit};
use limits::ANSWER_TIMEOUT;
use output_format::{OutputFormat, TableStyle, object_text};
use std::ffi::OsString;
use std::process::ExitCode;

const DESCRIPTION: &str = "\
Asks a running broker, as one of its administrators, over any address it listens on; it changes what rabbitmqctl changes,
by the same words. Options may stand before or behind the command; behind -- there are none.";

const TAIL: &str = "harrier ctl help COMMAND describes a command.

Examples:
  harrier ctl list_queues name messages consumers
  harrier ctl list_queues -p shop --formatter csv name messages
  harrier ctl add_user ada < password.txt
  harrier ctl set_permissions -p shop ada '^ada' '.*' '.*'
  harrier ctl set_policy -p shop short '^orders' '{\"max-length\": 1000}' --apply-to queues
  harrier ctl list_users user tags configured
  harrier ctl export_definitions backup.json
  pass broker-url | harrier ctl status --url -

Status: 0 for success, and otherwise of sysexits.h: 64 wrong usage, 65 wrong data or nothing of that name, 67 no such user,
69 no broker answers, 70 the broker cannot do it, 73 and 74 a file, 75 it took too long, 77 not permitted, 78 not configured.
";

/// The command as declared.
pub fn command() -> cli::Command {
    let commands = HEADINGS.iter().flat_map(|(_, commands)| commands.iter());
    options().after_help(TAIL).subcommands(commands.map(CtlCommand::declared))
}

/// The same without its commands, which the help has under headings.
fn options() -> cli::Command {
    let usage = "harrier ctl [OPTIONS] COMMAND [ARGUMENTS]";
    ctl_arguments::front().about("ask and change a running broker").long_about(DESCRIPTION).override_usage(usage)
}

/// Whether the words are a command. Nobody is asked.
///
/// # Errors
/// What is wrong with them.
pub fn check(words: &[&str]) -> Result<(), String> {
    CtlLine::read(words).map(drop).map_err(|error| error.to_string())
}

/// Runs `harrier ctl`.
pub fn main(words: &[OsString]) -> ExitCode {
    let Some(words) = words.iter().map(|word| word.to_str()).collect::<Option<Vec<_>>>() else {
        return usage_failure("ctl takes words of UTF-8 only", SysExit::Usage.into());
    };
    let arguments = match CtlLine::read(&words) {
        Ok(CtlLine::Run(arguments)) => arguments,
        Ok(CtlLine::Help(command)) => return print(&command.map_or_else(general_help, command_help)),
        Err(error) => return failure(&error),
    };
    match run(&arguments) {
        Ok(output) => write(&output, &arguments),
        Err(error) => failure(&error),
    }
}

fn print(text: &str) -> ExitCode {
    print_or(text, SysExit::InputOutput.into())
}

fn failure(error: &CtlError) -> ExitCode {
    match error.status {
        SysExit::Usage => usage_failure(&error.text, SysExit::Usage.into()),
        status => {
            print_error(&format!("harrier ctl: {error}"));
            status.into()
        }
    }
}

fn run(arguments: &CtlArguments) -> Result<CtlOutput, CtlError> {
    let stated = arguments.command.stated;
    match arguments.command.action {
        CtlAction::Offline(OfflineCommand::Version) => Ok(broker_commands::version()),
        CtlAction::Offline(OfflineCommand::Help) => help(arguments),
        CtlAction::Offline(OfflineCommand::AwaitStartup) => startup_wait::await_startup(arguments),
        CtlAction::List(list) => ask(arguments, None, |ctl| ctl.list(&list, stated)),
        CtlAction::Change(change) => ask(arguments, stated, |ctl| ctl.change(&change)),
        CtlAction::Own(command) => ask(arguments, stated, |ctl| own_commands::run(command, ctl)),
    }
}

/// Runs what needs a connection to the broker, and notes what the configuration states of it.
fn ask(
    arguments: &CtlArguments,
    stated: Option<StatedKeys>,
    command: impl FnOnce(&mut CtlRun<'_>) -> Result<CtlOutput, CtlError>,
) -> Result<CtlOutput, CtlError> {
    let url = broker_url(arguments.get("--url")).map_err(CtlError::usage)?;
    let mut client = ApiClient::connect(&url, arguments.timeout.unwrap_or(ANSWER_TIMEOUT))?;
    let mut ctl = CtlRun { arguments, url: &url, client: &mut client };
    let note = stated.map(|stated| ctl.note_of_stated(stated)).transpose()?.flatten();
    let output = command(&mut ctl)?;
    if let Some(note) = note {
        print_error(&format!("harrier ctl: {note}"));
    }
    client.end();
    Ok(output)
}

fn write(output: &CtlOutput, arguments: &CtlArguments) -> ExitCode {
    let style = TableStyle { has_heading: !arguments.is_silent, is_aligned: is_terminal_output() };
    match (output, arguments.format) {
        (CtlOutput::Nothing, _) => ExitCode::SUCCESS,
        (CtlOutput::Text(_, Some(object)), format @ (OutputFormat::Json | OutputFormat::Csv)) => {
            print(&object_text(object, format, style))
        }
        (CtlOutput::Text(text, _), _) => print(text),
        (CtlOutput::Rows(rows), format) => print(&rows.text(format, style)),
        // A definitions file is JSON whatever the form of tables.
        (CtlOutput::Object(object), _) => print(&object_text(object, OutputFormat::Json, style)),
    }
}

/// `help`.
fn help(arguments: &CtlArguments) -> Result<CtlOutput, CtlError> {
    let text = match arguments.get("COMMAND") {
        None => general_help(),
        Some(word) => {
            let unknown = || CtlError::usage(format!("unknown command 'ctl {word}'"));
            command_help(command_table::find(word).ok_or_else(unknown)?)
        }
    };
    Ok(CtlOutput::Text(text, None))
}

fn general_help() -> String {
    let mut text = cli::help(&options());
    for (heading, commands) in HEADINGS {
        text.push_str(&format!("\n{heading}:\n"));
        for command in commands {
            text.push_str(&format!("  {}\n", command.usage()));
        }
    }
    text + "\n" + TAIL
}

fn command_help(command: &CtlCommand) -> String {
    let mut text = format!("usage: harrier ctl {}\n\n{}: {}.\n", command.usage(), command.name, command.does);
    if !command.options.is_empty() {
        text.push('\n');
    }
    for option in command.options {
        let short = option.short.map(|short| format!("{short}, ")).unwrap_or_default();
        let value = option.value.map(|value| format!(" {value}")).unwrap_or_default();
        text.push_str(&format!("  {short}{}{value}: {}\n", option.long, option.does));
    }
    if let CtlAction::List(list) = command.action {
        let names: Vec<&str> = list.columns.iter().map(|column| column.split('=').next().unwrap_or_default()).collect();
        text.push_str(&format!("\nColumns: {}\nDefault: {}\n", names.join(" "), list.defaults.join(" ")));
        if names.contains(&"configured") {
            text.push_str(
                "configured: whether the configuration states it, and restores it when the broker starts again\n",
            );
        }
    }
    text
}
