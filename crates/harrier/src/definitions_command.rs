//! `harrier definitions`: checks and writes definitions files without a broker.

use crate::initial_definitions::{initial, read, salted};
use crate::options::limits;
use crate::process::seed;
use crate::{broker_declaration, greeting};
use catalog::{Catalog, CatalogLimits};
use cli::{USAGE_STATUS, given, print, print_error};
use config::{BrokerConfig, BrokerInvocation, Machine};
use std::ffi::OsString;
use std::process::ExitCode;

const DESCRIPTION: &str = "\
check reads a definitions file, as RabbitMQ exports it, and prints what it contains, or everything that is wrong with it.
export prints the initial definitions of a broker with these options as such a file. The definitions of a running broker
are printed by harrier ctl definitions.";

/// The command as declared.
pub fn command() -> cli::Command {
    let check = cli::Command::new("check")
        .about("check a definitions file")
        .override_usage("harrier definitions check FILE")
        .arg(cli::word("FILE", "as RabbitMQ exports it"));
    let export = broker_declaration::command()
        .name("export")
        .about("print the initial definitions of a broker with these options")
        .override_usage("harrier definitions export [OPTIONS OF harrier broker]");
    cli::Command::new("definitions")
        .about("check or write a file of definitions")
        .long_about(DESCRIPTION)
        .override_usage("harrier definitions check FILE\nharrier definitions export [OPTIONS OF harrier broker]")
        .subcommand_required(true)
        .subcommands([check, export])
}

/// Runs `harrier definitions`.
pub fn main(words: &[OsString]) -> ExitCode {
    let outcome = match words.split_first() {
        // The words behind it are read as `harrier broker` reads them.
        Some((word, words)) if word == "export" => export(words),
        _ => match given(command(), words) {
            Ok(given) => check(given.subcommand().and_then(|(_, given)| cli::text(given, "FILE")).unwrap_or_default()),
            Err(status) => return status,
        },
    };
    match outcome {
        Ok(text) => print(&text),
        Err((why, status)) => {
            for line in why.lines() {
                print_error(&format!("harrier definitions: {line}"));
            }
            status
        }
    }
}

type CommandResult = Result<String, (String, ExitCode)>;

fn check(path: &str) -> CommandResult {
    let failed = |why: String| (why, ExitCode::FAILURE);
    let file = read(path).map_err(failed)?;
    let mut catalog = Catalog::new(CatalogLimits::default());
    file.load(&mut catalog, 1, |_| false).map_err(|fault| failed(format!("{path}: {fault}")))?;
    let mut text: String = file.warnings.iter().map(|odd| format!("warning: {odd}\n")).collect();
    for (section, count) in file.counts() {
        text.push_str(&format!("{section}: {count}\n"));
    }
    Ok(text + "sound\n")
}

fn export(words: &[OsString]) -> CommandResult {
    let failed = |why: String| (why, ExitCode::FAILURE);
    let told = |error: config::ConfigError| {
        let status = if error.is_usage() { ExitCode::from(USAGE_STATUS) } else { ExitCode::FAILURE };
        (error.to_string(), status)
    };
    let config = match BrokerConfig::load(words.iter().cloned(), std::env::vars_os()).map_err(told)? {
        BrokerInvocation::Run(config) => config,
        BrokerInvocation::Print(_) | BrokerInvocation::Help => return Ok(cli::help(&command())),
    };
    let seed = seed().map_err(|error| failed(error.to_string()))?;
    let shards = config.shard_count(&Machine::here());
    let beginning = initial(&config, &limits(&config, seed), shards).map_err(told)?;
    let kept = beginning.file.map(|file| file.kept()).unwrap_or_default();
    let written = salted(|salt| definitions::write(&beginning.catalog, &kept, greeting::VERSION, salt));
    Ok(written.map_err(failed)? + "\n")
}
